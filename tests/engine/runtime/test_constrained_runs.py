"""Constraints on the embedded model: the same greedy text with every method, JSON that fits, and what a trace says."""

import json
from functools import cache

import pytest
from paths import ASSETS
from real_model import PAIR, differs_at_near_tie
from shared_passes import drive

from engine.config import METHODS, Constraint, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.runtime.run_batch import RunBatch
from engine.tools.bench.prompts import MEASUREMENT, read_prompts
from engine.trace.branch import branch_config, config_of
from engine.trace.trace import fold, from_json, to_json

pytestmark = pytest.mark.xdist_group("real-model")

PROMPTS = read_prompts(ASSETS / "data" / "prompts_json.jsonl", use=MEASUREMENT)[4::8]  # one of each schema
TOKENS = 64
FAST = ("auto", "eagle")
OTHERS = [pytest.param(method, marks=pytest.mark.slow) for method in METHODS if method not in ("none", *FAST)]


def config(prompt, method: str = "none", **settings) -> RunConfig:
    settings = {"gamma": 0 if method == "none" else 3, "max_new_tokens": TOKENS} | settings
    return RunConfig(prompt.text, PAIR, method, constraint=prompt.constraint, **settings)


@pytest.fixture(scope="module")
def plain(engine):
    return cache(lambda prompt: fold(engine.run(config(prompt))))


def fits(trace, prompt) -> bool:
    """Returns whether an answer has ended and is JSON with the fields of its schema, in order and of their types."""
    if trace.finished.reason != "eos":
        return False
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list, None: str}
    schema, answer = json.loads(prompt.constraint.text), json.loads(trace.text)
    fields = schema["properties"]
    are_typed = all(isinstance(answer[name], kinds[fields[name].get("type")]) for name in answer)
    return [*answer] == schema["required"] and are_typed


@pytest.mark.slow
def test_plain_answers_end_and_fit_their_schemas(plain):
    assert all(fits(plain(prompt), prompt) for prompt in PROMPTS)


@pytest.mark.parametrize("method", [*FAST, *OTHERS])
def test_greedy_answer_is_that_of_plain_constrained_decoding(engine, plain, method):
    trace, expected = fold(engine.run(config(PROMPTS[0], method))), plain(PROMPTS[0])
    assert trace.text == expected.text and trace.finished.reason == expected.finished.reason
    assert sum(len(each.parents) for each in trace.rounds) > 10


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "eagle"])
def test_drawn_answers_fit_the_schema_too(engine, method):
    ended = drafts = 0
    for seed, prompt in enumerate(PROMPTS):
        run = config(prompt, method, sampling=SamplingParams(0.8), seed=seed, max_new_tokens=160, gamma="auto")
        trace = fold(engine.run(run))
        drafts += sum(len(each.parents) for each in trace.rounds)
        ended += trace.finished.reason == "eos"
        assert trace.finished.reason == "length" or fits(trace, prompt)
    assert ended and drafts > 10 * len(PROMPTS)


@pytest.mark.slow
def test_runs_that_share_passes_write_what_each_writes_alone(engine, plain):
    batch = RunBatch(engine, 3)
    for i, prompt in enumerate(PROMPTS):
        batch.add(i, config(prompt, "auto", gamma="auto"))
    found = drive(batch)
    traces = [fold(found[i]) for i in range(len(PROMPTS))]
    ties = [differs_at_near_tie(trace, plain(prompt)) for trace, prompt in zip(traces, PROMPTS, strict=True)]
    assert sum(ties) <= 1 and all(any(each.parents for each in trace.rounds) for trace in traces)


def test_a_trace_says_what_the_grammar_did(engine, tmp_path):
    trace = fold(engine.run(config(PROMPTS[0], "auto", gamma="auto")))
    again = from_json(to_json(trace))
    assert again == trace and again.started.constraint["compact"] is True
    assert config_of(again).constraint == PROMPTS[0].constraint
    demanded = [token for token in trace.emitted if token.from_grammar]
    assert len(demanded) >= 5 and all(token.status in ("accepted", "rescued") for token in demanded)
    first = trace.emitted[0]
    removed = sum(word.mass for word in first.removed.top) + first.removed.rest
    assert 0 < removed < 1 and first.removed.top[0].mass == max(word.mass for word in first.removed.top)
    assert {word.text for word in first.removed.top}.isdisjoint({"{", '{"'})
    plain = fold(engine.run(RunConfig("Hi", PAIR, "ngram", 3, max_new_tokens=8)))
    assert "constraint" not in plain.started.config and all(token.removed is None for token in plain.emitted)


