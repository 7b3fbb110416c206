"""Computes the metrics of a trace and its comparison with a baseline: α, τ, speed, divergence. Imports no torch."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from engine.trace.costs import CostModel
from engine.trace.events import ACCEPTED, EMITTED, STATUSES, TESTED, Round, RunFinished
from engine.trace.noise import Z95, Speedup, largest_busy_share, monotone_costs, single_speedup
from engine.trace.speedup_model import pays_from
from engine.trace.trace import Trace

NEAR_TIE = 1e-3  # between the two best logits, under which rounding in fp32 may decide
PARTS = {"draft": "drafting", "verify": "verifying", "accept": "accepting", "host": "bookkeeping"}  # phase → its word


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The metrics of one trace. None replaces a division by zero, α where a server did not count its drafts, and τ
    where its pieces do not show every token.

    alpha: accepted ÷ tested (Wilson interval). tau: tokens emitted per target pass. by_depth: depth → (accepted,
    tested). wasted: drafted and scored but not emitted ÷ scored. time: seconds by phase. tokens_per_second counts
    decoding, end_to_end the whole request. drafters: rounds drafted by each method, where several competed. by_rule: as
    `expected_lengths`. decoded: the tokens of ``passes``; a server's first token is not among them: the prompt's own
    pass gave it. request: the seconds of the whole request by part, in the order of time.
    """

    counts: dict[str, int]
    tokens: int
    passes: int
    alpha: Interval | None
    tau: Interval | None
    by_depth: dict[int, tuple[int, int]]
    wasted: float | None
    time: dict[str, float]
    decode_seconds: float
    tokens_per_second: float | None
    end_to_end: float | None = None
    ttft: float | None = None
    prefill: float | None = None
    peak_memory: int | None = None
    predicted_speedup: float | None = None
    costs: CostModel | None = None
    gammas: dict[int, int] = field(default_factory=dict)
    drafters: dict[str, int] = field(default_factory=dict)
    by_rule: dict[str, float] = field(default_factory=dict)
    decoded: int = 0
    request: dict[str, float] = field(default_factory=dict)

    @property
    def accepted(self) -> int:
        return sum(self.counts[status] for status in ACCEPTED)

    @property
    def tested(self) -> int:
        return sum(self.counts[status] for status in TESTED)


