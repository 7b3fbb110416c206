"""c and v(W): measured once and kept; and γ = auto, which is chosen from them and can be repeated from a trace."""

import json
from dataclasses import asdict, replace

import pytest
from tiny_pairs import engine_of, model_folder, request, run, without_clocks

from engine.config import AUTO
from engine.models.loader import device_name, load_model
from engine.runtime import calibration
from engine.trace.costs import CostModel

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


def test_no_percentage_goes_back_under_the_same_words(pairs, monkeypatch):
    """Two calibrations and a repeated one had the same words, so the percentage of a load jumped back and forth."""
    monkeypatch.setattr(calibration, "has_dips", lambda costs: True)
    engine, told = engine_of(pairs, draft="draft"), {}
    engine.on_progress(lambda fraction, message: told.setdefault(message, []).append(fraction))
    engine.costs("lm")
    assert [words.split(",")[0].split(":")[0] for words in told] == [
        "Loading the draft", "Calibrating draft model", "Calibrating"
    ]  # fmt: skip
    assert all(shares == sorted(shares) for shares in told.values()), told


GOOD = '{"c":0,"v":{"1":1},"context":9,"step":1,"spread":0}'
DAMAGED = ["", "{", "[]", "7", "\x00", "[" * 100_000] + [
    GOOD.replace(*change) for change in (
        ('"c":0', '"c":"x"'), (":0,", ":NaN,"), ('{"1":1}', "{}"), ('{"1":1}', '{"1":0}'), ('{"1":1}', '{"2":1}'),
        ('{"1":1}', '{"1":1,"2":-3}'), ('"step":1', '"step":0'), ('"step":1', '"step":1e400'), ('"context":9,', ""),
    )
]  # fmt: skip


def test_a_damaged_calibration_is_measured_again(tmp_path):
    right = CostModel(0.25, {1: 1.0, 2: 1.5}, 256, 0.03, 0.01)
    assert calibration.cached_costs(tmp_path, {}, lambda: right) == right
    (file,) = tmp_path.iterdir()
    assert calibration.cached_costs(file, {}, lambda: right) == right, "serves, although it cannot be kept in a file"
    for content in DAMAGED:
        assert calibration.cached_costs(tmp_path, {}, pytest.fail) == right, f"kept after {content[:40]!r}"
        file.write_text(content)
        assert calibration.cached_costs(tmp_path, {}, lambda: right) == right, content[:40]


UNSTEADY = [
    CostModel(0.0, {1: 1.0}, 256, 0.03, spread=0.9),
    CostModel(0.0, {1: 1.0, 2: 0.79, 16: 1.1}, 256, 0.074, spread=0.11),  # the plain step was disturbed every time
]


@pytest.mark.parametrize("busy", UNSTEADY)
def test_unsteady_measurement_serves_but_is_not_kept(tmp_path, busy):
    assert calibration.cached_costs(tmp_path, {}, lambda: busy) == busy and not list(tmp_path.iterdir())
    right = CostModel(0.25, {1: 1.0, 2: 1.1}, 256, 0.03, 0.01)
    calibration.cached_costs(tmp_path, {}, lambda: right)
    (file,) = tmp_path.iterdir()
    file.write_text(json.dumps(asdict(busy)))
    assert calibration.cached_costs(tmp_path, {}, lambda: right) == right


@pytest.mark.parametrize("method", [AUTO, "lm", "ngram"])
def test_a_busy_machine_is_measured_once_a_run_and_a_few_times_in_all(pairs, monkeypatch, method):
    """As the page runs it: it counts how many runs fit, then sets the run up."""
    engine, measured = engine_of(pairs, draft="draft"), []
    monkeypatch.setattr(calibration, "measure", lambda _, drafter, **more: measured.append(drafter) or UNSTEADY[0])
    each_run = []
    for _ in range(4):
        engine.best_batch()
        engine.prepare(request(engine.pair.name, method))
        each_run.append([drafter and drafter.name for drafter in measured])
        measured.clear()
    once = [None] if method == "ngram" else [None, "lm"]
    assert each_run == [once, once, once, []]


def test_a_machine_that_became_quiet_is_not_measured_again(pairs, monkeypatch):
    engine, found = engine_of(pairs, draft="draft"), [UNSTEADY[0], CostModel(0.0, {1: 1.0, 2: 1.1}, 256, 0.03)]
    monkeypatch.setattr(calibration, "measure", lambda *args, **kwargs: found.pop(0))
    for step in (UNSTEADY[0].step, 0.03, 0.03):
        engine.prepare(request(engine.pair.name, "none"))
        assert engine.costs("none").step == step


