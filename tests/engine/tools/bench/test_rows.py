"""Every field of a row reaches the request of every command that takes rows, or is refused by name with its line."""

import json
from dataclasses import replace

import pytest
from paths import ROOT
from stand_in_server import DONE, event, serving
from typer.testing import CliRunner

from engine.config import RunConfig
from engine.errors import BadInput
from engine.tools.bench.answer import AnswerPlan
from engine.tools.bench.answer_points import AnswerPoints
from engine.tools.bench.benchmark import run_config
from engine.tools.bench.comparison import Comparison, Settings
from engine.tools.bench.prompts import _LABELS, _NAMES, MEASUREMENT, SERVER, SWEEP, TEXT, digest, parse_prompts
from engine.tools.bench.sweep import Grid, Sweep
from engine.tools.bench.users import ManyUsers, UsersSettings
from engine.tools.cli.main import app
from engine.tools.servers.client import Client
from engine.tools.servers.comparison import Arm
from engine.tools.servers.server_request import ServerRequest

BARE = {"prompt": "the cat, the cat", "kind": "cats"}
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}"
)
SCHEMA = {"type": "array", "items": {"type": "integer"}}
CHAT = [("system", "be brief"), ("user", "a hat"), ("assistant", "the hat"), ("user", "the cat, the cat")]
# Field → (its value, what of our own request has it, what of a server's request has it); None: refused by name.
FIELDS = {
    "system": ("be brief", {"system": "be brief"}, {"messages": [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "the cat, the cat"}]}),
    "form": ("raw", {"chat": False}, {"prompt": "the cat, the cat"}),
    "raw": (True, {"chat": False}, {"prompt": "the cat, the cat"}),
    "thinking": (True, {"thinking": True}, None),
    "stop": (["hat"], {"stop": ("hat",)}, {"stop": ["hat"]}),
    **dict.fromkeys(
        ("tokens", "max_new_tokens", "max_tokens", "max_completion_tokens"),
        (3, {"max_new_tokens": 3}, {"max_tokens": 3}),
    ),
    "temperature": (0.5, {"temperature": 0.5}, {"temperature": 0.5}),
    "top_k": (3, {"top_k": 3}, {"top_k": 3}),
    "top_p": (0.9, {"top_p": 0.9}, {"top_p": 0.9}),
    "min_p": (0.1, {"min_p": 0.1}, {"min_p": 0.1}),
    "repetition_penalty": (1.2, {"repetition_penalty": 1.2}, {"repetition_penalty": 1.2, "repeat_penalty": 1.2}),
    "presence_penalty": (0.5, None, {"presence_penalty": 0.5}),
    "frequency_penalty": (0.5, None, {"frequency_penalty": 0.5}),
    "seed": (7, None, {"seed": 7}),
    "json_schema": (SCHEMA, {"constraint": "json_schema"}, {"response_format": {
        "type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}}),
    "regex": ("[a-c]+", {"constraint": "regex"}, None),
    "choice": (["cat", "hat"], {"constraint": "choice"}, None),
    "grammar": ('start: "cat"', {"constraint": "grammar"}, None),
    "messages": ([{"role": role, "content": text} for role, text in CHAT],
                 {"system": "be brief", "earlier": ("a hat", "the hat")},
                 {"messages": [{"role": role, "content": text} for role, text in CHAT]}),
    "turns": (["a hat", "the cat, the cat"], {"earlier": ("a hat", "…")}, None),
}  # fmt: skip


def row_of(name: str) -> dict:
    return {key: value for key, value in BARE.items() if key != "prompt" or name not in ("messages", "turns")} | {
        name: FIELDS[name][0]
    }


def read(name: str, use) -> list:
    return parse_prompts(json.dumps(BARE) + "\n" + json.dumps(row_of(name)), "rows", use)


@pytest.fixture
def chatting(engine, monkeypatch):
    """The tiny engine with a chat template, which writes nothing at all for an answer to an earlier turn."""
    monkeypatch.setattr(engine.target.tokenizer, "chat_template", TEMPLATE)
    monkeypatch.setattr("engine.tools.bench.benchmark.fold", lambda events: type("Trace", (), {"text": " "}))
    return engine


def configs_of(engine, rows, folder) -> dict[str, RunConfig]:
    """The request of the last row in each command that measures on our engine."""
    sweep = Sweep(engine, Grid(("ngram",), (2,), max_new_tokens=4), rows)
    answer = AnswerPoints(engine, AnswerPlan(tuple(rows), ("ngram",), (2,), 4), folder)
    load = answer._load_file(2, ("ngram", 2)).many
    users = ManyUsers(engine, UsersSettings((1,), ("ngram",), 4), rows)
    return {
        "sweep": sweep.benchmark.turns[-1].config, "users": users.configs[-1], "load": load.configs[-1],
        "answer": answer.sweep.benchmark.turns[len(rows) - 1].config,
    }  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_is_dropped_by_bench_answer_sweep_or_many_users(chatting, tmp_path, name):
    _, ours, _ = FIELDS[name]
    if ours is None:
        with pytest.raises(BadInput, match=f"Line 2 of rows has {name}, which is not used here"):
            read(name, MEASUREMENT)
        return
    rows = read(name, MEASUREMENT)
    for command, config in configs_of(chatting, rows, tmp_path).items():
        known = {**vars(config), **vars(config.sampling)}
        known["constraint"] = config.constraint and config.constraint.kind
        longest = {"max_new_tokens": 4} if command == "load" and "max_new_tokens" in ours else {}
        assert {key: known[key] for key in ours} == ours | longest, command
    assert digest(rows) != digest([rows[0], replace(rows[0])]), "another question"


def test_bench_runs_each_row_as_it_says(engine, monkeypatch):
    rows = parse_prompts(json.dumps(BARE | {"tokens": 3, "top_k": 2, "temperature": 0.5, "regex": "[a-c]+"}), "rows",
                         MEASUREMENT)  # fmt: skip
    monkeypatch.setattr(Comparison, "_measure_costs", lambda self: {})
    config = Comparison(engine, Settings(("ngram",), 9), rows).benchmark.turns[0].config
    assert config == run_config(engine, rows[0], 0.0, 9, 0)
    assert (config.max_new_tokens, config.sampling.top_k, config.sampling.temperature) == (3, 2, 0.5)


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_is_dropped_by_record_or_compare(name):
    _, _, theirs = FIELDS[name]
    if theirs is None:
        with pytest.raises(BadInput, match=f"Line 2 of rows has {name}, which is not used here"):
            read(name, SERVER)
        return
    bodies, text = [], event(choices=[{"delta": {"content": "a"}, "text": "a", "finish_reason": "stop"}])
    paths = dict.fromkeys(
        ("/v1/chat/completions", "/v1/completions"), lambda body: (bodies.append(body), [text, DONE])[1]
    )
    with serving(paths) as address:
        Arm(Client(address), ServerRequest("m", "")).answer_all(read(name, SERVER), 1)
    assert {key: bodies[1][key] for key in theirs} == theirs and bodies[0] != bodies[1]


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("messages", "turns")])
def test_a_command_for_bare_texts_refuses_every_field_by_name(name):
    field = {"raw": "form", "tokens": "max_new_tokens", "max_tokens": "max_new_tokens",
             "max_completion_tokens": "max_new_tokens"}.get(name, name)  # fmt: skip
    with pytest.raises(BadInput, match=f"Line 2 of rows has {field}, which is not used here"):
        read(name, TEXT)
    if name == "temperature":
        with pytest.raises(BadInput, match="Line 2 of rows has temperature, which is not used here"):
            read(name, SWEEP)


