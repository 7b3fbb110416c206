"""How long an answer takes: every line that is printed holds, on a machine whose clock is made up."""

import math
import random
import re
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from engine.tools.bench import answer_points, sweep_results, users, users_results
from engine.tools.bench.answer import AnswerPlan
from engine.tools.bench.answer_points import AnswerPoints
from engine.tools.bench.answer_words import duration, is_news
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import Sample
from engine.tools.bench.users_results import Served
from engine.tools.cli.answer import _measure
from engine.trace.costs import CostModel
from engine.trace.speedup_model import interpolate

STEP = 0.04  # seconds of a plain step
COSTS = {name: CostModel(0.1, {1: 1.0, 2: 1.1, 16: 2.5}, 256, STEP) for name in ("none", "lm", "ngram")}
UNITS = {"seconds": 1, "minutes": 60, "hours": 3600}
TEXTS = tuple(Prompt(text, "one") for text in ("a one", "a two", "b three", "b four", "c five"))


class Machine:
    """Takes the place of the models. ``lengths``: the least and the most tokens of an answer; ``pace``: the seconds of
    a run with drafts ÷ those of a plain one; ``taken``: the share of the drafts that is accepted at a load."""

    def __init__(self, lengths, pace=1.0, taken=0.4):
        self.lengths, self.pace, self.taken, self.now = lengths, pace, taken, 1000.0

    def clock(self) -> float:
        return self.now

    def run(self, system, config) -> Sample:
        is_plain, chance = system.method == "none", random.Random(config.prompt)
        if config.sampling.temperature:
            chance = random.Random(f"{config.prompt} {config.seed} {system.method} {system.gamma}")
        tokens = min(chance.randint(*self.lengths), config.max_new_tokens)
        seconds = STEP * (1.5 + tokens * (1 if is_plain else self.pace))
        self.now += seconds + 0.005
        tau = 1 if is_plain else 1 + 0.4 * system.gamma
        return Sample(
            tokens, seconds, seconds, tokens, 1.5 * STEP, math.ceil(tokens / tau), () if is_plain else ((4, 5),)
        )

    def serve(self, many, cell, configs, cancelled):
        gamma, noise = many.gamma(cell.method), random.Random(f"{cell}").uniform(0.93, 1.07)
        tau, each = 1 + self.taken * gamma, STEP * noise * interpolate(COSTS["none"].v, cell.users * (1 + gamma))
        each += STEP * 0.1 * cell.users * gamma
        passes = math.ceil(configs[0].max_new_tokens / tau)
        seconds = 1.5 * STEP * cell.users + passes * each
        self.now += seconds + 0.005
        yield 1.0
        rounds, drafted = passes * cell.users, passes * gamma * cell.users
        return Served(rounds, seconds, (rounds, passes * each, passes), (0.1,), rounds, drafted, 1, 2, ((1,),),
                      (passes, drafted, rounds if gamma else 0))  # fmt: skip


def ends(words: str) -> tuple[float, float]:
    """Returns the seconds between which a printed estimate holds."""
    if "a few seconds" in words:
        return 0.0, 10.0
    least, most, unit = re.search(r"(?:([\d.]+) to |about |up to )([\d.]+) (\w+)", words).groups()
    least, most = float(least or 0) * UNITS[unit], float(most) * UNITS[unit]
    return (0.7 * most, 1.3 * most) if "about" in words else (least, most)


@pytest.fixture
def opened(engine, tmp_path, monkeypatch):
    """``opened(machine, **plan)``: returns the points of an answer that is measured on it."""

    def open_points(machine, **more):
        plan = AnswerPlan(**{"texts": TEXTS, "methods": ("ngram", "lm")} | more)
        points = AnswerPoints(engine, plan, tmp_path)
        for system in points.sweep.systems:
            monkeypatch.setattr(system, "run", lambda config, *_, own=system: machine.run(own, config))
        monkeypatch.setattr(points, "warm", lambda: None)
        monkeypatch.setattr(points, "costs", SimpleNamespace(plain=COSTS["none"], by_method=COSTS))
        monkeypatch.setattr(users.ManyUsers, "_serve", lambda *args: machine.serve(*args))
        monkeypatch.setattr(answer_points.time, "monotonic", lambda: machine.now)
        for module in (sweep_results, users_results):
            monkeypatch.setattr(module, "ceiling", lambda tau: math.inf)
        return points

    return open_points


