"""A right server passes, and each planted fault is found by the check that is meant for it."""

import itertools
import json
import random
import re
from contextlib import ExitStack

import pytest
from stand_in_server import DONE, event, serving

from engine.tools.servers.client import Client
from engine.tools.servers.findings import PROMPTS, Subject, check

WORDS = [" so", " the", " old", " 日本", " town", " woke", " and", " sang", " all", " day"]
LAW = {" upon": 0.5, " a": 0.3, " the": 0.2}


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
        told = {"num_spec_steps": len(steps), "num_draft_tokens": 4 * len(steps), "num_spec_tokens": 4,
                "num_accepted_draft_tokens": sum(steps),
                "per_step_accepted": steps, "per_step_drafted": [4] * len(steps)}  # fmt: skip
        yield event(choices=[], metrics={"speculative_decoding": told}, usage={"completion_tokens": len(words)})
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
        text = good[:24] if fault == name else good
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


def findings(drafting, plain=None, draws=60) -> dict:
    with ExitStack() as stack:
        sides = [stack.enter_context(serving(each)) for each in (drafting, plain) if each]
        subjects = [Subject(Client(address), "m", 24, draws) for address in sides]
        found = check(subjects[0], subjects[1] if plain else None, lambda fraction, message: None)
        return {finding.name: finding for finding in found}


def test_a_right_server_has_no_finding():
    found = findings(fake(), fake())
    assert len(found) == 10 and {f.state for f in found.values()} == {"right"}, found
    assert len(findings(fake())) == 8, "without a plain server nothing is compared with one"


FAULTS = {
    "swapped": ("greedy text", "token 5"), "dropped": ("stream", "5 of 5"), "cut": ("stream", "cut before the end"),
    "stop": ("limits", "stop string"), "n": ("limits", "n = 2"), "count": ("limits", "25 tokens"),
    "zeros": ("log-probabilities", "is 0"), "json": ("JSON", "5 of 5"), "tool": ("tool calls", "5 of 5"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault):
    name, words = FAULTS[fault]
    found = findings(fake(fault), fake())
    assert found[name].state == "wrong" and words in found[name].sentence
    others = {other for other, finding in found.items() if finding.state == "wrong"} - {name}
    assert others <= {"stream", "acceptance", "characters"}, "a broken stream shows in what reads it"


def near_tie(numbers):
    """The token at place 4 and " x" are as likely as each other, and " sun" and " far" are less likely."""
    if len(numbers["tokens"]) > 6:
        numbers["token_logprobs"][4] = -0.7
        numbers["top_logprobs"][4] = {numbers["tokens"][4]: -0.7, " x": -0.71, " sun": -4.0, " far": -9.0}


@pytest.mark.parametrize(("written", "state"), [(" x", "right"), (" sun", "wrong"), (" never", "wrong")])
def test_gap_is_that_of_the_two_tokens_which_were_written(written, state):
    def with_drafts(numbers):
        near_tie(numbers)
        if len(numbers["tokens"]) > 6:
            numbers["tokens"][4] = written

    found = findings(changed(with_drafts), changed(near_tie))["greedy text"]
    assert found.state == state and ("At token 5" in found.sentence) == (state == "wrong"), found


def test_a_difference_without_a_second_choice_is_unknown():
    def alone(numbers):
        numbers["top_logprobs"] = [{token: -0.2} for token in numbers["tokens"]]

    found = findings(fake("swapped"), changed(alone))["greedy text"]
    assert found.state == "unknown" and "At token 5" in found.sentence


def test_a_certain_token_of_a_server_without_other_choices_may_be_0():
    def certain(numbers):
        numbers["token_logprobs"][1] = 0.0
        rows = zip(numbers["tokens"], numbers["token_logprobs"], strict=True)
        numbers["top_logprobs"] = [{token: own} for token, own in rows]

    assert findings(changed(certain))["log-probabilities"].state == "right"


def test_a_blank_among_tokens_with_other_choices_is_found():
    def blank(numbers):
        numbers["token_logprobs"][1], numbers["top_logprobs"][1] = 0.0, {numbers["tokens"][1]: 0.0}

    found = findings(changed(blank))["log-probabilities"]
    assert found.state == "wrong" and "5 of 120" in found.sentence


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


@pytest.mark.parametrize(("fault", "name"), [("json", "JSON"), ("tool", "tool calls")])
def test_json_broken_without_drafts_as_well_is_not_theirs(fault, name):
    found = findings(fake(fault), fake(fault))[name]
    assert found.state == "unknown" and "not to blame" in found.sentence
    assert findings(fake(fault))[name].state == "wrong", "nobody knows how it is without drafts"


@pytest.mark.parametrize(("message", "name"), [
    ({"tool_calls": {"function": {"name": "city"}}}, "tool calls"),
    ({"content": '{"city": "Oslo", "people": true}'}, "JSON"),
])  # fmt: skip
def test_answers_of_another_form_are_not_valid(message, name):
    answers = fake() | {"/v1/chat/completions": json.dumps({"choices": [{"message": message}]})}
    assert findings(answers)[name].state == "wrong"


def test_acceptance_of_a_single_drafting_round_is_given():
    def completions(asked):
        is_drafting = asked["prompt"] == PROMPTS[0]
        yield from (
            event(choices=[{"text": text, "token_ids": [1] * len(text)}])
            for text in ("a", "bcd"[: 1 + 2 * is_drafting])
        )
        told = {"num_spec_steps": 1, "num_draft_tokens": 4, "num_accepted_draft_tokens": 2, "num_spec_tokens": 4,
                "per_step_accepted": [2], "per_step_drafted": [4]}  # fmt: skip
        yield event(choices=[], metrics={"speculative_decoding": told if is_drafting else {}})
        yield DONE

    found = findings(fake() | {"/v1/completions": completions})["acceptance"]
    assert found.state == "right" and found.sentence.startswith("τ is 1.40, α 0.67 (95 %: ")


def test_a_server_that_varies_by_itself_has_no_wrong_stream():
    found = findings(fake("unsteady"))
    assert {found["stream"].state, found["characters"].state} == {"unknown"}
    assert "wrong" not in {finding.state for finding in found.values()}, found


def test_a_server_without_usage_keeps_to_its_limits():
    assert findings(fake("usage"))["limits"].state == "right"


def test_another_distribution_is_found():
    found = findings(fake(law={" upon": 0.1, " a": 0.1, " the": 0.8}), fake(), draws=150)["distribution"]
    assert found.state == "wrong" and float(re.search(r"p = (\S+?);", found.sentence)[1]) < 1e-4


def test_a_server_without_logprobs_leaves_checks_unknown():
    answers = fake() | {"/v1/completions": lambda asked: json.dumps({"choices": []})}
    found = findings(answers, fake())
    assert {found[name].state for name in ("itself", "greedy text", "limits")} == {"unknown"}


def test_columns_of_unlike_length_are_no_logprobs():
    found = findings(changed(lambda numbers: numbers.update(top_logprobs=[])))
    assert found["itself"].state == found["limits"].state == "right"
    assert found["log-probabilities"].state == "unknown"


def test_a_side_without_logprobs_has_no_distribution():
    answers = fake()
    own = answers["/v1/completions"]

    def completions(asked):
        answer = own(asked)
        return answer if asked.get("stream") else re.sub(r'"logprobs": {.*?]}, ', "", answer)

    found = findings(answers | {"/v1/completions": completions}, fake())["distribution"]
    assert found.state == "unknown" and "no log-probability of a first token" in found.sentence