def test_the_document_lists_every_field():
    text = (ROOT / "docs" / "answer.md").read_text(encoding="utf-8")
    assert [name for name in (*FIELDS, *_NAMES, *_LABELS, "compact_json") if f"`{name}`" not in text] == []
    assert {*FIELDS} >= {*_NAMES}, "a field without a row in the table above"


REFUSALS = {
    '"systm": "x"': "systm is not used by any command; did you mean system",
    '"colour": "x"': "colour is not used by any command; leave it out, or begin its name with _",
    '"temperature": -1': "temperature is -1",
    '"temperature": "warm"': "temperature is 'warm'",
    '"top_p": 0': "top_p is 0",
    '"max_tokens": 0': "max_new_tokens is 0",
    '"max_tokens": 3, "tokens": 3': "tokens is there twice, under two names",
    '"form": "poem"': "form is 'poem'; choose from 'chat', 'raw'",
    '"raw": 1': "raw is 1",
    '"system": 3': "system is 3, but must be a text",
    '"stop": 3': "stop is 3, but must be a text or a list of texts",
    '"compact": "yes"': "compact is 'yes'",
    '"form": "raw", "system": "x"': "has system, for which a raw text has no place",
    '"json_schema": {"type": "nonsense"}': "The JSON schema's type",
    '"json_schema": {"type": "string", "pattern": "["}': "The JSON schema",
    '"regex": "["': "The regular expression cannot be used: unclosed character class",
    '"grammar": "start: x"': "The grammar cannot be used",
    '"regex": "a", "choice": ["b"]': "A run takes one constraint",
    '"guided_json": {}': "guided_json is not read; write its schema as json_schema",
}


