"""Masks of constraints: for tokenizers of both kinds they are what counting bytes gives, token by token."""

import json
import time

import numpy as np
import pytest
from unlike_tokenizers import byte_level, sentence_piece

from engine.config import Constraint
from engine.errors import BadInput
from engine.sampling.constraint import GrammarReader, is_set, unpack
from engine.sampling.constraint_compiler import Grammars, lark_of
from engine.weights.vocabulary import Vocabulary

TEXTS = ("the cat", "the hat and", "cats, é", "naïve 🙂", "and\nso", "a")
PERSON = {
    "type": "object",
    "properties": {"the cat": {"type": "string", "maxLength": 3}, "at": {"type": "integer"}},
    "required": ["the cat", "at"],
    "additionalProperties": False,
}
SPARE = 13  # rows of a padded model that no token has


def grammars(make=byte_level) -> Grammars:
    tokenizer = make()
    return Grammars(tokenizer, len(tokenizer) + SPARE, {tokenizer.eos_token_id})


def reader_of(own: Grammars, kind: str, text: str, compact: bool = False) -> GrammarReader:
    matcher = own.matcher(Constraint(kind, text, compact), 64)
    return GrammarReader(matcher, own.eos_ids, own.vocab_size)


def words(bits, vocab_size: int) -> list[int]:
    return np.unpackbits(bits, count=vocab_size, bitorder="little").nonzero()[0].tolist()


@pytest.mark.parametrize("make", [byte_level, sentence_piece])
def test_every_mask_is_what_counting_bytes_gives(make):
    """The masks agree at every place of every text, however its tokens cut it: also inside a character."""
    own, pieces = grammars(make), Vocabulary.from_tokenizer(make()).texts
    reader = reader_of(own, "regex", "the cat|the hat and|cats, é|naïve 🙂|and\nso|a")
    texts, seen, queue = [text.encode() for text in TEXTS], {b""}, [()]
    while queue:
        path = queue.pop()
        so_far = b"".join(pieces[token] for token in path)
        left = [text[len(so_far) :] for text in texts if text.startswith(so_far)]
        expected = {t for t, piece in pieces.items() if piece and any(rest.startswith(piece) for rest in left)}
        expected |= own.eos_ids if b"" in left else set()
        assert set(words(reader.tokens_after(path), own.vocab_size)) == expected, so_far
        for token in expected - own.eos_ids:
            longer = so_far + pieces[token]
            if longer not in seen:
                seen.add(longer)
                queue.append((*path, token))
    assert len(seen) >= 40 and b"na\xc3" in seen and set(texts) <= seen


def test_the_text_that_must_come_is_cut_as_the_tokenizer_cuts_it():
    for make in (byte_level, sentence_piece):
        own, tokenizer = grammars(make), make()
        reader = reader_of(own, "json_schema", json.dumps(PERSON), compact=True)
        tokens = reader.forced_tokens()
        assert tokenizer.decode(tokens, skip_special_tokens=True).strip() == '{"the cat":"'
        assert all(reader.tokens_after(tuple(tokens[:i])) is not None for i in range(len(tokens) + 1))
        assert reader.forced_tokens(tuple(tokens)) == []
    reader = reader_of(grammars(), "json_schema", json.dumps(PERSON))
    assert reader.forced_tokens() == byte_level()("{", add_special_tokens=False).input_ids, "white space may follow"


def test_a_mask_depends_on_its_path_and_not_on_what_was_asked_before():
    reader = reader_of(grammars(), "regex", "(the|cat)*")
    tokenizer = byte_level()
    the, cat = (tuple(tokenizer(text, add_special_tokens=False).input_ids) for text in ("the", "cat"))
    paths = [(), the, the + cat, cat, cat + cat + the[:1], the[:2]]
    fresh = {}
    for path in paths:
        fresh[path] = reader_of(grammars(), "regex", "(the|cat)*").tokens_after(path).tolist()
    for path in [*paths, *reversed(paths)]:
        assert reader.tokens_after(path).tolist() == fresh[path]
    for token in the:
        reader.advance(token)
    assert reader.tokens_after(cat).tolist() == fresh[the + cat] and reader.tokens_after((the[0], the[0])) is None


def test_a_text_ends_only_where_the_grammar_accepts_it():
    own = grammars()
    reader, (end,) = reader_of(own, "choice", "the\nthe cat"), own.eos_ids
    path = tuple(byte_level()("the", add_special_tokens=False).input_ids)
    ends = [is_set(reader.tokens_after(path[:i]), end) for i in range(len(path) + 1)]
    assert ends == [False] * len(path) + [True]
    after_end = unpack(reader.tokens_after((*path, end))[None], own.vocab_size, "cpu")
    assert after_end.all() and not reader.forced_tokens((*path, end))
    for token in (*path, end):
        reader.advance(token)
    assert reader.is_complete() and reader.tokens_after().all()


