"""What a constraint says is enforced, or refused with the word named; nothing in it is ignored."""

import json
import re
import threading
import time

import numpy as np
import pytest
from constrained_answers import accepts, follow, toy_grammars
from unlike_tokenizers import byte_level

from engine.constraint import Constraint, join_choices, split_choices
from engine.errors import BadInput
from engine.sampling.constraint_compiler import Grammars

CAT = byte_level()(" cat", add_special_tokens=False).input_ids[-1]
EOS = byte_level().eos_token_id
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WRAPPED = {  # what people paste, and where the schema is in it
    "json_schema.schema": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": OBJECT}},
    "schema": {"name": "x", "strict": True, "schema": OBJECT},
    "function.parameters": {"type": "function", "function": {"name": "x", "parameters": OBJECT}},
    "0.function.parameters": [{"type": "function", "function": {"name": "x", "parameters": OBJECT}}],
    "input_schema": {"name": "x", "description": "y", "input_schema": OBJECT},
    "format": {"model": "x", "format": OBJECT},
    "guided_json": {"guided_json": OBJECT},
    "structured_outputs.json": {"structured_outputs": {"json": OBJECT}},
    "response_format.json_schema.schema": {
        "response_format": {"type": "json_schema", "json_schema": {"schema": OBJECT}}
    },
    "generationConfig.responseSchema": {"generationConfig": {"responseSchema": {"$ref": "#"}}},
}


@pytest.mark.parametrize("path", WRAPPED)
def test_a_wrapped_schema_is_refused_with_its_place(path):
    with pytest.raises(BadInput, match=rf"seems to be inside, as {re.escape(path)}: give only that\.$"):
        Constraint("json_schema", json.dumps(WRAPPED[path]))


