"""Two tokenizers: which tokens both have, and how a draft reads committed text in its own."""

import pytest
from unlike_tokenizers import byte_level, letters, sentence_piece

from engine.drafters.translation import Reading, Translation
from engine.errors import Unavailable
from engine.weights.vocabulary import Vocabulary, last_boundary, needs_translation, same_ids

TEXTS = ["the cat sat, naïve 🙂!", " the hat\n\n the cat", "日本 e\u0301 and", "\n"]


def names(tokenizer, ids) -> list[str]:
    return tokenizer.convert_ids_to_tokens(list(ids))


def test_tokens_are_common_by_their_text_and_special_ones_by_name_or_role():
    target, draft = byte_level(), sentence_piece(("<|im_start|>", "<turn>"))
    common = {names(target, [a])[0]: names(draft, [b])[0] for a, b in Translation(target, draft).common.items()}
    assert common["Ġcat"] == "▁cat" and common["n"] == "n" and common["Ċ"] == "\n"
    assert common["<|im_start|>"] == "<|im_start|>", "a chat template's mark, by name"
    assert common["<|im_end|>"] == "</s>", "what ends a text, by role"
    assert "Ã" not in common, "half a character"
    back = Translation(draft, target).common
    assert len({*back.values()}) == len(back), "each of the draft's tokens once"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("target", "draft"), [("bytes", "pieces"), ("pieces", "bytes"), ("pieces", "pieces")])
def test_a_draft_reads_a_prompt_as_it_would_by_itself(target, draft, text):
    """It reads its own BOS and its own leading space, and not the target's."""
    kinds = {"bytes": byte_level(), "pieces": sentence_piece()}
    other = sentence_piece(bos=False) if target == draft else kinds[draft]
    reading = Reading(Translation(kinds[target], other), kinds[target](text).input_ids)
    assert reading.ids == other(text).input_ids


def test_a_chat_template_reaches_the_draft_with_its_marks():
    target, draft = byte_level(), byte_level(("<|im_start|>", "<|end|>"))
    prompt = target.apply_chat_template([{"role": "user", "content": "the cat"}], add_generation_prompt=True).input_ids
    read = Reading(Translation(target, draft), prompt).ids
    assert draft.decode(read) == target.decode(prompt).replace("<|im_end|>", "<|end|>")
    assert read[0] == draft.convert_tokens_to_ids("<|im_start|>"), "the same mark, as one token"
    unlike = sentence_piece()
    read = names(unlike, Reading(Translation(target, unlike), prompt).ids)
    assert read[:4] == ["<s>", "▁", "<0x3C>", "<0x7C>"] and "</s>" in read, "one that it lacks, as text"


def test_new_text_begins_where_the_committed_text_ended():
    target, draft = byte_level(), sentence_piece()
    reading = Reading(Translation(target, draft), prompt := list(target(" the cat").input_ids))
    before = list(reading.ids)
    more = list(target("alogue, the").input_ids)
    assert reading.read(prompt + more)[: len(before)] == before, "▁cat does not become ▁catalogue"
    assert names(draft, reading.ids[len(before) :]) == ["a", "l", "o", "g", "u", "e", ",", "▁the"]
    assert reading.read(prompt + more) == reading.ids, "nothing is read twice"
    reading, drafted = Reading(Translation(target, draft), prompt), draft.convert_tokens_to_ids(["▁", "c", "a"])
    reading.read(prompt + list(target(" cat sat").input_ids), drafted)
    assert names(draft, reading.ids[-5:]) == ["▁", "c", "a", "t", "▁sat"], "accepted drafts stay as they were drafted"


