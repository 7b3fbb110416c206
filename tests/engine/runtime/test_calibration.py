"""c and v(W): measured once and kept; and γ = auto, which is chosen from them and can be repeated from a trace."""

import json
from dataclasses import asdict, replace

import pytest
from tiny_pairs import engine_of, model_folder, run, without_clocks

from engine.models.loader import device_name, load_model
from engine.runtime import calibration
from engine.trace.events import CostModel

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def measured(monkeypatch):
    """Counts real measurements, and takes each for steady."""
    calls, real = [], calibration.measure

    def counting(*args, **kwargs):
        calls.append(args)
        found = real(*args, **kwargs, repeats=2)
        return replace(found, v={w: max(1.0, cost) for w, cost in found.v.items()}, spread=0.0)

    monkeypatch.setattr(calibration, "measure", counting)
    return calls


def test_costs_are_measured_once_a_device_and_pair(pairs, measured):
    first = engine_of(pairs, draft="draft")
    costs = first.costs("none")
    assert first.costs("ngram") == costs and len(measured) == 1
    assert costs.v[1] == 1.0 and costs.c == 0.0 and set(costs.v) == set(calibration.WIDTHS) and costs.step > 0
    with_draft = first.costs("lm")
    assert with_draft.c > 0 and len(measured) == 2
    again = engine_of(pairs, draft="draft")
    again.drafts.drafter("lm")
    assert (again.costs("none"), again.costs("lm")) == (costs, with_draft) and len(measured) == 2
    engine_of(pairs, "other").costs("none")
    engine_of(pairs, precision="bf16").costs("none")
    assert len(measured) == 4
    again.costs("none", again=True)
    assert len(measured) == 5
    assert first.target.runner.cache is None and first.drafts.loaded["lm"].runner.cache is None


GOOD = '{"c":0,"v":{"1":1},"context":9,"step":1,"spread":0}'
DAMAGED = ["", "{", "[]", "null", "7", "\x00", "[" * 100_000, GOOD.replace('"c":0', '"c":"x"'),
           GOOD.replace(":0,", ":NaN,"),
           GOOD.replace('{"1":1}', "{}"), GOOD.replace('{"1":1}', '{"1":0}'), GOOD.replace('{"1":1}', '{"2":1}'),
           GOOD.replace('{"1":1}', '{"1":1,"2":-3}'), GOOD.replace('"step":1', '"step":0'),
           GOOD.replace('"step":1', '"step":1e400'), GOOD.replace('"context":9,', "")]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_calibration_is_measured_again(tmp_path, content):
    right = CostModel(0.25, {1: 1.0, 2: 1.5}, 256, 0.03, 0.01)
    key = {"device": "x"}
    assert calibration.cached(tmp_path, key, lambda: right) == right
    (file,) = tmp_path.iterdir()
    assert calibration.cached(tmp_path, key, pytest.fail) == right
    file.write_text(content)
    assert calibration.cached(tmp_path, key, lambda: right) == right
    assert calibration.cached(tmp_path, key, pytest.fail) == right, "and kept"


def test_a_calibration_that_cannot_be_kept_still_serves(tmp_path):
    (tmp_path / "file").write_text("")
    right = CostModel(0.0, {1: 1.0}, 256, 0.03)
    assert calibration.cached(tmp_path / "file", {}, lambda: right) == right


UNSTEADY = [
    CostModel(0.0, {1: 1.0}, 256, 0.03, spread=0.9),
    CostModel(0.0, {1: 1.0, 2: 0.79, 16: 1.1}, 256, 0.074, spread=0.11),  # the plain step was disturbed every time
]


@pytest.mark.parametrize("busy", UNSTEADY)
def test_an_unsteady_measurement_serves_but_is_neither_kept_nor_believed_where_it_was(tmp_path, busy):
    assert calibration.cached(tmp_path, {}, lambda: busy) == busy and not list(tmp_path.iterdir())
    right = CostModel(0.25, {1: 1.0, 2: 1.1}, 256, 0.03, 0.01)
    calibration.cached(tmp_path, {}, lambda: right)
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps(asdict(busy)))
    assert calibration.cached(tmp_path, {}, lambda: right) == right


@pytest.mark.parametrize("busy", UNSTEADY)
def test_unsteady_costs_are_measured_at_the_next_runs_a_few_times(pairs, monkeypatch, busy):
    calls, quiet = [], CostModel(0.0, {1: 1.0, 2: 1.1}, 256, 0.03)
    monkeypatch.setattr(calibration, "measure", lambda *args, **kwargs: calls.append(1) or found)
    for found, times in ((busy, 3), (quiet, 1)):
        engine = engine_of(pairs)
        assert {engine.costs("none").step for _ in range(5)} == {found.step} and len(calls) == times
        calls.clear()


@pytest.mark.parametrize("v, steady", [({1: 1.0, 2: 0.95, 16: 2.0}, True), ({1: 1.0, 2: 1.1, 16: 0.8}, False)])
def test_costs_are_unsteady_where_a_wide_pass_is_cheaper_than_a_plain_one(v, steady):
    assert CostModel(0.1, v, 256, 0.03, spread=0.2).steady is steady
    assert not CostModel(0.1, v, 256, 0.03, spread=0.21).steady