@pytest.fixture
def measure(opened, monkeypatch):
    """``said(machine, **plan)``: measures an answer on it. Returns the lines that are printed, and the seconds from the
    first of them to the end."""

    def measured(machine, **plan):
        lines, points = [], opened(machine, **plan)
        monkeypatch.setattr("engine.tools.cli.answer.say", lambda words: lines.append((machine.now, words)))
        assert not _measure(points, None) and not points.missing()
        return [words for _, words in lines], machine.now - lines[0][0]

    return measured


@pytest.mark.parametrize(
    ("machine", "plan"),
    [
        (Machine((48, 48)), {}),
        (Machine((3, 6)), {}),
        (Machine((3, 48)), {}),
        (Machine((48, 48), pace=0.72), {"texts": TEXTS[:1]}),
        (Machine((10, 30), pace=1.35), {"texts": TEXTS[2:]}),
        (Machine((10, 40)), {"temperature": 0.8, "texts": TEXTS[:3]}),
        (Machine((5, 40)), {"temperature": 0.8, "texts": TEXTS[:2]}),
        (Machine((48, 48)), {"users": (2, 4)}),
        (Machine((10, 30), taken=0.3), {"users": (2, 4)}),
        (Machine((10, 30), taken=0.7), {"users": (2, 4)}),
        (Machine((3, 6), taken=0.8), {"users": (8,)}),
    ],
)
def test_the_first_estimate_holds_and_later_ones_are_closer(measure, machine, plan):
    lines, seconds = measure(machine, **plan)
    spans = [ends(line) for line in lines]
    assert all(least <= seconds <= most for least, most in spans), f"{seconds} {lines}"
    assert all(after[1] - after[0] < before[1] - before[0] for before, after in pairwise(spans)), lines


@pytest.mark.parametrize(("plan", "near"), [({}, 0.06), ({"temperature": 0.8}, 0.06), ({"users": (2, 4)}, 0.2)])
def test_the_share_of_the_time_that_is_left_is_what_the_clock_says(opened, plan, near):
    machine = Machine((3, 30), pace=1.3, taken=0.3)
    points, begin, seen = opened(machine, **plan), machine.now, []
    while missing := points.missing():
        seen += [(points.work_left(part), machine.now) for _, part in points.measure(missing[0])]
    of_the_clock = [(machine.now - now) / (machine.now - begin) for _, now in seen]
    assert [share for share, _ in seen] == pytest.approx(of_the_clock, abs=near) and points.work_left() == 0


def test_a_machine_that_becomes_slower_is_said(measure, monkeypatch):
    machine, run = Machine((48, 48)), Machine.run

    def slower(self, system, config):
        before = self.now
        sample = run(self, system, config)
        factor = 4 if before > 1100 else 1
        self.now = before + factor * (self.now - before)
        return replace(sample, seconds=factor * sample.seconds, decode_seconds=factor * sample.decode_seconds)

    monkeypatch.setattr(Machine, "run", slower)
    lines, seconds = measure(machine)
    first, *_, last = [sum(ends(line)) / 2 for line in lines]
    assert 1.6 * first < seconds and 0.7 * seconds < last < 1.3 * seconds, (seconds, lines)
    assert all("By what was measured so far it takes" in line for line in lines[1:])


def test_a_limit_in_minutes_is_the_estimate(engine, tmp_path, capsys):
    points = AnswerPoints(engine, AnswerPlan(TEXTS, ("ngram",), tokens=4, repeats=1), tmp_path)
    assert not _measure(points, 60.0)
    assert "5 prompts, 20 runs: at most 60 minutes." in capsys.readouterr().err and not points.tried


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [(0.2, 4, "a few seconds"), (20, 28, "about 25 seconds"), (12, 58, "10 to 60 seconds"),
     (70, 90, "about 80 seconds"), (90, 400, "1.5 to 7 minutes"), (0, 150, "up to 2.5 minutes"),
     (150, 200, "about 3 minutes"), (3000, 4000, "about 58 minutes"), (5000, 9000, "1 to 2.5 hours")],
)  # fmt: skip
def test_an_estimate_has_no_more_digits_than_it_is_near(least, most, words):
    assert duration(least, most) == words


def test_an_estimate_is_news_where_it_is_elsewhere_or_narrower():
    assert not is_news((100, 120), 90, 140) and is_news((100, 120), 150, 160) and not is_news((100, 400), 90, 300)
    assert is_news((100, 400), 200, 220) and is_news((100, 1000), 150, 600) and not is_news((100, 120), 108, 112)
