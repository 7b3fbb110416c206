"""Measures many users at once: total tokens a second against the number of users, plain and with each method.

Every user has prompts of their own and asks the next one as soon as an answer ends, until all prompts are answered:
the same ones for each number of users. Answers do not end before ``max_new_tokens``, so that the batch stays as wide as
it is called. The methods of one number of users run one right after the other in rotating order, because ratios compare
runs of the same minutes.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.bench.benchmark import request
from engine.bench.metrics import show, table
from engine.bench.prompts import Prompt
from engine.bench.sample import BASELINE
from engine.config import AUTO, RunConfig
from engine.errors import BadInput
from engine.runtime.engine import Engine
from engine.runtime.run_batch import MOST_ROWS, RunBatch
from engine.trace.events import ProgressCallback, Round

_WARM_UP_TOKENS = 8


@dataclass(frozen=True)
class Settings:
    users: tuple[int, ...]
    methods: tuple[str, ...]
    max_new_tokens: int = 128
    temperature: float = 0.0
    repeats: int = 1
    gamma: int | str = AUTO
    seed: int = 0


@dataclass(frozen=True)
class Served:
    """All prompts answered once. ``all_writing``: tokens and seconds of the passes after which every user got tokens;
    ``ttft``: seconds from each request to its first token; ``ids``: of each answer."""

    tokens: int
    seconds: float
    all_writing: tuple[int, float]
    ttft: tuple[float, ...]
    passes: int
    drafted: int
    ids: tuple[tuple[int, ...], ...]


def check(settings: Settings, engine: Engine, prompts: Sequence[Prompt]) -> Settings:
    """Plain decoding first, each number and method once. Raises BadInput for what cannot be measured."""
    methods = tuple(dict.fromkeys([BASELINE, *settings.methods]))
    if wrong := [name for name in methods if name not in (*engine.methods, AUTO)]:
        listed = ", ".join((*engine.methods, AUTO))
        raise BadInput(f"{wrong[0][:40]!r} cannot be measured with many users; choose from {listed}.")
    users = tuple(sorted({*settings.users}))
    most = min(MOST_ROWS, len(prompts))
    if not users or users[0] < 1 or users[-1] > most:
        raise BadInput(f"--users must be numbers from 1 to {most}: each user needs a prompt of their own.")
    return replace(settings, users=users, methods=methods)


class ManyUsers:
    """Set up once, which warms every method; `run` measures and `report` has the rows."""

    def __init__(self, engine: Engine, settings: Settings, prompts: Sequence[Prompt], progress: ProgressCallback):
        self.engine, self.progress = engine, progress
        self.settings = check(settings, engine, prompts)
        s = self.settings
        self.configs = [
            request(engine, prompt.text, s.temperature, s.max_new_tokens, s.seed + i, s.gamma)
            for i, prompt in enumerate(prompts)
        ]
        self.served: dict[tuple[int, str], list[Served]] = {}
        progress(0.0, "Warming up")
        short = [replace(c, max_new_tokens=min(_WARM_UP_TOKENS, s.max_new_tokens)) for c in self.configs[:2]]
        for method in s.methods:
            self._serve(2, method, short)

    def run(self) -> None:
        s, done = self.settings, 0
        cells = len(s.users) * len(s.methods) * s.repeats
        for repeat in range(s.repeats):
            for i, users in enumerate(s.users):
                by = (i + repeat) % len(s.methods)
                for method in (*s.methods[by:], *s.methods[:by]):
                    served = self._serve(users, method, self.configs)
                    self.served.setdefault((users, method), []).append(served)
                    done += 1
                    rate = served.tokens / served.seconds
                    self.progress(done / cells, f"{users} users, {method}: {rate:.1f} tokens/s in total")

    def _serve(self, users: int, method: str, configs: Sequence[RunConfig]) -> Served:
        batch, waiting = RunBatch(self.engine, users), list(enumerate(configs))
        rounds: dict[int, list[Round]] = {name: [] for name, _ in waiting}
        all_writing, start = (0, 0.0), time.perf_counter()
        while waiting or len(batch):
            while waiting and len(batch) < users:
                name, config = waiting.pop(0)
                batch.add(name, replace(config, method=method, gamma=_gamma(method, config)), ends=False)
            before, tokens, writing = time.perf_counter(), 0, 0
            for name, event in batch.step():
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Round):
                    rounds[name].append(event)
                    tokens, writing = tokens + len(event.emitted), writing + 1
            if writing == users:
                all_writing = all_writing[0] + tokens, all_writing[1] + time.perf_counter() - before
        seconds = time.perf_counter() - start
        every = [r for own in rounds.values() for r in own]
        return Served(
            tokens=sum(len(r.emitted) for r in every),
            seconds=seconds,
            all_writing=all_writing,
            ttft=tuple(own[0].end for own in rounds.values()),
            passes=len(every),
            drafted=sum(len(r.parents) for r in every),
            ids=tuple(tuple(token.id for r in own for token in r.emitted) for own in rounds.values()),
        )

    def rows(self) -> list[dict]:
        """One for each number of users and method that was measured: of several repeats the fastest."""
        best = {cell: min(repeats, key=lambda served: served.seconds) for cell, repeats in self.served.items()}
        one = best.get((self.settings.users[0], BASELINE))
        return [self._row(users, method, served, one, best) for (users, method), served in sorted(best.items())]

    def _row(self, users: int, method: str, served: Served, one: Served, best: dict) -> dict:
        plain, rate = best[users, BASELINE], served.tokens / served.seconds
        tokens, seconds = served.all_writing
        return {
            "users": users,
            "method": method,
            "prompts": len(self.configs),
            "tokens": served.tokens,
            "seconds": served.seconds,
            "total_tokens_per_second": rate,
            "tokens_per_second": rate / users,
            "all_writing_tokens_per_second": tokens / seconds if seconds else None,
            "over_fewest_users": rate * one.seconds / one.tokens,
            "over_plain": rate * plain.seconds / plain.tokens,
            "drafted_per_round": served.drafted / served.passes,
            "ttft": statistics.median(served.ttft),
            "differs": None if self.settings.temperature else sum(map(_differ, served.ids, one.ids)),
        }


def _gamma(method: str, config: RunConfig) -> int | str:
    return 0 if method == BASELINE else config.gamma


def _differ(ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    return ours != theirs


def markdown(rows: Sequence[dict], fewest: int) -> str:
    heads = ["users", "method", "total tokens/s", "each", "all writing", f"× plain with {fewest}", "× plain"]
    heads += ["drafted a round", "first token", "differs"]
    lines = [
        [
            str(r["users"]),
            r["method"],
            show(r["total_tokens_per_second"], ".1f"),
            show(r["tokens_per_second"], ".1f"),
            show(r["all_writing_tokens_per_second"], ".1f"),
            show(r["over_fewest_users"], ".2f"),
            show(r["over_plain"], ".2f"),
            show(r["drafted_per_round"], ".2f"),
            f"{1000 * r['ttft']:.0f} ms",
            "sampled" if r["differs"] is None else str(r["differs"]),
        ]
        for r in rows
    ]
    return table(heads, lines)
