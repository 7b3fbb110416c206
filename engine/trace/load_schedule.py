"""Says how many drafts pay at which load, as far as it was measured. Needs neither torch nor numpy."""

from dataclasses import dataclass

from engine.errors import and_list


@dataclass(frozen=True)
class LoadSchedule:
    """How many drafts at which load, as measured. ``ranges``: (fewest, most requests at once, γ), 0 where
    plain decoding was certainly faster; a load between two of them is in none. ``known_to``: the largest load that was
    measured; ``slower_from``: the smallest one that was certainly slower with drafts than without; ``unsure``: the
    loads at which no difference was certain."""

    ranges: tuple[tuple[int, int, int], ...] = ()
    known_to: int = 1
    slower_from: int | None = None
    unsure: tuple[int, ...] = ()

    @property
    def pays_to(self) -> int:
        """The largest load at which drafting certainly paid; 0 for none."""
        return max((most for _, most, gamma in self.ranges if gamma), default=0)

    @property
    def most_drafts(self) -> int:
        return max((gamma for *_, gamma in self.ranges), default=0)

    @property
    def has_several(self) -> bool:
        """Whether the draft length differs by load, so that one number cannot say it."""
        return len({gamma for *_, gamma in self.ranges}) > 1

    @property
    def words(self) -> str:
        """Where it pays, where it does not, and which loads are not known."""
        words = []
        if self.pays_to:
            up_to = "" if any(users < self.pays_to for users in self.unsure) else "up to "
            few = "one request at a time" if self.pays_to == 1 else f"{up_to}{_requests(self.pays_to)}"
            words.append(f"Drafting was faster with {few}.")
        if self.slower_from:
            words.append(f"With {_requests(self.slower_from)} it was slower: leave it off from there on.")
            if self.pays_to and self.slower_from - self.pays_to > 1:
                words.append("Between these two loads nothing was measured.")
        if self.unsure:
            words.append(f"With {and_list(self.unsure)} at once no difference was certain.")
        if not self.slower_from:
            more = "one request at once was" if self.known_to == 1 else f"{_requests(self.known_to)} were"
            words.append(f"More than {more} not measured.")
        return " ".join(words)


def _requests(number: int) -> str:
    return "one request" if number == 1 else f"{number} requests at once"
