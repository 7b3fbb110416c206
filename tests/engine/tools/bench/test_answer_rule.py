"""The rule for a router: its cells by hand, its empty cells, and the document's proxy and client."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict

import pytest
from paths import ROOT
from stand_in_server import serving

from engine.tools.bench.answer import AnswerPlan
from engine.tools.bench.answer_points import AnswerPoints
from engine.tools.bench.answer_rule import RuleCell, decide, places, to_json
from engine.tools.bench.prompts import Prompt
from engine.trace.noise import Speedup

PLACE = RuleCell("code", 0, 2000, 1)
FAST, SLOW, LEVEL = Speedup(1.5, 1.4, 1.6), Speedup(0.8, 0.75, 0.85), Speedup(1.05, 0.9, 1.2)


@pytest.mark.parametrize(("speedups", "draft", "method", "wrong"), [
    ({("eagle", 2): FAST, ("ngram", 1): SLOW}, True, "eagle", 1.5),
    ({("eagle", 2): SLOW, ("ngram", 1): Speedup(0.5, 0.4, 0.6)}, False, "eagle", 1.25),
    ({("eagle", 2): LEVEL, ("ngram", 1): SLOW}, None, "eagle", None),
    ({("eagle", 2): Speedup(3.0, 2.9, 3.1, 2.0)}, None, None, None),  # noise: faster than its tokens per pass
    ({("eagle", 2): Speedup(3.0, 2.9, 3.1, 2.0), ("ngram", 1): SLOW}, None, "ngram", None),  # noise may be faster
    ({}, None, None, None),
])  # fmt: skip
def test_a_cell_says_on_off_or_nothing(speedups, draft, method, wrong):
    cell = decide(PLACE, 6, speedups)
    assert (cell.draft, cell.method, cell.wrong) == (draft, method, wrong and pytest.approx(wrong))
    gamma = 2 if method == "eagle" else 1
    ends = speedups[method, gamma].interval if method else (None, None)
    assert cell.turns == (6 if method else 0) and (cell.low, cell.high) == ends


def test_the_table_has_every_place_and_none_for_lengths_without_a_text():
    cells = places(["chat", "code"], [10, 9000], [1, 8])
    assert {(cell.shortest, cell.longest) for cell in cells} == {(0, 2000), (8000, 32000), (0, None)}
    assert {cell.kind for cell in cells} == {"all", "chat", "code"} and len(cells) == 3 * 2 * 2 + 1
    assert cells[-1] == RuleCell("all", 0, None, 8) and all(cell.draft is None and not cell.turns for cell in cells)
    assert [cell.kind for cell in places(["chat"], [10], [1])] == ["chat"], "one kind is the whole"


def test_an_answer_has_a_rule_whose_unmeasured_cells_are_empty(engine, tmp_path):
    texts = (Prompt("the cat, the cat", "one"), Prompt("aa", "two"))
    found = AnswerPoints(engine, AnswerPlan(texts, ("ngram",), (2,), 4, repeats=2), tmp_path).run()
    by_place = {(cell.kind, cell.users, cell.longest): cell for cell in found.rule}
    assert {("one", 1, 2000), ("two", 2, 2000), ("all", 2, None)} <= {*by_place}
    assert by_place["two", 2, 2000] == RuleCell("two", 0, 2000, 2), "no load holds one kind alone"
    assert by_place["one", 1, 2000].turns in (0, 2) and by_place["all", 1, 2000].turns in (0, 4)
    json.loads(to_json(found.rule, found.about))


def cell(kind, users, draft, shortest=0, longest=2000) -> dict:
    return asdict(RuleCell(kind, shortest, longest, users, 4, draft))


RULE = {"cells": [cell("code", 1, True), cell("all", 1, False), cell("code", 1, False, 2000, 8000),
                  cell("mail", 1, None), cell("all", 4, True, 0, None)]}  # fmt: skip


def example(name: str, folder):
    """Writes a program of the document into a file."""
    text = (ROOT / "docs" / "answer.md").read_text(encoding="utf-8")
    (program,) = re.findall(rf"```python\n(# The {name}\n.*?)```", text, re.S)
    (folder / "rule.json").write_text(json.dumps(RULE))
    (folder / name).write_text(program)
    return folder / name


def test_the_documents_client_takes_the_address_of_its_cell(tmp_path):
    names: dict = {"__name__": "client"}
    exec(example("client", tmp_path).read_text(), names)
    asked = [("code", 9), ("code", 2001), ("poem", 9), ("mail", 9), ("code", 9000)]
    assert [names["address"](RULE, kind, "x" * n, "on", "off") for kind, n in asked] == [
        "on",
        "off",
        "off",
        "off",
        "off",
    ]
    done = subprocess.run([sys.executable, "client"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "http://ON\n"


def test_the_documents_proxy_sends_each_request_to_the_side_of_its_cell(tmp_path, free_port):
    program, path = example("proxy", tmp_path), "/v1/chat/completions"
    with serving({path: "on"}) as on, serving({path: "off"}) as off:
        proxy = subprocess.Popen([sys.executable, str(program), str(tmp_path / "rule.json"), on, off, str(free_port)])
        try:
            sides = [
                _ask(f"http://127.0.0.1:{free_port}{path}", *each) for each in (("code", 9), ("code", 3000), ("", 9))
            ]
        finally:
            proxy.kill()
            proxy.wait()
    assert sides == ["on", "off", "off"]


def _ask(address: str, kind: str, characters: int) -> str:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * characters}]}).encode()
    asked = urllib.request.Request(address, body, {"Content-Type": "application/json", "X-Kind": kind})
    for _ in range(100):
        try:
            return urllib.request.urlopen(asked).read().decode()
        except urllib.error.URLError:
            time.sleep(0.1)
    raise TimeoutError


@pytest.fixture
def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]
