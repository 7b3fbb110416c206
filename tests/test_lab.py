"""The lab: the distribution test accuses the guilty alone, a sweep goes on where it stopped, α by hand is seen."""

import csv
import io
import json
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from pairs import model_folder
from scipy.stats import chi2
from tiny import one_thread  # noqa: F401
from typer.testing import CliRunner

from engine.bench import Prompt
from engine.broken import MUTANTS
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.lab.cells import Cell, best, markdown, to_csv
from engine.lab.cli import app
from engine.lab.distribution import Draws, chi_squared, judge, law_of, on_engine, on_toy
from engine.lab.sweep import Grid, Run, Sweep
from engine.lab.synthetic import keeping, measure
from engine.loading import load_engine
from engine.toy import weather

MUTANT = {mutant.name: mutant for mutant in MUTANTS}
PROMPTS = [Prompt("say a thing", "chat"), Prompt("=1+1", "=code"), Prompt("say another", "chat")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A random target, and a draft that is nearly the same: its guesses are kept now and refused then."""
    root = tmp_path_factory.mktemp("lab")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.loading.cache_root", lambda: root / "cache")
        yield load_engine(f"{root / 'target'}+{root / 'draft'}", "cpu")


# ---- the distribution test -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["no-residual", "ratio-inverted", "tail-kept", "good-enough"])
def test_a_wrong_rule_is_accused_and_strays_beyond_the_band(wrong):
    law, draws = on_toy(*weather(), 1500, mutant=MUTANT[wrong])
    test = judge(law, draws)
    assert not test.lossless and test.distance > test.band[1]


@pytest.mark.parametrize("method", ["lm", "ngram", "independent"])
def test_the_right_rules_are_not(method):
    """Seeds are fixed; at 1e-3 for each of three tests a failure is a change in the code."""
    law, draws = on_toy(*weather(), 600, sampling=SamplingParams(0.7), method=method)
    test = judge(law, draws)
    assert test.lossless and test.distance < 2 * test.band[1]
    assert sum(draws.counts.values()) == test.runs == 600
    assert draws.tested > draws.accepted > 0 or method == "ngram"


def test_with_q_before_the_temperature_more_is_accepted_while_the_output_goes_wrong():
    asked = {"runs": 2000, "sampling": SamplingParams(0.6, top_k=3)}
    right, wrong = (on_toy(*weather(), mutant=mutant, **asked) for mutant in (None, MUTANT["raw-q"]))
    assert wrong[1].alpha > right[1].alpha
    assert judge(*right).lossless and not judge(*wrong).lossless


def test_p_values_are_those_of_the_chi_squared_law():
    law = {(i,): mass for i, mass in enumerate((0.5, 0.3, 0.15, 0.0499, 0.0001))}
    test = judge(law, Draws(Counter({(0,): 520, (1,): 270, (2,): 160, (3,): 50}), 0, 0))
    # the outcome that is expected a tenth of a time has no cell of its own to itself but no one to share it with
    expected = [(520, 500.0), (270, 300.0), (160, 150.0), (50, 49.9), (0, 0.1)]
    statistic = sum((n - mean) ** 2 / mean for n, mean in expected)
    assert test.statistic == pytest.approx(statistic) and test.freedom == 4
    assert test.p_value == pytest.approx(chi2.sf(statistic, 4), rel=1e-9)
    assert test.distance == pytest.approx((0.02 + 0.03 + 0.01 + 0.0001 + 0.0001) / 2)


def test_what_cannot_happen_is_proof():
    assert chi_squared({(0,): 9, (1,): 1}, {(0,): 10.0}) == (float("inf"), 1)
    assert judge({(0,): 1.0}, Draws(Counter({(1,): 1}), 0, 0)).p_value == 0.0
    assert judge({(0,): 1.0}, Draws(Counter({(0,): 5}), 0, 0)).lossless


def test_a_real_engine_keeps_its_law_and_a_broken_one_does_not(engine):
    config = RunConfig("say", engine.pair.name, "lm", 2, SamplingParams(1.5, top_k=3), max_new_tokens=3, chat=False)
    law, draws = on_engine(engine, config, 250)
    assert sum(law.values()) == pytest.approx(1.0) and len(law) <= 9
    assert draws.tested > draws.accepted > 0 and judge(law, draws).lossless
    _, broken = on_engine(engine, config, 250, rules=MUTANT["ratio-inverted"].rules)
    assert not judge(law, broken).lossless


def test_a_law_is_the_targets_next_token_and_the_one_after(engine):
    config = RunConfig(
        "say", engine.pair.name, "lm", 2, SamplingParams(0.8, top_k=2, repetition_penalty=1.4), chat=False
    )
    law = law_of(engine, config, 2)
    alone = law_of(engine, config, 1)
    for (first,), mass in alone.items():
        assert sum(m for outcome, m in law.items() if outcome[0] == first) == pytest.approx(mass)
    assert law == law_of(engine, config, 2), "the target is left as it was"


def test_what_cannot_be_tested_is_told(engine):
    greedy = RunConfig("say", engine.pair.name, "lm", 2, chat=False)
    with pytest.raises(BadInput, match="one outcome and nothing to test"):
        on_engine(engine, greedy, 10)
    with pytest.raises(BadInput, match="smaller top-k"):
        on_engine(engine, RunConfig("say", engine.pair.name, sampling=SamplingParams(1.0), chat=False), 10, length=3)


# ---- α by hand -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_drafts_stay_with_the_chance_that_was_set(alpha):
    rule, p = keeping(alpha).chain, torch.eye(4)
    generator = torch.Generator().manual_seed(0)
    lasts = [
        int(rule(p, None, torch.tensor([0, 1, 2]), torch.rand(3, generator=generator), torch.full((4,), 0.5)).last)
        for _ in range(2000)
    ]
    kept = sum(lasts) / len(lasts)
    assert kept == pytest.approx(sum(alpha**i for i in (1, 2, 3)), abs=0.08)  # five standard errors


def test_the_round_closes_with_a_draw_from_the_row_it_closes_after():
    verdict = keeping(0.5).chain(torch.eye(3), None, torch.tensor([2, 2]), torch.tensor([0.4, 0.6]), torch.rand(3))
    assert verdict.path.tolist() == [True, False] and verdict.tested.tolist() == [True, True]
    assert int(verdict.last) == 1 and int(verdict.closing) == 1


def test_measured_beside_predicted(engine):
    config = RunConfig("say", engine.pair.name, "lm", max_new_tokens=120, chat=False)
    never, always = measure(engine, config, [0.0, 1.0], [3])
    assert never.seen == 0.0 and never.tau == pytest.approx(1.0) and never.expected == 1.0
    assert always.seen == 1.0 and always.tau == pytest.approx(4.0, abs=0.3) and always.expected == 4.0
    assert always.predicted == pytest.approx(4 * never.predicted) and always.speedup > never.speedup > 0


def test_the_text_goes_on_behind_an_end_of_text(engine):
    """Otherwise a text that is not the model's would end wherever it fell on that token."""
    config = RunConfig("say", engine.pair.name, "none", 0, max_new_tokens=60, chat=False)
    first = next(t.id for e in engine.run(config) if hasattr(e, "tokens") for t in e.tokens)
    known, engine.target.eos = engine.target.eos, frozenset([first])
    try:
        lengths = [
            sum(len(e.tokens) for e in engine.run(config, ends=e_) if hasattr(e, "tokens")) for e_ in (True, False)
        ]
    finally:
        engine.target.eos = known
    assert lengths == [1, 60]


@pytest.mark.parametrize("alphas, gammas", [([1.2], [2]), ([0.5], [0]), ([0.5], [AUTO])])
def test_nonsense_is_refused(engine, alphas, gammas):
    with pytest.raises(BadInput):
        next(measure(engine, RunConfig("say", engine.pair.name, "lm"), alphas, gammas))


# ---- sweeps --------------------------------------------------------------------------------------------------------


def swept(engine, path=None, **grid):
    settings = {"gammas": (1, AUTO), "temperatures": (0.0, 1.0), "max_new_tokens": 6} | grid
    return Sweep(engine, Grid(("lm", "ngram"), **settings), PROMPTS, path)


def test_a_sweep_measures_every_setting_on_every_text(engine):
    made, said = swept(engine), []
    assert made.run(say=lambda share, message: said.append((share, message)))
    assert len(made.turns) == 6 and said[-1][0] == 1.0 and "turn 6 of 6" in said[-1][1]
    names = {"none:0", "lm:1", "lm:auto", "ngram:1", "ngram:auto"}
    assert all(runs.keys() == names for runs in made.turns.values())
    cells = made.cells()
    assert len(cells) == 2 * 3 * 5 and {c.category for c in cells} == {"all", "chat", "=code"}
    for cell in cells:
        assert cell.turns == {"all": 3, "chat": 2, "=code": 1}[cell.category]
        assert cell.speedup == pytest.approx(1.0) or cell.method != "none"


def test_a_stopped_sweep_goes_on_and_measures_nothing_twice(engine, tmp_path):
    path, asked = tmp_path / "sweep.jsonl", []
    first = swept(engine, path)
    assert not first.run(cancelled=lambda: len(first.turns) == 2)
    kept = dict(first.turns)
    assert len(kept) == 2
    with open(path, "a") as file:
        file.write('{"turn": [0.0, 1')  # the power went
    second = swept(engine, path)
    assert second.turns == kept
    assert second.run(say=lambda share, message: asked.append(share)) and len(asked) == 4
    third = swept(engine, path)
    assert third.turns == second.turns and all(third.turns[turn] == runs for turn, runs in kept.items())
    assert third.run(say=lambda *_: pytest.fail("it was whole"))
    more = swept(engine, path, repeats=2)  # may be asked for later
    assert more.run() and len(more.turns) == 12


def test_another_sweep_or_a_damaged_file_is_told(engine, tmp_path):
    path = tmp_path / "sweep.jsonl"
    swept(engine, path).run(cancelled=lambda: True)
    with pytest.raises(BadInput, match="something else than this sweep"):
        swept(engine, path, max_new_tokens=7)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"turn": [0, 0]}', ""]))
    with pytest.raises(BadInput, match=r"Line 2 .* is damaged"):
        swept(engine, path)
    path.write_text("no sweep at all\n")
    with pytest.raises(BadInput, match="something else"):
        swept(engine, path)
    assert path.read_text() == "no sweep at all\n"


