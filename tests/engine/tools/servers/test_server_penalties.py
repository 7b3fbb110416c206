"""`server check` finds penalties that drafts weaken and a prompt cache that they lose, and passes a right server."""

import json
from contextlib import ExitStack

import pytest
from penalised_toy import GAMMA, Ignores, LastCounts, OnceARound, PenalisedRunner, circles, server, short_model, write
from stand_in_server import serving

from engine.tools.servers.client import Client
from engine.tools.servers.findings import Subject, check, find, promises

NAMES = ("presence penalty", "frequency penalty", "repetition penalty", "logit bias", "min_tokens", "prompt cache")
FIELDS = ({"presence_penalty": 1.5}, {"frequency_penalty": 0.8}, {"repetition_penalty": 1.3}, {"logit_bias": {"1": -9}},
          {"min_tokens": 5}, {})  # fmt: skip


def findings(drafting: dict, plain: dict | None = None) -> dict:
    with ExitStack() as stack:
        sides = [stack.enter_context(serving(each)) for each in (drafting, plain) if each]
        subjects = [Subject(Client(address), "m", 24, 10) for address in sides]
        return {name: find(name, judge) for name, judge in promises(subjects[0], subjects[1] if plain else None)}


@pytest.mark.parametrize("asked", FIELDS, ids=str)
@pytest.mark.parametrize("runner", [PenalisedRunner, LastCounts, OnceARound, Ignores])
def test_only_a_mistake_lets_drafts_change_a_penalised_text(runner, asked):
    """Our own loop writes the same with drafts and without, unless the target's rows forget their path."""
    is_wrong = {
        LastCounts: asked.keys() & {"presence_penalty", "frequency_penalty", "repetition_penalty"},
        OnceARound: asked.keys() & {"min_tokens"},
    }
    texts = {
        (name, gamma): write(runner, toy, asked | {"max_tokens": 24}, prompt, gamma)
        for name, toy, prompt in (
            ("circles", circles(), [0, 1, 2, 3, 4, 0]),
            ("counting", short_model(), [0, 1, 2, 3, 4, 10, 9]),
        )
        for gamma in (0, GAMMA)
    }
    differs = any(texts[name, 0] != texts[name, GAMMA] for name in ("circles", "counting"))
    assert differs or not is_wrong.get(runner)
    assert not differs or runner in is_wrong


def test_a_server_that_penalises_rightly_passes():
    assert {name: each.state for name, each in findings(server(), server(gamma=0)).items()} == dict.fromkeys(
        NAMES, "right"
    )
    assert {each.state for each in findings(server()).values()} == {"right"}


def test_check_asks_for_what_requests_promise():
    with serving(server()) as address:
        names = [finding.name for finding in check(Subject(Client(address), "m", 4, 10), None, lambda *_: None)]
    assert names[-len(NAMES) :] == list(NAMES)


MISTAKES = {
    "only the last accepted token counts": (server(LastCounts), NAMES[:3], "sglang pull request 33643"),
    "the length is looked at once a round": (server(OnceARound), ["min_tokens"], "sglang pull request 33643"),
    "nothing is penalised": (server(Ignores), NAMES[:5], ""),
    "prompts are not kept": (server(caches=False), ["prompt cache"], "vllm#54360"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_found_and_named(case):
    drafting, names, issue = MISTAKES[case]
    found = findings(drafting, server(gamma=0))
    assert {name for name, each in found.items() if each.state == "wrong"} == set(names)
    assert all(issue in found[name].resembles and found[name].resembles and found[name].remedy for name in names)


@pytest.mark.parametrize("case", MISTAKES)
def test_drafts_are_not_blamed_for_a_fault_that_plain_decoding_has(case):
    drafting, names, _ = MISTAKES[case]
    found = findings(drafting, drafting)
    assert all(found[name].state != "wrong" for name in names), found


@pytest.mark.parametrize(("field", "name"), [("logit_bias", "logit bias"), ("frequency_penalty", "frequency penalty")])
def test_a_field_that_a_server_refuses_is_unknown_in_its_words(field, name):
    answers = server()
    own = answers["/v1/completions"]
    refusal = (400, json.dumps({"error": {"message": f"{field} is not supported with speculative decoding"}}))
    answers["/v1/completions"] = lambda asked: refusal if field in asked else own(asked)
    found = findings(answers, server(gamma=0))[name]
    assert found.state == "unknown" and f"{field} is not supported" in found.sentence


@pytest.mark.parametrize("name", ["min_tokens", "logit bias"])
def test_a_server_that_never_heard_of_a_field_is_no_fault(name):
    alone, beside = findings(server(Ignores))[name], findings(server(Ignores), server(Ignores))[name]
    assert alone.state == beside.state == "unknown" and "Only an OFF_URL can tell" in alone.sentence


def test_a_bias_forgotten_in_places_is_found_without_a_plain_server():
    class EveryOtherPlace(PenalisedRunner):
        def penalise(self, row, counts, length):
            if length % 2:
                super().penalise(row, counts, length)

    assert findings(server(EveryOtherPlace))["logit bias"].state == "wrong"
