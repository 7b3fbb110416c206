"""Every form in which servers stream is read, and the trace says which parts of it were left out."""

import gzip
import json
import re
import time
import zlib
from dataclasses import replace

import pytest
from server_recordings import timed
from stand_in_server import DONE, event, llama, recorded, vllm

from app.views import servers
from engine.errors import BadInput, Unavailable
from engine.tools.servers.event_stream import read_events
from engine.tools.servers.streamed_answer import StreamedAnswer
from engine.trace.metrics import compare as compare_runs
from engine.trace.metrics import compute_metrics
from engine.trace.trace import from_json, to_json


def piece(text="", finish=None, count=None, **fields) -> bytes:
    """An event of a chat; ``fields`` are further ones of its delta, ``count`` the tokens so far."""
    usage = {} if count is None else {"usage": {"completion_tokens": count, "prompt_tokens": 4}}
    return event(choices=[{"index": 0, "delta": {"content": text} | fields, "finish_reason": finish}], **usage)


def choices(*entries, **more) -> bytes:
    return event(choices=[*entries], **more)


def usage(count) -> bytes:
    return event(choices=[], usage={"completion_tokens": count})


def read(*events: bytes, answer=None, headers=None):
    """The trace of a chat, and why it broke off."""
    body = b"".join(events) if answer is None else answer
    trace, fault = recorded({"/v1/chat/completions": (200, body, headers) if headers else body})
    assert from_json(to_json(trace)) == trace
    return trace, fault


def words(trace) -> str:
    return " ".join(trace.started.server.notes)


