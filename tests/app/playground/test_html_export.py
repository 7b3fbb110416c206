"""The HTML file of a run: nothing in a trace ends its script, its policy names its contents, its size is sane."""

import json
import re
from dataclasses import replace

from sample_traces import small

from app.playground import html_export
from app.playground.startup_run import OPENING
from app.views.run_facts import LONGEST, facts
from engine.trace.events import Translated
from engine.trace.trace import Trace, load

HOSTILE = "</script><!--<script>]]>\u2028\u2029${1+1}{{1+1}}\ud83d\u202e&lt;/script&gt;"


def hostile() -> Trace:
    """Bad text everywhere that a trace has text."""
    trace, bad = small(), HOSTILE
    first, last = trace.rounds
    tokens = tuple(replace(token, text=bad, label=bad) for token in first.tokens)
    config = trace.started.config | {"prompt": bad, "method": bad, "system": bad, "stop": [bad]}
    started = replace(trace.started, config=config, pair=bad, revision=bad, device=bad, dtype=bad,
                      versions={bad: bad}, weights={bad: bad})  # fmt: skip
    return Trace(started, (replace(first, tokens=tokens), last), replace(trace.finished, text=bad))


def parts(page: str) -> tuple[str, str, str]:
    """The file's one style, its data and its one script, as a browser would cut them."""
    (style,) = re.findall(r"<style>(.*?)</style", page, re.S | re.I)
    scripts = re.findall(r"<script([^>]*)>(.*?)</script", page, re.S | re.I)
    assert len(scripts) == 2 and page.lower().count("<script") == 2 and page.lower().count("</script") == 2
    (kind, data), (_, script) = scripts
    assert "application/json" in kind
    return style, data, script


def test_nothing_that_a_trace_says_leaves_the_data_block():
    page = html_export.page(hostile())
    style, data, script = parts(page)
    assert data.isascii() and not set(data) & set("<\u2028\u2029")
    assert "<!--" not in script and "<!--" not in style
    around = page.replace(data, "")
    assert around == html_export.page(small()).replace(parts(html_export.page(small()))[1], ""), "all the rest is fixed"
    assert json.loads(data)["prompt"] == HOSTILE


def test_the_file_is_small():
    trace = load(OPENING)
    size = len(html_export.page(trace).encode())
    around = len(html_export.page(small()).encode())
    assert around < 176_000, "what every file carries: player, race, styles"
    assert size - around < 1_500 * len(trace.emitted), "bytes a token, with all its candidates"


def test_facts_are_words_whatever_the_settings_are():
    config = {"method": ["x"], "gamma": {"a": 1}, "sampling": {"temperature": 0.5, "top_k": 0, "top_p": 0.9},
              "seed": 2**63 - 1, "chat": False, "system": "x" * 1000, "thinking": None, "x": "kept out"}  # fmt: skip
    trace = replace(small(), started=replace(small().started, config=config))
    found = dict(facts(trace))
    assert all(isinstance(value, str) for value in found.values())
    assert found["top-p"] == "0.9" and not {"top-k", "Thinking"} & set(found)
    assert len(found["System prompt"]) == LONGEST + 1 and "kept out" not in found.values()
    assert dict(facts(replace(trace, started=replace(trace.started, config={"sampling": 3}))))["Models"] == "a-pair"
    unlike = replace(trace.started, translated=Translated("tokens", 4_136, 49_152, 4_252))
    assert "4,136 in common" in dict(facts(replace(trace, started=unlike)))["Translation"]
    exiting = replace(trace.started, exit_layers=(2, 30))
    assert dict(facts(replace(trace, started=exiting)))["Early exit"] == "after 2 of 30 layers"
    where = {"replica": "y9k", "network_seconds": 0.077}
    assert dict(facts(replace(trace, finished=replace(trace.finished, extra=where))))["Engine"] == "y9k, 77 ms away"
