"""A server's answer becomes a trace of ours: rounds, counts and times as told, the rest unknown."""

import json
import re
import time
from itertools import pairwise

import pytest
from stand_in_server import DONE, RECORDED, event, llama, recorded, serving, vllm

from app.playground import html_export, trace_files
from app.views import player_feed, run_charts, run_facts, tiles
from app.views.token_csv import tokens_csv
from engine.errors import BadInput, Unavailable
from engine.tools.servers import client as http
from engine.tools.servers.client import Client
from engine.tools.servers.recording import Recorder, recognise
from engine.tools.servers.rounds import rounds_of
from engine.tools.servers.server_request import ServerRequest
from engine.tools.servers.streamed_answer import Piece, StreamedAnswer
from engine.trace.branch import branch_config
from engine.trace.metrics import compute_metrics
from engine.trace.trace import from_json, load, save, to_json

VLLM, LLAMA = vllm(), llama()
CHAT = VLLM["/v1/chat/completions"]


def statuses(trace) -> list[str]:
    return ["".join(t.status[0] for t in r.tokens) for r in trace.rounds]


# ── vLLM, from what 0.32.0 sent ──


def test_vllm_rounds_are_those_it_lists():
    trace, fault = recorded(VLLM)
    told = json.loads(CHAT.split(b"\n\n")[-3].removeprefix(b"data: "))["metrics"]["speculative_decoding"]
    drafted = [r for r in trace.rounds if r.parents]
    assert not fault and len(drafted) == told["num_spec_steps"] == 17
    assert [sum(t.status == "accepted" for t in r.tokens) for r in drafted] == told["per_step_accepted"]
    numbers = compute_metrics(trace)
    assert numbers.tau.value == pytest.approx(told["mean_acceptance_length"], abs=1e-12)
    assert numbers.tokens == 40 and numbers.alpha.value == 22 / 35
    server = trace.started.server
    assert (server.engine, server.version, server.counters["accepted"]) == ("vLLM", "0.32.0", 22) and not server.notes


@pytest.mark.parametrize(("told", "cached"), [
    ({"usage": {"prompt_tokens_details": {"cached_tokens": 640}}}, 640), ({"timings": {"cache_n": 0}}, 0),
    ({"usage": {"prompt_tokens_details": None}}, 7), ({"usage": {}}, 7),
])  # fmt: skip
def test_cached_tokens_are_read_where_a_server_tells_them(told, cached):
    """vLLM's /metrics counts them for all users, so the growth is read where the answer does not tell its own."""
    hits, body = iter((5, 12)), event(choices=[{"delta": {"content": "a"}}]) + event(choices=[], **told) + DONE
    metrics = 'vllm:prefix_cache_hits_total{{engine="0"}} {}.0\nvllm:prefix_cache_hits_total{{engine="1"}} 1.0\n'
    answers = VLLM | {"/v1/chat/completions": body, "/metrics": lambda _: metrics.format(next(hits))}
    with serving(answers) as address:
        recorder, request = Recorder(Client(address)), ServerRequest("m", "Count.")
        before, answer = recorder.counts_before(), recorder.ask(request)
        recorder.finish(request, answer, before)
    assert answer.cached == cached


def test_vllm_rounds_add_up_to_the_stream():
    trace, _ = recorded(VLLM)
    assert trace.rounds[0].start == trace.rounds[0].end == trace.finished.ttft, "the first token is the prompt's"
    assert all(a.end == b.start for a, b in zip(trace.rounds, trace.rounds[1:], strict=False))
    assert trace.rounds[-1].end == pytest.approx(trace.finished.ttft + trace.finished.decode_seconds)


def test_vllm_pieces_with_several_rounds_are_divided():
    """The first answer of a fresh server brought seven rounds in its second piece."""
    trace, _ = recorded(VLLM, chat=False, logprobs=True)
    told = [0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]
    assert [sum(t.status == "accepted" for t in r.tokens) for r in trace.rounds[1:]] == told
    lengths = [r.end - r.start for r in trace.rounds[1:8]]
    assert lengths == pytest.approx([lengths[0]] * 7) and "1 pieces of the stream held" in trace.started.server.notes[0]
    assert all(0 < t.p <= 1 for t in trace.emitted) and trace.text.startswith(" Paris.\n\nThe answer is")


