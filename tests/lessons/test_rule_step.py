"""The exercise of writing the rule grades decisions of the run that lesson 3 shows."""

import pytest

from engine.tools.exactness.known_rules import RECORDED
from lessons.loader import lessons, run


def test_the_recorded_run_is_the_one_of_the_lesson():
    lesson = next(each for each in lessons() if each.slug == "accept_reject_resample")
    trace = run(lesson.scenarios[0])
    before, places = trace.started.prompt[-1].id, {}
    for place, (number, round_) in enumerate(zip(RECORDED, trace.rounds, strict=True)):
        start, drafts, numbers = number
        shown = round_.tokens[: len(drafts)]
        assert (start, drafts) == (before, tuple(token.id for token in shown)), place
        for token, u in zip(shown, numbers, strict=True):
            known = places.setdefault(token.position, u)
            assert known == u and (token.u is None or token.u == pytest.approx(u, abs=1e-4))
        before = round_.emitted[-1].id
