"""Measures a server with drafts beside one without: interleaved, repeated, and for several users at once.

Times are taken from the streams, so they include the network's but no other request. For one user the speedup is over
prompts, each with its fastest repeat, as `engine.tools.bench.metrics` has it; for several it is over repeats of the
whole set. Imports no torch.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from engine.errors import Unavailable, and_list
from engine.tools.bench.answer_rule import RuleCell, decide, places
from engine.tools.bench.answer_words import people
from engine.tools.bench.metrics import ALL
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.whole_request import WholeRequest, weigh
from engine.tools.servers.client import Client
from engine.tools.servers.prompt_cache import VISITS, PromptReading, middle, read_prompt
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest
from engine.trace.events import ACCEPTED, TESTED
from engine.trace.metrics import compute_metrics, depths, first_divergence
from engine.trace.noise import Speedup, ceiling, median_interval
from engine.trace.speedup_words import impossible
from engine.trace.trace import Trace

SIDES = ("on", "off")


@dataclass(frozen=True)
class Arm:
    """One server, asked as a client asks it."""

    client: Client
    request: ServerRequest

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.client)

    def answer_all(self, prompts: Sequence[Prompt], users: int) -> tuple[list[Trace], float]:
        """Returns the answer to every prompt, ``users`` at once, and the seconds of all streams. The server's counts
        and its tokens' texts are requested outside of them. Raises Unavailable where a stream breaks off: half an
        answer has no speed."""
        requests = [self.request.of_row(prompt) for prompt in prompts]
        traces, seconds = [], 0.0
        for group in [requests] if users > 1 else [[request] for request in requests]:
            before = self.recorder.counts_before() if len(group) == 1 else None
            start = time.perf_counter()
            with ThreadPoolExecutor(users) as pool:
                answers = list(pool.map(self.recorder.ask, group))
            seconds += time.perf_counter() - start
            if fault := next((answer.fault for answer in answers if answer.fault), ""):
                raise Unavailable(fault)
            traces += [self.recorder.finish(*each, before) for each in zip(group, answers, strict=True)]
        return traces, seconds


@dataclass
class ServerLoad:
    """The measurements for one number of users. ``traces``: side → repeats → prompts; ``seconds``: side → repeats."""

    users: int
    prompts: Sequence[Prompt]
    traces: dict[str, list[list[Trace]]] = field(default_factory=lambda: {side: [] for side in SIDES})
    seconds: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})

    def speedup(self) -> Speedup | None:
        """Returns the speed with drafts ÷ without, over all prompts."""
        if self.users > 1:
            return self._over_repeats()
        return self.request_of().decoding

    def choose(self, category: str = "", shortest: int = 0, longest: int | None = None) -> list[int]:
        """Returns the prompts of a category with ``shortest`` characters or more and less than ``longest``."""
        return [
            i for i, prompt in enumerate(self.prompts)
            if category in ("", prompt.category) and shortest <= prompt.length < (longest or math.inf)
        ]  # fmt: skip

    def request_of(self, category: str = "", *lengths) -> WholeRequest:
        """Weighs the whole requests of one user, of the prompts that `choose` returns. A prompt's first
        token is the one of its first answer, because later ones find the prompt in the server's cache."""
        chosen = self.choose(category, *lengths)
        sides = [
            [((end := self.traces[side][0][i].finished) and end.ttft, *self._fastest(side, i)) for i in chosen]
            for side in SIDES
        ]
        return weigh(*(np.array(side, float) for side in sides), ceiling=ceiling(self.tau(category) or math.inf))

    def _over_repeats(self) -> Speedup | None:
        rates = [self.rates(side) for side in SIDES]
        value = sum(rates[0]) / sum(rates[1]) if all(map(sum, rates)) else None
        if not value:
            return None
        ends = median_interval(value, [a / b for a, b in zip(*rates, strict=True) if b])
        return Speedup(value, *(ends or (None, None)))

    def rates(self, side: str) -> list[float]:
        """Returns tokens a second of all users together, by repeat."""
        counts = [sum(compute_metrics(trace).tokens for trace in row) for row in self.traces[side]]
        return [count / seconds for count, seconds in zip(counts, self.seconds[side], strict=True)]

    def _fastest(self, side: str, i: int) -> tuple[int, float]:
        each = [compute_metrics(row[i]) for row in self.traces[side]]
        best = max(each, key=lambda numbers: numbers.tokens_per_second or 0.0)
        return best.decoded, best.decode_seconds

    def speed(self, side: str) -> float:
        """Returns tokens a second of one user's decoding, or of all users."""
        if self.users > 1:
            return sum(self.rates(side)) / len(self.rates(side))
        tokens, seconds = np.array([self._fastest(side, i) for i in range(len(self.prompts))], float).sum(0)
        return float(tokens / seconds) if seconds else 0.0

    def tau(self, category: str = "") -> float | None:
        """Returns tokens per pass with drafts; None where a stream does not show every token."""
        each = [numbers for trace in self._drafting(category) if (numbers := compute_metrics(trace)).passes]
        is_known = bool(each) and all(numbers.tau for numbers in each)
        return sum(numbers.decoded for numbers in each) / sum(numbers.passes for numbers in each) if is_known else None

    def _drafting(self, category: str = "") -> list[Trace]:
        row = self.traces["on"][0]
        return [trace for trace, prompt in zip(row, self.prompts, strict=True) if category in ("", prompt.category)]

    def acceptance(self, category: str = "") -> float | None:
        """Returns α; None where the server does not count its drafts."""
        traces = self._drafting(category)
        if not all(server.has_counts for trace in traces if (server := trace.started.server)):
            return None
        statuses = [token.status for trace in traces for r in trace.rounds for token in r.tokens]
        tested = sum(status in TESTED for status in statuses)
        return sum(status in ACCEPTED for status in statuses) / tested if tested else None

    def by_place(self) -> dict[int, tuple[int, int]]:
        """Returns (accepted, tested) by the place in the draft."""
        return depths(r for trace in self._drafting() for r in trace.rounds) if self.acceptance() is not None else {}

    def differing(self) -> list[tuple[str, int]]:
        """Returns (category, place) of the first difference of each greedy text that drafting changed."""
        pairs = zip(self.prompts, self.traces["on"][0], self.traces["off"][0], strict=True)
        partings = ((prompt.category, first_divergence(on, off)) for prompt, on, off in pairs)
        return [(category, parted.position) for category, parted in partings if parted]