def test_rejected_guesses_stay_unknown_and_the_rest_is_told():
    trace, _ = recorded(VLLM)
    rejected = [t for r in trace.rounds for t in r.tokens if t.status in ("rejected", "discarded")]
    assert len(rejected) == 51 - 22
    assert {(t.id, t.text, t.label, t.p, t.q, t.u) for t in rejected} == {(None, "", "?", None, None, None)}
    assert None not in [t.id for t in trace.emitted] and {r.timings for r in trace.rounds} == {None}


def test_vllm_counts_come_from_its_metrics_without_the_flag():
    lines = [line for line in CHAT.split(b"\n\n") if b'"metrics"' not in line]
    asked = []

    def metrics(_):
        asked.append(1)
        counts = {"drafts": (100, 117), "draft_tokens": (300, 351), "accepted_tokens": (50, 72)}
        return "".join(f"vllm:spec_decode_num_{n}_total {v[len(asked) > 1]}.0\n" for n, v in counts.items())

    trace, _ = recorded(VLLM | {"/v1/chat/completions": b"\n\n".join(lines), "/metrics": metrics})
    assert trace.started.server.counters == {"rounds": 17, "drafted": 51, "accepted": 22}
    assert compute_metrics(trace).alpha.value == 22 / 35, "17 pieces and 17 rounds leave no choice"
    assert "all users" in trace.started.server.notes[0]


# ── llama-server, from what 0.5.0 sent ──


def counts_in(body: bytes) -> list[tuple[int, int, int]]:
    """(tokens, drafted, accepted) so far, of each event of a llama-server's stream."""
    events = [json.loads(line.removeprefix(b"data: ")) for line in body.split(b"\n\n") if line.startswith(b"data: {")]
    each = [e["timings"] for e in events if "timings" in e]
    return [(t["predicted_n"], t.get("draft_n", 0), t.get("draft_n_accepted", 0)) for t in each]


def test_llama_server_rounds_are_those_it_counts():
    trace, fault = recorded(LLAMA, chat=False)
    counts = counts_in(LLAMA["/v1/completions"])
    growing = [(b[1] - a[1], b[2] - a[2]) for a, b in pairwise(counts) if b[1] > a[1]]
    drafted = [r for r in trace.rounds if r.parents]
    assert [(len(r.parents), sum(t.status == "accepted" for t in r.tokens)) for r in drafted] == growing
    assert not fault and len(trace.emitted) == 40 and compute_metrics(trace).accepted == 7
    server = trace.started.server
    assert (server.engine, server.version, server.notes) == ("llama-server", "b0-0c1e570", ())


def test_llama_server_keeps_its_usage_where_timings_lack_a_count():
    sent = (("a b", 2), ("c", 3))
    events = [event(choices=[{"text": t}], usage={"completion_tokens": n}, timings={"draft_n": 0}) for t, n in sent]
    trace, _ = recorded(LLAMA | {"/v1/completions": b"".join([*events, DONE])}, chat=False)
    assert len(trace.emitted) == 3


def test_llama_server_may_end_with_a_token_of_no_text():
    trace, _ = recorded(LLAMA)
    assert statuses(trace) == ["p", "aaaab", "rdddr"] and trace.text == "The café is not naive."
    assert trace.finished.reason == "eos" and trace.rounds[-1].tokens[-1].text == ""


def test_llama_server_sends_a_character_of_several_tokens_at_once():
    body = (RECORDED / "llama_0.5.0_draft_emoji.txt").read_bytes()
    trace, _ = recorded(LLAMA | {"/v1/completions": body}, chat=False)
    assert counts_in(body)[-1] == (32, 24, 24), "ten events for 32 tokens"
    assert statuses(trace) == ["p", *["aaaab"] * 6, "p"] and trace.text == "🙃" * 10
    assert "11 pieces held several tokens" in trace.started.server.notes[0]


# ── the others, from their source or documentation ──


def test_llama_server_rounds_begin_where_its_counts_grow():
    def token(text, drafted, accepted):
        timings = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {"predicted_n": 1}
        return event(choices=[{"delta": {"content": text}}], timings=timings)

    rows = [("a", 0, 0), ("b", 4, 2), ("c", 4, 2), ("d", 4, 2), ("e", 4, 2), ("f", 8, 2), ("g", 12, 6), ("h", 12, 6)]
    answers = {"/props": '{"default_generation_settings": {}, "build_info": "b9251"}'}
    answers["/v1/chat/completions"] = b"".join(token(*row) for row in rows) + DONE
    trace, _ = recorded(answers)
    assert statuses(trace) == ["p", "aardr", "p", "rdddr", "aadd"], "the last round was cut after two of four"
    assert trace.started.server.engine == "llama-server" and compute_metrics(trace).accepted == 4


