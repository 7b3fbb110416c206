"""Measures requests that share a long system prompt as one would serve them: with that prompt kept by the prompt cache.

Kept prompts change the time until drafts may help and nothing after it. So each of a few rows is begun once more, with
plain decoding and with a setting, right after another question under the same system prompt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from engine.config import RunConfig
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import Cancelled, never
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import Sample
from engine.tools.bench.whole_request import WholeRequest, weigh
from engine.trace.events import Round, RunFinished

LEAST = 400  # characters of a system prompt from which it is a good part of a request
MOST_ROWS = 4  # that are begun again
OTHER_QUESTION = "Hello."  # asked before each, so that no more than the system prompt is kept
_TOKENS = 4  # enough for the drafts to have read their part of the prompt


@dataclass(frozen=True)
class KeptStart:
    """A row that was begun with its system prompt kept. ``seconds``: until drafts may help; ``tokens``: how many of the
    prompt were kept."""

    row: int
    seconds: float
    tokens: int


def shared_system(prompts: Sequence[Prompt]) -> str:
    """Returns the system prompt that all rows have, if it is long; else an empty text."""
    texts = {str(prompt.own.get("system", "")) for prompt in prompts}
    text = texts.pop() if len(texts) == 1 else ""
    return text if len(text) >= LEAST else ""


def rows_to_begin(prompts: Sequence[Prompt]) -> list[int]:
    """Returns the places of the rows that are begun again, spread over all of them."""
    count = min(MOST_ROWS, len(prompts))
    return [(2 * i + 1) * len(prompts) // (2 * count) for i in range(count)]


def begin_kept(
    engine: Engine, row: int, config: RunConfig, other: RunConfig, cancelled: Cancelled = never
) -> KeptStart:
    """Begins a row with its system prompt kept. ``other``: another question under the same prompt, asked before."""
    engine.prompts.clear()
    for each in (other, config):
        short = replace(each, max_new_tokens=min(_TOKENS, each.max_new_tokens), trace=False)
        events = [*engine.run(short, cancelled, keeps_prompt=True)]
    sample = Sample.from_rounds([event for event in events if isinstance(event, Round)])
    finished = cast(RunFinished, events[-1])
    return KeptStart(row, sample.ttft + sample.reading, finished.kept_tokens.get("target", 0))


def weigh_kept(
    turns: Mapping[tuple, Mapping[tuple, Sample]],
    ours: Mapping[int, KeptStart],
    plain: Mapping[int, KeptStart],
    setting: tuple[str, Any],
    baseline: tuple[str, Any],
) -> WholeRequest | None:
    """Weighs whole requests whose system prompt is kept: the starts of ``ours`` and ``plain`` by row, with the rest of
    the turns (key: setting, row, repeat) as they were measured. None where nothing was kept or no turn is there."""
    rows = [row for row in ours if row in plain and min(ours[row].tokens, plain[row].tokens) > 0]
    known = [(row, turn) for (_, row, *_), turn in sorted(turns.items(), key=lambda item: item[0]) if row in rows]
    if not known:
        return None

    def parts(starts: Mapping[int, KeptStart], key: tuple[str, Any]) -> np.ndarray:
        samples = [(starts[row].seconds, turn[key]) for row, turn in known]
        return np.array([(start, s.tokens - 1, s.seconds - s.ttft - s.reading) for start, s in samples], float)

    return weigh(parts(ours, setting), parts(plain, baseline))