def compare(
    arms: dict[str, Arm], prompts: Sequence[Prompt], users: Sequence[int], repeats: int, progress: Callable,
    limit_seconds: float = math.inf,
) -> Iterator[ServerLoad]:  # fmt: skip
    """Yields a `ServerLoad` for each number of users. Each repeat measures both sides, and they begin in turn. Every
    number has its first repeat before one has its second, so that all are known where ``limit_seconds`` or a fault ends
    it early."""
    for arm in arms.values():
        # The first answer of a server is slow. It has another question, because servers keep prompts, after the system
        # prompt that a server in use has kept.
        (first, *_), _ = arm.answer_all([replace(prompts[0], text="Count from 1 to 9.")], 1)
        if (server := first.started.server) and server.hidden_tokens is None:
            raise Unavailable(f"{arm.client.address} does not count its tokens, so its speed is unknown.")
    loads, start = [ServerLoad(number, prompts) for number in users], time.monotonic()
    points = [(repeat, load) for repeat in range(repeats) for load in loads]
    fault: Unavailable | None = None
    for done, (repeat, load) in enumerate(points):
        took, elapsed = sum(sum(seconds[-1:]) for seconds in load.seconds.values()), time.monotonic() - start
        if repeat and elapsed + took / 2 > limit_seconds:
            break
        progress(max(done / len(points), min(0.999, elapsed / limit_seconds)), f"Measuring {load.users} at once")
        try:
            order = SIDES if repeat % 2 == 0 else SIDES[::-1]
            answers = {side: arms[side].answer_all(prompts, load.users) for side in order}
        except Unavailable as error:
            fault = error
            break
        for side, (traces, seconds) in answers.items():
            load.traces[side].append(traces)
            load.seconds[side].append(seconds)
    yield from (load for load in loads if load.seconds["on"])
    if fault:
        raise fault


