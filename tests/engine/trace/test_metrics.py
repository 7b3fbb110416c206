"""The numbers of a run, on traces made by hand whose numbers are known."""

from dataclasses import replace
from math import isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_traces import round_, small, token

from engine.trace import metrics
from engine.trace.costs import CostModel
from engine.trace.events import Timings
from engine.trace.metrics import PARTS, compare, compute_metrics, equal_to_the_bit, first_divergence, largest_cost
from engine.trace.speedup_words import whole_request
from engine.trace.trace import Trace

STATUS = {"A": "accepted", "B": "rescued", "R": "rejected", "D": "discarded", "s": "resampled", "b": "bonus",
          "p": "plain"}  # fmt: skip
COSTS = CostModel(0.25, {1: 1.0, 2: 1.2, 4: 1.6}, 256, 0.03)


def trace(*rounds: str, seconds: float = 0.1, steps: int = 0, costs: CostModel | None = COSTS, first: int = 7) -> Trace:
    """A round a word, a letter a token: "AARDs" is two accepted drafts, a rejected, a discarded, a resampled token."""
    made, position, clock = [], 0, 0.5  # the prompt took half a second
    for index, letters in enumerate(rounds):
        tokens, at, drafts = [], position, sum(letter in "ABRD" for letter in letters)
        for depth, letter in enumerate(letters, start=1):
            placed = at if letter in "ABsbp" else position + depth - 1
            tokens.append(replace(token(STATUS[letter], placed, depth), id=first + placed))
            at += letter in "ABsbp"
        times = Timings(0.1 * seconds, 0.6 * seconds, 0.1 * seconds, 0.2 * seconds)
        made.append(replace(round_(index, tokens, range(drafts), draft_steps=steps, timings=times),
                            start=clock, end=clock + seconds))  # fmt: skip
        position, clock = at, clock + seconds
    finished = replace(small().finished, prefill=0.45, ttft=made[0].end if made else 0.0, seconds=clock)
    return Trace(replace(small().started, costs=costs), tuple(made), finished)


def test_the_counts_of_a_run_and_their_shares():
    found = compute_metrics(trace("BARDs", "RDDDs", "AAAAb", "p"))  # 5 + 5 + 5 + 1 scored
    closing = {"resampled": 2, "bonus": 1, "plain": 1}
    assert found.counts == {"accepted": 5, "rescued": 1, "rejected": 2, "discarded": 4, "closing": 0} | closing
    assert found.accepted == 6 and found.tested == 8
    assert found.alpha.value == 6 / 8, "drafts count up to the first rejection"
    assert found.by_depth == {1: (2, 3), 2: (2, 2), 3: (1, 2), 4: (1, 1)}, "each depth has its own denominator"
    assert found.wasted == 6 / 16, "scored but not emitted, over scored"
    assert (found.tokens, found.passes, found.tau.value) == (10, 4, 2.5)
    half = 1.959964 * sqrt(((3 - 2.5) ** 2 + (1 - 2.5) ** 2 + (5 - 2.5) ** 2 + (1 - 2.5) ** 2) / 3 / 4)
    assert found.tau.low == 1 and isclose(found.tau.high, 2.5 + half), "no pass writes less than a token"
    steady = compute_metrics(trace("AAAAb", "AAAAb", "AAAAb", "AAAs")).tau
    assert isclose(steady.value - steady.low, steady.high - steady.value) and steady.low > 1
    plain = compute_metrics(trace("p"))
    assert (plain.tau.high, plain.wasted) == (1.0, 0.0)


def test_time_and_speed():
    found = compute_metrics(trace("AAb", "Rs", seconds=0.2))
    assert isclose(found.decode_seconds, 0.4) and isclose(found.tokens_per_second, 4 / 0.4)
    assert isclose(found.end_to_end, 4 / 0.9) and isclose(found.ttft, 0.7) and found.prefill == 0.45
    assert found.time == pytest.approx({"draft": 0.04, "verify": 0.24, "accept": 0.04, "host": 0.08})
    assert found.gammas == {1: 1, 2: 1} and found.peak_memory == 10**9


def test_a_request_is_more_than_its_rounds():
    """A draft that takes 0.29 s to read the prompt and saves 0.05 s a token makes up for it in six tokens."""
    ours, plain = trace("AAAb", "AAAb", seconds=0.2), trace(*["p"] * 8, seconds=0.1)
    ends = {"decode_seconds": 0.4, "seconds": 1.2}
    read = replace(ours.rounds[1], reading=0.29)
    ours = replace(ours, rounds=(ours.rounds[0], read), finished=replace(ours.finished, **ends))
    expected = {
        "the target reads the prompt": 0.45,
        "first round": 0.2,
        "drafts read the prompt": 0.29,
        "further rounds": 0.2,
    }
    assert compute_metrics(ours).request == pytest.approx(expected)
    found = compare(ours, plain)
    assert isclose(found.speedup.value, 2) and isclose(found.end_to_end, 1.3 / 1.2) and found.pays_from == 6
    assert whole_request(found) == "1.08× from Run to the last token; drafting pays from 6 tokens on (predicted)"
    kept = replace(plain, finished=replace(plain.finished, prefill=0.01, seconds=0.86, kept_tokens={"target": 32}))
    again = compare(ours, kept)
    assert isclose(again.end_to_end, found.end_to_end) and "had both read their whole prompts;" in whole_request(again)
    end = replace(ours.finished, prefill=0.01, seconds=0.76, kept_tokens={"target": 32, "draft": 48})
    both = replace(ours, finished=end)
    assert isclose(compare(both, kept).end_to_end, 0.86 / 0.76) and not compare(both, kept).counts_kept
    assert both.prompt_words.endswith(", 32 kept, 48 kept by its draft")
    assert compare(trace("AAAb", "AAAb", seconds=0.2), plain).pays_from is None, "older traces do not tell"
    assert compare(plain, ours).pays_from is None, "nothing read, and nothing saved"


