"""Uploads files to a Space through the hub's own client, and reports its refusals as sentences.

The client asks the hub for each file whether it belongs into git or, as those over 10 MiB, into the store for large
files, uploads the latter first and then makes one commit. So an upload that breaks off changes nothing on the Space,
and the next one sends only the large files that have not arrived.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.publish.checks import File
from engine.errors import BadInput, EngineError, Unavailable

LOGIN = "Log in first: `hf auth login`, with a token that may write."
HUB_FILE = ".gitattributes"  # the hub's own list of large files


def full_name(name: str) -> str:
    """OWNER/NAME of a Space; a bare name is one of the account that is logged in. BadInput for a malformed name,
    Unavailable without a login that the hub accepts."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise BadInput(
            f"{name[:80]!r} cannot name a Space; use OWNER/NAME of letters, digits, dots, dashes and underscores."
        ) from error
    if not get_token():
        raise Unavailable(LOGIN)
    with _errors_as_sentences(name):
        account = HfApi().whoami()["name"]
    return name if "/" in name else f"{account}/{name}"


def publish(name: str, root: Path, files: Sequence[File], update: bool = False, private: bool = False) -> str:
    """Makes the Space, or with ``update`` replaces all its files. Returns its address. Raises EngineError."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi()
    with _errors_as_sentences(name):
        if api.repo_exists(name, repo_type="space"):
            if not update:
                raise BadInput(f"The Space {name} exists already; choose another name, or replace it with --update.")
        else:
            api.create_repo(name, repo_type="space", space_sdk="gradio", private=private or None)
        there = set(api.list_repo_files(name, repo_type="space")) - {HUB_FILE}
        extra = sorted(there - {file.path for file in files})
        api.create_commit(
            name,
            [CommitOperationAdd(file.path, str(root / file.path)) for file in files]
            + [CommitOperationDelete(path) for path in extra],
            repo_type="space",
            commit_message="SpecLens",
        )
        return f"{api.endpoint}/spaces/{name}"


@contextmanager
def _errors_as_sentences(name: str) -> Iterator[None]:
    try:
        yield
    except EngineError:
        raise
    except Exception as error:  # the HTTP library and its exceptions change with the version of huggingface_hub
        raise Unavailable(_sentence(name, error)) from error


def _sentence(name: str, error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return f"The hub does not accept this login. {LOGIN}"
    if status == 403:
        return f"This login may not write to the Space {name}; use a name of your own, or a token that may write."
    if status == 429:
        return "The hub takes no more requests from this login for now; say it again in some minutes."
    if status is not None:
        reason = str(getattr(error, "server_message", None) or error).strip().splitlines()[-1][:200]
        return f"The hub answered {status} for the Space {name} ({reason}); nothing on it has changed."
    first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return f"The upload to {name} broke off ({first}); say it again: large files that have arrived are not sent again."