def wilson(successes: int, trials: int) -> Interval | None:
    """Returns Wilson's score interval of a proportion (Wilson 1927); None without trials."""
    if trials == 0:
        return None
    share, z2 = successes / trials, Z95**2
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = Z95 / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    # At 0 and 1 rounding may put an end on the wrong side of the share.
    return Interval(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


def _mean(values: list[int]) -> Interval | None:
    """Returns the mean of tokens per pass with a normal interval, not below 1, because no pass writes less. A single
    value gets an interval of width 0."""
    if not values:
        return None
    n, mean = len(values), sum(values) / len(values)
    if n == 1:
        return Interval(mean, mean, mean)
    half = Z95 * math.sqrt(sum((x - mean) ** 2 for x in values) / (n - 1) / n)
    return Interval(mean, max(min(1.0, mean), mean - half), mean + half)


def depths(rounds: Iterable[Round]) -> dict[int, tuple[int, int]]:
    """Counts (accepted, tested) drafts by depth, from 1 on without a gap."""
    counts: dict[int, tuple[int, int]] = {}
    for token in (t for r in rounds for t in r.tokens if t.status in TESTED):
        accepted, tested = counts.get(token.depth, (0, 0))
        counts[token.depth] = (accepted + (token.status in ACCEPTED), tested + 1)
    return dict(sorted(counts.items()))


def expected_lengths(rounds: Iterable[Round]) -> dict[str, float]:
    """Counts the drafts that each acceptance rule would accept in a round, on average over its uniforms, on the same
    drafts: the sum of the products of min(1, p/q), and of p_i, the chance of a beginning in a block. Counts chains
    alone; empty without rounds of block verification."""
    block, token, count = 0.0, 0.0, 0
    chains = filter(is_chain, rounds)
    for drafts in ([t for t in r.tokens if t.h is not None] for r in chains):
        reached = 1.0
        for draft in drafts:
            reached *= draft.accept or 0.0
            token += reached
            block += draft.running or 0.0
        count += bool(drafts)
    return {"token": token / count, "block": block / count} if count else {}


def _request(rounds: Sequence[Round], finished: RunFinished) -> dict[str, float]:
    first = rounds[0].end - rounds[0].start if rounds else 0.0
    parts = {
        "the target reads the prompt": finished.prefill,
        "first round": first,
        "drafts read the prompt": sum(r.reading for r in rounds),
        "further rounds": finished.decode_seconds - first,
    }
    return {part: seconds for part, seconds in parts.items() if seconds > 0}


def compute_metrics(trace: Trace) -> RunMetrics:
    """Computes the numbers of a trace; some of a server's are None, where it told too little."""
    rounds = trace.rounds
    counts = dict.fromkeys(STATUSES, 0)
    gammas: dict[int, int] = {}
    for r in rounds:
        if r.gamma is not None:
            gammas[r.gamma] = gammas.get(r.gamma, 0) + 1
        for token in r.tokens:
            counts[token.status] += 1
    emitted = sum(counts[s] for s in EMITTED)
    scored = sum(len(r.parents) + 1 for r in rounds)
    seconds = rounds[-1].end - rounds[0].start if rounds else 0.0
    server = trace.started.server
    has_counts = server is None or server.has_counts
    decoding = rounds[1:] if server else rounds  # a server's first token comes out of the prompt's own pass
    sizes, hidden = [len(r.emitted) for r in decoding], server.hidden_tokens if server else 0
    decoded, is_one_by_one = sum(sizes), not has_counts and max(sizes, default=0) < 2  # which does not show the passes
    if decoding:
        decoded, emitted = decoded + (hidden or 0), emitted + (hidden or 0)
    finished, costs = trace.finished, trace.started.costs and monotone_costs(trace.started.costs)
    return RunMetrics(
        counts=counts,
        tokens=emitted,
        passes=len(decoding),
        alpha=wilson(sum(counts[s] for s in ACCEPTED), sum(counts[s] for s in TESTED)) if has_counts else None,
        tau=None if hidden != 0 or is_one_by_one else _mean(sizes),
        by_depth=depths(rounds) if has_counts else {},
        wasted=(counts["rejected"] + counts["discarded"]) / scored if scored and has_counts else None,
        time={phase: sum(getattr(r.timings, phase) for r in rounds if r.timings) for phase in PARTS},
        decode_seconds=seconds,
        tokens_per_second=decoded / seconds if seconds and hidden is not None else None,
        end_to_end=emitted / finished.seconds if finished and finished.seconds and hidden is not None else None,
        ttft=finished.ttft if finished else None,
        prefill=finished.prefill if finished else None,
        peak_memory=finished.peak_memory if finished else None,
        predicted_speedup=costs.predict((len(r.emitted), r.draft_steps, len(r.parents), r.drafter) for r in rounds)
        if costs and rounds and not trace.others
        else None,
        costs=costs,
        gammas=dict(sorted(gammas.items())),
        drafters=dict(Counter(r.drafter for r in rounds if r.drafter and r.parents).most_common()),
        by_rule=expected_lengths(rounds),
        decoded=decoded,
        request=_request(rounds, finished) if finished else {},
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one phase in milliseconds a token: in this run, and without drafting."""

    part: str
    ours: float
    plain: float

    @property
    def sentence(self) -> str:
        plain = f" instead of {self.plain:.1f} ms" if self.plain >= 0.05 else ", which plain decoding does not have"
        return f"The largest extra cost was {PARTS[self.part]}: {self.ours:.1f} ms per token{plain}."


def largest_cost(ours: RunMetrics, plain: RunMetrics) -> Cost:
    """Returns the phase whose time per token grew the most over plain decoding."""

    def per_token(numbers: RunMetrics, part: str) -> float:
        return 1000 * numbers.time[part] / max(numbers.tokens, 1)

    costs = [Cost(part, per_token(ours, part), per_token(plain, part)) for part in PARTS]
    return max(costs, key=lambda cost: cost.ours - cost.plain)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where two greedy runs diverge: the position, both tokens, and the baseline's top-2 logit gap there."""

    position: int
    token: str
    baseline: str
    gap: float | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A run beside its baseline: speedup = ratio of decode tokens/s; efficiency = measured ÷ predicted. The
    efficiency of an impossible speedup is None, too. end_to_end = ratio of tokens/s of the whole requests, where tokens
    that one of them kept count as read if ``counts_kept``; pays_from: the tokens of an answer that makes up for the
    drafts' reading of the prompt, predicted from the pace of both runs; None where drafts did not read it apart, or
    saved no time."""

    speedup: Speedup | None
    predicted: float | None
    efficiency: float | None
    divergence: Divergence | None
    end_to_end: float | None = None
    pays_from: int | None = None
    counts_kept: bool = False


def compare(trace: Trace, baseline: Trace) -> RunComparison:
    """Compares a run with its baseline. The speedup is None where one of the two shared its passes with other runs."""
    ours, plain = compute_metrics(trace), compute_metrics(baseline)
    speedup: Speedup | None = None
    is_shared = trace.others or baseline.others
    if ours.tokens_per_second and plain.tokens_per_second and ours.passes and not is_shared:
        ratio, tau = ours.tokens_per_second / plain.tokens_per_second, ours.tau.value if ours.tau else math.inf
        runs = (trace.rounds, baseline.rounds)
        speedup = single_speedup(ratio, tau, ours.costs, *runs, busy=others_share(trace, baseline))
    predicted = ours.predicted_speedup
    efficiency = speedup.value / predicted if speedup and speedup.is_possible and predicted else None
    end_to_end, length, counts_kept = None, None, False
    if speedup and ours.end_to_end and plain.end_to_end:
        more, theirs = _more_to_read(trace, baseline), _more_to_read(baseline, trace)
        end_to_end = ours.tokens / (ours.tokens / ours.end_to_end + more)
        end_to_end /= plain.tokens / (plain.tokens / plain.end_to_end + theirs)
        counts_kept = bool(more or theirs)
        pace = [numbers.decode_seconds / numbers.decoded for numbers in (plain, ours)]
        length = pays_from(ours.request.get("drafts read the prompt", 0.0), *pace)
    divergence = first_divergence(trace, baseline)
    return RunComparison(speedup, predicted, efficiency, divergence, end_to_end, length, counts_kept)


def _more_to_read(trace: Trace, other: Trace) -> float:
    """Returns the seconds that a run's target spared by keeping more of the prompt than ``other``, which read it."""
    end, theirs = trace.finished, other.finished
    if not end or not theirs or end.kept_tokens.get("target", 0) <= theirs.kept_tokens.get("target", 0):
        return 0.0
    return theirs.prefill - end.prefill


def others_share(*traces: Trace | None) -> float | None:
    """Returns the largest share of the cores that other programs took during some runs; None where it was not read."""
    return largest_busy_share(trace.finished.extra for trace in traces if trace and trace.finished)


def equal_to_the_bit(trace: Trace, baseline: Trace) -> bool:
    """Returns whether every token of both was decided by logits with the same bits: both loads have checked that, their
    weights are the same, and no round held a tree, whose sums have another order."""
    runs = (trace, baseline)
    same = len({(run.started.weights.get("target"), run.started.dtype, run.started.device) for run in runs}) == 1
    return same and all(run.started.same_bits and all(map(is_chain, run.rounds)) for run in runs)


def is_chain(round_: Round) -> bool:
    return round_.parents == tuple(range(len(round_.parents)))


def first_difference(ours: Sequence, theirs: Sequence) -> int | None:
    """Returns the first place where two sequences differ, perhaps the shorter one's end; None if they are equal."""
    if tuple(ours) == tuple(theirs):
        return None
    shorter = min(len(ours), len(theirs))
    return next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)


def first_divergence(trace: Trace, baseline: Trace) -> Divergence | None:
    """Returns the first position at which the emitted tokens differ; None if the shorter output is a prefix of the
    longer one. Where a server did not tell the tokens' ids, their texts are compared."""
    if None in trace.output or None in baseline.output:
        return _first_other_text(trace, baseline)
    for ours, plain in zip(trace.emitted, baseline.emitted, strict=False):
        if ours.id != plain.id:
            return Divergence(ours.position, ours.label or ours.text, plain.label or plain.text, plain.gap)
    return None


def _first_other_text(trace: Trace, baseline: Trace) -> Divergence | None:
    """Returns the first token of the run whose text goes on in another way than the baseline's."""
    pairs = enumerate(zip(trace.text, baseline.text, strict=False))
    place, end = next((i for i, (ours, plain) in pairs if ours != plain), math.inf), 0
    for token in trace.emitted:
        end += len(token.text)
        if end > place:
            return Divergence(token.position, token.label or token.text, baseline.text[int(place) :][:10], None)
    return None
