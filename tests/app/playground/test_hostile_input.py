"""Texts made to break a page, from the prompt to everything that is sent back, and what goes wrong around a run."""

import json
import threading
import time

import pytest
from fake_worker import FakeWorker
from test_run_handlers import page, press_run, press_stop, said, told, wait_for

from app.form import settings
from app.jobs.visitor import Session
from engine.errors import BadInput, Unavailable

TEXTS = {
    "a tag": "<script>window.pwned=1</script> <img src=x onerror=window.pwned=2>",
    "a closing tag": "</script></style></textarea> -->",
    "templates": "{{1+1}} ${window.pwned=3} {% raw %} #{1} `${2}`",
    "escapes": "\\u0041 \\x41 \\n \\ud83d &lt;b&gt; %3Cscript%3E",
    "right to left": "\u202eabc\u202c \u2067def\u2069 \u200f!",
    "control characters": "a\x00b\x1b[31m\x7f \u2028\u2029 \ufeff\ufffe",
    "emoji": "👩‍👩‍👧‍👦🌊" * 400,
    "quotes": "'\"`\n\t\r\n  \x0b end",
    "a formula": "=1+1 @SUM(A1) +2 -3",
    "json": '{"type":"finish","reason":"eos"}\n{"type":"over"}',
}


def sent(screens) -> list[str]:
    """Every text that went to the page as the value of one of our own components."""
    ours = ("player", "tiles", "notice", "race", "charts")
    values = [getattr(screen, name) for screen in screens for name in ours]
    return [value for value in values if isinstance(value, str)]


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_comes_back_as_text_and_nothing_else(name):
    text = TEXTS[name]
    screens = press_run(page(FakeWorker(echo=True)), prompt=text, max_new_tokens=40)
    assert said(screens[-1])["kind"] != "error"
    for value in sent(screens):
        assert value.isascii() and "<" not in value and "\x00" not in value
        for line in value.splitlines():
            json.loads(line)
    rounds = [line for line in told(screens) if line["type"] == "round"]
    pieces = [token["text"] for line in rounds for token in line["tokens"]]
    kept = [piece for piece in pieces if piece not in (" maybe", " never")]
    assert "".join(kept).startswith(" ".join(text.split(" ")[:40]))
    assert {line["type"] for line in told(screens)} == {"about", "round", "finish", "compared", "over"}


def test_ten_thousand_emoji_are_refused_by_their_number():
    worker = FakeWorker()
    screens = press_run(page(worker), prompt="🌊" * 10_000)
    assert said(screens[-1])["text"].startswith("The prompt has 10,000 characters") and not worker.jobs


@pytest.mark.parametrize("prompt", ["half \ud83d of one", "\udc00", "x" * 50 + "\udfff"])
def test_a_lone_surrogate_is_refused_in_words_that_can_be_sent(prompt):
    handlers = page()
    screens = press_run(handlers, prompt=prompt)
    assert said(screens[-1])["kind"] == "error" and "surrogate" in said(screens[-1])["text"]
    assert screens[-1].notice.isascii()
    assert said(press_run(handlers)[-1])["kind"] == "good"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 10**400),
        ("seed", float("inf")),
        ("seed", -(2**70)),
        ("gamma", 1e308),
        ("gamma", float("nan")),
        ("temperature", 10**400),
        ("temperature", "<b>"),
        ("tokens", -(10**30)),
        ("method", "<script>"),
        ("method", ["ngram"]),
        ("pair", {"a": 1}),
        ("prompt", 5),
        ("system", ["a"]),
        ("auto", "yes"),
        ("top_k", [1]),
    ],
)
def test_absurd_values_are_refused_in_one_short_sentence(name, value):
    """What a form cannot send, and a link or a hand-written request can."""
    form = {"prompt": "Hi", "auto": False} | {name: value}
    with pytest.raises(BadInput) as refused:
        settings(form)
    assert 15 < len(str(refused.value)) < 300 and "\n" not in str(refused.value)


# ── around a run ──


def test_a_model_that_does_not_load_is_said_and_the_next_run_works():
    """Before the first round there is nothing to keep: no numbers, no files, and the buttons are back."""
    worker = FakeWorker(fail=Unavailable("The weights are damaged; fetch them again."), fail_at=None)
    handlers = page(worker)
    last = press_run(handlers)[-1]
    assert said(last) == {"kind": "error", "text": "The weights are damaged; fetch them again.", "fraction": None}
    assert last.session == Session() and last.run["value"] == "Run" and last.stop["interactive"] is False
    worker.fail = None
    assert said(press_run(handlers)[-1])["kind"] == "good"


def test_stop_before_the_first_token_ends_the_run_without_one():
    worker = FakeWorker(load=0.6)
    handlers = page(worker)
    screens = []
    thread = threading.Thread(target=lambda: screens.extend(press_run(handlers)))
    thread.start()
    wait_for(lambda: worker.jobs)
    press_stop(handlers)
    thread.join(5)
    assert not thread.is_alive()
    assert said(screens[-1])["text"].startswith("Stopped") and screens[-1].run["value"] == "Run"
    assert all(job.is_cancelled for job in worker.jobs)
    assert said(press_run(handlers)[-1])["kind"] == "good"


def test_ten_fast_runs_of_one_page_leave_one_answer_and_nothing_running():
    worker = FakeWorker(step=0.02)
    handlers = page(worker)
    threads, ends = [], []
    for _ in range(10):
        threads.append(threading.Thread(target=lambda: ends.append(press_run(handlers, max_new_tokens=30)[-1])))
        threads[-1].start()
        time.sleep(0.03)
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    kinds = [said(end)["kind"] for end in ends]
    assert kinds.count("good") == 1 and kinds.count("quiet") == 9, kinds
    assert handlers.service.stop("a") is False, "nothing runs any more"