def test_a_turn_cut_short_by_a_cancel_is_not_kept(engine):
    made, rounds = swept(engine), []

    def cancelled():
        rounds.append(1)
        return len(rounds) > 60

    assert not made.run(cancelled)
    assert all(run.tokens == 6 or run.passes for runs in made.turns.values() for run in runs.values())
    assert all(len(runs) == 5 for runs in made.turns.values())


def made_up(seconds: dict[str, float]) -> Sweep:
    """A sweep whose times are known."""
    names = {"none:0": 1.0, **seconds}
    turn = {name: Run(12, s, 6, 3, 4) for name, s in names.items()}
    engine = SimpleNamespace()
    made = object.__new__(Sweep)
    made.engine, made.grid, made.prompts, made.path = engine, Grid(("lm",), (1, 2)), PROMPTS, None
    made.turns = {(0.0, i, 0): turn for i in range(3)}
    return made


def test_cells_add_up():
    cells = made_up({"lm:1": 0.5, "lm:2": 2.0}).cells()
    found = {(c.gamma, c.category): c for c in cells if c.method == "lm"}
    assert found[1, "all"].speedup == pytest.approx(2.0) and found[2, "all"].speedup == pytest.approx(0.5)
    assert found[1, "all"].low == pytest.approx(2.0) and found[1, "=code"].low is None
    assert found[1, "chat"].alpha == 0.75 and found[1, "chat"].tau == 2.0
    assert found[1, "chat"].tokens_per_second == pytest.approx(24.0)


