"""Runs several systems on the same requests, interleaved in one process. Every measurement goes through this loop.

A turn is one request that each system runs, one right after the other, so that a ratio compares two runs of the same
minute. The order rotates from turn to turn, because a run finds the machine as the one before left it. What
`python -m engine bench` runs is in comparison.py, and the README's table comes from `markdown` in metrics.py.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.config import AUTO, RunConfig, method_of
from engine.errors import BadInput
from engine.files import ProgressCallback
from engine.models.loader import device_name
from engine.runtime.engine import Engine
from engine.tools.bench.prompts import Prompt, to_config
from engine.tools.bench.result_file import ResultFile
from engine.tools.bench.sample import BASELINE, Sample, from_rows, to_rows
from engine.trace.trace import fold

Cancelled = Callable[[], bool]
WARM_UP_TOKENS = 8


def never() -> bool:
    return False


class System(Protocol):
    """Anything that answers a request. ``name`` and ``setting`` (None where there is one only) tell it from others."""

    @property
    def name(self) -> str: ...

    @property
    def setting(self) -> str | int | None: ...

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample: ...


@dataclass(frozen=True)
class Turn:
    """One request for all ``systems``. ``key``: JSON values that tell it from other turns; ``name``: for people."""

    key: tuple
    name: str
    config: RunConfig
    systems: Sequence[System]


def sample_file(path=None, about: dict | None = None) -> ResultFile:
    """Opens a file whose results are the samples of a turn: {(name, setting): Sample}."""
    return ResultFile(path, about, to_rows, from_rows)


def prompt_form(engine: Engine) -> str:
    """Returns "chat", or "raw" where the target has no chat template."""
    return "chat" if engine.target.tokenizer.chat_template else "raw"


def run_config(
    engine: Engine, prompt: Prompt, temperature: float, max_new_tokens: int, seed: int, gamma: int | str = AUTO
) -> RunConfig:
    """Returns the request with which every system runs a row. What the row does not say itself is as given here, in the
    target's `prompt_form`. Raises BadInput where that is raw and the row is a chat of several texts."""
    is_chat, lost = prompt_form(engine) == "chat", ["earlier turns"] if prompt.earlier else []
    lost += [name for name in ("system", "thinking") if name in prompt.own]
    if is_chat and "enable_thinking" in str(engine.target.tokenizer.chat_template):
        lost = []
    if lost and (not is_chat or lost[-1] == "thinking"):
        raise BadInput(
            f"{prompt.place} has {lost[-1]}, for which this model's chat template has no place; leave it out, or "
            "choose another pair."
        )
    if not is_chat:
        prompt = replace(prompt, settings=tuple(each for each in prompt.settings if each[0] != "chat"))
    return to_config(
        prompt, pair=engine.pair.name, gamma=gamma, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed,
        chat=is_chat,
    )  # fmt: skip


def answer_earlier_turns(engine: Engine, prompts: Sequence[Prompt], max_new_tokens: int) -> list[Prompt]:
    """Returns the rows with an answer to each earlier turn of a user: the target's own, greedy."""
    rows = []
    for prompt in prompts:
        turns = list(prompt.earlier)
        for place in (i for i, turn in enumerate(turns) if turn is None):
            question = replace(prompt, text=turns[place - 1] or "", earlier=tuple(turns[: place - 1]), constraint=None)
            config = replace(run_config(engine, question, 0.0, max_new_tokens, 0), method=BASELINE)
            turns[place] = fold(engine.run(config)).text.strip() or "…"
        rows.append(replace(prompt, earlier=tuple(turns)))
    return rows


def greedy_answers(engine: Engine, prompts: Sequence[Prompt], max_new_tokens: int) -> Iterator[tuple[list, list]]:
    """Yields the ids of each prompt, and of what the target writes after it."""
    for prompt in prompts:
        config = replace(run_config(engine, prompt, 0.0, max_new_tokens, 0), method=BASELINE)
        trace = fold(engine.run(config))
        yield [token.id for token in trace.started.prompt], [token.id for token in trace.emitted]


def describe(engine: Engine, methods: Iterable[str]) -> dict:
    """Describes what of an engine must be equal for two measurements to be comparable. Training makes another draft."""
    for method in (name for name in methods if method_of(name).needs_weights):
        engine.drafts.drafter(method)  # its weights are hashed as they are loaded
    return {
        "pair": engine.pair.name,
        "weights": {method: engine.drafts.hashes(method) for method in methods},
        "device": device_name(engine.device),
        "precision": engine.precision,
    }


def warm_up(
    systems: Iterable[System], config: RunConfig, cancelled: Cancelled = never, tokens: int = WARM_UP_TOKENS
) -> list[Sample]:
    """Runs each system on a few tokens. Otherwise the first turn would pay for loading and calibrating."""
    short = replace(config, max_new_tokens=min(tokens, config.max_new_tokens))
    return [system.run(short, cancelled) for system in systems]


@dataclass
class Benchmark:
    """Measures the turns that ``file`` lacks, in order; a finished turn is added at once."""

    turns: Sequence[Turn]
    file: ResultFile = field(default_factory=sample_file)

    @property
    def samples(self) -> dict[tuple, dict[tuple, Sample]]:
        """Turn's key → {(name, setting): Sample}."""
        return self.file.results

    def missing(self) -> list[Turn]:
        return [turn for turn in self.turns if turn.key not in self.samples]

    def run(self, progress: ProgressCallback = lambda fraction, message: None, cancelled: Cancelled = never) -> bool:
        """Measures the missing turns. Returns False where it was cancelled; the next call repeats that turn."""
        for turn in self.missing():
            if not self.measure(turn, cancelled):
                return False
            done, total = len(self.turns) - len(self.missing()), len(self.turns)
            progress(done / total, f"turn {done} of {total}: {turn.name}")
        return True

    def measure(self, turn: Turn, cancelled: Cancelled = never) -> bool:
        """Measures one turn. Returns False, and adds nothing, where it was cancelled."""
        for _ in self.steps(turn, cancelled):
            pass
        return turn.key in self.samples

    def steps(self, turn: Turn, cancelled: Cancelled = never) -> Iterator[System]:
        """Measures one turn in steps: yields each system before it runs."""
        samples, start = {(s.name, s.setting): None for s in turn.systems}, len(self.samples) % len(turn.systems)
        for system in [*turn.systems[start:], *turn.systems[:start]]:
            yield system
            samples[system.name, system.setting] = system.run(turn.config, cancelled)
            if cancelled():
                return
        self.file.add(turn.key, samples)