DEEP, HUGE = 900, 1_000_000
BAD = {
    "no text": ("json_schema", " ", "is empty"),
    "no JSON": ("json_schema", '{"type": ', "cannot be read as JSON"),
    "a bracket too many": ("json_schema", "[" * 50_000, "cannot be read as JSON"),
    "too deep": ("json_schema", '{"items":' * DEEP + "{}" + "}" * DEEP, "recursion limit exceeded"),
    "a megabyte": ("json_schema", json.dumps({"enum": ["x" * HUGE]}), "up to 100,000 characters"),
    "a long expression": ("regex", "a" * 100_001, "up to 100,000 characters"),
    "an unknown type": ("json_schema", '{"type": "objet"}', "type is 'objet', but must be one of"),
    "not supported": ("json_schema", '{"not": {"type": "string"}}', 'word "not", which cannot be enforced'),
    "nothing matches": ("json_schema", '{"enum": []}', "Unsatisfiable"),
    "no number": ("json_schema", '{"type": "integer", "minimum": 5, "maximum": 3}', "minimum (5) is greater"),
    "no type": ("json_schema", '{"allOf": [{"type": "string"}, {"type": "integer"}]}', "incompatible types"),
    "a circle": ("json_schema", '{"$ref": "#"}', "demands a part within itself, without end"),
    "two circles": (
        "json_schema", '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}',
        "demands a part within itself, without end",
    ),
    "look-ahead": ("regex", "(?=a)b", "look-around"),
    "no end of a group": ("regex", "(a", "unclosed group"),
    "no end of a rule": ("grammar", "start: (", "grammar cannot be used"),
    "no such rule": ("grammar", "start: thing", "line 1, unknown name"),
    "no first rule": ("grammar", 'rule: "a"', "grammar cannot be used"),
    "no end of a circle": ("grammar", 'start: e\ne: e "a"', "No text that this model's tokenizer can write matches"),
    "an unknown token": ("grammar", "start: <|nothing|>", "grammar cannot be used"),
    "another kind": ("xml", "<a/>", "choose from json_schema, regex, choice, grammar"),
}  # fmt: skip
MOST_SECONDS = 5.0  # of processor time; each takes less than a tenth of a second


@pytest.mark.parametrize("case", BAD)
def test_a_bad_constraint_is_refused_in_one_sentence_and_at_once(case):
    kind, text, words = BAD[case]
    own, before = grammars(), time.process_time()
    with pytest.raises(BadInput) as refused:
        reader_of(own, kind, text)
    assert time.process_time() - before < MOST_SECONDS
    sentence = str(refused.value)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence and len(sentence) < 240


def test_left_recursion_is_no_mistake():
    reader, a = reader_of(grammars(), "grammar", 'start: e\ne: e "a" | "a"'), byte_level()("a").input_ids[0]
    for _ in range(50):
        assert is_set(reader.tokens_after(), a)
        reader.advance(a)
    assert reader.is_complete()


ENDLESS = """{"$ref": "#/$defs/a", "$defs": {"a": {
    "type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["n"], "additionalProperties": false}}}"""


LONG = ('{"type": "string", "minLength": 10000}', '{"items": {}, "minItems": 10000}')


@pytest.mark.parametrize("schema", LONG)
def test_a_text_that_is_never_complete_costs_little_a_token(schema):
    """Whether a text could end is not decided in advance: the token limit ends the run, which then says so."""
    own, before = grammars(), time.process_time()
    reader = reader_of(own, "json_schema", schema)
    for _ in range(64):
        first, *_ = {*words(reader.tokens_after(), own.vocab_size)} - own.eos_ids
        reader.advance(first)
    assert not reader.is_complete() and time.process_time() - before < MOST_SECONDS


def test_an_endless_text_that_is_the_only_one_is_refused():
    for compact in (True, False):
        with pytest.raises(BadInput, match="demands a part within itself, without end"):
            reader_of(grammars(), "json_schema", ENDLESS, compact=compact)


def test_an_expression_that_explodes_ends_in_a_sentence():
    a = byte_level()("a", add_special_tokens=False).input_ids
    for expression in ("(a{1,1000}){1,1000}", "(((((a{1,50}){1,50}){1,50}){1,50}){1,50})"):
        reader, before = reader_of(grammars(), "regex", expression), time.process_time()
        with pytest.raises(BadInput, match="became too complex"):
            for _ in range(200):
                reader.tokens_after()
                reader.advance(*a)
        assert time.process_time() - before < MOST_SECONDS


def test_a_text_longer_than_the_limit_is_refused_before_the_run():
    constraint = Constraint("choice", "the cat and the hat and the cat")
    with pytest.raises(BadInput, match=r"demands takes \d+ tokens, and 3 are allowed"):
        grammars().matcher(constraint, 3)
    grammars().matcher(constraint, 64)


def test_a_schema_may_be_true_and_an_expression_have_a_slash():
    assert reader_of(grammars(), "json_schema", "true").tokens_after().any()
    assert lark_of(Constraint("regex", r"a/b\/c" + "\n")).endswith("start: /a\\/b\\/c\n/")
    reader = reader_of(grammars(), "regex", "and/\nso")
    assert byte_level().decode(reader.forced_tokens()) == "and/\nso"


def test_only_one_constraint_is_taken():
    assert Constraint.from_texts() is None and Constraint.from_texts(regex="a") == Constraint("regex", "a")
    with pytest.raises(BadInput, match="takes one constraint"):
        Constraint.from_texts(regex="a", choice="b")
    for wrong in (lambda: Constraint.from_texts(True), lambda: Constraint("regex", "a", compact=True)):
        with pytest.raises(BadInput, match="Compact JSON"):
            wrong()
    with pytest.raises(BadInput, match="The regular expression is empty"):
        Constraint.from_texts(regex="")


def test_lines_of_choices_may_end_as_on_windows():
    assert lark_of(Constraint("choice", "the cat\r\n\r\nand")).endswith('start: "the cat" | "and"')