REFUSED = {
    '{"maxlenght": 2}': 'word "maxlenght", .*did you mean maxLength',
    '{"type": "string", "minlength": 2}': "did you mean minLength",
    '{"type": "string", "MAXLENGTH": 2}': "did you mean maxLength",
    '{"title": "x", "propertys": {"a": {"type": "string"}}}': "did you mean properties",
    '{"type": "string", "nullable": true}': 'word "nullable".*"null"',
    '{"properties": {"a": {"nullable": true}}}': 'word "nullable" in properties/a',
    '{"items": {"anyOf": [{"$defs": {"b/c": {"foo": 1}}}]}}': 'word "foo" in items/anyOf/0/\\$defs/b~1c',
    '{"additionalProperties": {"foo": 1}}': "in additionalProperties",
    '{"prefixItems": [{"foo": 1}]}': "in prefixItems/0",
    '{"patternProperties": {"a": {"foo": 1}}}': "in patternProperties/a",
    '{"type": "STRING"}': "type is 'STRING', but must be one of null",
    '{"type": ["string", "text"]}': "but must be one of null",
    '{"type": "string", "format": "unknown"}': "format is 'unknown', but must be one of date-time",
    '{"type": "integer", "format": "int32"}': "format is 'int32'",
    '{"required": true}': "required is true",
    '{"type": "integer", "minLength": "2"}': "minLength is '2'",
    '{"maxItems": -1}': "maxItems is -1",
    '{"exclusiveMinimum": true, "minimum": 2}': "exclusiveMinimum is true",
    '{"multipleOf": 0}': "multipleOf is 0",
    '{"multipleOf": 0.001953125}': "with up to 5 digits",
    '{"multipleOf": 4294967295}': "with up to 5 digits",
    '{"properties": {"a": 1}}': "properties is",
    '{"items": [{"type": "null"}]}': "items is .*must be a schema",
    '{"anyOf": []}': "anyOf is",
    '{"prefixItems": [{}], "additionalItems": false}': "write prefixItems and items",
    '{"pattern": "[[a]b]"}': "pattern is .*without \\[",
    '{"pattern": "x[a-z&&b]"}': "pattern is",
    '{"uniqueItems": true}': '"uniqueItems"',
    '{"properties": {"a": {"type": "array", "uniqueItems": true}}}': "in properties/a, .*; leave it out, or write it",
    '{"properties": {"a": {"type": "array", "minItems": "2"}}}': r"whole number from 0\.$",
    '{"not": {"type": "null"}}': '"not", which cannot be enforced; leave it out',
    '{"contains": {}}': '"contains"',
    '{"if": {}, "then": {}}': '"if"',
    '{"propertyNames": {}}': '"propertyNames"',
    '{"dependentRequired": {}}': '"dependentRequired"',
    '{"x-guidance": {"lenient": true}}': '"x-guidance"',
    '{"oneOf": [{"type": "integer"}, {"type": "number"}]}': "oneOf constraints are not supported\\.$",
    '{"minProperties": 2}': "minProperties cannot be counted",
    '{"$defs": {"a": {"type": "null"}}}': "defines parts and uses none",
    '{"$ref": "http://example.com/a"}': 'refers to "http://example.com/a"',
    '{"$ref": "a/$defs/b", "$defs": {"b": {}}}': "no part of it",
    '{"$ref": "#/examples/0", "examples": [{"foo": 1}]}': "no part of it",
    '{"$ref": "#b", "$defs": {"b": {"$anchor": "b"}}}': 'refers to "#b"',
    '{"$ref": "#"}': "within itself, without end",
    '{"type": "object", "properties": {"a/b": {"$ref": "#"}}, "required": ["a/b"]}': "within itself, without end",
    '{"type": "array", "minItems": 1, "items": {"$ref": "#"}}': "within itself, without end",
    '{"type": "array", "minItems": 2, "prefixItems": [{}, {"anyOf": [{"$ref": "#"}]}]}': "within itself, without end",
    '{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"oneOf": [{"$ref": "#"}]}}}': "within itself, without end",
    '{"const": 9007199254740993}': "number 9007199254740993",
    '{"enum": [{"a": [1e400]}]}': "number 1e400",
    '{"minimum": -1e30}': "number -1e30",
    '{"maximum": 0.12345678901234567890}': "number 0.1234",
    '{"maximum": NaN}': "NaN is no JSON",
    '{"type": "string", "type": "integer"}': '"type" twice',
    '{"properties": {"a": {}, "\\u0061": {}}}': '"a" twice',
    '{"enum": ["a\\u0001"]}': "control character \\\\u0001",
    '{"const": "\\u007f"}': "control character \\\\u007f",
    '{"type": "null"} {}': "goes on with",
    '"text"': "must be an object, true or false",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_schema_says_in_vain_is_refused_by_its_name(text):
    with pytest.raises(BadInput, match=REFUSED[text]):
        follow("json_schema", text)


KEPT = {
    "annotations": ({"title": "t", "default": 1, "examples": [{"foo": 1}], "deprecated": True, "readOnly": True,
                     "x-note": {"foo": 1}, "$comment": "c", "discriminator": {}, "type": "null"}, "null", "1"),
    "a word that an older draft ignores": ({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "http://a/b",
                                            "prefixItems": [{"type": "null"}]}, "[null]", "[1]"),
    "a property of any name": ({"properties": {"nullable": {"type": "null"}, "title": {"type": "null"}}},
                               '{"title":null}', '{"nullable":1}'),
    "a part by its pointer": ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "null"}}}, "null", "1"),
    "a pattern": ({"type": "string", "pattern": "^[a\\[]\\[[b-]--$"}, '"[[b--"', '"a"'),
    "itself": ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}, "[[null]]", "[1]"),
    "itself, where it need not": (
        {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "required": ["v", "w", "y"], "properties": {
            "v": {"type": "array", "minItems": 1, "prefixItems": [{"type": "null"}, {"$ref": "#"}],
                  "items": {"$ref": "#"}},
            "w": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "x": {"$ref": "#"}}}}},
        '{"v":[null],"w":null,"y":1}', '{"v":[],"w":null,"y":1}'),
    "itself in objects only": ({"properties": {"c": {"$ref": "#"}}, "required": ["c"]}, '{"c":1}', "{}"),
    "itself in lists only": ({"items": {"$ref": "#"}, "minItems": 1}, "[1]", "[]"),
    "the largest number": ({"const": 2**53}, "9007199254740992", "9007199254740993"),
    "a name once, however written": (OBJECT, '{"n":1,"m":"text"}', '{"n":1,"\\u006e":"text"}'),
    "a line break in a name": ({"properties": {"a\n": {"type": "null"}}}, '{"a\\n":null}', '{"a\\n":1}'),
    "an indentation": (OBJECT, '{\n\n  "n" :\t1 \n}', '{\n\n\n"n":1}'),
    "bounded spaces": (OBJECT, "{" + 40 * " " + '"n":1}', "{" + 41 * " " + '"n":1}'),
}  # fmt: skip


