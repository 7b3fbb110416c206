"""A right server passes, and each planted fault is found by the check that is meant for it."""

import itertools
import json
import random
import re
from contextlib import ExitStack
from functools import partial

import pytest
from stand_in_server import DONE, event, serving

from engine.tools.servers import findings as check_module
from engine.tools.servers.client import Client
from engine.tools.servers.findings import PROMPTS, Subject, check


@pytest.fixture(autouse=True)
def without_promises(monkeypatch):
    """test_server_penalties.py has a server with penalties."""
    monkeypatch.setattr(check_module, "promises", lambda *_: [])


WORDS = [" so", " the", " old", " 日本", " town", " woke", " and", " sang", " all", " day"]
LAW = {" upon": 0.5, " a": 0.3, " the": 0.2}


def counted(accepted: list[int]) -> dict:
    """vLLM's own counts of rounds with four drafts each."""
    steps = len(accepted)
    return {"speculative_decoding": {
        "num_spec_steps": steps, "num_draft_tokens": 4 * steps, "num_accepted_draft_tokens": sum(accepted),
        "num_spec_tokens": 4, "per_step_accepted": accepted, "per_step_drafted": [4] * steps,
    }}  # fmt: skip


def fake(fault: str = "", law=LAW, accepted=(2, 1, 3)):
    """The answers of a small vLLM: greedy it writes WORDS after each prompt, sampled it draws from ``law``."""
    answers = itertools.count()

    def words_of(asked):
        count = asked["max_tokens"]
        if asked["temperature"]:
            return random.Random(asked["seed"]).choices(list(law), list(law.values()), k=count)
        first = next(answers) if fault == "unsteady" else 0
        words = [WORDS[i % 10] for i in range(first, first + count)]
        if fault == "swapped" and count > 6:
            words[4], words[5] = words[5], words[4]
        if asked.get("stop") and fault != "stop":
            text = "".join(words)
            cut = text.index(asked["stop"][0])
            words = [word for i, word in enumerate(words) if len("".join(words[: i + 1])) <= cut]
        return words

    def streamed(words):
        place, rows = 1, [words[:1]]
        for a in accepted * 100:
            rows.append(words[place : place + a + 1])
            place += a + 1
            if place >= len(words):
                break
        steps = [min(a, len(row) - 1) for a, row in zip(accepted * 100, rows[1:], strict=False)]
        shown = [row for i, row in enumerate(rows) if fault != "dropped" or i != 2]
        if fault == "cut":
            shown = shown[:3]
        yield from (event(choices=[{"text": "".join(row), "token_ids": list(range(len(row)))}]) for row in shown)
        yield event(choices=[], metrics=counted(steps), usage={"completion_tokens": len(words)})
        if fault != "cut":
            yield DONE

    def completions(asked):
        if asked.get("n") == 2:
            return json.dumps({"choices": [{"text": "a"}] * (1 if fault == "n" else 2)})
        words = words_of(asked)
        if asked.get("stream"):
            return streamed(words)
        p = 0.0 if fault == "zeros" else -0.2
        tops = [{word: p, "other": p - 2} for word in words]
        numbers = {"tokens": words, "token_logprobs": [p] * len(words), "top_logprobs": tops}
        count = len(words) + (fault == "count")
        choice = {
            "text": "".join(words),
            "logprobs": numbers,
            "finish_reason": "stop" if asked.get("stop") else "length",
        }
        return json.dumps({"choices": [choice]} | ({} if fault == "usage" else {"usage": {"completion_tokens": count}}))

    def chat(asked):
        name, good = "tool" if asked.get("tools") else "json", '{"city": "Oslo", "people": 700000}'
        text = good[:24] if fault == name or (fault == "chance" and asked["seed"] in (0, 9)) else good
        calls = [{"function": {"name": "city", "arguments": text}}]
        message = {"tool_calls": calls, "content": None} if name == "tool" else {"content": text}
        return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})

    return {
        "/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/version": '{"version": "0.32.0"}', "/metrics": "",
        "/v1/completions": completions, "/v1/chat/completions": chat,
    }  # fmt: skip