END = piece(finish="stop") + DONE
ONE, TWO = piece("One "), piece("two")
# Events, the text, and words of the notes; "" where nothing is left out.
TEXTS = {
    "a list of parts": (
        piece([{"type": "text", "text": "Seven "}, {"type": "text", "text": "eight"}]), "Seven eight", ""),
    "a part": (piece({"type": "text", "text": "Seven"}), "Seven", ""),
    "a list of texts": (piece(["Seven ", "eight"]), "Seven eight", ""),
    "Mistral's thoughts": (
        piece([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm. "}]}]) + piece("Yes"), "Hm. Yes", ""),
    "a picture among parts": (
        piece([{"type": "image_url", "image_url": {"url": "x"}}]) + ONE, "One ", "image_url in content"),
    "thoughts and text": (piece("Yes", reasoning_content="Hm. "), "Hm. Yes", ""),
    "one thought by two names": (piece(None, reasoning_content="Hm", reasoning="Hm"), "Hm", ""),
    "thoughts in details": (
        piece("", reasoning="Hm", reasoning_details=[{"type": "reasoning.text", "text": "Hm"}]), "Hm", ""),
    "hidden thoughts": (piece("a", reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}]), "a",
                        "reasoning.encrypted in reasoning_details"),
    "a refusal": (piece(None, refusal="I will not."), "I will not.", ""),
    "a tool call": (ONE + piece(None, tool_calls=[{"index": 0, "function": {"arguments": "{"}}]) * 2, "One ",
                    "tool_calls (2 times)"),
    "a function call": (ONE + piece(None, function_call={"name": "f"}), "One ", "function_call"),
    "sound": (ONE + piece(None, audio={"data": "AAA"}), "One ", "audio"),
    "a number as text": (ONE + piece(7), "One ", "a part in content"),
    "a message": (choices({"index": 0, "message": {"role": "assistant", "content": "One"}}), "One", ""),
    "messages in parts": (choices({"message": {"content": "ha"}}) * 2, "haha", ""),
    "a message after its parts": (ONE + TWO + choices({"message": {"content": "One two"}}), "One two", "message"),
    "a message beside a delta": (
        choices({"delta": {"content": "One"}, "message": {"content": "One"}}), "One", "message"),
    "a text and a delta": (choices({"text": "", "delta": {"content": "One"}}), "One", ""),
    "a text that is no chat's": (choices({"text": "One"}), "One", ""),
    "a delta that is a text": (ONE + choices({"delta": "two"}), "One ", "delta"),
    "two choices": (
        choices({"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}), "a", "choice 1"),
    "the second choice first": (
        choices({"index": 1, "text": "b"}) + choices({"index": 0, "text": "a"}), "b", "choice 0"),
    "no index": (choices({"text": "a"}, {"text": "b"}), "ab", ""),
    "choices that are no list": (ONE + event(choices={"0": {"text": "x"}}), "One ", "choices that are no list"),
    "a choice that is a text": (ONE + choices("x"), "One ", "a choice that is no object"),
    "a field of its own": (ONE + event(choices=[], citations=["x"]), "One ", "citations"),
    "a field that is empty": (event(choices=[{"delta": {"content": "a", "tool_calls": []}}], citations=None), "a", ""),
    "a name twice": (b'data: {"choices": [{"text": "a", "text": "b"}]}\n\n', "b", "the first of two text"),
    "a pair of surrogates in two": (
        b'data: {"choices": [{"text": "\\ud83d"}]}\n\ndata: {"choices": [{"text": "\\ude42!"}]}\n\n',
                                    "🙂!", ""),
    "half a pair": (b'data: {"choices": [{"text": "a\\ud83d"}]}\n\n', "a", "half a character"),
    "the second half": (b'data: {"choices": [{"text": "a\\ude42"}]}\n\n', "a\ufffd", "half a character"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read_or_its_loss_is_noted(name):
    body, text, note = TEXTS[name]
    trace, fault = read(body, END)
    assert (trace.text, trace.finished.text, fault) == (text, text, "")
    assert note in words(trace) and ("Left out" in words(trace)) == bool(note), words(trace)


FIRST = {"index": 0, "delta": {"content": "One"}}
JSON = {"object": "chat.completion", "choices": [{"index": 0, "message": {"content": "One"}, "finish_reason": "stop"}]}
STOP = {"index": 0, "delta": {}, "finish_reason": "stop"}
LINES = json.dumps({"choices": [FIRST]}, indent=1).encode()
# The bytes of a whole answer with the text "One" that is complete.
FRAMES = {
    "no [DONE]": piece("One") + piece(finish="stop"),
    "no line end": piece("One") + piece(finish="stop") + b"data: [DONE]",
    "no last line end and no [DONE]": piece("One") + piece(finish="stop").rstrip(),
    "no empty lines": (piece("One") + END).replace(b"\n\n", b"\n"),
    "[DONE] alone": piece("One") + DONE,
    "[DONE] as JSON": piece("One") + b'data: "[DONE]"\n\n',
    "CRLF": (piece("One") + END).replace(b"\n", b"\r\n"),
    "CR": (piece("One") + END).replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + piece("One") + END,
    "comments": b": keep-alive\n\n:\n\n" + piece("One") + b": OPENROUTER PROCESSING\n\n" + END,
    "other fields": b"id: 7\nevent: message\nretry: 3000\n" + piece("One") + b"event: ping\ndata:\n\n" + END,
    "no space": (piece("One") + END).replace(b"data: ", b"data:"),
    "data of many lines": b"data: " + LINES.replace(b"\n", b"\ndata: ") + b"\n\n" + END,
    "data of many lines with CRLF": b"data: " + LINES.replace(b"\n", b"\r\ndata: ") + b"\r\n\r\n" + END,
    "JSON": json.dumps(JSON).encode(), "JSON on many lines": json.dumps(JSON, indent=2).encode(),
    "JSON lines": b"".join(json.dumps({"choices": [each]}).encode() + b"\n" for each in (FIRST, STOP)),
    "null": b"data: null\n\n" + piece("One") + END,
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_a_complete_answer_is_complete_however_it_is_framed(name):
    trace, fault = read(FRAMES[name])
    assert (fault, trace.text) == ("", "One") and "Left out" not in words(trace)
    assert trace.finished.reason == ("unknown" if "[DONE] a" in name else "eos")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("name", [*FRAMES, "characters"])
def test_where_the_bytes_are_cut_changes_nothing(name, size):
    body = FRAMES.get(name, 'data: {"choices": [{"text": "naïve 日本 🙂"}]}\n\n'.encode() + END)
    blocks = lambda size: [(i, body[i : i + size]) for i in range(0, len(body), size)]  # noqa: E731
    events = lambda size: [value for _, value in read_events(blocks(size), list().append)]  # noqa: E731
    assert events(size) == events(len(body))


def in_two(body: bytes) -> bytes:
    return gzip.compress(body[:9]) + gzip.compress(body[9:])


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("gzip", in_two)])
def test_a_compressed_answer_is_read(coding, pack):
    trace, fault = read(answer=pack(piece("One") + END), headers={"Content-Encoding": coding})
    assert (trace.text, fault) == ("One", "")


@pytest.mark.parametrize(("line", "note"), [
    (b"upstream: slow\n", "a line that is no event"), (b"data: ping\n\n", "“ping”"), (b"data: : WAITING\n\n", ""),
    (b"data:\n\n", ""), (b"event: heartbeat\ndata: {}\n\n", ""),
])  # fmt: skip
def test_a_sign_of_life_ends_nothing(line, note):
    trace, fault = read(line, piece("One"), line, END)
    assert (trace.text, fault) == ("One", "") and note in words(trace) and ("Left out" in words(trace)) == bool(note)


@pytest.mark.parametrize("reason", ["content_filter", "tool_calls", "function_call", "abort", "error", "STOP SEQUENCE"])
def test_an_end_of_another_kind_keeps_its_word(reason):
    trace, fault = read(ONE, piece(finish=reason), DONE)
    assert (trace.finished.reason, fault) == (reason, "")


def test_known_ends_are_ours_and_a_hostile_one_is_shortened():
    for given, wanted in (("stop", "eos"), ("LENGTH", "length"), ("x\n" * 99, "x " * 20), (None, "unknown")):
        assert read(ONE, piece(finish=given), DONE)[0].finished.reason == wanted
    for none in ("null", ""):  # as some servers have it until the end
        trace, fault = read(piece("One ", finish=none), TWO)
        assert trace.text == "One two" and "cut before the end" in fault
    trace, _ = read(ONE, piece(finish=7), DONE)
    assert trace.finished.reason == "unknown" and "finish_reason" in words(trace)


@pytest.mark.parametrize(("field", "value"), [
    ("reason", "x" * 41), ("reason", ""), ("reason", "a\nb"), ("hidden_tokens", -1), ("hidden_tokens", 2**60),
])  # fmt: skip
def test_a_file_with_another_end_or_count_is_refused(field, value):
    data = json.loads(to_json(read(ONE, END)[0]))
    (data["finished"] if field == "reason" else data["started"]["server"])[field] = value
    with pytest.raises(BadInput, match="This trace is not valid"):
        from_json(json.dumps(data))


# Bytes after "One ", and words of the sentence.
ERRORS = {
    "an object": (event(error={"message": "out of memory", "code": 500}), "error: out of memory"),
    "a text": (event(error="out of memory"), "error: out of memory"),
    "a code alone": (event(error={"code": 507}), "error: 507"),
    "in a list": (b'data: [{"error": {"message": "out of memory"}}]\n\n', "error: out of memory"),
    "in a choice": (choices({"index": 0, "error": {"message": "out of memory"}}), "error: out of memory"),
    "as an event": (b'event: error\ndata: {"message": "out of memory"}\n\n', "error: out of memory"),
    "as an event of text": (b"event: error\ndata: out of memory\n\n", "error: out of memory"),
    "as a field": (b'error: {"code": 500, "message": "out of memory"}\n\n', "error: out of memory"),
    "as its kind": (event(object="error", message="out of memory", code=400), "error: out of memory"),
    "as a detail": (event(detail="out of memory"), "error: out of memory"),
    "as words": (b"data: Error: out of memory\n\n", "not JSON: “Error: out of memory”"),
    "as words before the end mark": (b"data: Error: out of memory\n\n" + DONE, "not JSON: “Error: out of memory”"),
    "with a reason": (choices(STOP | {"finish_reason": "error"}, error={"message": "out of memory"}), "out of memory"),
    "with colours": (event(error="\x1b[31mred"), "error: ?[31mred"),
    "a line cut in the middle": (b'data: {"choices": [{"te', "cut before the end of the answer, within “{"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_within_an_answer_is_told(name):
    body, said = ERRORS[name]
    trace, fault = read(ONE, body)
    assert said in fault and re.fullmatch(r"[A-Z][^\n]*\.", fault) and trace.text == "One " and trace.finished is None
    trace, fault = read(ONE, piece(finish="stop"), body)
    assert not fault and said.removeprefix("not JSON: ")[:9] in words(trace) and trace.finished.reason == "eos", (
        "its text was complete"
    )


def test_an_answer_that_holds_none_is_refused():
    with pytest.raises(Unavailable, match="no answer of an OpenAI-compatible server; what came holds message"):
        read(answer=b'{"message": "Unauthorized"}')
    with pytest.raises(Unavailable, match="error: no such model"):
        read(answer=b'{"error": {"message": "no such model"}}')
    with pytest.raises(Unavailable, match="a line that is no event"):
        read(answer=b"<html>\n<p>Sign in</p>\n</html>\n")


# ── counts of tokens ──


def listed(text, finish=None, **lists) -> bytes:
    """An event of a chat with lists of its tokens: ``ids``, or ``words`` with their logprobs."""
    rows = {"content": [{"token": word, "logprob": -0.1} for word in lists.get("words", ())]}
    more = {"token_ids": lists["ids"]} if "ids" in lists else {"logprobs": rows}
    return choices({"index": 0, "delta": {"content": text}, "finish_reason": finish} | more)


GROWING = piece("a", count=1) + piece("bcd", count=4) + piece("e", count=5)
# A stream, the tokens of its rounds, how many are hidden, and words of the notes.
COUNTS = {
    "in every event": (GROWING + END, [1, 3, 1], 0, ""),
    "with one for the end": (GROWING + piece(finish="stop", count=6) + DONE, [1, 3, 1, 1], 0, ""),
    "with the end in an event of its own": (GROWING + piece(finish="stop") + usage(6) + DONE, [1, 3, 1, 1], 0, ""),
    "at the end": (piece("red ") + piece("blue ") + piece(finish="stop", count=9) + DONE, [1, 1], 7,
                   "counted 9 tokens, but its stream showed 2, so tokens per pass are unknown"),
    "after the end": (ONE + TWO + END.removesuffix(DONE) + usage(9) + DONE, [1, 1], 7, "but its stream showed 2, so"),
    "in x_groq": (ONE + TWO + choices(STOP, x_groq={"usage": {"completion_tokens": 9}}) + DONE, [1, 1], 7, "counted 9"),
    "in a choice": (ONE + TWO + choices(STOP | {"usage": {"completion_tokens": 9}}) + DONE, [1, 1], 7, "counted 9"),
    "in timings": (ONE + TWO + choices(STOP, timings={"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 5}) + DONE,
                   [1, 1], 7, "counted 9"),
    "far above the last text": (GROWING + piece(finish="stop", count=25) + DONE, [1, 3, 1], 20, "counted 25"),
    "two above the last text": (GROWING + piece(finish="stop", count=7) + DONE, [1, 3, 1], 2, "counted 7"),
    "as many as the pieces": (ONE + TWO + END.removesuffix(DONE) + usage(2) + DONE, [1, 1], 0, "was one token"),
    "nowhere": (ONE + TWO + END, [1, 1], None, "does not count its tokens"),
    "null": (ONE + TWO + event(choices=[], usage=None) + END, [1, 1], None, "does not count its tokens"),
    "zero": (ONE + TWO + usage(0) + END, [1, 1], None, "does not count its tokens"),
    "zero until the end": (piece("a", count=0) + piece("b", count=0) + usage(5) + END, [1, 1], 3, "counted 5"),
    "one in each event": (piece("aa", count=1) + piece("bb", count=1) + piece("cc", count=1) + END, [1, 1, 1], None,
                          "counted 1 token, but its stream showed 3"),
    "of what is not shown": (piece("a", count=400) + piece("b", count=401) + END, [1, 1], 399, "counted 401"),
    "as texts": (ONE + usage("9") + END, [1], None, "does not count"),
    "of another type": (ONE + event(choices=[], usage=[9]) + END, [1], None, "usage"),
    "that fall": (piece("a", count=2) + piece("b", count=1) + END, [1, 1], None, "counted 1 token"),
    "beyond any answer": (piece("a", count=1e15) + END, [1], 10**15 - 1, "so tokens per pass"),
    "for the whole answer at once": (piece("One two three", finish="stop", count=20) + DONE, [1], 19, "counted 20"),
    "of a text that was held back": (
        piece("a", count=1) + piece("b", count=2) + piece("c", "stop", 2) + DONE, [1, 1], 0, ""),
    "beside a list with the prompt's tokens": (
        listed("", ids=[*range(50)]) + listed("a", ids=[5]) + listed("b", "stop", ids=[6]) + usage(2) + DONE, [1, 1], 0,
        "lists were left out"),
    "beside lists that grow": (
        listed("a", words="a") + listed("b", words="ab") + listed("c", "stop", words="abc") + usage(3) + DONE,
        [1, 1, 1], 0, "lists were left out"),
    "below right lists": (listed("a", words="a") + listed("bc", words="bc") + usage(1) + END, [1, 2], 0, "showed 3"),
    "without the end's token": (listed("a", ids=[5]) + listed("", "stop", ids=[2]) + usage(1) + DONE, [1, 1], 0,
                                "showed 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_counts_never_become_rounds_that_were_not_seen(name):
    body, sizes, hidden, note = COUNTS[name]
    trace, fault = read(body)
    seen, numbers = "".join(re.findall(r'"content": "([^"]*)"', body.decode())), compute_metrics(trace)
    assert not fault and trace.text == seen and [len(r.emitted) for r in trace.rounds if r.emitted] == _split(sizes)
    assert trace.started.server.hidden_tokens == hidden and note in words(trace), words(trace)
    is_one_by_one = all(len(r.emitted) == 1 for r in trace.rounds[1:])
    assert bool(numbers.tau) == (hidden == 0 and not is_one_by_one)
    assert not numbers.tau or numbers.tau.low >= 1
    assert numbers.tokens == sum(sizes) + (hidden or 0) * (len(trace.rounds) > 1)


def _split(sizes: list[int]) -> list[int]:
    """The first token belongs to the prompt's own pass."""
    return [1, sizes[0] - 1, *sizes[1:]] if sizes[0] > 1 else sizes


def test_speed_counts_the_hidden_tokens_and_is_unknown_without_a_count():
    def slow(count):
        yield ONE
        time.sleep(0.02)
        yield TWO + count + END

    counted, uncounted = (compute_metrics(read(answer=lambda _, n=n: slow(n))[0]) for n in (usage(9), b""))
    assert counted.tokens_per_second * counted.decode_seconds == pytest.approx(8)
    assert uncounted.decode_seconds > 0.01 and uncounted.tokens_per_second is None


# ── an engine that a gateway hides ──


def test_llama_server_is_recognised_by_its_stream():
    trace, _ = recorded(llama() | {"/props": (403, "no")}, chat=False)
    server, whole = trace.started.server, recorded(llama(), chat=False)[0]
    assert (server.engine, server.adapter) == ("llama-server", "llama-server") and "as llama-server does" in words(
        trace
    )
    statuses = lambda trace: [[t.status for t in r.tokens] for r in trace.rounds]  # noqa: E731
    assert statuses(trace) == statuses(whole) and compute_metrics(trace).accepted == 7


def test_vllm_is_recognised_without_its_version_and_by_its_stream():
    trace, _ = recorded(vllm() | {"/version": (404, "")})
    assert (trace.started.server.engine, trace.started.server.version) == ("vLLM", "")
    trace, _ = recorded(vllm() | {"/v1/models": (404, "")})
    assert trace.started.server.engine == "vLLM" and compute_metrics(trace).alpha.value == 22 / 35


def test_totals_of_drafts_are_told_where_their_rounds_are_not():
    totals = {"timings": {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 5}}
    trace, _ = read(ONE, TWO, choices(STOP, **totals), DONE)
    assert compute_metrics(trace).alpha is None
    assert trace.started.server.why_uncounted == "the server counts drafts in total only: 5 of 8 accepted"
    trace, _ = read(
        ONE, TWO, event(choices=[], stats={"total_draft_tokens_count": 8, "accepted_draft_tokens_count": 5}), END
    )
    assert trace.started.server.engine == "LM Studio" and trace.started.server.counters == {"drafted": 8, "accepted": 5}


# What LM Studio and Ollama send as their documentation and sources have it (September and August 2026): a token each.
_LOADED = {"context_length": 4096, "speculative_draft_mtp": False, "speculative_draft_model": "small"}
_USAGE, _COUNTS = {"prompt_tokens": 9, "completion_tokens": 3}, {"drafted": 8, "accepted": 1}
_DRAFTS = {"total_draft_tokens_count": 8, "accepted_draft_tokens_count": 1, "rejected_draft_tokens_count": 7}
LOCAL = {  # engine → its other answers, the end of its stream, and its version, settings and counts in the trace
    "LM Studio": ({
        "/api/v1/models": json.dumps({"models": [{"key": "m", "loaded_instances": [{"id": "m", "config": _LOADED}]}]}),
        "/props": '{"error": "Unexpected endpoint or method. (GET /props)"}',
    }, event(choices=[], usage=_USAGE | _DRAFTS, stats={}), ("", {"speculative_draft_model": "small"}, _COUNTS)),
    "Ollama": ({
        "/": "Ollama is running", "/api/version": '{"version": "0.32.14"}',
        "/v1/models": '{"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "library"}]}',
    }, event(choices=[], system_fingerprint="fp_ollama", usage=_USAGE), ("0.32.14", {}, {})),
}  # fmt: skip


@pytest.mark.parametrize("engine", LOCAL)
def test_servers_of_a_token_an_event_show_no_passes(engine):
    answers, end, known = LOCAL[engine]
    deltas = [choices({"delta": {"content": text}, "finish_reason": None}) for text in ("a", " b", " c")]
    stop = choices({"delta": {}, "finish_reason": "stop"})
    on = timed(recorded(answers | {"/v1/chat/completions": b"".join([*deltas, stop, end, DONE])})[0], 0.1)
    server, numbers = on.started.server, compute_metrics(on)
    assert server.engine == server.adapter == engine and on.text == "a b c" and on.finished.reason == "eos"
    assert (server.version, server.flags, server.counters) == known
    assert numbers.tau is None and numbers.alpha is None and numbers.tokens_per_second and numbers.passes == 2
    faster = replace(on, rounds=tuple(replace(r, end=r.start + (r.end - r.start) / 4) for r in on.rounds))
    assert compare_runs(faster, on).speedup.is_possible, "a gain is no noise because the passes are unknown"
    assert servers.HOW_TO_COUNT[engine] in servers.inspector_sentences(server)[0]


def test_totals_that_come_with_the_last_text_are_no_round():
    last = choices({"text": "three"}, timings={"predicted_n": 3, "draft_n": 7, "draft_n_accepted": 0})
    trace, _ = read(ONE, TWO, last, END)
    assert not trace.has_drafts and not trace.started.server.has_counts


def test_an_id_is_kept_where_the_count_does_not_grow():
    last = choices({"text": "c", "token_ids": [5]}, usage={"completion_tokens": 2})
    trace, _ = read(piece("a", count=1), piece("b", count=2), last, END)
    assert [token.id for token in trace.emitted] == [None, None, 5]


@pytest.mark.parametrize(("texts", "parts"), [
    (("The", "The cat", "The cat sat", "The cat sat on", "The cat sat on"), ["The", " cat", " sat", " on"]),
    (("Hm", "Hm.", "Hm. T", "The", "The cat"), ["Hm", ".", " T", "The", " cat"]),
    (("ha",) * 5, ["ha"] * 5),
    (("1", "11", "111"), ["1", "11", "111"]),
    (("a", "b", "bc", "c", "cd", "cde"), ["a", "b", "bc", "c", "cd", "cde"]),
])  # fmt: skip
def test_a_text_that_is_sent_whole_each_time_is_shown_once(texts, parts):
    trace, _ = read(*map(piece, texts), END)
    assert [token.text for token in trace.emitted] == parts and trace.finished.text == "".join(parts)
    assert ("sent all of its text each time" in words(trace)) == (len(parts) < len(texts) or parts[1] == ".")


@pytest.mark.parametrize("ids", [True, False])
def test_longer_and_longer_drafts_of_one_character_are_shown_whole(ids):
    """vLLM 0.32.0 sent these pieces of a text of ones, with n-gram drafts."""
    sizes = (1, 1, 1, 2, 2, 4, 5, 5, 5, 5)
    events = [listed("1" * n, ids=[33] * n) if ids else piece("1" * n) for n in sizes]
    trace, _ = read(*events, usage(sum(sizes)), END)
    assert trace.finished.text == "1" * sum(sizes) and "each time" not in words(trace)


def test_counting_is_linear_in_the_pieces():
    def seconds(n: int) -> float:
        answer, start = StreamedAnswer(), time.process_time()
        for i in range(n):
            answer.add(float(i), {"choices": [{"text": "a "}], "usage": {"completion_tokens": i + 1}})
        answer.settle()
        return time.process_time() - start

    assert seconds(16_000) < 30 * min(seconds(1_000) for _ in range(3))


def test_the_time_of_an_event_is_the_time_of_its_data():
    blocks = [(1.0, b'data: {"a": 1}\n'), (5.0, b"\n"), (6.0, b'data: {\ndata: "a"'), (7.0, b": 1}\n"), (9.0, b"\n")]
    assert list(read_events(blocks, str)) == [(1.0, {"a": 1}), (7.0, {"a": 1})]


def test_an_end_without_text_is_kept_with_the_error_after_it():
    assert read(event(choices=[]), DONE)[0].started.server.notes == ("No text was read from the stream.",)
    trace, fault = read(piece(finish="stop"), event(error="late"))
    assert not fault and not trace.rounds and trace.finished.reason == "eos" and "late" in words(trace)


def test_a_server_that_says_it_does_not_draft_is_plain():
    info = '{"version": "0.5.23", "speculative_algorithm": null}'
    trace, _ = recorded({"/get_server_info": info, "/v1/completions": GROWING + END}, chat=False)
    assert trace.started.server.has_counts and set(trace.started.server.counters.values()) == {0}
