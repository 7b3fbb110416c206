"""A log of llama-server and saved answers become traces: what they tell, each guess's words and q, and nothing more."""

import json
from itertools import pairwise

import pytest
from stand_in_server import RECORDED, recorded, vllm

from app.views import servers
from engine.errors import BadInput
from engine.tools.servers.log_trace import CUT, DRAWN, NO_WORDS, OTHER_TOTALS, Q, read_traces
from engine.trace.metrics import compute_metrics
from engine.trace.trace import Trace, from_json, to_json

LOG = (RECORDED / "llama_b11434_draft_log.txt").read_bytes()  # of build 11434; two slots at once, shortened
VLLM = vllm()["/v1/chat/completions"]


def read(data: bytes) -> list[Trace]:
    traces = read_traces(data, "it")
    assert [from_json(to_json(trace)) for trace in traces] == traces
    return traces


def rounds(trace: Trace) -> list[list[tuple]]:
    return [[(t.status[:3], t.text, t.q) for t in each.tokens] for each in trace.rounds]


def test_a_log_tells_each_round_with_the_rejected_words_and_q():
    greedy, sampled = read(LOG)
    assert rounds(greedy) == [
        [("pla", "1", None)],
        [("acc", ".", 0.752), ("acc", " ", 0.795), ("bon", "1", None)],
        [("rej", "0", 0.609), ("dis", "\n", 0.51), ("res", "\n", None)],
        [("rej", "\n", 0.355), ("res", "2", None)],
        [("pla", ".", None)],
    ]
    server, numbers, rejected = greedy.started.server, compute_metrics(greedy), greedy.rounds[2].tokens[0]
    assert server.counters == {"rounds": 3, "accepted": 2, "drafted": 5} and server.notes == (Q,)
    assert (rejected.id, [each.text for each in rejected.q_top.top]) == (32, ["0", ".", "2"])
    assert rejected.q_top.rest == pytest.approx(1 - sum(each.mass for each in rejected.q_top.top))
    assert {t.p for r in greedy.rounds for t in r.tokens} == {t.u for r in greedy.rounds for t in r.tokens} == {None}
    assert greedy.text == greedy.finished.text == "1. 1\n2." and greedy.finished.reason == "length"
    assert greedy.rounds[0].context == 39 and all(a.end == b.start for a, b in pairwise(greedy.rounds))
    assert numbers.alpha.value == 2 / 4 and numbers.tokens_per_second == pytest.approx(6 / numbers.decode_seconds)
    assert rounds(sampled) == [[("pla", "That", None)], [("acc", "'s", 0.673), ("bon", " an", None)]]
    assert sampled.started.temperature == 1.0


def test_the_page_says_what_a_log_tells():
    greedy = read(LOG)[0]
    assert "its log tells the guesses that it rejected" in servers.opening_sentence(greedy, None).lower()
    assert "three likeliest words with q" in servers.inspector_sentences(greedy.started.server)[0]


DRAWING = LOG.replace(b"temp = 0.000", b"temp = 0.800")


@pytest.mark.parametrize(("log", "word", "notes"), [
    (LOG, "0", [Q]), (DRAWING, "", [Q, DRAWN]), (DRAWING.replace(b"build 11434", b"build 11367"), "0", [Q]),
    (LOG.replace(b"task 0 | draft acceptance = 0.40000 (    2", b"task 0 | draft acceptance = 0.40000 (    3"), "0",
     [Q, OTHER_TOTALS]),
    (LOG[: LOG.index(b"task 0 | stop processing")], "0", [Q, CUT]),
])  # fmt: skip
def test_a_word_is_told_only_where_it_is_certain(log, word, notes):
    trace = read(log)[0]
    rejected = trace.rounds[2].tokens[0]
    assert rejected.text == word and rejected.q_top.top[0].text == "0" and [*trace.started.server.notes] == notes
    assert bool(trace.finished) == (CUT not in notes)


def test_half_a_character_is_completed_by_the_next_token():
    half = LOG.replace(b"30 '.'", b"30 '\xf0\x9f'").replace(b"216 ' '", b"216 '\x99\x82'")
    assert [t.text for t in read(half)[0].rounds[1].tokens] == ["", "🙂", "1"]


def test_a_log_without_times_has_its_rounds():
    bare = b"\n".join(line[15:] if line[:2] == b"0." else line for line in LOG.split(b"\n"))
    assert rounds(read(bare)[0]) == rounds(read(LOG)[0]) and not compute_metrics(read(bare)[0]).tokens_per_second


def test_what_holds_no_rounds_is_refused():
    copy = b"0.02.000.000 D slot x: id  0 | task 0 | restoring speculative checkpoint (pos_min = 1\n"
    for data, words in ((vllm()["/metrics"].encode(), "it has no rounds"), (b"", "-lv 5"), (LOG + copy, "a copy of")):
        with pytest.raises(BadInput, match=words):
            read(data)


def test_a_saved_stream_gives_the_rounds_of_its_recording():
    (saved,), (trace, _) = read(VLLM), recorded(vllm())
    assert rounds(saved) == rounds(trace) and saved.started.server.counters == trace.started.server.counters
    assert compute_metrics(saved).alpha == compute_metrics(trace).alpha


@pytest.mark.parametrize("more", ["", "ids", "words"])
def test_an_answer_that_lists_its_steps_gives_the_same_rounds(more):
    """vLLM's per_step_accepted of an answer that was not streamed."""
    recording, _ = recorded(vllm())
    last = json.loads(VLLM.split(b"\n\n")[-3].removeprefix(b"data: "))
    choice = {"index": 0, "message": {"role": "assistant", "content": recording.text}, "finish_reason": "length"}
    choice |= {"token_ids": [t.id for t in recording.emitted]} if more == "ids" else {}
    words = [{"token": t.text, "logprob": -0.5} for t in recording.emitted]
    choice |= {"logprobs": {"content": words}} if more == "words" else {}
    (saved,) = read(json.dumps(last | {"choices": [choice]}).encode())
    shape = [[status for status, *_ in each] for each in rounds(recording)]
    assert [[status for status, *_ in each] for each in rounds(saved)] == shape and saved.text == recording.text
    assert (NO_WORDS in saved.started.server.notes) == (more != "words")
