"""A trace file is untrusted input: any content ends in a sentence, quickly and in little memory."""

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from paths import ROOT
from sample_traces import changed, small

from app.views import lanes, player_feed, run_charts, run_facts
from engine.config import ACCEPTANCE, AUTO
from engine.errors import BadInput
from engine.trace import trace as traces
from engine.trace.trace import SCHEMA, from_json, load, save, to_json


def refusal(data: str | bytes, seconds: float = 5.0) -> str:
    """The sentence that ``data`` ends in; it comes quickly, is one line, and quotes nothing that could be markup."""
    start = time.process_time()
    with pytest.raises(BadInput) as caught:
        from_json(data)
    said = str(caught.value)
    assert time.process_time() - start < seconds
    assert re.fullmatch(r"[A-Z][^\n<>]{20,300}\.", said), said
    return said


HUGE = "1" + "0" * 400
BASE = to_json(small())
FORBIDDEN = '[{"id": 5, "text": "no", "parent": @, "position": 3}]'
HOSTILE = {
    "empty": "",
    "not JSON": "hello there",
    "HTML": "<html><script>alert(1)</script></html>",
    "a list": "[]",
    "truncated": BASE[: len(BASE) // 2],
    "text behind the end": BASE + "x",
    "deep brackets": "[" * 100_000,
    "deep settings": changed("started", "config", to="[" * 50 + "]" * 50),
    "a lone surrogate": changed("started", "pair", to='"\\ud800"'),
    "no version": json.dumps({k: v for k, v in json.loads(BASE).items() if k != "schema"}),
    "a newer version": changed("schema", to=str(SCHEMA + 1)),
    "a version of markup": changed("schema", to='"<img src=x onerror=alert(1)>"'),
    "no start": changed("started", to="null"),
    "an extra field of markup": BASE[:-1] + ',"<script>alert(1)</script>":1}',
    "an extra field in a candidate": BASE.replace('"mass":', '"markup":1,"mass":', 1),
    "a missing field": BASE.replace('"depth":1,', "", 1),
    "an unknown status": changed("rounds", 0, "tokens", 0, "status", to='"perfect"'),
    "an unknown reason": changed("finished", "reason", to='"bored"'),
    "a text for a number": changed("rounds", 0, "start", to='"soon"'),
    "Infinity": changed("rounds", 0, "end", to="Infinity"),
    "1e400": changed("rounds", 0, "timings", "verify", to="1e400"),
    "NaN in the settings": changed("started", "config", "x", to="NaN"),
    "10**400 in the settings": changed("started", "config", "seed", to=HUGE),
    "10**5000": changed("rounds", 0, "tokens", 0, "id", to="1" + "0" * 5000),
    "2**70 as an id": changed("rounds", 0, "tokens", 0, "id", to=str(2**70)),
    "a candidate's negative id": changed("rounds", 0, "tokens", 0, "p_top", "top", 0, "id", to="-1"),
    "NaN as a mass": changed("rounds", 0, "tokens", 0, "p_top", "top", 0, "mass", to="NaN"),
    "a mass of 2": changed("rounds", 0, "tokens", 0, "p_top", "rest", to="2"),
    "a negative position": changed("rounds", 0, "tokens", 0, "position", to="-1"),
    "a position twice": changed("rounds", 1, "tokens", 0, "position", to="1"),
    "an end before the start": changed("rounds", 1, "end", to="0.01"),
    "a round's wrong number": changed("rounds", 1, "index", to="7"),
    "a parent to come": changed("rounds", 0, "parents", 0, to="3"),
    "too few parents": changed("rounds", 0, "parents", to="[0]"),
    "a depth that the parents deny": changed("rounds", 0, "tokens", 2, "depth", to="1"),
    "a depth of 2**40": changed("rounds", 1, "tokens", 0, "depth", to=str(2**40)),
    "a draft behind the closing token": changed("rounds", 0, "tokens", 0, "status", to='"bonus"'),
    "more layers than there are": changed("started", "exit_layers", to="[31, 30]"),
    "a layer of 2**70": changed("started", "exit_layers", to=f"[1, {2**70}]"),
    "no costs measured": changed("started", "costs", "v", to="{}"),
    "a cost of 0": changed("started", "costs", "v", to='{"1": 0}'),
    "a width that is a word": changed("started", "costs", "v", to='{"wide": 1}'),
    "a text of 20,000 characters": changed("rounds", 0, "tokens", 0, "text", to=json.dumps("a" * 20_000)),
    "a branch of nothing": changed("branch", "started", "prefix", to="[]"),
    "a branch that begins elsewhere": changed("branch", "started", "prefix", 0, "id", to="12"),
    "a branch beyond the output": changed("branch", "started", "prefix", to=json.dumps([{"id": 7, "text": "x"}] * 4)),
    "a branch of a branch": changed("branch", "branch", to=json.dumps(json.loads(BASE))),
    "a branch of another prompt": changed("branch", "started", "prompt", to="[]"),
    "a forced token of 2**70": changed("branch", "started", "prefix", 1, "id", to=str(2**70)),
    "a forced text of 20,000 letters": changed("branch", "started", "prefix", 1, "text", to=json.dumps("a" * 20_000)),
    "a branch at the wrong place": changed("branch", "rounds", 0, "tokens", 0, "position", to="0"),
    "a forbidden draft after a draft to come": changed("rounds", 0, "forbidden", to=FORBIDDEN.replace("@", "4")),
    "a forbidden draft before the round": changed("rounds", 0, "forbidden", to=FORBIDDEN.replace("@", "-1")),
    "65 drafts, of which one was scored": changed("rounds", 0, "forbidden",
                                                  to=f"[{', '.join([FORBIDDEN[1:-1].replace('@', '0')] * 64)}]"),
    "a removed mass of 2": changed("rounds", 0, "tokens", 0, "removed", to='{"top": [], "rest": 2}'),
    "wide settings": changed("started", "config", to=json.dumps({str(i): i for i in range(5000)})),
}  # fmt: skip


ANYTHING = [None, True, "soon", "", 0.5, -1, 10**18, [], ["typical"], {}, {"temperature": "hot"}, {"temperature": None},
            {"window": "wide", "ngram": True}]  # fmt: skip
SETTINGS = ("method", "gamma", "sampling", "acceptance", "max_new_tokens", "prompt", "lookahead", "epsilon")
OWN = {"method": "lookahead", "acceptance": "typical"}  # which have settings of their own


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
def test_settings_of_any_json_have_values_of_the_right_type(value):
    for config in ({}, dict.fromkeys(SETTINGS, value), *(OWN | {name: value} for name in SETTINGS)):
        started = from_json(changed("started", "config", to=json.dumps(config))).started
        assert type(started.method) is type(started.prompt_text) is str
        assert started.gamma is None or started.gamma == AUTO or type(started.gamma) is int
        assert isinstance(started.temperature, int | float) and started.is_greedy is (started.temperature == 0)
        assert started.acceptance in ACCEPTANCE and type(started.is_lossy) is bool
        assert started.max_new_tokens is None or type(started.max_new_tokens) is int
        own = [*started.method_settings, *started.rule_settings]
        assert all(type(value) in (int, float) for _, value in own)


@pytest.mark.parametrize("value", ANYTHING, ids=repr)
def test_views_show_a_run_with_settings_of_any_json(value):
    for name in SETTINGS:
        run = from_json(changed("started", "config", to=json.dumps(OWN | {name: value})))
        player_feed.replay("run", run, run)
        assert run_facts.facts(run) and run_charts.complete(run, run) and lanes.note(run, run) is not None


def test_settings_of_a_run_are_read_as_they_were_written():
    config = OWN | {"gamma": 4, "sampling": {"temperature": 0.7}, "max_new_tokens": 9, "prompt": "Hi", "delta": 0.5,
                    "lookahead": {"ngram": 3, "guesses": "many"}}  # fmt: skip
    run = from_json(changed("started", "config", to=json.dumps(config))).started
    read = (run.method, run.gamma, run.temperature, run.acceptance, run.max_new_tokens, run.prompt_text)
    assert read == ("lookahead", 4, 0.7, "typical", 9, "Hi") and run.is_lossy and not run.is_greedy
    own = {setting.name: value for setting, value in (*run.method_settings, *run.rule_settings)}
    assert own == {"ngram_size": 3, "delta": 0.5}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_trace_ends_in_a_sentence(what):
    refusal(HOSTILE[what])


def test_refusal_names_place_and_remedy_and_markup_passes_as_text(monkeypatch):
    said = "schema version 2, but this SpecLens reads version 1; record the run again"
    assert said in refusal(changed("schema", to="2")) and from_json('{"schema":99,' + BASE[1:]) == small()
    assert "rounds.0.tokens.0.status" in refusal(HOSTILE["an unknown status"])
    assert "a parent in round 0 does not exist" in refusal(HOSTILE["a parent to come"])
    assert "forces a token beyond the output" in refusal(HOSTILE["a branch beyond the output"])
    nasty = "<script>alert(1)</script>{{1+1}}${1+1}\x00\u2028"
    assert from_json(changed("rounds", 1, "tokens", 0, "text", to=json.dumps(nasty))).text.endswith(nasty)
    monkeypatch.setattr(traces, "MAX_TOKENS", 3)
    assert "it has over 3 tokens" in refusal(BASE)


PLAIN = '{"id":1,"text":"a","status":"plain","position":0,"depth":1}'


def one_round(tokens: str, count: int) -> str:
    return changed("rounds", 1, "tokens", to=f"[{','.join([tokens] * count)}]")


BOMBS = {
    "200 MB of brackets": lambda: "[" * 200_000_000,
    "a million bad widths": lambda: changed(
        "started", "costs", "v", to="{" + ",".join(f'"{i}":"x"' for i in range(1_000_000)) + "}"
    ),
    "twenty million numbers": lambda: changed("started", "config", "a", to="[" + "0," * 20_000_000 + "0]"),
    "tokens up to the last value": lambda: one_round(PLAIN, 700_000),
    "a million empty rounds": lambda: changed("rounds", to=f"[{','.join(['{}'] * 1_000_000)}]"),
    "a million tokens": lambda: one_round(PLAIN, 1_000_000),
    "a million bad tokens": lambda: one_round("{}", 1_000_000),
    "200 MB of text": lambda: changed("started", "pair", to='"' + "a" * 200_000_000 + '"'),
}
FIRST, *OTHERS = BOMBS


@pytest.mark.parametrize("what", [FIRST, *(pytest.param(other, marks=pytest.mark.slow) for other in OTHERS)])
def test_a_large_hostile_trace_is_refused_quickly_and_in_little_memory(what, tmp_path):
    """A process of its own may use 1.5 GiB: it must end in the sentence, not in a MemoryError."""
    (tmp_path / "bomb.json").write_text(BOMBS[what]())
    code = (
        "import resource, sys, time; from engine.trace.trace import from_json; from engine.errors import BadInput\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 * 2**29, 3 * 2**29)); start = time.process_time()\n"
        "try: from_json(data)\n"
        "except BadInput as error: print(error); assert time.process_time() - start < 10\n"
    )
    pytest.importorskip("resource", reason="limits on memory need a POSIX system")
    command = [sys.executable, "-c", code, tmp_path / "bomb.json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("This "), done.stdout + done.stderr


NO_POSIX = pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs a POSIX system")


@pytest.mark.parametrize("name", ["huge.json", pytest.param("/dev/zero", marks=NO_POSIX)])
def test_a_huge_file_is_not_read_and_an_endless_one_ends(tmp_path, name):
    with open(tmp_path / "huge.json", "wb") as file:
        file.truncate(200_000_000)
    start = time.process_time()
    with pytest.raises(BadInput, match="larger than 64 MiB"):
        load(tmp_path / name)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("name", ["absent.json", ".", "file/inside", "a\0b"])
def test_a_path_that_cannot_be_read_or_written_ends_in_a_sentence(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot be read: .*\."):
        load(f"{tmp_path}/{name}")
    if name != "absent.json":
        with pytest.raises(BadInput, match=r"could not be written to .*\."):
            save(small(), f"{tmp_path}/{name}")
        assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_a_full_disk_leaves_the_older_trace(tmp_path, monkeypatch):
    save(small(), tmp_path / "trace.json")

    def full(temporary, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(BadInput, match="No space left on device"):
        save(replace(small(), rounds=()), tmp_path / "trace.json")
    assert load(tmp_path / "trace.json") == small()
    assert [f.name for f in tmp_path.iterdir()] == ["trace.json"]
