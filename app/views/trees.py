"""Renders the trees of a run as figures: how many drafts they had, and how many of each rank were accepted.

A draft's rank is its place among its siblings, in the order they were tried.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from app.views.figures import Figure, axes, fill
from engine.errors import quantity
from engine.trace.events import ACCEPTED, TESTED, Round
from engine.trace.trace import Trace

LAST_RANK = 4  # it and all later ones are one group
RANKS = ("first child", "second", "third", "fourth or later")
PATTERNS = ("", "/", "x", ".")
NONE = Figure(note="This run drafted no tree.")


def branches(event: Round) -> bool:
    """Returns whether the round's drafts are more than a chain."""
    return event.parents != tuple(range(len(event.parents)))


def has_trees(run: Trace | None) -> bool:
    return run is not None and any(map(branches, run.rounds))


def draw_sizes(run: Trace) -> Figure:
    """Charts how many trees had how many drafts."""
    trees = [event for event in run.rounds if branches(event)]
    if not trees:
        return NONE
    counts = Counter(len(event.parents) for event in trees)
    bars = {
        "type": "bar",
        "x": sorted(counts),
        "y": [counts[size] for size in sorted(counts)],
        "marker": fill("@accepted"),
        "hovertemplate": "drafts: %{x}, rounds: %{y}<extra></extra>",
    }
    tested = sum(_count(event, TESTED) for event in trees)
    drafted = sum(len(event.parents) for event in trees)
    note = f"{len(trees)} of {quantity(len(run.rounds), 'round')} drafted a tree. "
    note += f"Of their {drafted:,} drafts {tested:,} were tested."
    layout = axes("drafts in the tree", "rounds", showlegend=False)
    layout["xaxis"] |= {"type": "category"}  # no ticks between whole numbers
    return Figure([bars], layout, note)


def draw_ranks(run: Trace) -> Figure:
    """Charts accepted ÷ tested at each depth, a bar for each rank."""
    tested, accepted = Counter(), Counter()
    for depth, place, is_accepted in _tested_drafts(filter(branches, run.rounds)):
        rank = min(place, LAST_RANK)
        tested[depth, rank] += 1
        accepted[depth, rank] += is_accepted
    if not tested:
        return NONE
    depths = sorted({depth for depth, _ in tested})
    data = [_bars(rank, depths, tested, accepted) for rank in sorted({rank for _, rank in tested})]
    layout = axes("depth in the tree", "share accepted", barmode="group")
    layout["yaxis"] |= {"range": [0, 1.12], "tickformat": ".0%"}
    layout["xaxis"] |= {"type": "category"}
    note = "Accepted ÷ tested. A sibling is tested only where all before it were rejected."
    return Figure(data, layout, note)


def _tested_drafts(rounds: Iterable[Round]) -> Iterator[tuple[int, int, bool]]:
    """Yields (depth, rank, was it accepted) of each draft that was tested; its rank is its place among its siblings."""
    for round_ in rounds:
        siblings = Counter()
        for token, parent in zip(round_.tokens, round_.parents, strict=False):
            siblings[parent] += 1
            if token.status in TESTED:
                yield token.depth, siblings[parent], token.status in ACCEPTED


def _bars(rank: int, depths: list[int], tested: Counter, accepted: Counter) -> dict:
    known = [depth for depth in depths if tested[depth, rank]]
    colour = "@accepted" if rank == 1 else "@host"
    return {
        "type": "bar",
        "name": RANKS[rank - 1],
        "x": [str(depth) for depth in known],
        "y": [round(accepted[depth, rank] / tested[depth, rank], 4) for depth in known],
        "text": [f"{accepted[depth, rank]}/{tested[depth, rank]}" for depth in known],
        "textposition": "outside",
        "cliponaxis": False,
        "outsidetextfont": {"color": "@ink"},
        "textangle": 0,
        "marker": fill(colour, pattern=PATTERNS[rank - 1]),
        "hovertemplate": f"depth %{{x}}, {RANKS[rank - 1]}: %{{text}} accepted<extra></extra>",
    }


def _count(event: Round, statuses: frozenset[str]) -> int:
    return sum(token.status in statuses for token in event.tokens)
