"""Measures requests that share a long system prompt as one would serve them: with that prompt kept by the prompt cache.

Kept prompts change the time until drafts may help and nothing after it. So each of a few rows is begun once more, with
plain decoding and with a setting, right after another question under the same system prompt.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

from engine.runtime.engine import Engine
from engine.tools.bench.answer import HERE, NONE, AnswerPlan, KeptRequest, Setting, by_setting, texts_of_users
from engine.tools.bench.answer_requests import parts, request_of, turns_of
from engine.tools.bench.answer_words import name
from engine.tools.bench.benchmark import Cancelled, run_config
from engine.tools.bench.expected_time import prompt_steps
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.result_file import ResultFile
from engine.tools.bench.sample import Sample
from engine.tools.bench.sweep import Sweep
from engine.tools.bench.text_costs import TextCosts
from engine.tools.bench.whole_request import weigh
from engine.trace.events import Round, RunFinished

LEAST = 400  # characters of a system prompt from which it is a good part of a request
MOST_ROWS = 4  # that are begun again
OTHER_QUESTION = "Hello."  # asked before each, so that no more than the system prompt is kept
_TOKENS = 4  # enough for the drafts to have read their part of the prompt


@dataclass(frozen=True)
class KeptStart:
    """A row that was begun with its system prompt kept. ``seconds``: until drafts may help; ``tokens``: how many of the
    prompt were kept."""

    seconds: float
    tokens: int


class KeptStarts:
    """Begins rows with plain decoding and with the fastest setting for one user. ``open_file``: opens what keeps
    them. A start is a row and a setting."""

    def __init__(
        self, engine: Engine, plan: AnswerPlan, sweep: Sweep, costs: TextCosts,
        open_file: Callable[[type], ResultFile],
    ):  # fmt: skip
        self.engine, self.plan, self.sweep, self.costs = engine, plan, sweep, costs
        can_keep = plan.place == HERE and engine.target.runner.same_bits and shared_system(sweep.prompts)
        self.file = open_file(KeptStart) if can_keep else None

    @property
    def _setting(self) -> Setting:
        """The fastest so far; plain decoding before the first turn, for an estimate."""
        alone = {s: cell for s, cell in by_setting(self.sweep.cells()).items() if s != NONE}
        return max(alone, key=lambda setting: alone[setting].measured.ends[0], default=NONE)

    def missing(self) -> list[tuple[int, Setting]]:
        if self.file is None:
            return []
        rows, settings, known = rows_to_begin(self.sweep.prompts), (NONE, self._setting), self.file.results
        return [(row, each) for row in rows for each in settings if (row, *each) not in known]

    def expected_steps(self, start: tuple[int, Setting]) -> float:
        """Estimates how many plain steps a start takes."""
        return 2 * prompt_steps(self.costs.plain.v, self.sweep.prompts[start[0]].length)

    def reports(self, start: tuple[int, Setting], cancelled: Cancelled) -> Iterator[tuple[str, float]]:
        """Begins a row right after another question under the same system prompt, which leaves that one kept; yields
        what runs, in words."""
        row, setting = start
        (method, gamma), prompt, plan = setting, self.sweep.prompts[row], self.plan
        yield f"one user, {name(setting)}, with the system prompt kept", 0
        self.engine.prompts.clear()
        for each in (replace(prompt, text=OTHER_QUESTION, earlier=(), constraint=None), prompt):
            config = run_config(self.engine, each, plan.temperature, plan.tokens, 0, gamma)
            short = replace(config, method=method, max_new_tokens=min(_TOKENS, config.max_new_tokens), trace=False)
            events = [*self.engine.run(short, cancelled, keeps_prompt=True)]
        if cancelled() or self.file is None:
            return
        sample = Sample.from_rounds([event for event in events if isinstance(event, Round)])
        tokens = cast(RunFinished, events[-1]).kept_tokens.get("target", 0)
        self.file.add((row, *setting), KeptStart(sample.ttft + sample.reading, tokens))

    def request(self) -> KeptRequest | None:
        """Weighs the kept starts with the rest of the turns as they were measured. None where nothing was kept or not
        everything is measured."""
        setting = self._setting
        if self.file is None or self.missing():
            return None
        ours, plain = (
            {row: start for (row, *key), start in self.file.results.items() if (*key,) == each}
            for each in (setting, NONE)
        )
        rows = {row for row in ours if row in plain and min(ours[row].tokens, plain[row].tokens) > 0}
        known = turns_of(self.sweep.benchmark.samples, rows)
        if not known:
            return None
        places = [row for _, row, _ in sorted(self.sweep.benchmark.samples) if row in rows]
        drafting, without = parts(known, setting), parts(known, NONE)
        for side, starts in ((drafting, ours), (without, plain)):
            side[:, 0] = [starts[row].seconds for row in places]
        request = request_of(setting, ALL, weigh(drafting, without))
        tokens = min(start.tokens for start in (*ours.values(), *plain.values()))
        return KeptRequest(**asdict(request), tokens=tokens) if request else None


def shared_system(prompts: Sequence[Prompt]) -> str:
    """Returns the system prompt that all rows have, if it is long; else an empty text."""
    texts = {str(prompt.own.get("system", "")) for prompt in prompts}
    text = texts.pop() if len(texts) == 1 else ""
    return text if len(text) >= LEAST else ""


def rows_to_begin(prompts: Sequence[Prompt]) -> list[int]:
    """Returns the places of the rows that are begun again, spread over all of them."""
    return texts_of_users(range(len(prompts)), min(MOST_ROWS, len(prompts)))
