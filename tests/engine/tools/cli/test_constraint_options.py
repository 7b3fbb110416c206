"""Constraints on the command line: from options to a run's request, and from a trace to lines."""

import json

import pytest
from command_line import call

from engine.config import Constraint
from engine.errors import BadInput
from engine.tools.bench.prompts import MEASUREMENT, TEXT, parse_prompts
from engine.tools.cli import constraint
from engine.tools.exactness.toy_grammar import text_reader
from engine.tools.exactness.toy_models import ToyLM, make_drafter, record_trace
from engine.trace.trace import save

WORDS = ("a", "b", "ab", ".")


def test_each_option_is_a_constraint(tmp_path):
    schema, lark = tmp_path / "schema.json", tmp_path / "sum.lark"
    schema.write_text('{"type": "integer"}', encoding="utf-8-sig")
    lark.write_text('start: "é"', encoding="utf-8")
    assert constraint.parse(None, None, (), None, False) is None
    assert constraint.parse(schema, None, (), None, True) == Constraint("json_schema", '{"type": "integer"}', True)
    assert constraint.parse(None, "a+", (), None, False) == Constraint("regex", "a+")
    assert constraint.parse(None, None, ["yes", "no"], None, False) == Constraint("choice", "yes\nno")
    assert constraint.parse(None, None, ["a\nb", ""], None, False) == Constraint("choice", '["a\\nb", ""]')
    assert constraint.parse(None, None, (), lark, False) == Constraint("grammar", 'start: "é"')


@pytest.mark.parametrize(("arguments", "words"), [
    (["--json-schema", "absent.json"], "The JSON schema absent.json cannot be read: No such file"),
    (["--regex", "a", "--choice", "b"], "takes one constraint"),
    (["--regex", "a", "--compact-json"], "Compact JSON"),
    (["--method", "grammar"], "add a constraint"),
    (["--regex", " "], "is empty"),
    (["--regex", ""], "The regular expression is empty"),
    (["--choice", ""], "The choice is empty"),
    (["--json-schema", "empty.json"], "The JSON schema is empty"),
])  # fmt: skip
def test_wrong_options_end_in_a_sentence_before_a_model_is_loaded(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.json").write_text("")
    result = call("run", "Hi", *arguments)
    assert result.exit_code == 2 and words in result.output and result.output.count("\n") <= 2


@pytest.mark.parametrize(("arguments", "words"), [
    (["--json-schema", "not.json"], 'the word "not", which cannot be enforced'),
    (["--regex", "(a{1,1000}){1,1000}"], "became too complex to follow"),
    (["--choice", "the cat and the hat and the cat", "--max-new-tokens", "3"], "and 3 are allowed"),
])  # fmt: skip
def test_a_constraint_that_cannot_be_followed_ends_in_a_sentence(arguments, words, tiny_pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "not.json").write_text('{"not": {"type": "string"}}')
    result = call("run", "aaa", "--pair", tiny_pair, "--raw", *arguments)
    assert result.exit_code == 2 and words in result.output and "Traceback" not in result.output
    assert result.output.rstrip().endswith(".")


def test_a_replay_shows_what_came_from_the_grammar(tmp_path):
    target = ToyLM(ToyLM.random(4, seed=1).table, WORDS)
    reader, own = text_reader(("abab", "abb"), WORDS, 3), Constraint("choice", "abab\nabb")
    drafter = make_drafter("ngram", target)
    trace = record_trace(target, drafter, [0, 1, 3, 0, 1, 3, 0], eos=[3], reader=reader, constraint=own, gamma=2)
    save(trace, tmp_path / "run.json")
    assert sum(len(each.forbidden) for each in trace.rounds) == 1
    result = call("replay", tmp_path / "run.json")
    assert result.exit_code == 0 and "choice" in result.output
    assert f"0 of {len(trace.emitted)} tokens (§); not scored: 1 forbidden draft (⊘)" in result.output


def test_a_prompt_of_the_benchmark_may_have_a_schema():
    row = {"prompt": "A baker.", "kind": "person", "json_schema": {"type": "object"}, "compact": True}
    (prompt,) = parse_prompts(json.dumps(row), "rows", MEASUREMENT)
    assert prompt.constraint == Constraint("json_schema", '{"type": "object"}', True)
    assert parse_prompts(json.dumps(row | {"json_schema": '{"type": "object"}'}), "rows", MEASUREMENT) == [prompt], (
        "or its text"
    )
    assert parse_prompts('{"prompt": "Hi", "json_schema": null}', "rows")[0].constraint is None
    (other,) = parse_prompts('{"prompt": "Hi", "choice": ["a\\nb", "c"]}', "rows", MEASUREMENT)
    assert other.constraint == Constraint("choice", '["a\\nb", "c"]')
    with pytest.raises(BadInput, match="Line 1 of rows has choice, which is not used here"):
        TEXT.check(other)
    with pytest.raises(BadInput, match="Line 1 of rows: response_format is not read"):
        parse_prompts('{"prompt": "Hi", "response_format": {"type": "json_object"}}', "rows")
    with pytest.raises(BadInput, match="Line 2 of rows: The JSON schema"):
        parse_prompts('{"prompt": "Hi"}\n{"prompt": "Hi", "json_schema": "{"}', "rows")


def test_prompts_may_be_one_json_list():
    rows = [{"prompt": "One\nline", "kind": "mail"}, {"turns": ["Two"]}]
    found = parse_prompts(json.dumps(rows, indent=1), "rows")
    assert [(prompt.text, prompt.category) for prompt in found] == [("One\nline", "mail"), ("Two", "other")]
    for text, place in (('["Hi"]', "Line 1"), ("[1] a note", "Line 1"), ('[{"prompt": "a"},\n\n{}]', "Entry 2")):
        with pytest.raises(BadInput, match=f"^{place} of rows"):
            parse_prompts(text, "rows")


@pytest.mark.parametrize("command", [
    ["lab", "precisions", "--prompts", "rows.jsonl"], ["lab", "exits", "--prompts", "rows.jsonl"],
    ["training", "evaluate", "lm", "--prompts", "rows.jsonl"],
    ["server", "compare", "http://127.0.0.1:9", "http://127.0.0.1:9", "--model", "m", "--prompts", "rows.jsonl"],
    ["server", "record", "http://127.0.0.1:9", "--model", "m", "--prompts", "rows.jsonl", "--out", "run.json"],
])  # fmt: skip
def test_a_command_that_cannot_follow_a_rows_constraint_says_so(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("engine.tools.cli.options.load", lambda *models: pytest.fail("the models were loaded"))
    (tmp_path / "rows.jsonl").write_text('{"prompt": "Name a town", "regex": "[A-Z][a-z]+"}')
    result = call(*command)
    assert result.exit_code in (1, 2) and "Line 1 of rows.jsonl has regex, which is" in result.output
