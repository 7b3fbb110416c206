"""The experiments: the distribution test finds wrong rules only, a sweep resumes, an α set by hand is measured."""

import csv
import io
import json
from collections import Counter
from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2
from typer.testing import CliRunner

from engine.config import ACCEPTANCE, AUTO, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.tools.bench.fixed_acceptance import accept_with_probability, measure, turn
from engine.tools.bench.prompts import Prompt
from engine.tools.bench.sample import Sample
from engine.tools.bench.sweep import Grid, Sweep
from engine.tools.bench.sweep_results import Cell, cells, leaders, markdown, to_csv
from engine.tools.cli.lab import app
from engine.tools.exactness.distribution_test import chi_squared, count_outcomes, exact_law, judge, toy_runs
from engine.tools.exactness.mutants import MUTANTS
from engine.tools.exactness.results import Draws, RuleTestResult
from engine.tools.exactness.toy_models import PLAIN, exact_distribution, weather_pair

PROMPTS = [Prompt("say a thing", "chat"), Prompt("=1+1", "=code"), Prompt("say another", "chat")]


def judged(runs: int, sampling=PLAIN, mutant=None) -> RuleTestResult:
    target, draft = weather_pair()
    draws = count_outcomes(toy_runs(target, draft, 2, sampling, 3, mutant, "lm"), range(runs), 2)
    return judge(exact_distribution(target, [0], 2, sampling), draws)


def test_a_wrong_rule_is_accused_and_strays_beyond_the_band():
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == "p-row-late")
    test = judged(300, mutant=mutant)
    assert not test.lossless and test.distance > test.band[1]


def test_the_right_rule_passes_within_the_band():
    """The seed is fixed; at 1e-3 a failure is a change in the code."""
    test = judged(400, SamplingParams(0.7))
    assert test.lossless and test.distance < 2 * test.band[1] and test.runs == 400
    assert test.draws.tested > test.draws.accepted > 0


def test_p_values_equal_the_chi_squared_law():
    assert chi_squared({(0,): 9, (1,): 1}, {(0,): 10.0}) == (float("inf"), 1)
    assert judge({(0,): 1.0}, Draws(Counter({(1,): 1}), 0, 0)).p_value == 0.0
    assert judge({(0,): 1.0}, Draws(Counter({(0,): 5}), 0, 0)).lossless
    law = {(i,): mass for i, mass in enumerate((0.5, 0.3, 0.15, 0.0499, 0.0001))}
    test = judge(law, Draws(Counter({(0,): 520, (1,): 270, (2,): 160, (3,): 50}), 0, 0))
    expected = [(520, 500.0), (270, 300.0), (160, 150.0), (50, 49.9), (0, 0.1)]
    statistic = sum((n - mean) ** 2 / mean for n, mean in expected)
    assert test.statistic == pytest.approx(statistic) and test.freedom == 4
    assert test.p_value == pytest.approx(chi2.sf(statistic, 4), rel=1e-9)
    assert test.distance == pytest.approx((0.02 + 0.03 + 0.01 + 0.0001 + 0.0001) / 2)


def test_a_law_is_the_targets_next_token_and_the_one_after(engine):
    sampling = SamplingParams(0.8, top_k=2, repetition_penalty=1.4)
    config = RunConfig("say", engine.pair.name, "lm", 2, sampling, chat=False)
    law = exact_law(engine, config, 2)
    for (first,), mass in exact_law(engine, config, 1).items():
        assert sum(m for outcome, m in law.items() if outcome[0] == first) == pytest.approx(mass)


def test_drafts_stay_with_the_chance_that_was_set():
    """The round closes with a draw from the row that it closes after."""
    rule = accept_with_probability(0.5).function(ACCEPTANCE["token"].chain)
    generator = torch.Generator().manual_seed(0)
    verdicts = [
        rule(torch.eye(4), None, torch.tensor([0, 1, 2]), torch.rand(3, generator=generator), torch.full((4,), 0.5))
        for _ in range(2000)
    ]
    kept = sum(int(verdict.last) for verdict in verdicts) / len(verdicts)
    assert kept == pytest.approx(0.5 + 0.25 + 0.125, abs=0.08)  # five standard errors
    assert all(int(verdict.closing) == int(verdict.last) for verdict in verdicts)


def test_chance_differs_from_repeat_to_repeat(engine):
    config = RunConfig("say", engine.pair.name, "lm", max_new_tokens=40, chat=False)

    def accepted(repeat: int) -> tuple:
        each = turn(engine, config, 0.5, 3, repeat)
        return each.systems[1].run(each.config).by_depth

    assert accepted(0) == accepted(0) and len({accepted(repeat) for repeat in range(4)}) > 1