def test_sglang_rounds_are_its_pieces_where_the_totals_agree():
    def piece(text, so_far):
        return event(choices=[{"delta": {"content": text}}], usage={"completion_tokens": so_far, "prompt_tokens": 9})

    told = {"spec_verify_ct": 3, "spec_num_proposed_drafts": 9, "spec_num_correct_drafts": 4}
    end = event(choices=[], sglext={"spec_tokens_details": told}, usage={"completion_tokens": 8})
    answers = {"/get_server_info": '{"version": "0.5.23", "speculative_algorithm": "EAGLE3"}'}
    body = [piece("a", 1), piece("bcd", 4), piece("e", 5), piece("fgh", 8)]
    trace, _ = recorded(answers | {"/v1/chat/completions": b"".join([*body, end, DONE])})
    assert statuses(trace) == ["p", "aarr", "rddr", "aarr"] and trace.text == "abcdefgh"
    assert trace.started.server.flags == {"speculative_algorithm": "EAGLE3"}
    off, _ = recorded(answers | {"/v1/chat/completions": b"".join([*body, end.replace(b"9,", b"11,"), DONE])})
    assert compute_metrics(off).alpha is None and "do not say which round" in off.started.server.notes[0]


def test_a_server_of_no_known_engine_is_read_by_its_pieces():
    sent = (("a", 1), ("bc", 3), ("d", 4))
    body = b"".join(event(choices=[{"text": text}], usage={"completion_tokens": count}) for text, count in sent)
    trace, _ = recorded({"/v1/completions": body + DONE}, chat=False)
    assert [[t.status for t in r.tokens] for r in trace.rounds] == [["plain"], ["accepted", "closing"], ["closing"]]
    assert compute_metrics(trace).alpha is None and compute_metrics(trace).tau.value == 1.5
    assert trace.started.server.adapter == "pieces of the stream"


def test_one_token_rounds_are_placed_early_and_said_to_be_unsure():
    pieces = [Piece(i / 10, "x" * size, size) for i, size in enumerate((1, 1, 3, 1, 1))]
    answer = StreamedAnswer(pieces, steps=[(2, 4), (0, 4)], counters={"rounds": 2, "drafted": 8, "accepted": 2})
    rounds = rounds_of(answer)
    assert [r.step for r in rounds] == [None, None, (2, 4), (0, 4), None] and answer.notes[0].startswith("1 one-token")


# ── what becomes of such a trace ──


def test_a_recording_round_trips_and_shows_everywhere(tmp_path):
    for chat in (True, False):
        trace, _ = recorded(VLLM, chat=chat)
        assert from_json(to_json(trace)) == trace
        save(trace, tmp_path / "run.json")
        session = trace_files.read_session([str(tmp_path / "run.json")])
        assert all(run_charts.complete(session.trace)) and tiles.tiles(trace, recorded=True)
        feed = player_feed.replay("r", trace, None)
        assert '"id":null' in feed and "vLLM 0.32.0, your recording" in feed
        assert "your recording" in html_export.page(trace)
        assert ",rejected,,?," in tokens_csv(trace) and ",unknown" in tokens_csv(trace)
        assert ["Server", "vLLM 0.32.0"] in run_facts.facts(trace)
    with pytest.raises(BadInput, match="cannot be run again"):
        branch_config(trace, 3, 5)


def test_only_a_server_may_leave_ids_and_times_unknown():
    trace, _ = recorded(VLLM)
    data = json.loads(to_json(trace))
    data["started"]["server"] = None
    with pytest.raises(BadInput, match="only a server"):
        from_json(json.dumps(data))


# ── hostile and broken servers ──