def changed(change, fault: str = "") -> dict:
    """The small vLLM, of whose greedy answers ``change`` alters the tokens and their numbers."""
    answers = fake(fault)
    own = answers["/v1/completions"]

    def completions(asked):
        if asked.get("stream") or asked.get("n") or asked["temperature"]:
            return own(asked)
        answer = json.loads(own(asked))
        change(answer["choices"][0]["logprobs"])
        return json.dumps(answer)

    return answers | {"/v1/completions": completions}


def findings(drafting, plain=None, draws=10) -> dict:
    with ExitStack() as stack:
        sides = [stack.enter_context(serving(each)) for each in (drafting, plain) if each]
        subjects = [Subject(Client(address), "m", 24, draws) for address in sides]
        found = check(subjects[0], subjects[1] if plain else None, lambda fraction, message: None)
        return {finding.name: finding for finding in found}


def near_tie(numbers, written=""):
    """The token at place 4 and " x" are as likely as each other, and " sun" and " far" are less likely."""
    if len(numbers["tokens"]) > 6:
        own = numbers["tokens"][4]
        numbers["token_logprobs"][4] = -0.7
        numbers["top_logprobs"][4] = {own: -0.7, " x": -0.71, " sun": -4.0, " far": -9.0}
        numbers["tokens"][4] = written or own


def no_choices(numbers):
    numbers["top_logprobs"] = [
        {token: p} for token, p in zip(numbers["tokens"], numbers["token_logprobs"], strict=True)
    ]


def certain(numbers):
    numbers["token_logprobs"][1] = 0.0
    no_choices(numbers)


def blank(numbers):
    numbers["token_logprobs"][1], numbers["top_logprobs"][1] = 0.0, {numbers["tokens"][1]: 0.0}


def chats(**message) -> dict:
    return fake() | {"/v1/chat/completions": json.dumps({"choices": [{"message": message}]})}


RIGHT, TIE = fake(), changed(near_tie)
WITHOUT = RIGHT | {"/v1/completions": lambda asked: json.dumps({"choices": []})}  # any log-probability
UNLIKE = changed(lambda numbers: numbers.update(top_logprobs=[]))
FAULTS = {
    "swapped": ("greedy text", "token 5"), "dropped": ("stream", "5 of 5"), "cut": ("stream", "cut before the end"),
    "stop": ("limits", "stop string"), "n": ("limits", "n = 2"), "count": ("limits", "25 tokens"),
    "zeros": ("log-probabilities", "is 0"), "json": ("JSON", "40 of 40"), "tool": ("tool calls", "40 of 40"),
}  # fmt: skip
# A server with drafts, one without or None, and the findings: a check, its state, and words of its sentence.
CASES = {
    "a token as likely": (changed(partial(near_tie, written=" x")), TIE, ("greedy text", "right", "")),
    "an unlikely token": (changed(partial(near_tie, written=" sun")), TIE, ("greedy text", "wrong", "At token 5")),
    "no choice at all": (changed(partial(near_tie, written=" never")), TIE, ("greedy text", "wrong", "At token 5")),
    "no second choice": (fake("swapped"), changed(no_choices), ("greedy text", "unknown", "At token 5")),
    "a certain token without choices": (changed(certain), None, ("log-probabilities", "right", "")),
    "a blank among choices": (changed(blank), None, ("log-probabilities", "wrong", "5 of 120")),
    "JSON broken without drafts": (fake("json"), fake("json"), ("JSON", "unknown", "not to blame")),
    "calls broken without drafts": (fake("tool"), fake("tool"), ("tool calls", "unknown", "not to blame")),
    "JSON broken by chance": (fake("chance"), fake(), ("JSON", "unknown", "2 of 40"),
                              ("tool calls", "unknown", "chance")),
    "JSON, and no other server": (fake("json"), None, ("JSON", "wrong", "give its OFF_URL")),
    "calls, and no other server": (fake("tool"), None, ("tool calls", "unknown", "give its OFF_URL")),
    "calls that are no list": (chats(tool_calls={"function": {"name": "city"}}), None, ("tool calls", "unknown", "")),
    "one answer for n = 2, and no other server": (fake("n"), None, ("limits", "unknown", "Only an OFF_URL")),
    "one answer for n = 2 without drafts": (fake("n"), fake("n"), ("limits", "unknown", "not to blame")),
    "true for a number": (chats(content='{"city": "Oslo", "people": true}'), None, ("JSON", "wrong", "")),
    "no usage": (fake("usage"), None, ("limits", "right", "")),
    "no log-probabilities": (WITHOUT, RIGHT, *((name, "unknown", "") for name in ("itself", "greedy text", "limits"))),
    "columns of unlike length": (UNLIKE, None, ("itself", "right", ""), ("limits", "right", ""),
                                 ("log-probabilities", "unknown", "")),
}  # fmt: skip