@pytest.mark.parametrize("case", KEPT)
def test_a_schema_is_enforced_as_it_is_written(case):
    schema, answer, wrong = KEPT[case]
    assert accepts("json_schema", schema, answer) and not accepts("json_schema", schema, wrong)


def test_compact_json_has_no_space_at_all():
    assert accepts("json_schema", OBJECT, '{"n":1}', compact=True)
    assert not accepts("json_schema", OBJECT, '{"n": 1}', compact=True)


EXPRESSIONS = {
    "(?x)\n [a-c]+  # letters, / and more\n - [0-9]": ("ab-1", "ab -1"),
    "(?i)ab": ("aB", "a"),
    "(?s)a.": ("a\n", "a"),
    "^a|b$": ("b", "ab"),
    "a\\\nb": ("a\nb", "a\\\nb"),
    "a\nb": ("a\nb", "anb"),
    "a/b\\/c[/]": ("a/b/c/", "ab"),
    "[a-z&&[^b]]": ("a", "b"),
    "a+?b": ("aab", "b"),
    r"\d": ("٣", "x"),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_read_with_its_flags_and_lines(text):
    answer, wrong = EXPRESSIONS[text]
    assert accepts("regex", text, answer) and not accepts("regex", text, wrong)


@pytest.mark.parametrize(
    "text", [r"\ba", "a(?!b)", "(?<=a)b", r"(a)\1", "(?>a)", "(?P=a)", "a^b", r"a\Z", "(?a)a", "a{,3}"]
)
def test_an_expression_that_cannot_be_followed_is_refused(text):
    with pytest.raises(BadInput, match="The regular expression cannot be used"):
        follow("regex", text)


GRAMMARS = {
    'start: w\nw[max_tokens=4]: /[a-z ]+/': "sets max_tokens",
    'start: w\nw[stop="o"]: /[a-z ]+/': "sets stop",
    'start: w\nw[capture, temperature = 0.7]: /[a-z ]+/': "sets temperature",
    '%llguidance {"allow_invalid_utf8": true}\nstart: "a"': "option allow_invalid_utf8",
    'start: "a" | %json {"minlength": 2}': 'word "minlength"',
    'start: "a" | %json {"type": ': "cannot be read as JSON",
    'start: "a" <|im_end|>': "names <|im_end|>, which ends a text",
    f"start: <[{EOS}]>": "which ends a text",
    f"start: <[0,{EOS}-{EOS + 3}]>": "which ends a text",
    "start: <|nothing|>": "unknown special token",
    "start: <[99999]>": "too large",
    'start: @other': "unknown grammar",
    '# GBNF\nroot ::= "yes" | "no"': "has ::=, .* write it as a Lark grammar",
    'start: A\nA.2: "a"': "line 2, priority",
    'start: %json {\n"type":\n"null"}\nA.2: "a"': "line 4",
}  # fmt: skip


@pytest.mark.parametrize("text", GRAMMARS)
def test_a_grammar_that_cannot_be_followed_names_the_reason(text):
    with pytest.raises(BadInput, match=GRAMMARS[text].replace("|", "\\|")):
        follow("grammar", text)


RULES = {
    'start: "::=" /[:=]+/  # root ::= "a"': "::=::=",
    'start: w "stop=1"  # max_tokens=3\nw[lazy]: /[a-z]+ \\/ temperature=1/': "a / temperature=1stop=1",
    'start: w "c"\nw[suffix="b", capture]: /[ab ]+/': "a abc",
    '%llguidance {}\nstart: "a"': "a",
    '%llguidance {"allow_initial_skip": true}\n%ignore / /\nstart: "a"': " a",
    'start: "go" %json {"properties": {"a": {"type": "null"}}} "."': 'go{"a":\n null}.',
    'start: "go" %json {"type": "array",\n\n "items": {"type": "null"}} "."': "go[null].",
    'start: %json true': '["x"]',
}  # fmt: skip
FOLLOWED = [
    *RULES,
    f'start: (<[{CAT}]> | "!" | <|im_start|> "x")* "."',
    "start: <[5-40]>+",
    f'start: <[^{EOS},5-40]>{{2}} "."',
    "start: <[*]>{2}",
    'start: A "."\nA: /[ab ]*/ & ~/(?s:.*)bb(?s:.*)/',
    'start: TEXT | f\nTEXT: /[^{](.|\\n)*/\nf: %json {"type": "object"}',
    'start: %regex {"substring_words": "the cat and the hat"} "."',
]


@pytest.mark.parametrize("rule", RULES)
def test_a_grammar_is_read_past_its_texts_and_comments(rule):
    assert accepts("grammar", rule, RULES[rule])


@pytest.mark.parametrize("rule", FOLLOWED)
def test_drafts_that_are_taken_back_leave_no_trace(rule):
    """A mask is the same after drafts of any kind, and questions about forced texts, as without them."""
    rng, own, text = np.random.default_rng(1), toy_grammars(), []
    reader = follow("grammar", rule)

    def choose(path) -> list[int]:
        bits = np.unpackbits(reader.allowed_after(path), count=own.vocab_size, bitorder="little")
        return [token for token in bits.nonzero()[0].tolist() if token not in own.eos_ids]

    for _ in range(12):
        for _ in range(3):
            path = ()
            while len(path) < 4 and (tokens := choose(path)):
                reader.forced_tokens(path)
                path = (*path, int(rng.choice(tokens)))
            fresh = follow("grammar", rule)
            for token in (*text, *path):
                fresh.advance(token)
            assert (reader.allowed_after(path) == fresh.allowed_after(())).all()
        if not (tokens := choose(())):
            break
        text.append(int(rng.choice(tokens)))
        reader.advance(text[-1])
    assert text


@pytest.mark.parametrize("rule", [f'start: <[{CAT}]> "!"', f'start: "!" <[{CAT}]> "!"', 'start: "!" <|im_start|> "!"'])
def test_a_token_may_be_demanded_by_its_id_and_is_drafted(rule):
    reader = follow("grammar", rule)
    tokens = reader.forced_tokens()
    assert (CAT if "im" not in rule else 0) in tokens
    for token in tokens:
        assert reader.allowed_after(())[token >> 3] >> (token & 7) & 1
        reader.advance(token)
    assert reader.is_complete()


CHOICES = [
    ["yes", "no"], ["Dear Sir,\nbye", "No"], ["", "yes"], ['a "quoted" one', "back\\slash \\n"],
    ['["yes"]'], ["a\r\nb", "\t"], ["\x7f", "\x00", "\u2028é"], [" ", "a "],
]  # fmt: skip


@pytest.mark.parametrize("choices", CHOICES)
def test_each_choice_is_one_answer_however_it_is_written(choices):
    text = join_choices(choices)
    assert split_choices(text) == choices and Constraint.from_texts(choice=choices) == Constraint("choice", text)
    for choice in choices:
        assert accepts("choice", text, choice)
    assert not accepts("choice", text, "Dear Sir,") and not accepts("choice", text, "x")


def test_lines_of_choices_leave_out_empty_ones_and_a_list_keeps_them():
    assert split_choices("yes\r\n\nno\n") == ["yes", "no"] and split_choices('["yes", ""]') == ["yes", ""]
    for empty in ('[""]', "[]", "\n"):
        with pytest.raises(BadInput, match="The choice is empty"):
            Constraint("choice", empty)
    with pytest.raises(BadInput, match="choice must be a text, or a list of them"):
        Constraint.from_texts(choice=["a", 1])


class WatchedTokenizer:
    """Counts the calls that begin before another has ended, which a tokenizer may refuse ("Already borrowed")."""

    def __init__(self):
        self.inner, self.running, self.overlaps = byte_level(), 0, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, *arguments, **more):
        self.overlaps += self.running
        self.running += 1
        time.sleep(0.001)
        self.running -= 1
        return self.inner(*arguments, **more)


def test_two_threads_may_ask_the_same_grammars():
    """The page checks a constraint while the engine follows another one."""
    tokenizer = WatchedTokenizer()
    own, lengths = Grammars(tokenizer, len(byte_level()), {EOS}), []

    def ask(first: int) -> None:
        for number in range(first, first + 60):
            lengths.append(len(own.matcher(Constraint("choice", f"the cat {number % 80}"), 64).forced_tokens()))

    threads = [threading.Thread(target=ask, args=(first,)) for first in (0, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lengths) == 120 and min(lengths) >= 3 and tokenizer.overlaps == 0
