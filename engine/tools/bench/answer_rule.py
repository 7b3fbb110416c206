"""Makes a rule for a router from an answer: for which kind of text, prompt length and load to draft. No torch.

A cell holds the measurements of one place, and is empty without any. Lengths are characters, because a router has
no tokenizer. For one user whole requests decide; with several the loads do, which hold texts of all kinds and lengths.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from engine.tools.bench.metrics import ALL
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.winners import fastest
from engine.trace.noise import PLAIN, Speedup

LENGTHS = (0, 2000, 8000, 32000, None)  # characters: from each of them up to the next one
NONE = (BASELINE, 0)  # plain decoding


@dataclass(frozen=True)
class RuleCell:
    """``kind``: a kind of text, or "all"; ``shortest`` to ``longest``: characters of prompts, the last one not
    included, None without an end; ``turns``: measurements. ``draft``: None where no difference is certain.
    ``speedup`` with its ends: of ``method`` with ``gamma``, the best, or the nearest one if it does not pay; ``wrong``:
    how many times as long a request takes with the wrong choice."""

    kind: str
    shortest: int
    longest: int | None
    users: int
    turns: int = 0
    draft: bool | None = None
    method: str | None = None
    gamma: int | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    wrong: float | None = None


def decide(place: RuleCell, turns: int, speedups: Mapping[tuple, Speedup]) -> RuleCell:
    """Returns the cell with the measurements of ``speedups``, by (method, γ) without plain decoding. With noise
    among them, which may really be as fast, drafting is not certainly slower."""
    possible = {setting: speedup for setting, speedup in speedups.items() if speedup.is_possible}
    if not possible:
        return place
    best = fastest({NONE: PLAIN} | possible)
    drafting = [setting for setting in best if setting != NONE]
    is_certain = NONE not in best if drafting else len(possible) == len(speedups)
    draft = bool(drafting) if is_certain else None
    method, gamma = drafting[0] if drafting else max(possible, key=lambda setting: possible[setting].value)
    chosen = possible[method, gamma]
    low, high = chosen.interval or (None, None)
    wrong = None if draft is None else chosen.value if draft else 1 / chosen.value
    place = replace(place, turns=turns, draft=draft, method=method, gamma=gamma)
    return replace(place, speedup=chosen.value, low=low, high=high, wrong=wrong)


def places(kinds: Iterable[str], lengths: Iterable[int], users: Sequence[int]) -> list[RuleCell]:
    """Returns the cells of a table, all empty: each kind at each of the ``lengths`` that texts have, for each number of
    users; with several users also one for all texts together."""
    ranges = [
        (low, high) for low, high in pairwise(LENGTHS)
        if low is not None and any(low <= length and (high is None or length < high) for length in lengths)
    ]  # fmt: skip
    each = [*dict.fromkeys(kinds)]
    each = [ALL, *each] if len(each) > 1 else each
    cells = [RuleCell(kind, low, high, number) for kind in each for low, high in ranges for number in users]
    return [*cells, *(RuleCell(ALL, 0, None, number) for number in users if number > 1)]


def to_json(cells: Sequence[RuleCell], about: Mapping[str, object]) -> str:
    """Returns a rule as a file. ``about``: where it was measured."""
    content = {**about, "speclens": "rule", "cells": [asdict(cell) for cell in cells]}
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
