"""`engine prove` and `lab distribution` in a pipeline: exit codes, JSON, refusals, counts that outlive Ctrl-C."""

import json
from dataclasses import replace

import pytest
import torch
import toy_rule
from command_line import call

from engine.tools.cli.options import INTERRUPTED
from engine.tools.exactness import distribution_test, proof, toy_models
from engine.tools.exactness.results import TOY_PROOFS

CHECKS = ["law", "blocks", "penalty", "constraint", "shared passes", "greedy"]


def refused(*args) -> str:
    result = call(*args)
    assert result.exit_code == 2 and "Traceback" not in result.stderr, result.stderr
    return result.stderr


@pytest.fixture
def wrong_drafter(monkeypatch):
    """A drafter that reports another q than it drew its drafts from."""

    class Wrong(toy_models.DraftModelDrafter):
        def propose(self, text, gamma, policy=None):
            draft = super().propose(text, gamma, policy)
            return replace(draft, q=None if draft.q is None else torch.full_like(draft.q, 1 / draft.q.shape[-1]))

    monkeypatch.setattr(toy_models, "DraftModelDrafter", Wrong)


def test_a_lossless_method_passes_every_check():
    found = call("prove", "lm", "--runs", 100, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0 and told["proved"] and [each["name"] for each in told["checks"]] == CHECKS
    assert all(each["state"] == "passed" for each in told["checks"])
    assert told["checks"][0]["numbers"]["alpha"] > 0.5 and told["checks"][4]["numbers"]["drafted"]


@pytest.mark.slow
def test_every_method_that_the_toy_is_said_to_have_can_be_proved():
    assert {"lm", "ngram", "lookahead"} <= {*TOY_PROOFS}
    for method in TOY_PROOFS:
        assert call("prove", method, "--runs", 20, "--json").exit_code == 0, method
    words = refused("prove", "nosuch")
    assert words.strip() == f"There is no method 'nosuch'; choose from {', '.join(TOY_PROOFS)}, or with --pair others."
    assert "The toy has no draft for the method 'top'" in refused("prove", "top")


@pytest.mark.slow
def test_a_rule_of_ones_own_is_proved_and_a_lossy_one_is_not(monkeypatch):
    assert "choose from token, block, typical" in refused("prove", "lm", "--acceptance", "toy")
    toy_rule.register(monkeypatch)
    own = call("prove", "lm", "--acceptance", "toy", "--runs", 100, "--json")
    checks = json.loads(own.stdout)["checks"]
    assert own.exit_code == 0 and [each["name"] for each in checks] == [name for name in CHECKS if name != "blocks"]
    lossy = call("prove", "lm", "--acceptance", "typical", "--runs", 300)
    assert lossy.exit_code == 3 and "law: failed. The output is not the target's distribution" in lossy.stdout


def test_a_wrong_drafter_fails_and_the_exit_code_says_so(wrong_drafter):
    found = call("prove", "lm", "--runs", 150)
    assert found.exit_code == 3
    for name in ("law", "constraint"):
        assert f"{name}: failed. The output is not the target's distribution" in found.stdout


def test_a_method_that_drafted_nothing_is_not_proved(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    found = call("prove", "grammar", "--pair", tiny_pair, "--runs", 20, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 3 and not told["proved"]
    assert {each["name"]: each["state"] for each in told["checks"]} == dict.fromkeys(CHECKS, "not offered") | {
        "constraint": "open"
    }


@pytest.mark.slow
def test_a_pair_is_proved_with_its_own_drafts(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    found = call("prove", "lm", "--pair", tiny_pair, "--runs", 60, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0, told
    assert told["subject"] == str(tiny_pair) and [each["state"] for each in told["checks"]] == ["passed"] * 6


def test_a_method_that_drafts_nothing_proves_nothing(monkeypatch):
    idle = replace(proof.ToySubject("ngram"), gamma=0)
    monkeypatch.setattr(proof, "subject_of", lambda *args: idle)
    found = call("prove", "ngram", "--runs", 20)
    assert found.exit_code == 3 and "law: open. Nothing was drafted" in found.stdout


def test_a_method_without_a_draft_is_refused_in_a_sentence(tiny_pair):
    for method in ("eagle", "auto", "corpus", "medusa", "quantised", "eagel"):
        words = "There is no method" if method == "eagel" else "name a pair that has one"
        for command in (("prove", method), ("lab", "distribution", "--method", method)):
            assert words in refused(*command)
    assert "nothing to prove" in refused("prove", "none")
    assert "has no method 'nosuch'" in refused("prove", "nosuch", "--pair", tiny_pair)


@pytest.mark.slow
def test_the_distribution_test_has_json_and_exits_with_3_if_it_fails():
    right = call("lab", "distribution", "--runs", 100, "--json")
    told = json.loads(right.stdout)
    assert right.exit_code == 0 and told["lossless"] and told["runs"] == 100 and told["band"][0] < told["distance"]
    wrong = call("lab", "distribution", "--runs", 1000, "--wrong", "no-residual", "--json")
    told = json.loads(wrong.stdout)
    assert wrong.exit_code == 3 and not told["lossless"] and told["mistake"] == "no-residual"
    assert "choose from raw-q" in refused("lab", "distribution", "--wrong", "nosuch")
    assert "a toy shows it" in refused("lab", "distribution", "--wrong", "mask-stays", "--pair", "smollm2-135m")
    assert "leave --method out" in refused("lab", "distribution", "--wrong", "no-residual", "--method", "ngram")
    assert call("lab", "distribution", "--length", 1).exit_code == 2, "the first token is never a draft"


def test_a_wrong_mask_shows_the_json_that_it_broke():
    broken = call("lab", "distribution", "--wrong", "closing-only", "--runs", 40)
    assert broken.exit_code == 3 and " answers, such as '" in broken.stdout
    assert broken.stdout.rstrip().endswith("\"}'.") and 'instead of \'{"sky":"' in broken.stdout
    right = call("lab", "distribution", "--pair", "json-toy", "--runs", 100)
    assert right.exit_code == 0 and "broken" not in right.stdout and "24 outcomes: lossless" in right.stdout


def test_ctrl_c_keeps_the_counts(monkeypatch):
    count, done = distribution_test.count_outcomes, []

    def stopped(runs, seeds, length, progress, cancelled):
        return count(runs, seeds, length, progress, lambda: done.append(1) or len(done) > 50)

    monkeypatch.setattr(distribution_test, "count_outcomes", stopped)
    monkeypatch.setattr("threading.Event.is_set", lambda self: len(done) > 50)
    found = call("lab", "distribution", "--runs", 400)
    assert found.exit_code == INTERRUPTED and found.stdout.startswith("50 runs") and "first 50 of 400" in found.stderr
