"""Every character that a tokenizer drops or changes is named, and a text of which it writes nothing is refused."""

import pytest
from tiny_models import ALPHABET, byte_fallback_bpe, byte_level_bpe, byte_tokenizer, fallback_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from engine.config import RunConfig
from engine.decoding.tokenization import encode_prompt, template_length
from engine.decoding.unwritten_text import spell_characters, unwritten, unwritten_notes
from engine.errors import BadInput

LACKING = [mark for mark in ALPHABET if mark not in "ĄñÏ"]  # the bytes 04, F1 and CF
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}\n{% endfor %}"


def fast(raw, **names):
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def lacks_bytes(**names):
    made = fast(byte_level_bpe(["<|im_start|>", *LACKING, "th"], [("t", "h")]), **names)
    made.add_tokens([AddedToken("<|im_start|>", special=True, normalized=False)])
    made.chat_template = CHAT
    return made


def normalised(*steps):
    raw = byte_level_bpe(ALPHABET, [])
    raw.normalizer = normalizers.Sequence(list(steps))
    return fast(raw)


def letters_only():
    raw = byte_fallback_bpe(["<unk>", "▁", *"abcdeunk"], [])
    raw.normalizer = normalizers.Replace(" ", "▁")
    return fast(raw, unk_token="<unk>")


def words_only():
    raw = Tokenizer(models.WordPiece({"[UNK]": 0, "the": 1, "cat": 2, "##s": 3}, unk_token="[UNK]"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece()
    return fast(raw, unk_token="[UNK]")


def takes_spaces():
    made = fast(byte_level_bpe([*ALPHABET, "<|user|>"], []))
    made.add_tokens([AddedToken("<|user|>", special=True, rstrip=True)])
    return made


def adds_a_space():
    raw = byte_level_bpe(ALPHABET, [])
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return fast(raw)


LOST = [
    (lacks_bytes, [("a\x04b", "\x04"), ("\x04\x04", "\x04"), ("\U00046131!", "\U00046131"), ("μπρό", "πρό"),
                   ("日本 the\n", ""), ("�", ""), ("a\x1c", ""), ("<|im_start|>", ""), (" a  b ", "")]),
    (byte_tokenizer, [("a\x1d\x04\x00", ""), ("\U00046131\U0010ffff", ""), ("e\u0301é\u212b", ""), ("\r\n\t", "")]),
    (fallback_tokenizer, [("日本 🙂", ""), (" he", ""), ("  he ", ""), ("x\x04", "")]),
    (letters_only, [("abc xyz日", "xyz日"), ("nunk日", "日")]),
    (words_only, [("the cats", ""), ("the dog", " dog"), ("the\ncat", "\n")]),
    (lambda: normalised(normalizers.NFC()), [("e\u0301 \u212b 한글", "")]),
    (lambda: normalised(normalizers.NFD()), [("é \u212b", "")]),
    (lambda: normalised(normalizers.NFKC(), normalizers.Lowercase()), [("Aﬁ a", "Aﬁ")]),
    (lambda: normalised(normalizers.StripAccents()), [("naïve", ""), ("nai\u0308ve", "ï")]),
    (lambda: normalised(normalizers.Replace("  ", " ")), [("a  b", " "), ("  a", "")]),
    (takes_spaces, [("<|user|>a", ""), ("<|user|>\na", "\n")]),
    (adds_a_space, [("a", ""), (" a", "")]),
]  # fmt: skip


@pytest.mark.parametrize(("tokenizer", "cases"), LOST)
def test_unwritten_characters_are_named_and_no_others(tokenizer, cases):
    made = tokenizer()
    assert [unwritten(made, text) for text, _ in cases] == [lost for _, lost in cases]


def test_unknown_token_that_is_typed_is_not_lost():
    assert unwritten(lacks_bytes(unk_token="<|im_start|>"), "<|im_start|>user") == ""


@pytest.mark.parametrize(("config", "words"), [
    (RunConfig("\x04"), r"any character of the prompt \(U\+0004\)"), (RunConfig("\x04", chat=False), "of the prompt"),
    (RunConfig("\U00046131 \x04"), r"of the prompt \(U\+46131 and U\+0004\)"),
    (RunConfig("Hi", system="\x04"), "of the system prompt"), (RunConfig("Hi", system=" \x04\n"), "of the system"),
])  # fmt: skip
def test_text_of_which_nothing_is_left_is_refused(config, words):
    with pytest.raises(BadInput, match=words):
        encode_prompt(lacks_bytes(), config)


@pytest.mark.parametrize(("config", "texts"), [
    (RunConfig("a\x04b\U00046131"), ["all of the prompt: its tokenizer drops or changes U+0004 and U+46131."]),
    (RunConfig("a\x04b", chat=False, system="\x04"), ["all of the prompt"]),
    (RunConfig("a", system="a\x04", stop=("\x04\n", "b")), ["all of the system prompt", r"The stop text '\x04\n' may"]),
    (RunConfig("a", system="", stop=("<|im_start|>",)), []),
])  # fmt: skip
def test_notes_name_each_text_that_is_not_as_typed(config, texts):
    assert encode_prompt(lacks_bytes(), config)
    notes = list(unwritten_notes(lacks_bytes(), config))
    assert len(notes) == len(texts) and all(text in note for text, note in zip(texts, notes, strict=True))


def test_template_is_measured_with_characters_that_have_no_tokens():
    made = fast(byte_level_bpe([*"h:>"], []))
    made.chat_template = "{% for m in messages %}:{{ m.content }}>{% endfor %}"
    assert template_length(made, RunConfig("h"), encode_prompt(made, RunConfig("h"))) == 1


def test_many_characters_are_listed_in_part():
    assert spell_characters("日\u200b \x04ab!") == "日 (U+65E5), U+200B, U+0020, U+0004, a (U+0061) and 2 more"