@pytest.mark.parametrize(("more", "words"), REFUSALS.items())
def test_a_wrong_row_is_refused_with_its_line_before_models_load(tmp_path, monkeypatch, more, words):
    monkeypatch.setattr("engine.tools.cli.options.load", lambda *models: pytest.fail("the models were loaded"))
    (tmp_path / "rows.jsonl").write_text(f'{json.dumps(BARE)}\n{{"prompt": "a hat", {more}}}')
    told = CliRunner().invoke(app, ["answer", str(tmp_path / "rows.jsonl")])
    assert told.exit_code == 2 and words in told.stderr and "Line 2 of" in told.stderr, told.stderr


def test_labels_and_notes_change_nothing():
    noted = BARE | {"id": "a", "question_id": 1, "reference": ["x"], "_note": "mine", "system": "", "thinking": None}
    assert parse_prompts(json.dumps(noted), "rows") == parse_prompts(json.dumps(BARE), "rows")


@pytest.mark.parametrize(("more", "lost"), [({"system": "x"}, "system"), ({"thinking": True}, "thinking")])
def test_a_model_without_a_chat_template_refuses_rows_that_need_one(engine, monkeypatch, more, lost):
    monkeypatch.setattr(engine.target.tokenizer, "chat_template", None)
    (row,) = parse_prompts(json.dumps(BARE | more), "rows", MEASUREMENT)
    with pytest.raises(BadInput, match=f"Line 1 of rows has {lost}, for which this model's chat template has no place"):
        run_config(engine, row, 0.0, 4, 0)


def test_the_target_answers_earlier_turns_itself(engine, monkeypatch):
    monkeypatch.setattr(engine.target.tokenizer, "chat_template", TEMPLATE)
    rows = parse_prompts(json.dumps({"turns": ["a hat", "the cat", "aa"]}), "rows", MEASUREMENT)
    config = Sweep(engine, Grid(("ngram",), (2,), max_new_tokens=4), rows).benchmark.turns[0].config
    first = replace(rows[0], text="a hat", earlier=())
    from engine.trace.trace import fold

    answer = fold(engine.run(replace(run_config(engine, first, 0.0, 4, 0), method="none"))).text.strip() or "…"
    assert config.prompt == "aa" and config.earlier[:3] == ("a hat", answer, "the cat") and len(config.earlier) == 4
    (one,) = parse_prompts(json.dumps({"turns": ["aa"]}), "rows", TEXT)
    assert one.text == "aa", "a single turn is a prompt"