def test_the_best_is_the_fastest_and_plain_decoding_where_nothing_beats_it():
    assert best(made_up({"lm:1": 0.5, "lm:2": 0.4}).cells())[0.0, "all"].gamma == 2
    assert best(made_up({"lm:1": 1.1, "lm:2": 2.0}).cells())[0.0, "chat"].method == "none"


def test_tables():
    cells = made_up({"lm:1": 0.5, "lm:2": 2.0}).cells()
    table = list(csv.DictReader(io.StringIO(to_csv(cells))))
    assert len(table) == len(cells) and {row["category"] for row in table} == {"all", "chat", "'=code"}
    assert float(table[1]["speedup"]) == 2.0 and table[1].keys() == Cell.__dataclass_fields__.keys()
    text = markdown(cells)
    assert "| temperature 0 | all | chat | =code |" in text and "| lm, γ = 1 | **2.00** (2.00–2.00)" in text


@pytest.mark.parametrize(
    "grid, sentence",
    [
        ({"methods": ()}, "at least one of methods"),
        ({"methods": ("lm",), "gammas": (0,)}, "γ = 0 is plain decoding"),
        ({"methods": ("lm",), "gammas": (99,)}, "gamma"),
        ({"methods": ("lm",), "temperatures": (-1.0,)}, "temperature"),
        ({"methods": tuple("abcdefghij"), "gammas": tuple(range(1, 30))}, "at most 200 settings"),
    ],
)
def test_a_grid_that_makes_no_sense(grid, sentence):
    with pytest.raises(BadInput, match=sentence):
        Grid(**grid)


def test_an_unknown_method_is_told_before_anything_is_measured(engine):
    with pytest.raises(BadInput, match="has no method 'eagle'"):
        Sweep(engine, Grid(("eagle",)), PROMPTS)


# ---- by the command line -------------------------------------------------------------------------------------------


def test_the_commands(engine, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": p.text, "category": p.category}) + "\n" for p in PROMPTS))
    common = ["--pair", engine.pair.name, "--device", "cpu", "--max-new-tokens", "6"]
    asked = ["sweep", "--prompts", str(prompts), "--methods", "lm", "--gammas", "2", "--out", str(tmp_path / "s.jsonl")]
    result = CliRunner().invoke(app, [*asked, "--csv", str(tmp_path / "s.csv"), *common])
    assert result.exit_code == 0 and "| lm, γ = 2 |" in result.output and (tmp_path / "s.csv").stat().st_size > 200
    result = CliRunner().invoke(app, ["synthetic", "--method", "lm", "--alphas", "1", "--gammas", "2", *common])
    assert result.exit_code == 0 and "| 1 | 2 | 1.00 |" in result.output
    for wrong, said in ((None, "lossless as far as this can tell"), ("tail-kept", "NOT the target's distribution")):
        more = ["--wrong", wrong] if wrong else []
        result = CliRunner().invoke(app, ["distribution", "--runs", "800", *more])
        assert result.exit_code == 0 and said in result.output
    result = CliRunner().invoke(app, ["distribution", "--wrong", "nonsense"])
    assert result.exit_code == 1 and "choose from raw-q" in result.output
