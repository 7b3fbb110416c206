"""Finds the stop texts that end a run."""

from collections.abc import Sequence


class StopTexts:
    """Looks for stop texts in the output as it grows. Decoding leaves special tokens out, so those that a stop text
    names are looked for as they are spelled."""

    def __init__(self, tokenizer, stops: Sequence[str]):
        listed = getattr(tokenizer, "added_tokens_decoder", {}) if stops else {}
        special = {i: token.content for i, token in listed.items() if token.special}
        self._special = {i: name for i, name in special.items() if any(name in stop for stop in stops)}
        self._stops, self._end = tuple(stops), ""

    def end_with(self, token: int, piece: str) -> bool:
        """Adds a token and its piece; returns whether a stop text ends in it."""
        added = self._special.get(token, piece)
        if not (added and self._stops):
            return False
        self._end = (self._end + added)[-max(map(len, self._stops)) - len(added) :]
        return any(stop in self._end[-(len(stop) + len(added) - 1) :] for stop in self._stops)
