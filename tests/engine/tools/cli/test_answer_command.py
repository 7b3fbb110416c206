"""`engine answer` in a pipeline: JSON on stdout, exit codes, refusals, and the results that Ctrl-C leaves."""

import json
import math
import os
import re
import subprocess
import sys
import time

import pytest
from paths import ROOT
from stand_in_server import DONE, event, serving
from typer.testing import CliRunner

from engine.tools.bench.answer_points import AnswerPoints
from engine.tools.cli.answer import TOO_BUSY
from engine.tools.cli.main import app
from engine.tools.cli.options import INTERRUPTED, USAGE


@pytest.fixture
def ask(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    # More turns would be certain of something now and then.
    monkeypatch.setattr("engine.tools.bench.answer._UNDECIDED", 1)
    for module in ("sweep_results", "users_results"):  # however busy the machine is, nothing is noise
        monkeypatch.setattr(f"engine.tools.bench.{module}.ceiling", lambda tau: math.inf)
    monkeypatch.setattr("engine.tools.bench.answer.largest_share", lambda shares: 0.0)
    lines = [{"prompt": "the cat, the cat", "kind": "repeats"}, {"prompt": "aa", "kind": "other"}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    few = ("--pair", tiny_pair, "--max-new-tokens", 6, "--repeats", 1, "--methods", "ngram")
    return lambda *args: CliRunner().invoke(app, [str(a) for a in ("answer", tmp_path / "p.jsonl", *few, *args)])


def test_json_answers_each_load_and_the_exit_code_says_whether_it_pays(ask, monkeypatch):
    found = ask("--users", "1,2", "--json")
    told = json.loads(found.stdout)
    assert [each["users"] for each in told["answers"]] == [1, 2] and told["is_complete"] and told["device"]
    assert told["configuration"]["lead"]
    assert {row["kind"] for row in told["rows"]} == {"all", "repeats", "other"}
    assert found.exit_code == 3, "one repeat has no interval, so that nothing is certain"
    assert "2 prompts, 8 runs, then 2 users at once: " in found.stderr
    monkeypatch.setattr("engine.tools.bench.answer.AnswerResult.pays", lambda self, users: True)
    assert ask("--users", "1,2").exit_code == 0


@pytest.mark.parametrize("pays", [True, False])
def test_busy_machine_has_an_exit_code_of_its_own(ask, monkeypatch, pays):
    monkeypatch.setattr("engine.tools.bench.answer.AnswerResult.pays", lambda self, users: pays)
    monkeypatch.setattr("engine.tools.bench.answer.largest_share", lambda shares: 0.93)
    found = ask("--json")
    assert found.exit_code == TOO_BUSY and "too busy to judge" in found.stderr
    told = json.loads(found.stdout)
    assert told["busy"] == 0.93 and [each["pays"] for each in told["answers"]] == [None]
    assert "took 93\u00a0% of the processor" in told["sentences"]["sure"]
    assert ask("--elsewhere").exit_code == 0, "tokens per pass do not depend on other programs"


@pytest.mark.slow
def test_words_name_every_load_and_what_was_not_measured(ask):
    """Which sentences name them depends on the times: where two are certainly slower, drafting stays off from there."""
    said = ask("--users", "2").stdout
    assert "| 2 | ngram |" in said and ("For 2 users at once" in said or "With 2 requests at once" in said)
    assert "More than 2 requests at once" in said or "leave it off from there on" in said
    assert "\nSwitch it on. " in said
    counted = ask("--elsewhere")
    assert "\nvLLM 0" in counted.stdout and "--speculative-config" in counted.stdout
    assert counted.exit_code == 0 and "a pass writes" in counted.stdout and "×" not in counted.stdout
    predicted = ask("--elsewhere", "--curve", "1 1 1 1 1")
    assert predicted.exit_code == 0 and "Predicted with the costs of your numbers" in predicted.stdout
    assert re.search(r"for one user .*\d\.\d\d× ", predicted.stdout)


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


def test_the_same_question_goes_to_ones_own_servers(ask, tmp_path):
    def paced(pause):
        def answer(body):
            assert body["max_tokens"] in (4, 6), "as the options say, or to read a long prompt"
            for word in "abcdefgh":
                time.sleep(pause)
                yield event(choices=[{"delta": {"content": word}}])
            yield event(choices=[], usage={"completion_tokens": 8}) + DONE

        return {"/v1/chat/completions": answer}

    def compare(on, off, *args):
        few = ("--server", on, "--off", off, "--model", "m", "--max-new-tokens", 6, "--repeats", 1)
        return CliRunner().invoke(app, [str(a) for a in ("answer", tmp_path / "p.jsonl", *few, *args)])

    with serving(paced(0.004)) as on, serving(paced(0.04)) as off:
        faster = compare(on, off, "--users", "1,2", "--repeats", 4)
        slower = compare(off, on, "--rule", tmp_path / "r.json")
    assert faster.exit_code == 0 and "1 at once: " in faster.stdout and "2 at once: " in faster.stdout, faster.stderr
    assert slower.exit_code == 3 and "drafting is slower" in slower.stdout
    assert compare("http://127.0.0.1:9", "").exit_code == USAGE
    refused = ask("--server", "http://127.0.0.1:9", "--off", "http://127.0.0.1:9", "--model", "m")
    assert refused.exit_code == USAGE and "--methods is for the engine here" in refused.stderr
    cells = json.loads((tmp_path / "r.json").read_text())["cells"]
    assert {(each["kind"], each["users"], each["draft"]) for each in cells} >= {("all", 1, False)}
    assert {each["method"] for each in cells} <= {"server", None}


def test_ctrl_c_while_costs_are_measured_prints_what_there_is(ask, monkeypatch):
    assert ask().exit_code in (0, 3)

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(AnswerPoints, "forget_noise", interrupt)
    found = ask()
    assert found.exit_code == INTERRUPTED and "For one user" in found.stdout and "goes on from here" in found.stderr


def test_the_rule_is_a_file_and_needs_speedups(ask, tmp_path):
    assert ask("--rule", tmp_path / "rule.json").exit_code in (0, 3)
    told = json.loads((tmp_path / "rule.json").read_text())
    assert told["speclens"] == "rule" and told["measured"] and {each["kind"] for each in told["cells"]} >= {"all"}
    assert ask("--rule", tmp_path / "rule.json", "--elsewhere").exit_code == USAGE


WRONG = {
    ("--users", "0"): "--users is '0'",
    ("--users", ""): "--users is ''",
    ("--users", "a,b"): "--users is 'a,b'",
    ("--users", "8,65"): "numbers from 1 to 64",
    ("--methods", "ngram,psychic"): "has no method 'psychic'",
    ("--methods", "auto"): "has no method 'auto' to measure",
    ("--pair", "nonsense"): "There is no pair",
    ("--device", "abacus"): "no device 'abacus'",
    ("--precision", "int3"): "precision is 'int3'",
    ("--max-new-tokens", "0"): "max_new_tokens is 0",
    ("--temperature", "-1"): "temperature is -1",
    ("--out", "FILE"): "is a file; name a folder",
    ("--curve", "1 2 1.5 3 4"): "Line 1: a pass over 4 rows",
    ("--curve", "GONE"): "--curve: GONE cannot be read",
    ("--curve", "FILE"): "No curve was recognised",
    ("--curve", "1,1,1,1,1", "--server", "x"): "--curve is for the engine",
    ("--out", "/proc/folder"): "cannot be written",
}


@pytest.mark.parametrize(("options", "words"), WRONG.items(), ids=lambda value: str(value)[:60])
def test_a_wrong_option_is_refused_before_the_models_are_loaded(ask, tmp_path, monkeypatch, options, words):
    monkeypatch.setattr("engine.tools.cli.options.load", lambda *models: pytest.fail("the models were loaded"))
    refused = ask(*(tmp_path / "p.jsonl" if each == "FILE" else each for each in options))
    assert refused.exit_code == USAGE and words in refused.stderr and refused.stderr.count("\n") == 1


COMMANDS = [
    ("answer", "BAD"), ("answer", "GONE"), ("answer", "GOOD", "--methods", "psychic"),
    ("training", "prompts", "--pair", "nonsense"), ("training", "prompts", "--precision", "int3"),
    ("training", "sample", "--prompts", "BAD"), ("training", "sample", "--prompts", "GONE"),
    ("training", "tasks", "--samples", "GONE"), ("training", "distil", "hydra"),
    ("training", "distil", "eagle", "--samples", "GONE"), ("training", "distil", "eagle", "--taps", "x"),
    ("training", "export", "lm", "--out", "x", "--bits", "7"), ("training", "convert", "GONE", "--out", "x"),
    ("training", "export", "lm", "--out", "/proc/x"), ("training", "prompts", "--work", "GOOD"),
    ("training", "evaluate", "eagle", "--prompts", "BAD"), ("training", "evaluate", "hydra", "--prompts", "GOOD"),
]  # fmt: skip
RUN_EACH = """
import sys
from engine.tools.cli.main import app
for command in COMMANDS:
    try:
        app(command)
    except SystemExit as end:
        print(end.code, sorted({"torch", "transformers"} & set(sys.modules)), file=sys.stderr)
"""


def test_a_wrong_option_is_refused_before_torch_is_imported(tmp_path):
    """Importing it takes longer than a person waits for an answer about a typing mistake."""
    (tmp_path / "GOOD").write_text('{"prompt": "one"}\n')
    (tmp_path / "BAD").write_text('{"prompt": "one"}\nhello\n')
    variables = os.environ | {"PYTHONPATH": str(ROOT), "SPECLENS_CACHE": str(tmp_path / "cache")}
    code = RUN_EACH.replace("COMMANDS", repr(COMMANDS))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()
    assert said[1::2] == [f"{USAGE} []"] * len(COMMANDS), done.stderr
    assert all(sentence.endswith(".") for sentence in said[::2]), done.stderr
