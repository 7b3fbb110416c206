"""Charts and lanes as data, on recorded runs, without a server or a browser."""

import json
from dataclasses import replace

import pytest
from fake_worker import recorded

from app.views import lanes, predictions, run_charts, tiles
from app.views.tiles import speedup
from engine.trace.costs import CostModel
from engine.trace.events import Timings
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace

HOSTILE = "<b>bold</b> <a href='https://example.com'>x</a> </script> ${1} {{1}} \ud800 🌊"
COSTS = CostModel(0.25, {1: 1.0, 2: 1.1, 4: 1.3, 8: 2.0}, 256, 0.03)
NAMES = {"tokens", "prediction", "request", "acceptance", "rounds", "times", "scoring", "idealised"}
OF_TREES = {"sizes", "ranks"}


def record(*settings, **more) -> Trace:
    trace = recorded(*settings, **more)
    return replace(trace, started=replace(trace.started, costs=COSTS))


@pytest.fixture
def run() -> Trace:
    return record()


@pytest.fixture
def plain() -> Trace:
    return record("none", 0)


def drawn(texts: list[str]) -> dict:
    """The figures of all tabs."""
    return {name: figure for text in texts for name, figure in json.loads(text)["figures"].items()}


def parting(trace: Trace, position: int, gap: float | None) -> Trace:
    """Returns the run with another token at one position."""
    rounds = []
    for event in trace.rounds:
        tokens = tuple(
            replace(token, id=99_999, gap=gap) if token.emitted and token.position == position else token
            for token in event.tokens
        )
        rounds.append(replace(event, tokens=tokens))
    return replace(trace, rounds=tuple(rounds))


def test_every_chart_of_a_finished_race_has_data_and_a_sentence(run, plain):
    found = drawn(run_charts.complete(run, plain))
    assert set(found) == NAMES | OF_TREES
    for name, figure in found.items():
        assert bool(figure["data"]) == (name in NAMES) and figure["note"], name
    found = drawn(run_charts.complete(plain, None))
    assert found["acceptance"]["data"] == [] and found["prediction"]["data"] == []
    assert [trace["name"] for trace in found["rounds"]["data"]] == ["plain"]


def test_the_charts_of_a_lossy_run_say_so_and_claim_no_common_distribution(run, plain):
    config = run.started.config | {"acceptance": "typical", "sampling": {"temperature": 0.8}}
    lossy = replace(run, started=replace(run.started, config=config))
    assert all("distribution" in json.loads(text)["lossy"] for text in run_charts.complete(lossy, plain))
    assert not any("lossy" in json.loads(text) for text in run_charts.complete(run, plain))
    assert "same distribution" not in lanes.note(lossy, plain)
    assert "different samples" in lanes.note(record(temperature=0.7, tokens=40), record("none", 0, temperature=0.7))


def test_no_model_text_reaches_plotly_or_the_lanes(run, plain):
    """Plotly reads tags in the texts it draws, so it gets none of the model's."""
    tokens = tuple(replace(token, text=HOSTILE, label=HOSTILE) for token in run.rounds[0].tokens)
    ours = replace(run, rounds=(replace(run.rounds[0], tokens=tokens), *run.rounds[1:]))
    texts = [*run_charts.complete(ours, parting(plain, 3, 0.1)), tiles.tiles(plain, ours)]
    assert not any("example.com" in text for text in texts)


def test_a_trace_without_numbers_is_drawn_all_the_same(run):
    """Tracing is off and costs are not measured: missing numbers are named, not made up."""
    bare = replace(run, started=replace(run.started, costs=None, config={}))
    rounds = tuple(
        replace(event, tokens=tuple(replace(token, p=None, q=None, u=None, accept=None) for token in event.tokens))
        for event in run.rounds
    )
    found = drawn(run_charts.complete(replace(bare, rounds=rounds), None))
    for name in ("prediction", "scoring", "idealised"):
        assert found[name]["data"] == [] and found[name]["note"]
    assert found["acceptance"]["data"] and found["rounds"]["data"]


def test_every_position_has_its_count_in_one_size_above_its_bar(run, plain):
    """Within the bars 12/13 was much smaller than 2/2, and a position of none accepted had no count."""
    bars, labels = drawn(run_charts.complete(run, plain))["acceptance"]["data"]
    assert labels["x"] == bars["x"] and labels["text"] == bars["customdata"] and "text" not in bars
    assert labels["mode"] == "text" and isinstance(labels["textfont"]["size"], int)
    assert all(label >= bar for label, bar in zip(labels["y"], bars["y"], strict=True))


def test_the_whole_request_is_drawn_part_by_part(run, plain):
    reading = replace(run.rounds[1], reading=0.5)
    ours = replace(run, rounds=(run.rounds[0], reading, *run.rounds[2:]))
    bars = drawn(run_charts.complete(ours, plain))["request"]["data"]
    assert [bar["name"] for bar in bars] == [*compute_metrics(ours).request] and all(
        bar["y"] == ["this run", "no drafting"] for bar in bars
    )
    (drafts,) = (bar["x"] for bar in bars if bar["name"] == "drafts read the prompt")
    assert drafts == [0.5, 0.0]
    again = replace(plain, finished=replace(plain.finished, kept_tokens={"target": 48}))
    assert ", 48 kept from before)" in drawn(run_charts.complete(ours, again))["request"]["note"]
    assert "not known" in drawn(run_charts.complete(replace(run, finished=None)))["request"]["note"]


def still(trace: Trace) -> Trace:
    """A clock that stood still."""
    zero = Timings(0.0, 0.0, 0.0, 0.0)
    return replace(trace, rounds=tuple(replace(event, timings=zero, start=0.0, end=0.0) for event in trace.rounds))


def unwritten(trace: Trace) -> Trace:
    """Rounds in which nothing was emitted."""
    refused = tuple(replace(event, tokens=event.tokens[-1:], parents=()) for event in trace.rounds[:1])
    return replace(trace, rounds=tuple(replace(event, tokens=()) for event in refused))


@pytest.mark.parametrize("v", [{1: 1.0, 2: 0.5}, {1: 1.0, 2: 1e-6}, {7: 1e-6, 9: 1e6}, {1: 1e6}, {4096: 1.0}])
@pytest.mark.parametrize("shape", [lambda trace: trace, still, unwritten])
def test_costs_and_clocks_that_cannot_be_are_survived(run, plain, v, shape):
    """A valid file may make absurd claims; they give charts or words and no error."""
    ours = shape(replace(run, started=replace(run.started, costs=CostModel(0.0, v, 0, 0.0))))
    assert set(drawn(run_charts.complete(ours, shape(plain)))) == NAMES | OF_TREES
    json.loads(tiles.tiles(ours, shape(plain)))


def test_the_formula_is_filled_in_with_this_runs_numbers(run, plain):
    ratio = speedup(run, plain)
    figure = predictions.draw_prediction(run, plain, ratio)
    predicted = compute_metrics(run).predicted_speedup
    steps = sum(event.draft_steps for event in run.rounds)
    assert f"= {len(run.emitted)} ÷ ({steps} · 0.250 + " in figure.note and f"= {predicted:.2f}×." in figure.note
    assert f"measured ÷ predicted: {ratio.value / predicted:.2f}" in figure.note