def test_half_a_character_waits_for_the_rest():
    target, draft = byte_level(), sentence_piece()
    both = Translation(target, draft)
    reading, ids = Reading(both, prompt := list(target("the").input_ids)), list(target("日").input_ids)
    assert len(ids) == 3
    for count in (1, 2):
        assert both.ends_inside_a_character(prompt + ids[:count])
        assert reading.read(prompt + ids[:count]) == Reading(both, prompt).ids
    assert not both.ends_inside_a_character(prompt + ids)
    assert names(draft, reading.read(prompt + ids)[-3:]) == ["<0xE6>", "<0x97>", "<0xA5>"]
    broken = Reading(both, prompt + ids[:1] + list(target("the").input_ids))
    assert names(draft, broken.ids[-3:]) == ["t", "h", "e"], "bytes that are no character are left out"


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("é", 2), ("日本", 6), ("a🙂", 5)])
def test_the_last_boundary_ends_the_last_whole_character(text, count):
    raw = text.encode()
    assert last_boundary(raw) == count
    for cut in range(len(raw)):
        assert last_boundary(raw[:cut]) == len(raw[:cut].decode(errors="ignore").encode())


def test_same_tokenizer_needs_no_translation_and_a_foreign_one_is_refused():
    ours, theirs = (Vocabulary.from_tokenizer(letters(*text)) for text in ("abc", "xyz"))
    assert not needs_translation(ours, ours) and not needs_translation(ours, Vocabulary.from_tokenizer(letters(*"ab")))
    assert needs_translation(ours, Vocabulary.from_tokenizer(letters(*"axb")))
    with pytest.raises(Unavailable, match="no token in common with the target's, so nothing can be translated"):
        needs_translation(ours, theirs)


def test_ids_are_the_same_where_only_padding_and_special_names_differ():
    def with_marks(words, *marks):
        tokenizer = letters(*words)
        tokenizer.add_special_tokens({"additional_special_tokens": list(marks)})
        return Vocabulary.from_tokenizer(tokenizer)

    assert same_ids(with_marks("ab", "<|one|>"), with_marks("ab", "<|two|>")), "a renamed special token"
    assert not same_ids(with_marks("ab", "<|one|>"), with_marks("abc"))


def reencoded(target, draft, *drafted) -> list[str]:
    both = Translation(target, draft)
    ids = draft.convert_tokens_to_ids(list(drafted))
    tokens, texts = both.reencode(ids)
    assert b"".join(both.draft_texts(ids)).startswith(b"".join(texts))
    return names(target, tokens)


def test_drafted_text_is_encoded_for_the_target():
    """The last token is left out where the text may go on to a longer one."""
    bytes_, pieces = byte_level(), sentence_piece()
    assert reencoded(bytes_, pieces, "▁c", "a", "t", "▁the") == ["Ġcat", "Ġthe"]
    assert reencoded(pieces, bytes_, "Ġ", "h", "a", "t", "Ġand") == ["▁hat", "▁and"]
    assert reencoded(bytes_, pieces, "▁catalogue", "!") == ["Ġcat", *"alogue", "!"]
    assert reencoded(pieces, bytes_, "x") == ["x"]
    assert reencoded(bytes_, pieces, "!", "▁", "c") == ["!"], "Ġcat begins with it"
    assert reencoded(bytes_, pieces, "!", "▁c") == ["!", "Ġc"], "the draft could have gone on to ▁cat and did not"
    assert reencoded(bytes_, pieces, "▁", "c") == ["Ġc"], "one is better than none"
    assert reencoded(bytes_, pieces, "!", "▁", "c", "</s>") == ["!", "Ġc", "<|im_end|>"], "here the text ends"


def test_what_the_target_cannot_say_ends_the_drafts():
    bytes_, pieces = byte_level(), sentence_piece()
    assert reencoded(bytes_, pieces, "!", "<turn>", "▁the") == ["!"], "a mark that the target lacks"
    assert reencoded(bytes_, pieces, "!", "<0xE6>", "<0x97>", "▁the") == ["!"], "bytes that are no character"
    smile = names(bytes_, bytes_("🙂").input_ids)
    assert reencoded(bytes_, pieces, "!", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>") == ["!", *smile]
    assert reencoded(letters(*"abc"), letters(*"axb"), "a", "x", "b") == ["a"], "a letter that it cannot spell"
    assert reencoded(bytes_, pieces, "<0xE6>") == [] == reencoded(bytes_, pieces)
