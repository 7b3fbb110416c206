"""Estimates how long a measurement takes, in plain steps, from what passes cost. For the time left, not for results."""

from collections.abc import Iterable, Mapping

from engine.trace.speedup_model import interpolate

_CHARACTERS = 4  # per token
_TOKENS = 1.5  # per pass with drafts
_ACCEPTED = 0.4  # of the drafts of the answer that ends first


def prompt_steps(v: Mapping[int, float], characters: int) -> float:
    """Returns how many plain steps it takes to read a prompt."""
    return interpolate(v, 1 + characters / _CHARACTERS)


def together_steps(
    v: Mapping[int, float], lengths: Iterable[int], users: int, tokens: float, drafts: int,
    until_one_ends: bool, c: float = 0.0,
) -> float:  # fmt: skip
    """Returns how many plain steps it takes to answer texts of these ``lengths`` (characters) with ``users`` at once
    and ``drafts`` per round, each of which costs ``c``, because users do not share it. The other arguments are as in
    `UsersSettings` of `engine.tools.bench.users`."""
    prompts = [prompt_steps(v, characters) for characters in lengths]
    passes = tokens / (1 if not drafts else 1 + _ACCEPTED * drafts if until_one_ends else _TOKENS)
    times = 1 if until_one_ends else len(prompts) / users
    return sum(prompts) + times * passes * (users * drafts * c + interpolate(v, users * (1 + drafts)))
