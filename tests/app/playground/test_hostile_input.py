"""Texts made to break a page, from the prompt to everything that is sent back, and ten presses of Run at once."""

import json

import pytest
from fake_worker import FakeWorker
from presses import lines_read, page, press_run, status_of

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


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_comes_back_as_text_and_nothing_else(name):
    text = TEXTS[name]
    screens = press_run(page(FakeWorker(echo=True)), prompt=text, max_new_tokens=40)
    assert status_of(screens[-1])["kind"] != "error"
    for value in (screen.stage for screen in screens):
        assert value.isascii() and "<" not in value and "\x00" not in value
        for line in value.splitlines():
            json.loads(line)
    rounds = [line for line in lines_read(screens) if line["type"] == "round"]
    pieces = [token["text"] for line in rounds for token in line["tokens"]]
    kept = [piece for piece in pieces if piece not in (" maybe", " never")]
    assert "".join(kept).startswith(" ".join(text.split(" ")[:40]))
    assert {line["type"] for line in lines_read(screens)} == {"about", "round", "finish", "compared", "over"}