def test_a_right_server_has_no_finding():
    found = findings(fake(), fake(), draws=60)
    assert len(found) == 10 and {f.state for f in found.values()} == {"right"}, found
    assert len(findings(fake())) == 8, "without a plain server nothing is compared with one"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    name, words = FAULTS[fault]
    found = findings(fake(fault), fake())
    assert found[name].state == "wrong" and words in found[name].sentence
    others = {other for other, finding in found.items() if finding.state == "wrong"} - {name}
    assert others <= {"stream", "acceptance", "characters"}, "a broken stream shows in what reads it"


@pytest.mark.parametrize("case", CASES)
def test_a_finding_is_right_wrong_or_unknown(case):
    drafting, plain, *wanted = CASES[case]
    found = findings(drafting, plain)
    for name, state, words in wanted:
        assert found[name].state == state and words in found[name].sentence, found[name]
        assert state != "right" or "At token" not in found[name].sentence
        assert "OFF_URL" not in words or not found[name].resembles, "without it drafts are not blamed"


def test_no_request_has_a_penalty():
    asked, answers = [], fake()
    own = answers["/v1/completions"]
    findings(answers | {"/v1/completions": lambda body: (asked.append(body), own(body))[1]})
    greedy = [body for body in asked if not body["temperature"]]
    assert {True, None} <= {body.get("stream") for body in greedy}
    assert all(body["repetition_penalty"] == 1 and "repeat_penalty" not in body for body in greedy)


def test_drafts_of_which_none_is_accepted_are_wired_wrongly():
    found = findings(fake(accepted=(0,)))["acceptance"]
    assert found.state == "wrong" and "exactly 1.00" in found.sentence and "EAGLE3" in found.remedy


def test_acceptance_of_a_single_drafting_round_is_given():
    def completions(asked):
        is_drafting = asked["prompt"] == PROMPTS[0]
        for text in ("a", "bcd"[: 1 + 2 * is_drafting]):
            yield event(choices=[{"text": text, "token_ids": [1] * len(text)}])
        yield event(choices=[], metrics=counted([2]) if is_drafting else {"speculative_decoding": {}})
        yield DONE

    found = findings(fake() | {"/v1/completions": completions})["acceptance"]
    assert found.state == "right" and found.sentence.startswith("τ is 1.40, α 0.67 (95 %: ")


def test_a_server_that_varies_by_itself_has_no_wrong_stream():
    found = findings(fake("unsteady"))
    assert {found["stream"].state, found["characters"].state} == {"unknown"}
    assert "wrong" not in {finding.state for finding in found.values()}, found


def test_another_distribution_is_found():
    found = findings(fake(law={" upon": 0.1, " a": 0.1, " the": 0.8}), fake(), draws=150)["distribution"]
    assert found.state == "wrong" and float(re.search(r"p = (\S+?);", found.sentence)[1]) < 1e-4


def test_a_side_without_logprobs_has_no_distribution():
    answers = fake()
    own = answers["/v1/completions"]

    def completions(asked):
        answer = own(asked)
        return answer if asked.get("stream") else re.sub(r'"logprobs": {.*?]}, ', "", answer)

    found = findings(answers | {"/v1/completions": completions}, fake())["distribution"]
    assert found.state == "unknown" and "no log-probability of a first token" in found.sentence
