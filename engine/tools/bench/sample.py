"""Holds the record of one measured run, as every benchmark keeps it, and turns it into JSON rows and back. No torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.tools.bench.result_file import parse_values
from engine.trace.events import Round
from engine.trace.metrics import depths, expected_lengths
from engine.trace.noise import Speedup, ceiling, largest_share

BASELINE, UNTRACED = "none", "-untraced"
_SAVED = ("tokens", "passes", "seconds", "decode_seconds", "decode_tokens", "ttft", "by_depth", "reading")


def rule_suffix(acceptance: str) -> str:
    """Returns what ends the name of a method that is measured with this acceptance rule."""
    return "" if acceptance == "token" else f"-{acceptance}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of one system; seconds throughout.

    ``decode_tokens`` of its ``tokens`` came out during ``decode_seconds``. Ours: all of them, from the first round's
    start. Of transformers the first pass is prefill, so decoding runs from the first emission to the last and the
    tokens of the first do not count. ``by_depth``: (accepted, tested) of the drafts at depth 1, 2, …; ``reading``: what
    drafts took to read the prompt, after the first token.

    Not in files: ``ids`` of the tokens; ``rounds``: (emitted, draft steps, drafted, drafter) of each; ``gaps``: the
    target's top-2 logit gap at each token; ``by_rule``: as `expected_lengths`, where tracing was on; ``busy``: the
    share of the cores that other programs took, None where it is not known.
    """

    tokens: int
    seconds: float
    decode_seconds: float
    decode_tokens: int
    ttft: float
    passes: int
    by_depth: tuple[tuple[int, int], ...] = ()
    reading: float = 0.0
    peak_memory: int | None = None
    ids: tuple[int | None, ...] = ()
    rounds: tuple[tuple[int, int | None, int, str], ...] = ()
    gaps: tuple[float | None, ...] = ()
    by_rule: Mapping[str, float] = field(default_factory=dict)
    busy: float | None = None

    @classmethod
    def from_rounds(
        cls, rounds: Sequence[Round], peak_memory: int | None = None, busy: float | None = None
    ) -> "Sample":
        """Makes the sample of a run of ours; zeros where it was cancelled before its first round."""
        emitted = [token for round_ in rounds for token in round_.emitted]
        start, first, last = (rounds[0].start, rounds[0].end, rounds[-1].end) if rounds else (0.0, 0.0, 0.0)
        return cls(
            tokens=len(emitted),
            seconds=last + sum(r.reading for r in rounds),
            reading=sum(r.reading for r in rounds),
            decode_seconds=last - start,
            decode_tokens=len(emitted),
            ttft=first,
            passes=len(rounds),
            by_depth=tuple(depths(rounds).values()),
            peak_memory=peak_memory,
            ids=tuple(token.id for token in emitted),
            rounds=tuple((len(r.emitted), r.draft_steps, len(r.parents), r.drafter) for r in rounds),
            gaps=tuple(token.gap for token in emitted),
            by_rule=expected_lengths(rounds),
            busy=busy,
        )

    @property
    def accepted(self) -> int:
        return sum(accepted for accepted, _ in self.by_depth)

    @property
    def tested(self) -> int:
        return sum(tested for _, tested in self.by_depth)

    @property
    def rate(self) -> float:
        """Tokens a second of decoding."""
        return self.decode_tokens / self.decode_seconds if self.decode_seconds else 0.0

    def row(self) -> dict:
        return {name: getattr(self, name) for name in _SAVED} | ({} if self.busy is None else {"busy": self.busy})


def to_rows(samples: Mapping[tuple, Sample]) -> list[dict]:
    """Returns {(name, setting): Sample} as JSON values, which `from_rows` reads again."""
    return [{"method": name, "setting": setting} | sample.row() for (name, setting), sample in samples.items()]


def from_rows(rows: Sequence[dict]) -> dict[tuple, Sample]:
    """Reads what `to_rows` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    return {(row["method"], row["setting"]): parse_values(Sample, row) for row in rows}


def fastest(samples: Sequence[Sample]) -> Sample:
    """Merges repeats of one prompt: the smallest of each time was the least disturbed."""
    times = {name: min(getattr(s, name) for s in samples) for name in ("seconds", "decode_seconds", "ttft")}
    return replace(samples[0], **times, peak_memory=max(s.peak_memory or 0 for s in samples) or None)


@dataclass(frozen=True)
class PairedRun:
    """A run with drafts, and the plain run of the same turn."""

    plain: Sample
    ours: Sample


@dataclass(frozen=True)
class Point:
    """The runs at an α set by hand. ``seen``: α as counted, None where no draft was tested; ``tau``: tokens a target
    pass; ``low`` and ``high``: 95 % of the speedup, None with one turn; ``turns``: the runs themselves, so that later
    ones can be added."""

    alpha: float
    gamma: int
    seen: float | None
    tau: float
    speedup: float
    turns: tuple[PairedRun, ...]
    low: float | None = None
    high: float | None = None

    @property
    def measured(self) -> Speedup:
        busy = largest_share(run.busy for turn in self.turns for run in (turn.plain, turn.ours))
        return Speedup(self.speedup, self.low, self.high, ceiling(self.tau), busy)

    @property
    def place(self) -> tuple[float, int]:
        return self.alpha, self.gamma