@pytest.mark.timing
def test_measured_beside_predicted_and_not_measured_again(engine, tmp_path):
    path, config = tmp_path / "points.jsonl", RunConfig("say", engine.pair.name, "lm", max_new_tokens=120, chat=False)
    (first,) = measure(engine, config, [0.0], [3], out=path)
    never, always = measure(engine, config, [0.0, 1.0], [3], out=path)
    assert (never.speedup, never.tau) == (first.speedup, first.tau)
    with pytest.raises(BadInput, match="another max_new_tokens"):
        next(measure(engine, replace(config, max_new_tokens=13), [0.5], [2], out=path))
    assert never.seen == 0.0 and never.tau == pytest.approx(1.0)
    assert always.seen == 1.0 and always.tau == pytest.approx(4.0, abs=0.3)
    assert always.speedup > never.speedup > 0


def sweep(engine, path=None, **grid) -> Sweep:
    settings = {"methods": ("lm", "ngram"), "gammas": (1, AUTO), "temperatures": (0.0, 1.0), "max_new_tokens": 6} | grid
    return Sweep(engine, Grid(**settings), PROMPTS, path)


def turns(measured: Sweep) -> dict:
    return measured.benchmark.samples


def test_sweep_measures_every_setting_on_every_text_in_rotation(engine):
    measured, notes = sweep(engine), []
    assert measured.run(lambda fraction, message: notes.append((fraction, message)))
    assert len(turns(measured)) == 6 and notes[-1] == (1.0, "turn 6 of 6: chat, temperature 1")
    benchmark = sweep(engine, temperatures=(0.0,)).benchmark
    orders = [[(s.name, s.setting) for s in benchmark.steps(turn)] for turn in benchmark.turns]
    assert orders[0][0] == ("none", 0) and orders[1] == [*orders[0][1:], orders[0][0]]
    names = {("none", 0), ("lm", 1), ("lm", AUTO), ("ngram", 1), ("ngram", AUTO)}
    assert all(samples.keys() == names for samples in turns(measured).values())
    rows = measured.cells()
    assert len(rows) == 2 * 3 * 5 and {c.category for c in rows} == {"all", "chat", "=code"}
    for cell in rows:
        assert cell.turns == {"all": 3, "chat": 2, "=code": 1}[cell.category]
        assert cell.speedup == pytest.approx(1.0) or cell.method != "none"


def test_a_stopped_sweep_goes_on_and_measures_nothing_twice(engine, tmp_path):
    path, fractions = tmp_path / "sweep.jsonl", []
    first = sweep(engine, path)
    assert not first.run(cancelled=lambda: len(turns(first)) == 2)
    saved = {key: {of: sample.row() for of, sample in samples.items()} for key, samples in turns(first).items()}
    assert len(saved) == 2
    with open(path, "a") as file:
        file.write('{"key": [0.0, 1')  # the power went
    second = sweep(engine, path)
    assert {k: {of: s.row() for of, s in samples.items()} for k, samples in turns(second).items()} == saved
    assert second.run(lambda fraction, message: fractions.append(fraction)) and len(fractions) == 4
    third = sweep(engine, path)
    assert [*turns(third)] == [*turns(second)] and third.cells() == second.cells()
    assert third.run(lambda *_: pytest.fail("every turn was there"))
    more = sweep(engine, path, repeats=2)  # more repeats of the same sweep
    assert more.run() and len(turns(more)) == 12


def test_another_sweep_or_a_damaged_file_is_refused(engine, tmp_path):
    path = tmp_path / "sweep.jsonl"
    sweep(engine, path).run(cancelled=lambda: True)
    with pytest.raises(BadInput, match="was measured with another grid"):
        sweep(engine, path, max_new_tokens=7)
    header = path.read_text().splitlines()[0]
    sample = {"method": "lm", "setting": 1} | Sample(1, 1.0, 1.0, 1, 1.0, 1).row()
    for row in ({"key": [0, 0, 0]}, {"key": [0, 0, 0], "result": [sample | {"seconds": "1"}]}, []):
        path.write_text(f"{header}\n{json.dumps(row)}\n")
        with pytest.raises(BadInput, match=r"Line 2 .* is damaged"):
            sweep(engine, path)
    path.write_text("no sweep at all\n")
    with pytest.raises(BadInput, match="holds no results of this kind"):
        sweep(engine, path)
    assert path.read_text() == "no sweep at all\n"


def test_a_turn_cut_short_by_a_cancel_is_not_kept(engine):
    measured, rounds = sweep(engine), []
    assert not measured.run(cancelled=lambda: rounds.append(1) or len(rounds) > 120)
    assert len(turns(measured)) == 2
    for samples in turns(measured).values():
        assert len(samples) == 5 and all(sample.tokens == 6 for sample in samples.values())


