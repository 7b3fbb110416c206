"""Weighs the whole requests of an answer's turns, for each setting and kind of text, and makes a rule for a router."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from engine.tools.bench.answer import NONE, AnswerResult, Request, Setting
from engine.tools.bench.answer_rule import RuleCell, decide, places
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import BASELINE, Sample
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.whole_request import WholeRequest, weigh
from engine.trace.noise import Speedup, ceiling, largest_share

Turn = Mapping[tuple, Sample]  # (method, γ) → its run
Turns = Mapping[tuple, Turn]  # (temperature, row, repeat) → turn


def requests(cells: Iterable[Cell], prompts: Sequence[Prompt], turns: Turns) -> tuple[Request, ...]:
    """Returns the whole requests of each setting on each kind of text."""
    verdicts = []
    for cell in (cell for cell in cells if cell.method != BASELINE and isinstance(cell.gamma, int)):
        rows = {i for i, prompt in enumerate(prompts) if cell.category in (ALL, prompt.category)}
        own, setting = turns_of(turns, rows), (cell.method, cell.gamma)
        if request := request_of(setting, cell.category, weigh(parts(own, setting), parts(own, NONE))):
            verdicts.append(request)
    return tuple(verdicts)


def rule(result: AnswerResult, prompts: Sequence[Prompt], turns: Turns) -> tuple[RuleCell, ...]:
    """Returns the cells of a rule: whole requests decide for one user, loads for several."""
    lengths, kinds = [prompt.length for prompt in prompts], [prompt.category for prompt in prompts]
    cells = []
    for place in places(kinds, lengths, sorted({1, *result.plan.users, *result.measured_loads})):
        if place.users > 1:
            known = {setting: s for setting, s in result.speedups_at(place.users).items() if setting != NONE}
            is_all = place.longest is None and place.kind == ALL
            cells.append(decide(place, len(lengths), known) if is_all else place)
            continue
        rows = {
            i for i, kind in enumerate(kinds)
            if place.kind in (ALL, kind) and place.shortest <= lengths[i] < (place.longest or math.inf)
        }  # fmt: skip
        own = turns_of(turns, rows)
        cells.append(decide(place, len(own), _speedups(own)))
    return tuple(cells)


def turns_of(turns: Turns, rows: set[int]) -> list[Turn]:
    """Returns the turns of these rows, in order."""
    return [turn for (_, row, _), turn in sorted(turns.items(), key=lambda item: item[0]) if row in rows]


def parts(turns: Sequence[Turn], setting: Setting) -> np.ndarray:
    """Returns [turns, 3]: seconds until drafts may help, tokens after that, and their seconds."""
    samples = [turn[setting] for turn in turns]
    return np.array([(s.ttft + s.reading, s.tokens - 1, s.seconds - s.ttft - s.reading) for s in samples], float)


def request_of(setting: Setting, kind: str, verdict: WholeRequest) -> Request | None:
    """Returns a setting's whole requests; None where they were not timed."""
    (method, gamma), request = setting, verdict.request
    if request is None:
        return None
    assert isinstance(gamma, int), "an answer's settings have fixed lengths"
    ends, times = (request.value, request.low, request.high), (*verdict.seconds, *verdict.firsts)
    return Request(method, gamma, kind, *ends, *times, verdict.length, verdict.pays_from)


def _speedups(turns: Sequence[Turn]) -> dict[Setting, Speedup]:
    """Returns the speedup of whole requests with each of the settings that drafts."""
    speedups = {}
    for setting in (each for each in (turns[0] if turns else ()) if each != NONE):
        request = weigh(parts(turns, setting), parts(turns, NONE)).request
        passes = sum(turn[setting].passes for turn in turns)
        if request and passes:
            tau = sum(turn[setting].tokens for turn in turns) / passes
            busy = largest_share(s.busy for turn in turns for s in (turn[setting], turn[NONE]))
            speedups[setting] = replace(request, ceiling=ceiling(tau), busy=busy)
    return speedups
