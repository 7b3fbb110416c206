"""Compare on the page: which runs, their rounds in columns, who differs from run 1, what stays after a Stop."""

import csv
import io
import json
from dataclasses import replace

import pytest
from fake_worker import TEXT, FakeEngine, play
from lab_pages import VISITOR, notice_of, short_form

from app.jobs.service import Service
from app.lab.compare import view
from app.lab.compare.columns import Column
from app.lab.compare.page import START, Compare, beginning, count
from app.lab.experiment import PageState
from app.server.limits import Limits
from engine.config import RunConfig, SamplingParams
from engine.trace.noise import Speedup
from engine.trace.trace import fold


def page(worker=None, **limits) -> Compare:
    return Compare(Service(FakeEngine(worker), Limits(**limits)))


def run(experiment, state, **changes) -> list:
    return list(experiment.press()(VISITOR, state, *short_form("compare", experiment, **changes)))


def column(method="ngram", gamma=4, text=TEXT, tokens=24, temperature=0.0, seed=0, trace=True) -> Column:
    """A run that has ended, of a made-up model that writes ``text``."""
    config = RunConfig("Hi", method=method, gamma=gamma, sampling=SamplingParams(temperature), max_new_tokens=tokens,
                       seed=seed)  # fmt: skip
    return Column(config, fold(play(config, text)) if trace else None)


def test_a_pair_starts_with_what_it_has_to_draft_with():
    assert [c["method"] for c in beginning(("none", "ngram", "lm", "eagle"))] == ["none", "ngram", "lm", "eagle"]
    assert count(("none", "ngram", "lm", "eagle")) == 4 and count(("none", "ngram")) == 2 and count(("none",)) == 2
    assert [c["method"] for c in beginning(("none", "ngram"))] == ["none", "ngram", "auto", "auto"]
    assert (START[1]["gamma"], START[2]["gamma"], START[3]["auto"]) == (4, 2, True)


def read(**changes) -> list[Column]:
    return page().read(short_form("compare", page(), **changes))


def test_the_columns_become_requests():
    made = read(shown=4, **{"method-4": "lm", "auto-4": True, "temperature-4": 0.7})
    found = [(c.config.method, c.config.gamma, c.config.sampling.temperature) for c in made]
    assert found == [("none", 0, 0), ("ngram", 4, 0), ("lm", 2, 0), ("lm", "auto", 0.7)]
    assert {c.config.prompt for c in made} == {"Hi"} and {c.config.max_new_tokens for c in made} == {24}
    assert len(read(shown=2)) == 2


@pytest.mark.parametrize(("low", "doubt"), [(0.98, "not certain"), (1.01, None)])
def test_a_ratio_that_may_be_chance_says_so_beside_it(monkeypatch, low, doubt):
    monkeypatch.setattr(view, "ratio", lambda runs, index: Speedup(1.04, low, 1.1, 3.0))
    runs = [column("none", 0), column()]
    assert [json.loads(view.head(runs, at, "ended")).get("doubt") for at in (0, 1)] == [None, doubt]


def test_lossy_column_is_marked_in_grid_table_sentence_and_files():
    state, own = PageState(), {"acceptance-2": "typical", "temperature-2": 0.8, "acceptance-3": "typical"}
    screens = run(page(), state, **own)
    grid = map(json.loads, screens[-1].grid.splitlines())
    heads = {line["column"]: line for line in grid if line["type"] == "head"}
    assert [bool(heads[column].get("lossy")) for column in range(3)] == [False, True, False], "greedy, it is exact"
    assert heads[1]["name"] == "N-gram lookup, γ = 4, typical acceptance"
    assert "(lossy)" in json.dumps(json.loads(screens[-1].table)) and "(lossy)" in notice_of(screens[-1])["text"]
    columns = state.result.columns
    found = list(csv.DictReader(io.StringIO(view.to_csv(columns))))
    assert [row["exact"] for row in found] == ["exact", "lossy", "exact"]
    assert all(row["device"] and row["precision"] for row in found)
    sampled = [replace(column, config=columns[1].config) for column in columns[:2]]
    assert "does not follow the target's odds" in view.text_sentence(sampled, 1)


def test_another_pair_offers_its_methods_and_keeps_what_it_can():
    told, *methods = page().select_pair("thinker", "none", "lm", "ngram", "auto")
    assert [each["value"] for each in methods] == ["none", "auto", "ngram", "auto"]
    assert {value for _, value in methods[0]["choices"]} == {"auto", "none", "ngram", "lookahead"}
    assert json.loads(told)["text"] == ""
    assert json.loads(page().select_pair("giant", *["none"] * 4)[0])["kind"] == "error"


def other(text: str, at: int) -> str:
    words = text.split(" ")
    return " ".join([*words[:at], "elsewhere", *words[at + 1 :]])


def with_gap(run: Column, gap: float) -> Column:
    rounds = tuple(replace(r, tokens=tuple(replace(t, gap=gap) for t in r.tokens)) for r in run.trace.rounds)
    return replace(run, trace=replace(run.trace, rounds=rounds))


def broken_off(run: Column) -> Column:
    return replace(run, trace=replace(run.trace, rounds=run.trace.rounds[:2], finished=None))


PLAIN, SAMPLE = column("none", 0), column("none", 0, temperature=0.8)


@pytest.mark.parametrize(
    ("first", "run", "words"),
    [
        (PLAIN, column("lm", 2), "The same text as run 1, token for token."),
        (PLAIN, column(text=other(TEXT, 7)), "Differs from run 1 from token 8 on"),
        (with_gap(PLAIN, 0.00031), column(text=other(TEXT, 7)),
         "Differs from run 1 from token 8 on: there the target's two best logits were only 0.00031 apart."),
        (SAMPLE, column(temperature=0.8, text=other(TEXT, 3)), "A different sample than run 1 from token 4 on"),
        (SAMPLE, column(temperature=0.8), "The same tokens as run 1, by chance"),
        (SAMPLE, column(), "Another temperature than run 1, so another text."),
        (PLAIN, broken_off(column()), "The same text as run 1 so far."),
    ],
)  # fmt: skip
def test_a_text_is_compared_with_that_of_run_1(first, run, words):
    assert view.text_sentence([first, run], 1).startswith(words)


def slower(run: Column) -> Column:
    rounds = tuple(replace(r, start=10 * r.start, end=10 * r.end) for r in run.trace.rounds)
    return replace(run, trace=replace(run.trace, rounds=rounds))


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        ([PLAIN, slower(column())], "slow", "no draft paid for itself"),
        ([column("none", 0), column()], "good", "Run 2, N-gram lookup, γ = 4, was the fastest: "),
        ([column(), slower(column())], "quiet", "Run 1, N-gram lookup, γ = 4, was the fastest: "),
        ([column("lm", 2), column("lm", 2)], "quiet", "No difference is certain between runs 1 and 2"),
        ([column("none", 0), column(trace=False)], "quiet", "Stopped."),
    ],
)
def test_the_fastest_is_named(made, kind, words):
    got = view.conclusion(made)
    assert got[0] == kind and words in got[1]
    assert kind != "slow" or json.loads(view.table(made))["rows"][0][3][1] == "best", "the baseline"