def test_who_is_told_of_the_progress_slows_no_width_more_than_another(pairs, monkeypatch):
    """A page redraws just after each word of it: here the pass that follows takes ten times as long."""
    now, dear, passes = [0.0], [False], []

    def seconds(step, device):
        step()
        passes.append(len(passes))
        now[0], dear[0] = (10.0 if dear[0] else 1.0), False
        return now[0]

    def told(share):
        dear[0] = True

    monkeypatch.setattr(calibration, "_seconds", seconds)
    engine = engine_of(pairs, draft="draft")
    costs = calibration.measure(engine.target.runner, engine.drafts.drafter("lm"), calibration.WIDTHS, progress=told)
    assert set(costs.v.values()) == {1.0} and costs.step == 1.0 and costs.c == 0.25 and costs.steady
    assert len(passes) == 8 * (len(calibration.WIDTHS) + 1)


def test_a_wider_pass_that_came_out_cheaper_is_timed_once_more_in_turn(pairs, monkeypatch):
    """The plain step is disturbed in all of the first repeats, or two tokens really are quicker than one."""
    for disturbed, real, v in ((1.4, 1.0, 1.0), (1.0, 0.93, 0.93)):
        passes = []

        def seconds(step, device, passes=passes, disturbed=disturbed, real=real):
            step()
            passes.append(step.W)
            return {1: disturbed if len(passes) <= 16 else 1.0, 2: real}[step.W]

        def scoring(target, ids, context):
            def score():
                target.forward(calibration.to_device(ids, target.device))
                target.rollback(context)

            score.W = len(ids)
            return score

        monkeypatch.setattr(calibration, "_seconds", seconds)
        monkeypatch.setattr(calibration, "_scoring", scoring)
        costs = calibration.measure(engine_of(pairs).target.runner, widths=(1, 2))
        assert costs.v == {1: 1.0, 2: pytest.approx(v)} and len(passes) == 2 * 2 * 8 and costs.steady


def test_the_steps_of_each_precision_are_known_from_the_cache(pairs, measured, own_cache):
    expected = {}
    for precision in ("fp32", "bf16"):
        engine = engine_of(pairs, precision=precision)
        engine.costs("ngram")
        expected[precision] = engine.costs("none").step
    target = engine.drafts.hashes("none")["target"]
    device = device_name(engine.device)
    assert calibration.known_steps(own_cache / "calibration", device, target) == pytest.approx(expected)
    model = engine.pair.target
    per_byte = calibration.seconds_per_byte(own_cache / "calibration", device, target, model)
    assert per_byte == pytest.approx({p: step / model.weight_bytes(p) for p, step in expected.items()})
    assert calibration.known_steps(own_cache / "calibration", "another", target) == {}
    assert calibration.known_steps(own_cache / "calibration", device, "another") == {}


def test_the_cost_of_each_draft_is_known_from_the_cache(pairs, measured, own_cache):
    engine = engine_of(pairs, draft="draft", precision="fp32")
    folder, device = own_cache / "calibration", device_name(engine.device)
    target = engine.drafts.hashes("none")["target"]
    assert calibration.known_draft_costs(folder, device, target, "fp32") == {}
    c = engine.costs("lm").c
    assert calibration.known_draft_costs(folder, device, target, "fp32") == pytest.approx({"lm": c})
    assert calibration.known_draft_costs(folder, device, target, "bf16") == {}


@pytest.mark.parametrize("length", [8, 24, 64])
def test_a_short_context_is_calibrated_at_what_it_has(tmp_path, length):
    model_folder(tmp_path, max_position_embeddings=length)
    runner = load_model(tmp_path, "cpu", "fp32").runner
    costs = calibration.measure(runner, repeats=1)
    assert costs.context < length and costs.v[1] == 1.0 and runner.cache is None


def test_breaking_off_a_calibration_frees_the_cache(pairs):
    engine = engine_of(pairs, draft="draft")
    engine.drafts.drafter("lm")

    def stop(share, message):
        raise KeyboardInterrupt

    engine.on_progress(stop)
    with pytest.raises(KeyboardInterrupt):
        engine.costs("lm")
    assert engine.target.runner.cache is None and engine.drafts.loaded["lm"].runner.cache is None


# --- γ = auto ------------------------------------------------------------------------------------------------------

CHEAP = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5, 16: 3.0}


@pytest.mark.parametrize("method", ["ngram", "lm"])
def test_pinned_gammas_repeat_an_auto_run_exactly(pairs, method):
    """Rounds with nothing to draft lie between those where γ was chosen, so the pins must be counted by round."""
    engine = engine_of(pairs, draft="draft")
    engine._costs |= dict.fromkeys(("none", method), CostModel(0.05, CHEAP, 200, 0.001))
    settings = {"gamma": "auto", "max_new_tokens": 80, "temperature": 0.7, "prompt": "the cat, the hat, 1212, the cat"}
    first = run(engine, method, **settings)
    gammas = [r.gamma for r in first.rounds]
    pins = [(r.gamma, r.draft_steps if method == "lm" else r.gamma, "", r.parents) for r in first.rounds]
    assert len(set(gammas)) > 2, "an auto run that never changes its mind shows nothing"
    if method == "ngram":
        assert 0 in gammas[: gammas.index(max(gammas))] or 0 in gammas[1:-1]
    engine._costs |= dict.fromkeys(
        ("none", method), CostModel(5.0, CHEAP, 200, 0.001)
    )  # left to itself it would now draft nothing
    again = run(engine, method, gammas=pins, **settings)
    assert without_clocks(again) == without_clocks(first)
    assert method == "ngram" or {r.gamma for r in run(engine, method, **settings).rounds} == {0}
