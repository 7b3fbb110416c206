"""The browser's types of a trace are those of engine/trace/events.py and of the lines that the page gets."""

import json
import re

import pytest
import trace_types
from paths import ROOT
from sample_traces import constrained
from server_recordings import uncounted_recording

from app.views.player_feed import rounds
from engine.config import SamplingParams
from engine.tools.exactness.toy_models import ToyLM, make_drafter, record_trace
from engine.trace.trace import Trace, load

TRACES = sorted((ROOT / "assets" / "data" / "traces").rglob("*.json"))
TARGET = ToyLM.random(8, seed=1, spread=1.2)


def toy_run(method: str = "lm", acceptance: str = "token") -> Trace:
    drafter, sampling = make_drafter(method, TARGET.with_noise(0.8, seed=2)), SamplingParams(0.8)
    return record_trace(TARGET, drafter, [0, 1], sampling=sampling, gamma=4, max_new_tokens=60, acceptance=acceptance)


# With fields that no recorded run has.
MADE = {
    "block": lambda: toy_run(acceptance="block"),
    "typical": lambda: toy_run(acceptance="typical"),
    "siblings": lambda: toy_run("without_replacement"),
    "server": uncounted_recording,
    "constrained": constrained,
}
KINDS = {
    "number": (int, float), "string": str, "number[]": list, "Token[]": list, "Forbidden[]": list, "Distribution": dict,
    "true": bool, "boolean": bool, "number | null": (int, type(None)), "Status": str,
}  # fmt: skip


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


def lines(trace: Trace) -> dict[str, list[dict]]:
    """Each line that the page gets of a run, and each token, by the name of its type."""
    made = [json.loads(line) for line in rounds(trace.rounds).splitlines()]
    return {"Round": made, "Token": [token for line in made for token in line["tokens"]]}


@pytest.mark.parametrize("source", [*TRACES, *MADE], ids=lambda source: getattr(source, "stem", source))
def test_lines_of_runs_have_these_types(source):
    for name, each in lines(MADE[source]() if source in MADE else load(source)).items():
        assert each, "the run has rounds"
        assert not [(line, problems(line, name)) for line in each if problems(line, name)]


def test_every_field_is_in_some_line():
    runs = [lines(trace) for trace in (*map(load, TRACES), *(make() for make in MADE.values()))]
    for name in ("Round", "Token"):
        found = {field for run in runs for line in run[name] for field in line}
        assert {field.removesuffix("?") for field in interface(name)} == found - {"type"}


def test_a_field_that_the_types_lack_is_noticed():
    token = {"text": "a", "status": "plain", "position": 0, "id": 1}
    assert not problems(token, "Token")
    assert problems(token | {"shade": 1}, "Token") == ["shade"] and problems(token | {"p": "0.5"}, "Token") == ["p"]
    assert problems({key: value for key, value in token.items() if key != "id"}, "Token") == ["id"]