def test_forbidden_drafts_are_told_and_not_scored(engine):
    """Lookup goes on as the question does, where the expression wants it otherwise."""
    run = RunConfig(
        "Repeat: yes, no, yes, no, maybe, yes, no, yes, no, maybe", PAIR, "ngram", 6, max_new_tokens=40,
        constraint=Constraint("regex", "(yes, no, ){4}done"),
    )  # fmt: skip
    trace = fold(engine.run(run))
    forbidden = [draft for each in trace.rounds for draft in each.forbidden]
    assert trace.text == 4 * "yes, no, " + "done" and " maybe" in {draft.text for draft in forbidden}
    assert all(len(each.tokens) <= 1 + len(each.parents) for each in trace.rounds)
    scored = {token.text for each in trace.rounds for token in each.tokens}
    assert " maybe" not in scored


def test_a_run_that_reaches_its_limit_says_that_its_json_is_unfinished(engine, plain):
    short = fold(engine.run(config(PROMPTS[0], max_new_tokens=9)))
    assert short.finished.notes == (
        "The JSON is unfinished, because the token limit was reached; ask for more tokens.",
    )
    assert plain(PROMPTS[0]).finished.notes == ()


def test_a_branch_may_force_only_what_the_grammar_allows(engine, plain):
    whole = plain(PROMPTS[0])
    with pytest.raises(BadInput, match="forbids the token"):
        engine.prepare(branch_config(whole, 2, whole.output[0]))
    texts = [token.text for token in whole.emitted]
    name = next(place for place in range(len(texts)) if "".join(texts[:place]) == '{"name":"')
    other = fold(engine.run(branch_config(whole, name, engine.target.tokenizer("Zoe").input_ids[0])))
    assert other.text.startswith('{"name":"Z') and fits(other, PROMPTS[0])


def test_the_method_grammar_needs_a_constraint():
    with pytest.raises(BadInput, match="add a constraint"):
        RunConfig("Hi", PAIR, "grammar")


@pytest.mark.parametrize("rule", [
    'start: "The" <[{cat}]> " sat" /[a-z ]{{4,12}}/ "."', 'start: "a" <|im_start|> /[a-z ]{{2,9}}/ "."',
    'start: w "!"\nw[lazy]: /[a-z ]+ and/', 'start: "So: " %json {{"type": "object"}} "."',
])  # fmt: skip
def test_a_grammar_gives_one_text_by_every_method(engine, rule):
    (cat,) = engine.target.tokenizer(" cat").input_ids
    own = Constraint("grammar", rule.format(cat=cat))
    methods = {"none": 0, "ngram": 3, "grammar": 3, "auto": "auto"}
    runs = [
        RunConfig("dog and dog and dog and", PAIR, *each, max_new_tokens=24, constraint=own) for each in methods.items()
    ]
    traces = [fold(engine.run(run)) for run in runs]
    assert len({trace.text for trace in traces}) == 1 and {trace.finished.reason for trace in traces} == {"eos"}


@pytest.mark.parametrize("method", ["none", "ngram", "grammar", "auto"])
def test_what_drafts_cannot_follow_is_refused_for_all_before_the_run(engine, method):
    own = Constraint("grammar", 'start: w "!"\nw[max_tokens=4]: /[a-z ]+/')
    with pytest.raises(BadInput, match="sets max_tokens"):
        next(iter(engine.run(RunConfig("Hi", PAIR, method, max_new_tokens=8, constraint=own))))


def test_a_choice_that_the_tokenizer_cannot_write_is_refused(engine):
    with pytest.raises(BadInput, match=r"cannot write all of the choice 'a\\x04b'"):
        engine.grammars.matcher(Constraint("choice", "yes\na\x04b"), 64)


def test_json_ends_without_endless_space_and_compact_says_what_it_changes(engine):
    runs = [
        RunConfig("Name seven days.", PAIR, "none", max_new_tokens=64,
                  constraint=Constraint("json_schema", '{"type": "array", "items": {"type": "string"}}', is_compact))
        for is_compact in (False, True)
    ]  # fmt: skip
    loose, compact = (fold(engine.run(run)) for run in runs)
    assert loose.finished.reason == compact.finished.reason == "eos" and json.loads(loose.text) != []
    assert compact.text == "[]" and "may be due to compact JSON" in compact.finished.notes[0]
    assert loose.finished.notes == ()
