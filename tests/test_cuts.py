"""The two tokenizers of lesson ten: what is kept of them, and that it can be made anew."""

import pytest

from lessons import cuts

TEXT = "The target cuts anew\n    return tokens[0]  # done ✓"


@pytest.mark.parametrize("name", cuts.SOURCES)
def test_what_is_kept_is_a_vocabulary(name):
    merges, seen = cuts.kept()[name], set(cuts.tokenizer(name).get_vocab())
    assert len(merges) == len(set(merges)) == cuts.MERGES
    assert len(seen) == cuts.BYTES + cuts.MERGES
    for pair in merges:
        left, right = pair.split(" ")
        assert {left, right, left + right} <= seen
    assert cuts.tokenizer(name).decode(cuts.tokenizer(name).encode(TEXT).ids) == TEXT


def test_each_knows_its_own_kind_of_text_better():
    prose, code = "Look at the words of this step.", "def step(self) -> None:\n    return self.tokens"
    assert cuts.pieces("prose", prose) < cuts.pieces("code", prose)
    assert cuts.pieces("code", code) < cuts.pieces("prose", code)


def test_they_can_be_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(cuts, "DATA", tmp_path / "merges.js")
    monkeypatch.setattr(cuts, "ROOT", tmp_path)
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "01_a.md").write_text("+++\nabab\n+++\n" + "the tin the tin " * 9, encoding="utf-8")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a.py").write_text("return self\n" * 9, encoding="utf-8")
    cuts.main()
    made = cuts.kept()
    assert "Ġt h" not in made["code"] and made["prose"][0] in ("Ġ t", "i n", "h e", "t h", "e Ġ", "Ġt he")
    assert "a b" not in made["prose"], "the front matter is no prose"
    assert made["code"] == cuts.train(["return self\n" * 9])


def test_the_last_piece_is_held_back():
    assert [cuts.testable(TEXT, count) for count in (1, 2, 4)] == [0, 1, 3]
    assert cuts.testable("", 4) == 0
