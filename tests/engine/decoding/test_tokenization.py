"""Pieces of text join to the text that decoding all tokens at once gives, for any bytes."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import byte_tokenizer, fallback_tokenizer

from engine.config import RunConfig
from engine.decoding.text import StopTexts
from engine.decoding.tokenization import Detokenizer, encode_prompt, join
from engine.errors import BadInput

TOKENIZERS = {"byte-level": byte_tokenizer, "byte-fallback": fallback_tokenizer}


def pieces(tokenizer, ids):
    text = Detokenizer(tokenizer)
    return [text.push(i) for i in ids], text


def assert_pieces_join(tokenizer, ids):
    parts, text = pieces(tokenizer, ids)
    assert "".join(parts) + text.tail() == join(tokenizer, ids)


@given(st.lists(st.integers(0, len(byte_tokenizer()) - 1), max_size=40))
def test_pieces_join_to_the_decoded_text_for_any_ids(ids):
    assert_pieces_join(byte_tokenizer(), ids)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(words=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_pieces_join_to_the_decoded_text_of_anything_written(name, words):
    assert_pieces_join(TOKENIZERS[name](), TOKENIZERS[name]()(words).input_ids)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_pieces_join_to_the_decoded_text_wherever_it_is_cut(name):
    ids = TOKENIZERS[name]()("he 🙂é c 日", add_special_tokens=False).input_ids
    for cut in range(len(ids) + 1):
        assert_pieces_join(TOKENIZERS[name](), ids[:cut])


def test_emoji_appears_with_its_last_token_and_unfinished_bytes_at_the_end():
    tokenizer = byte_tokenizer()
    ids = tokenizer("a🙂b🙂").input_ids[:-1]
    parts, text = pieces(tokenizer, ids)
    assert parts == ["a", "", "", "", "🙂", "b", "", "", ""] and text.tail() == "�" == join(tokenizer, ids)[3:]


def test_a_look_ahead_leaves_no_mark():
    tokenizer = byte_tokenizer()
    ids = tokenizer("say 🙂").input_ids
    parts, text = pieces(tokenizer, ids[:5])
    text.peek(tokenizer("completely different").input_ids)
    assert "".join(parts + [text.push(i) for i in ids[5:]]) == "say 🙂"


def test_tokens_without_text_have_a_label():
    tokenizer = byte_tokenizer()
    text = Detokenizer(tokenizer)
    end, lead = tokenizer.eos_token_id, tokenizer("🙂").input_ids[0]
    assert text.label(end, "") == "<end>"
    assert text.label(lead, "") == tokenizer.convert_ids_to_tokens(lead)
    assert text.label(tokenizer("a").input_ids[0], "a") is None


def with_template(template: str | None):
    tokenizer = copy.deepcopy(byte_tokenizer())
    tokenizer.chat_template = template
    return tokenizer


PLAIN = "{% for m in messages %}{{ m.role }}:{{ m.content }}|{% endfor %}{% if enable_thinking %}think{% endif %}>"


@pytest.mark.parametrize(("config", "text"), [
    (RunConfig("Hi", system="Be brief"), "system:Be brief|user:Hi|>"), (RunConfig("Hi"), "user:Hi|>"),
    (RunConfig("Hi", system=""), "system:|user:Hi|>"), (RunConfig("Hi", thinking=True), "user:Hi|think>"),
    (RunConfig("Hi", chat=False, system="unused"), "Hi"),
])  # fmt: skip
def test_the_template_gets_system_prompt_and_thinking_switch(config, text):
    tokenizer = with_template(PLAIN)
    assert join(tokenizer, encode_prompt(tokenizer, config)) == text
    refusing = with_template("{{ raise_exception('no system turns here') }}")
    with pytest.raises(BadInput, match="no system turns here"):
        encode_prompt(refusing, RunConfig("Hi", system="x"))


PARTS = "{% for m in messages %}{{ m.role }}:{% for part in m.content %}{{ part.text }}{% endfor %}|{% endfor %}>"
TYPED = PARTS.replace("{{ part.text }}", "{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}")
TRIMS = "{% for m in messages %}{{ m.role }}:{{ m.content | trim | upper }}|{% endfor %}>"


@pytest.mark.parametrize("template", [PARTS, TYPED])
def test_a_template_that_reads_parts_gets_parts(template):
    tokenizer = with_template(template)
    ids = encode_prompt(tokenizer, RunConfig("How many moons?", system="Be brief"))
    assert join(tokenizer, ids) == "system:Be brief|user:How many moons?|>"


def test_a_template_may_rewrite_the_prompt():
    assert join(with_template(TRIMS), encode_prompt(with_template(TRIMS), RunConfig(" Hi "))) == "user:HI|>"


@pytest.mark.parametrize(
    "template, config, words",
    [
        ("user:|>", RunConfig("Hi"), "leaves the prompt out.*page's Prompt form.*over HTTP, --raw on"),
        (PLAIN.replace("{{ m.content }}", "{{ m.text }}"), RunConfig("Hi"), "leaves the prompt out"),
        ("{{ messages[-1].content }}>", RunConfig("Hi", system="Be brief"), "leaves the system prompt out"),
    ],
)
def test_a_template_that_leaves_a_text_out_is_refused(template, config, words):
    with pytest.raises(BadInput, match=words):
        encode_prompt(with_template(template), config)


def test_a_stop_text_may_be_or_contain_a_special_token():
    tokenizer = byte_tokenizer()
    a, end = tokenizer("a").input_ids[0], tokenizer.eos_token_id

    def ends_after(stops, *tokens):
        stop_texts, text = StopTexts(tokenizer, stops), Detokenizer(tokenizer)
        return [stop_texts.end_with(token, text.push(token)) for token in tokens]

    assert ends_after(("<end>",), a, end, a) == [False, True, False]
    assert ends_after(("a<end>a",), a, end, a) == [False, False, True]
    assert ends_after(("aa",), a, end, a) == [False, False, True], "decoding leaves it out, and so does the text"
    assert ends_after(("aa", "<pad>"), a, end, a) == [False, False, True]
    assert ends_after((), a, end) == [False, False]