def test_predicted_speedup_is_emitted_over_measured_costs():
    found = compute_metrics(trace("AAAb", "Rs", "p", steps=2))  # v(4), v(2), v(1) and two draft steps each
    assert isclose(found.predicted_speedup, (4 + 1 + 1) / (3 * 2 * 0.25 + 1.6 + 1.2 + 1.0))
    assert compute_metrics(trace("p", costs=None)).predicted_speedup is None


def test_a_tree_counts_depth_not_order():
    """There are two siblings; the second is kept, and its child refused."""
    tokens = [token("rejected", 0, 1), token("accepted", 0, 1), token("rejected", 1, 2), token("resampled", 1, 2)]
    found = compute_metrics(Trace(small().started, (round_(0, tokens, [0, 0, 2]),)))
    assert found.by_depth == {1: (1, 2), 2: (0, 1)} and found.tokens == 2 and found.wasted == 2 / 4


def test_a_run_without_rounds_divides_by_nothing():
    found = compute_metrics(Trace(small().started))
    assert (found.alpha, found.tau, found.wasted, found.tokens_per_second) == (None,) * 4
    assert (found.predicted_speedup, found.ttft, found.tokens, found.by_depth) == (None, None, 0, {})
    assert compare(Trace(small().started), Trace(small().started)).speedup is None
    assert compute_metrics(trace("p", seconds=0.0)).tokens_per_second is None, "a clock that stood still"


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 100, 0.7222, 0.8749)],
)
def test_wilson_interval_as_printed_in_tables(successes, trials, low, high):
    found = metrics.wilson(successes, trials)
    assert isclose(found.low, low, abs_tol=5e-5) and isclose(found.high, high, abs_tol=5e-5)


@given(st.lists(st.sampled_from(["p", "Ab", "Rs", "ARs", "BAAb", "ARDDs", "A"]), min_size=1, max_size=12))
def test_emitted_is_accepted_rescued_resampled_bonus_and_plain(rounds):
    whole = trace(*rounds)
    found = compute_metrics(whole)
    kinds = ("accepted", "rescued", "resampled", "bonus", "plain")
    assert found.tokens == len(whole.emitted) == sum(found.counts[status] for status in kinds)
    assert [t.position for t in whole.emitted] == list(range(len(whole.emitted)))


def test_speedup_and_efficiency_beside_a_baseline():
    ours, plain = trace("AAAb", "AAAb", seconds=0.2), trace(*["p"] * 8, seconds=0.1)
    found = compare(ours, plain)
    assert isclose(found.speedup.value, (8 / 0.4) / (8 / 0.8)) and found.speedup.low < 2 < found.speedup.high
    assert isclose(found.predicted, 8 / (2 * 1.6)) and isclose(found.efficiency, 2 / 2.5)
    assert found.divergence is None


@pytest.mark.parametrize("part", PARTS)
def test_the_largest_cost_is_what_grew_the_most_a_token(part):
    """Eight tokens either way; the plain run spends 100 ms a token, 60 of them verifying."""
    plain = compute_metrics(trace(*["p"] * 8))
    ours = compute_metrics(trace("AAAb", "AAAb"))
    found = largest_cost(replace(ours, time=ours.time | {part: 8.0}), plain)
    assert found.part == part and isclose(found.ours, 1000.0) and isclose(found.plain, 125 * plain.time[part])
    assert f"was {PARTS[part]}: 1000.0 ms per token" in found.sentence
    grown = replace(plain, time=plain.time | {part: plain.time[part] * 2})
    assert largest_cost(grown, plain).part == part, "though verifying may be the largest part of both"
    assert "which plain decoding does not have" in metrics.Cost(part, 40.3, 0.0).sentence


def test_divergence_is_the_first_differing_token_with_the_baselines_gap():
    def second(**changes):
        first, (token,), last = plain.rounds[0], plain.rounds[1].tokens, plain.rounds[2]
        return replace(plain, rounds=(first, replace(plain.rounds[1], tokens=(replace(token, **changes),)), last))

    plain = trace("p", "p", "p")
    run, baseline = second(id=99, text="dog", label=None), second(text="", label="<cat>", gap=0.0004)
    found = first_divergence(run, baseline)
    assert (found.position, found.token, found.baseline, found.gap) == (1, "dog", "<cat>", 0.0004)
    assert compare(run, baseline).divergence == found
    assert first_divergence(trace("AAb"), trace("p", "p")) is None, "a shorter run has not diverged"


@pytest.mark.parametrize("change", [
    {}, {"same_bits": None}, {"same_bits": False}, {"weights": {"target": "another"}}, {"dtype": "int8"},
    {"device": "another processor"},
], ids=str)  # fmt: skip
def test_two_runs_are_equal_to_the_bit_where_both_loads_have_checked_it(change):
    plain = trace("p", "p")
    plain = replace(plain, started=replace(plain.started, same_bits=True))
    run = replace(trace("Ab", "p"), started=replace(plain.started, **change))
    assert equal_to_the_bit(run, plain) == equal_to_the_bit(plain, run) == (not change)
    tree = replace(run.rounds[0], parents=(0, 0))
    assert not equal_to_the_bit(replace(run, rounds=(tree, *run.rounds[1:])), plain)
