"""The browser's types of a trace are those of engine/trace/events.py and of the lines that the page gets."""

import json
import re

import pytest
import trace_types
from paths import ROOT

from app.views.player_feed import rounds
from engine.trace.trace import load

TRACES = sorted((ROOT / "assets" / "data" / "traces").rglob("*.json"))
KINDS = {"number": (int, float), "string": str, "number[]": list, "Token[]": list, "Distribution": dict, "true": bool,
         "number | null": (int, type(None)), "Status": str}  # fmt: skip


def interface(name: str) -> dict[str, str]:
    """Returns the fields of an interface in trace.d.ts with their types; an optional one ends with "?"."""
    text = trace_types.FILE.read_text(encoding="utf-8")
    body = re.search(rf"export interface {name} {{\n(.*?)\n}}", text, re.DOTALL)[1]
    return dict(line.strip().removesuffix(";").split(": ", 1) for line in body.split("\n"))


def test_types_are_those_that_the_script_writes():
    written = trace_types.FILE.read_text(encoding="utf-8")
    assert written == trace_types.text(), "run python tests/helpers/trace_types.py"


def problems(line: dict, name: str) -> list[str]:
    fields = {field.removesuffix("?"): (kind, field.endswith("?")) for field, kind in interface(name).items()}
    absent = [field for field, (_, is_optional) in fields.items() if not is_optional and field not in line]
    wrong = [key for key, value in line.items() if key in fields and not isinstance(value, KINDS[fields[key][0]])]
    return [*absent, *wrong, *(line.keys() - fields.keys() - {"type"})]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_lines_of_recorded_runs_have_these_types(path):
    lines = [json.loads(line) for line in rounds(load(path).rounds).splitlines()]
    assert lines, "the run has rounds"
    for line in lines:
        assert not problems(line, "Round"), line
        for token in line["tokens"]:
            assert not problems(token, "Token"), token


def test_a_field_that_the_types_lack_is_noticed():
    token = {"text": "a", "status": "plain", "position": 0, "id": 1}
    assert not problems(token, "Token")
    assert problems(token | {"shade": 1}, "Token") == ["shade"] and problems(token | {"p": "0.5"}, "Token") == ["p"]
    assert problems({key: value for key, value in token.items() if key != "id"}, "Token") == ["id"]