GOOD = b"".join(event(choices=[{"text": word}]) for word in "ab")
BROKEN = {
    "cut": (GOOD, "cut before the end"),
    "not UTF-8": (GOOD + b'data: {"choices": [{"text": "\xff\xfe"}]}\n\n' + DONE, "not UTF-8"),
    "no JSON": (GOOD + b"data: <html>\n\n" + DONE, "not JSON"),
    "a list": (GOOD + b"data: []\n\n" + DONE, "not an object"),
    "long line": (GOOD + b"data: " + b"x" * 10_000_000 + b"\n\n" + DONE, "line of over 1 MiB"),
    "an error": (GOOD + event(error={"message": "out of\nmemory"}), "out of memory"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_came_before_a_fault_is_kept(name):
    body, words = BROKEN[name]
    trace, fault = recorded({"/v1/completions": body}, chat=False)
    assert words in fault and re.fullmatch(r"[A-Z][^\n.]*[.?]", fault)
    assert trace.text == "ab" and trace.finished is None and from_json(to_json(trace)) == trace


HUGE = b'{"choices": [{"text": "x"}], "usage": {"completion_tokens": 1e15}}'
ABSURD = {
    "a count of 10^15": [b"data: " + HUGE + b"\n\n"],
    "an integer of 400 digits": [b'data: {"choices": [{"text": "x", "token_ids": [1' + b"0" * 400 + b"]}]}\n\n"],
    "half a surrogate pair": [b'data: {"choices": [{"text": "\\ud800"}]}\n\n'],
    "a piece of 200 tokens": [event(choices=[{"text": "x" * 200, "token_ids": [1] * 200}])],
    "a token of 20,000 letters": [event(choices=[{"text": "x" * 20_000}])],
    "numbers as texts": [event(choices=[{"text": 7, "token_ids": "1", "logprobs": 3}], usage=[1], metrics=4)],
    "accepted over drafted": [event(choices=[{"text": "x"}], timings={"draft_n": 2, "draft_n_accepted": 9})] * 12,
    "a draft of 10^12": [event(choices=[{"text": "x"}], timings={"draft_n": 10**12, "draft_n_accepted": 1})] * 3,
    "minus infinity": [b'data: {"choices": [{"text": "x", "logprobs": {"tokens": ["x"], "token_logprobs": [%s]}}]}\n\n'
                       % b"-Infinity"],
}  # fmt: skip


@pytest.mark.parametrize("props", ["", '{"default_generation_settings": {}}'], ids=["unknown", "llama-server"])
@pytest.mark.parametrize("name", ABSURD)
def test_absurd_numbers_still_give_a_trace_that_opens(name, props, tmp_path):
    body = b"".join([GOOD, *ABSURD[name], event(choices=[{"text": "c"}]), DONE])
    answers = {"/v1/completions": body} | ({"/props": props} if props else {})
    trace, _ = recorded(answers, chat=False)
    save(trace, tmp_path / "run.json")
    assert load(tmp_path / "run.json") == trace and trace.text.startswith("ab")


def endless(pause: float = 0.0):
    while True:
        time.sleep(pause)
        yield event(choices=[{"text": "x" * 1000}])


def test_an_endless_stream_ends_at_a_limit(monkeypatch):
    trace, fault = recorded({"/v1/completions": lambda _: endless(0.01)}, chat=False, seconds=1.5)
    assert "1.5 s;" in fault and trace.rounds
    monkeypatch.setattr(http, "MAX_ANSWER", 50_000)
    trace, fault = recorded({"/v1/completions": lambda _: endless()}, chat=False)
    assert "so the answer was given up" in fault and len(trace.text) <= 50_000


REFUSED = {401: "SPECLENS_SERVER_KEY", 403: "SPECLENS_SERVER_KEY", 429: "try again", 307: "not followed",
           500: "refuses the request", 404: "no /v1/completions", 503: "not ready"}  # fmt: skip


@pytest.mark.parametrize("status", REFUSED)
def test_a_refusal_is_one_sentence(status):
    with pytest.raises(Unavailable, match=REFUSED[status]) as caught:
        recorded({"/v1/completions": (status, "http://elsewhere/")}, chat=False)
    assert re.fullmatch(r"[A-Z][^\n]*[.?]", str(caught.value))


def test_counts_that_do_not_fit_the_stream_are_said():
    wrong = CHAT.replace(b'"per_step_accepted":[2,', b'"per_step_accepted":[3,')
    trace, fault = recorded(VLLM | {"/v1/chat/completions": wrong})
    assert not fault and compute_metrics(trace).alpha is None
    assert trace.started.server.notes and {"closing"} <= {t.status for t in trace.emitted}


def test_a_key_and_a_server_that_are_none_are_refused():
    with pytest.raises(BadInput, match="SPECLENS_SERVER_KEY"):
        Client("http://h", "a\r\nHost: b")
    for nobody in ("http://127.0.0.1:9", "http://a..b"):
        with pytest.raises(Unavailable, match="No server answers"):
            recognise(Client(nobody))