def test_who_is_told_of_the_progress_slows_no_width_more_than_another(pairs, monkeypatch):
    """A page redraws just after each word of it: here the pass that follows takes ten times as long."""
    now, dear, passes = [0.0], [False], []

    def seconds(step, device):
        step()
        passes.append(len(passes))
        now[0], dear[0] = (10.0 if dear[0] else 1.0), False
        return now[0]

    def disturb(share):
        dear[0] = True

    monkeypatch.setattr(calibration, "_seconds", seconds)
    engine = engine_of(pairs, draft="draft")
    costs = calibration.measure(engine.target.runner, engine.drafts.drafter("lm"), calibration.WIDTHS, progress=disturb)
    assert set(costs.v.values()) == {1.0} and costs.step == 1.0 and costs.c == 0.25 and costs.steady
    assert len(passes) == 8 * (len(calibration.WIDTHS) + 1)


@pytest.mark.slow
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


def test_steps_and_draft_costs_of_each_precision_are_known_from_the_cache(pairs, measured, own_cache):
    folder, expected = own_cache / "calibration", {}
    for precision in ("fp32", "bf16"):
        engine = engine_of(pairs, draft="draft", precision=precision)
        engine.costs("ngram")
        expected[precision] = engine.costs("none").step
    target, device, model = engine.drafts.hashes("none")["target"], device_name(engine.device), engine.pair.target
    assert calibration.known_steps(folder, device, target) == pytest.approx(expected)
    per_byte = calibration.seconds_per_byte(folder, device, target, model)
    assert per_byte == pytest.approx({p: step / model.weight_bytes(p) for p, step in expected.items()})
    for others in ((folder, "another", target), (folder, device, "another")):
        assert calibration.known_steps(*others) == {}
    assert calibration.known_draft_costs(folder, device, target, "bf16") == {}
    c = engine.costs("lm").c
    assert calibration.known_draft_costs(folder, device, target, "bf16") == pytest.approx({"lm": c})
    assert calibration.known_draft_costs(folder, device, target, "fp32") == {}
    own = engine.drafts.hashes("lm")["draft"]
    for draft, known in ((own, {"lm": c}), ("of another draft", {})):
        found = calibration.known_draft_costs(folder, device, target, "bf16", {"lm": draft})
        assert found == pytest.approx(known), "the costs of another draft are not this one's"


KEY = {"device": "cpu", "drafter": "", "precision": "fp32", "weights": {"target": "a-1"}}
DAMAGED_KEYS = [None, [], "x", {}, *({**KEY, name: value} for name in KEY for value in (None, 3, [], {}, ["a"], "b"))]


def test_known_costs_leave_out_damaged_keys_and_files_that_have_gone(tmp_path):
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.json").mkdir()
    keyed = (json.dumps(json.loads(GOOD) | {"key": key}) for key in DAMAGED_KEYS)
    for number, content in enumerate([*DAMAGED, *keyed]):
        (tmp_path / f"{number}.json").write_text(content)
    assert calibration.known_steps(tmp_path, "cpu", "a") == {}
    known = calibration.known_draft_costs(tmp_path, "cpu", "a", "fp32")
    assert known == {"b": 0.0}, "a name that may be a drafter's"
    (tmp_path / "good.json").write_text(json.dumps(json.loads(GOOD) | {"key": KEY}))
    assert calibration.known_steps(tmp_path, "cpu", "a") == {"fp32": 1.0}


@pytest.mark.parametrize("length", [8, 64])
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


def test_pinned_gammas_repeat_an_auto_run_exactly(pairs):
    """Rounds with nothing to draft lie between those where γ was chosen, so the pins must be counted by round."""
    engine, v = engine_of(pairs, draft="draft"), {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.5, 16: 3.0}
    engine._costs["none"] = CostModel(0.05, v, 200, 0.001)
    settings = {"gamma": "auto", "max_new_tokens": 80, "temperature": 0.7, "prompt": "the cat, the hat, 1212, the cat"}
    first = run(engine, "ngram", **settings)
    gammas = [r.gamma for r in first.rounds]
    assert len(set(gammas)) > 2, "an auto run that never changes its mind shows nothing"
    assert 0 in gammas[: gammas.index(max(gammas))] or 0 in gammas[1:-1]
    again = run(engine, "ngram", gammas=[(r.gamma, r.gamma, "", r.parents) for r in first.rounds], **settings)
    assert without_clocks(again) == without_clocks(first)