def compare_reading(arms: dict[str, Arm], text: str, repeats: int) -> dict[str, dict[str, PromptReading]]:
    """Returns how each side reads a long text, as `read_prompt` does: the medians of ``repeats``, in turn."""
    rows: dict[str, list[dict[str, PromptReading]]] = {side: [] for side in SIDES}
    for repeat in range(repeats):
        for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
            rows[side].append(read_prompt(arms[side].recorder, replace(arms[side].request, system=""), text))
    return {side: {name: middle([row[name] for row in each]) for name in VISITS} for side, each in rows.items()}


def rule_of(loads: Sequence[ServerLoad]) -> list[RuleCell]:
    """Returns a rule for a router in front of both servers, whose γ is their own."""
    prompts, cells = loads[0].prompts, []
    for place in places([p.category for p in prompts], [p.length for p in prompts], [load.users for load in loads]):
        load = next(load for load in loads if load.users == place.users)
        where = ("" if place.kind == ALL else place.kind, place.shortest, place.longest)
        chosen, speedup = load.choose(*where), None
        if place.users == 1 and chosen:
            speedup = load.request_of(*where).request
        elif place.users > 1 and where == ("", 0, None):
            speedup = load.speedup()
        turns = len(chosen) * len(load.seconds["on"])
        cells.append(decide(place, turns, {("server", None): speedup}) if speedup else place)
    return cells


def verdict(loads: Sequence[ServerLoad]) -> str:
    """Says whether drafting pays, in decoding and for whole requests, and what to try."""
    for load in loads:
        speedup = load.speedup()
        if speedup is None or speedup.low is None or speedup.high is None:
            return "Too few measurements for a verdict; give more prompts or --repeats."
        who = people(load.users)
        if not speedup.is_possible:
            words = f"drafting was {impossible(load.tau())}"
            return f"For {who} the measurements are noise: {words}. Measure again when the servers do nothing else."
        if speedup.high < 1:
            tau = load.tau() or 1.0
            why = (
                "few drafts are accepted: try another drafter"
                if tau < 1.5
                else "drafting costs too much: try a smaller γ"
            )
            how = "`server explain` says what a step costs"
            return f"For {who} drafting is slower ({speedup.words}); τ is {tau:.2f}, so {why}; {how}."
        if load.users == 1 and (words := _request_verdict(load, speedup)):
            return words
        if speedup.low <= 1:
            return f"For {who} no certain difference ({speedup.words}); measure longer, or more prompts."
    first, speedup = loads[0], loads[0].speedup()
    most = f" up to {loads[-1].users} users" if len(loads) > 1 else ""
    words = f"{speedup.words if speedup else ''} for {people(first.users)}."
    if first.users > 1:
        return f"Drafting pays{most}: {words}"
    return f"Drafting pays{most}: decoding {words} {first.request_of().sentence}{_kinds(first)}"


def _request_verdict(load: ServerLoad, decoding: Speedup) -> str:
    """Returns the verdict where whole requests, or requests of a kind, say something else than decoding; else ""."""
    requests, kinds = load.request_of(), _kinds(load)
    tone = requests.request.tone if requests.request else decoding.tone
    if tone == "faster" == decoding.tone or (tone == "level" == decoding.tone and not kinds):
        return ""
    effect = {"slower": "loses", "level": "makes no certain difference", "faster": "pays"}[tone]
    other = "although decoding is" if decoding.tone == "faster" else "and decoding alone is not certain:"
    return f"Drafting {effect} for one user, {other} {decoding.words}. {requests.sentence}{kinds}"


def _kinds(load: ServerLoad) -> str:
    """Names the kinds of text whose whole requests are faster or slower, unlike all prompts together."""
    overall, sentences = load.request_of().request, []
    each_kind = {kind: load.request_of(kind) for kind in dict.fromkeys(prompt.category for prompt in load.prompts)}
    kinds = {kind: each.request for kind, each in each_kind.items() if each.is_possible}
    for tone, verb in (("faster", "pays"), ("slower", "loses")):
        rows = [f"{kind} ({each.words})" for kind, each in kinds.items() if each and each.tone == tone]
        if rows and overall and overall.tone != tone:
            sentences.append(f" It {verb} for {and_list(rows)}.")
    return "".join(sentences)
