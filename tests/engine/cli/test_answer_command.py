"""`engine answer` in a pipeline: JSON on stdout, exit codes, refusals, and the results that Ctrl-C leaves."""

import json
import math

import pytest
from typer.testing import CliRunner

from engine.bench.answer_points import AnswerPoints
from engine.cli.answer import TOO_BUSY
from engine.cli.main import app
from engine.cli.options import INTERRUPTED


@pytest.fixture
def ask(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("engine.bench.answer._UNDECIDED", 1)  # more turns would be certain of something now and then
    for module in ("sweep_results", "users_results"):  # however busy the machine is, nothing is noise
        monkeypatch.setattr(f"engine.bench.{module}.ceiling", lambda tau: math.inf)
    monkeypatch.setattr("engine.bench.answer.AnswerResult.busy", 0.0)
    lines = [{"prompt": "the cat, the cat", "kind": "repeats"}, {"prompt": "aa", "kind": "other"}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    few = ("--pair", tiny_pair, "--max-new-tokens", 6, "--repeats", 1, "--methods", "ngram")
    return lambda *args: CliRunner().invoke(app, [str(a) for a in ("answer", tmp_path / "p.jsonl", *few, *args)])


def test_json_answers_each_load_and_the_exit_code_says_whether_it_pays(ask, monkeypatch):
    found = ask("--users", "1,2", "--json")
    told = json.loads(found.stdout)
    assert [each["users"] for each in told["answers"]] == [1, 2] and told["is_complete"] and told["device"]
    assert {row["kind"] for row in told["rows"]} == {"all", "repeats", "other"}
    assert found.exit_code == 3, "one repeat has no interval, so that nothing is certain"
    assert "2 prompts, 8 runs: " in found.stderr
    monkeypatch.setattr("engine.bench.answer.AnswerResult.pays", lambda self, users: True)
    assert ask("--users", "1,2").exit_code == 0


@pytest.mark.parametrize("pays", [True, False])
def test_busy_machine_has_an_exit_code_of_its_own(ask, monkeypatch, pays):
    monkeypatch.setattr("engine.bench.answer.AnswerResult.pays", lambda self, users: pays)
    monkeypatch.setattr("engine.bench.answer.AnswerResult.busy", 0.93)
    found = ask("--json")
    assert found.exit_code == TOO_BUSY and "too busy to judge" in found.stderr
    told = json.loads(found.stdout)
    assert told["busy"] == 0.93 and "took 93% of the processor" in told["sentences"]["sure"]
    assert ask("--elsewhere").exit_code == 0, "tokens a pass do not depend on other programs"


def test_words_name_every_load_and_what_was_not_measured(ask):
    said = ask("--users", "2").stdout
    assert "For 2 users at once" in said and "| 2 | ngram |" in said and "More than 2 requests at once" in said
    counted = ask("--elsewhere")
    assert counted.exit_code == 0 and "a pass writes" in counted.stdout and "×" not in counted.stdout


def test_ctrl_c_prints_what_there_is(ask, monkeypatch):
    measure = AnswerPoints.measure

    def interrupted(self, point, cancelled=None):
        if isinstance(point, tuple):
            raise KeyboardInterrupt
        yield from measure(self, point)

    monkeypatch.setattr(AnswerPoints, "measure", interrupted)
    found = ask("--users", "2")
    assert found.exit_code == INTERRUPTED and "Not everything is measured yet" in found.stdout
    assert "The same command goes on" in found.stderr


def test_loads_that_make_no_sense_are_refused(ask):
    for users in ("0", "", "a,b", "8,65"):
        refused = ask("--users", users)
        assert refused.exit_code == 1 and "users" in refused.stderr and "Traceback" not in refused.stderr