def made_up(seconds: dict[tuple, float]) -> list[Cell]:
    """The cells of a sweep whose times are known."""
    samples = {of: Sample(12, s, s, 12, 0.1, 6, ((3, 4),)) for of, s in {("none", 0): 1.0, **seconds}.items()}
    categories = [prompt.category for prompt in PROMPTS]
    return cells(Grid(("lm",), (1, 2)).settings(), (0.0,), categories, {(0.0, i, 0): samples for i in range(3)})


def test_cells_add_up():
    found = {(c.gamma, c.category): c for c in made_up({("lm", 1): 0.5, ("lm", 2): 2.0}) if c.method == "lm"}
    assert found[1, "all"].speedup == pytest.approx(2.0) and found[2, "all"].speedup == pytest.approx(0.5)
    assert found[1, "all"].low == pytest.approx(2.0, rel=0.02) and found[1, "=code"].low is None
    assert found[1, "chat"].alpha == 0.75 and found[1, "chat"].tau == 2.0
    assert found[1, "chat"].tokens_per_second == pytest.approx(24.0)


def test_the_fastest_leads_alone_where_that_is_certain():
    def first(seconds, category="all"):
        return [(cell.method, cell.gamma) for cell in leaders(made_up(seconds))[0.0, category]]

    assert first({("lm", 1): 0.6, ("lm", 2): 0.5}) == [("lm", 2)]
    assert first({("lm", 1): 1.1, ("lm", 2): 2.0}, "chat") == [("none", 0)]
    noisy = first({("lm", 1): 0.5, ("lm", 2): 0.4})
    assert noisy == [("lm", 1), ("lm", 2)], "2.5 times as fast at two tokens per pass cannot be, but 2.1 may"
    assert len(first({("lm", 1): 0.6, ("lm", 2): 0.5}, "=code")) == 3, "one turn has no interval, so no winner"


def test_a_sweep_is_written_as_csv_and_as_a_table():
    rows = made_up({("lm", 1): 0.5, ("lm", 2): 2.0})
    table = list(csv.DictReader(io.StringIO(to_csv(rows, {"device": "cpu"}))))
    assert len(table) == len(rows) and {row["category"] for row in table} == {"all", "chat", "'=code"}
    assert float(table[1]["speedup"]) == 2.0 and [*table[1]] == [*Cell.__dataclass_fields__, "device"]
    text = markdown(rows)
    assert "| temperature 0 | all | chat | =code |" in text and "| lm, γ = 1 | **2.00× (1.96–2.04)**" in text


def law_of(engine, temperature=0.0, length=2):
    config = RunConfig("say", engine.pair.name, "lm", 2, SamplingParams(temperature), chat=False)
    return exact_law(engine, config, length)


def point_of(engine, alpha=0.5, gamma=2, method="lm"):
    return next(measure(engine, RunConfig("say", engine.pair.name, method), [alpha], [gamma]))


REFUSALS = [
    (law_of, {}, "one outcome and nothing to test"),
    (law_of, {"temperature": 1.0, "length": 3}, "smaller top-k"),
    (point_of, {"alpha": 1.2}, "α is a chance"),
    (point_of, {"gamma": 0}, "γ must be fixed"),
    (point_of, {"method": "block"}, "Medusa and block heads take one for all"),
    (point_of, {"method": "lookahead"}, "lookahead drafts a tree"),
    (sweep, {"methods": ()}, "at least one of methods"),
    (sweep, {"gammas": (0,)}, "γ = 0 is plain decoding"),
    (sweep, {"gammas": (99,)}, "gamma"),
    (sweep, {"temperatures": (-1.0,)}, "temperature"),
    (sweep, {"methods": tuple("abcdefghij"), "gammas": tuple(range(1, 30))}, "at most 200 settings"),
    (sweep, {"methods": ("eagle",)}, "has no method 'eagle'"),
]


def test_nonsense_is_refused_before_anything_is_measured(engine):
    for attempt, settings, words in REFUSALS:
        with pytest.raises(BadInput, match=words):
            attempt(engine, **settings)


def test_the_lab_commands_print_their_tables(engine, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": p.text, "category": p.category}) + "\n" for p in PROMPTS))
    common = ["--pair", engine.pair.name, "--device", "cpu", "--max-new-tokens", "6"]
    asked = ["sweep", "--prompts", str(prompts), "--methods", "lm", "--gammas", "2", "--out", str(tmp_path / "s.jsonl")]
    result = CliRunner().invoke(app, [*asked, "--csv", str(tmp_path / "s.csv"), *common])
    assert result.exit_code == 0 and "| lm, γ = 2 |" in result.output and (tmp_path / "s.csv").stat().st_size > 200
    result = CliRunner().invoke(app, ["synthetic", "--method", "lm", "--alphas", "1", "--gammas", "2", *common])
    assert result.exit_code == 0 and "| 1 | 2 | 1.00 |" in result.output
