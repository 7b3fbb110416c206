"""The parts of a step come back from points that were made of them, and the advice follows from them."""

import random

import pytest

from engine.errors import BadInput
from engine.tools.servers.costs import LONGEST, ServerPoint, split, verdict
from engine.trace.speedup_model import expected_tokens


def point(gamma: int, plain=0.040, fixed=0.010, draft=0.004, alpha=0.8, noise=1.0) -> ServerPoint:
    length = expected_tokens(alpha, gamma) if gamma else 1.0
    return ServerPoint(gamma, length / (noise * (plain + (fixed + gamma * draft if gamma else 0))), length)


def test_the_parts_of_a_step_come_back():
    found = split([point(0), point(1), point(5)], [point(4, fixed=0, draft=0.001)])
    seconds = [part.seconds for part in (found.plain, found.fixed, found.draft, found.row)]
    assert seconds == pytest.approx([0.040, 0.010, 0.004, 0.001]) and found.plain.half is None
    assert (found.first, found.later) == pytest.approx((0.8, 0.8))
    assert found.speed(3) == pytest.approx(point(3).speed), "a length that was not measured"
    best = max(range(LONGEST + 1), key=lambda gamma: point(gamma).speed)
    assert found.best == best and f"Best: γ = {best}" in verdict(found)[0]


def test_first_and_later_drafts_may_be_accepted_unlike():
    """vllm-project/vllm#47277: 26.5 tokens/s plain, 17.7 at γ = 1, 12.2 at γ = 7; a fixed 35 ms and 26 ms a draft."""
    lengths = {1: 17.7 * 0.0987, 7: 12.2 * 0.2547}
    found = split([ServerPoint(0, 26.5), ServerPoint(1, 17.7, lengths[1]), ServerPoint(7, 12.2, lengths[7])])
    assert 1000 * found.fixed.seconds == pytest.approx(35, abs=0.5)
    assert 1000 * found.draft.seconds == pytest.approx(26, abs=0.1)
    assert [found.length(gamma) for gamma in lengths] == pytest.approx([*lengths.values()])
    first, second, *_ = verdict(found)
    assert first.startswith("No draft length pays") and found.best == 0
    assert "fixed cost of 35.0 ms would have to fall below 2" in second


def test_repeats_give_intervals_that_hold_the_truth():
    draw, held = random.Random(2), 0
    for _ in range(100):
        points = [point(gamma, noise=draw.gauss(1, 0.02)) for gamma in (0, 1, 5) for _ in range(3)]
        found = split(points)
        held += abs(found.draft.seconds - 0.004) <= found.draft.half
    assert 88 <= held <= 100


def test_other_loads_have_their_own_best_length():
    found = split([point(0), point(1), point(5)], [point(4, fixed=0, draft=0.003)])
    steps = [0.040 + (0.010 + g * 0.004 if g else 0) + 15 * (g + 1) * 0.003 for g in range(LONGEST + 1)]
    speeds = [(expected_tokens(0.8, g) if g else 1) / step for g, step in enumerate(steps)]
    assert [found.speed(g, 16) for g in range(LONGEST + 1)] == pytest.approx(speeds)
    best = speeds.index(max(speeds))
    assert found.best_at(16) == best < found.best and f"For 16 users: γ = {best}, " in verdict(found, [1, 16])[-1]
    assert verdict(split([point(0), point(1), point(5)]), [16]) == verdict(split([point(0), point(1), point(5)]))


def test_a_drafter_that_cannot_pay_is_said():
    found = split([point(0), point(1, fixed=0.05, draft=0.06), point(4, fixed=0.05, draft=0.06)])
    assert "even if every draft were accepted" in verdict(found)[-1]


def test_no_best_length_follows_from_parts_that_cannot_be():
    with pytest.raises(BadInput, match="Give the acceptance length of γ = 1, too"):
        ServerPoint.from_numbers([1, 17.7])
    faster_with_drafts = split([ServerPoint(0, 26.5), ServerPoint(1, 17.7), ServerPoint(3, 20)])
    (sentence,) = verdict(faster_with_drafts)
    assert sentence.startswith("No best γ: by these points the part “each draft") and "again" in sentence
    nothing = split([ServerPoint(0, 100), ServerPoint(1, 150, 1.7), ServerPoint(3, 220, 2.5)])
    assert verdict(nothing)[0].startswith("No best γ: by these points drafts take less time than can be measured")


def test_a_best_length_beyond_the_measured_ones_is_to_be_measured():
    far = split([point(gamma, fixed=0, draft=0.001) for gamma in (0, 1, 3)])
    assert verdict(far)[1:] == ["You measured up to γ = 3 only, so measure it before you use it."]
    near = split([point(0), point(1), point(16)])
    assert len(verdict(near)) == 1


def test_too_few_points_are_said_and_impossible_ones_refused():
    assert split([point(0), point(4)]).fixed is None and "measure a second" in verdict(split([point(0), point(4)]))[0]
    for points in ([point(0)], [point(3)], []):
        with pytest.raises(BadInput, match="without drafts, of γ = 0"):
            split(points)
    for wrong, words in {
        (3, 10, 4.5): "4.5 tokens a round", (3, 10, 0.9): "0.9 tokens a round", (3, 0, 2): "0 tokens/s",
        (0, -1, 1): "-1 tokens/s", (0, 1e308, 1): "1e.308 tokens/s", (-1, 10, 1): "γ = -1", (3, float("nan"), 2): "nan",
    }.items():  # fmt: skip
        with pytest.raises(BadInput, match=f"{words}.* cannot be"):
            ServerPoint(*wrong)
