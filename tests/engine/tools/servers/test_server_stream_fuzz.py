"""Streams in any order and split, with any field missing, doubled or of another type, end no recording and lose no word
without a note."""

import json
import random
import re

import pytest

from engine.errors import EngineError
from engine.tools.servers.client import Missing
from engine.tools.servers.event_stream import read_events
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.streamed_answer import HALF, TEXTS
from engine.trace.metrics import compute_metrics
from engine.trace.trace import from_json, to_json

NAMES = [name for row in TEXTS for name in row]
JUNK = (None, True, 7, -1, 2.5, 1e300, "", [], {}, [[]], [None], {"text": []}, "stop", [7], {"a": {"b": 1}})
MARK = "@"  # in place of a word of its own


class Canned:
    """A client that answers with these bytes, split anywhere."""

    def __init__(self, body: bytes, draw: random.Random):
        self.body, self.draw, self.refused = body, draw, set()

    def get_json(self, path: str):
        raise Missing("It has no other path.")

    get = get_json

    def stream(self, path, body, leave_out):
        at, blocks = 0, []
        while at < len(self.body):
            size = self.draw.choice((1, 2, 9, 70, 4000))
            blocks.append((float(len(blocks)), self.body[at : at + size]))
            at += size
        return read_events(blocks, leave_out)


def some_event(draw: random.Random, count: int) -> dict:
    """An event as one of the engines has it."""
    parts = [{"type": "text", "text": MARK}, MARK, {"type": "thinking", "thinking": [{"type": "text", "text": MARK}]}]
    said = {
        draw.choice(NAMES): draw.choice((MARK, MARK, MARK, parts[: draw.randint(1, 3)]))
        for _ in range(draw.randint(1, 2))
    }
    inside = draw.choice(("delta", "delta", "delta", "message", None))
    choice = {"index": draw.choice((0, 0, 0, 0, 1))} | ({inside: said} if inside else said)
    choice |= draw.choice(
        ({}, {}, {"token_ids": [1] * draw.randint(1, 4)}, {"finish_reason": draw.choice(("stop", None, "abort"))})
    )
    choice |= draw.choice(
        ({}, {}, {}, {"logprobs": {"content": [{"token": "a", "logprob": -0.1}] * draw.randint(1, 3)}})
    )
    event = {"choices": draw.choice(([choice], [choice], [choice, choice], [])), "id": "c", "model": "m"}
    counts = {"completion_tokens": count, "prompt_tokens": 4}
    timings = {"predicted_n": count, "draft_n": 2 * count, "draft_n_accepted": count // 2}
    details = {"num_spec_steps": 2, "num_draft_tokens": 8, "num_accepted_draft_tokens": 3, "num_spec_tokens": 4,
               "per_step_accepted": [2, 1], "per_step_drafted": [4, 4]}  # fmt: skip
    totals = {"spec_verify_ct": 2, "spec_num_proposed_drafts": 8, "spec_num_correct_drafts": 3}
    return event | draw.choice((
        {}, {}, {"usage": counts}, {"usage": counts}, {"timings": timings}, {"timings": timings},
        {"x_groq": {"usage": counts}}, {"metrics": {"speculative_decoding": details}},
        {"sglext": {"spec_tokens_details": totals}},
    ))  # fmt: skip


def damaged(draw: random.Random, value, is_top: bool = True):
    """The value with some of its fields missing, doubled under another name, or of another type."""
    if isinstance(value, list):
        return [damaged(draw, each, False) for each in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, inner in value.items():
        fate = draw.random()
        if fate < 0.03:
            continue
        result[name] = draw.choice(JUNK) if fate < 0.06 else damaged(draw, inner, False)
        if fate > 0.98:
            result[draw.choice(("extra", "tool_calls", "content", "message", "choices"))] = inner
    return result


def framed(draw: random.Random, events: list[dict]) -> tuple[bytes, int]:
    """The bytes of the events, and how many words they hold; every word is its own."""
    end, words, lines = draw.choice(("\n", "\r\n", "\r")), 0, []
    for event in events:
        text = json.dumps(event, indent=draw.choice((None, None, 1)))
        for _ in range(text.count(MARK)):
            text, words = text.replace(MARK, f"w{words} ", 1), words + 1
        if draw.random() < 0.05:  # a name twice
            text = re.sub(r'"content": "w\d+ "', lambda match: f"{match[0]}, {match[0]}", text, count=1)
        lines += [f"data: {line}" for line in text.split("\n")]
        lines += [""] if "\n" in text or draw.random() < 0.9 else []
        lines += draw.choice(([], [], [], [": keep-alive", ""], ["id: 3"], ["event: ping", ""], ["nonsense"]))
    lines += draw.choice((["data: [DONE]", ""], ["data: [DONE]"], [""], ["data: {"]))
    return end.join(lines).encode(), words


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_stream_of_any_form_loses_nothing_without_a_word(seed):
    draw, outcomes = random.Random(seed), set()
    for _ in range(600):
        count, events = 0, []
        for _ in range(draw.randint(1, 8)):
            count += draw.choice((0, 1, 1, 2, 3, 40))
            events.append(some_event(draw, count))
        if draw.random() < 0.3:
            draw.shuffle(events)
        body, words = framed(draw, [damaged(draw, each) if draw.random() < 0.5 else each for each in events])
        try:
            trace, fault = Recorder(Canned(body, draw)).record(ServerRequest("m", "Count."))
        except EngineError as error:
            assert re.fullmatch(r"[^\n]+[.?]", str(error)), body
            outcomes.add("refused")
            continue
        assert from_json(to_json(trace)) == trace, body
        found, notes = re.findall(r"w\d+", trace.text), " ".join(trace.started.server.notes)
        is_whole = not fault and "Left out" not in notes and "After the end" not in notes
        assert len(found) == len({*found}) and ("[DONE]" not in body.decode() or not is_whole or len(found) == words), (
            body
        )
        if is_whole and not set(NAMES) - {"content"} & {*re.findall(r'"(\w+)":', body.decode())}:
            assert found == sorted(found, key=lambda word: int(word[1:])), body
        # A token is seen by its id, its log-probability or its text.
        seen = body.count(b'token":') + len(trace.text.encode()) + HALF
        seen += sum(len(each.split(b",")) for each in re.findall(rb'"token_ids": \[([^]]*)\]', body))
        assert len(trace.emitted) <= seen, body
        numbers = compute_metrics(trace)
        assert not numbers.tau or numbers.tau.low >= 1, body
        outcomes |= {
            "cut" if fault else "whole" if is_whole else "noted",
            f"hidden {bool(trace.started.server.hidden_tokens)}",
        }
    assert outcomes == {"refused", "cut", "whole", "noted", "hidden True", "hidden False"}
