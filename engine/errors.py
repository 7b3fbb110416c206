"""The one exception that people are meant to read.

Every message is a full sentence that says what is wrong and what to do about it. The command line prints it and
exits non-zero; the app shows it and serves the next request. Anything else that escapes is a bug.
"""


class EngineError(Exception):
    """A problem whose message may be shown to a user as it stands."""


class BadInput(EngineError):
    """The request itself cannot be served (a setting out of range, an empty prompt, an unknown name)."""


class Unavailable(EngineError):
    """Something the request needs is missing here (weights, memory, disk, the hub)."""
