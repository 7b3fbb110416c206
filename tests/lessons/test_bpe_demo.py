"""The two tokenizers of the lesson two_tokenizers: their stored tables, which can be rebuilt."""

from lessons import bpe_demo

TEXT = "The target cuts anew\n    return tokens[0]  # done ✓"


def test_each_knows_its_own_kind_of_text_better():
    prose, code = "Look at the words of this step.", "def step(self) -> None:\n    return self.tokens"
    assert bpe_demo.pieces("prose", prose) < bpe_demo.pieces("code", prose)
    assert bpe_demo.pieces("code", code) < bpe_demo.pieces("prose", code)


def test_they_can_be_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(bpe_demo, "DATA", tmp_path / "merges.js")
    monkeypatch.setattr(bpe_demo, "ROOT", tmp_path)
    (tmp_path / "lessons").mkdir()
    (tmp_path / "lessons" / "01_a.md").write_text("+++\nabab\n+++\n" + "the tin the tin " * 9, encoding="utf-8")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a.py").write_text("return self\n" * 9, encoding="utf-8")
    bpe_demo.main()
    made = bpe_demo.read_merges()
    assert "Ġt h" not in made["code"] and made["prose"][0] in ("Ġ t", "i n", "h e", "t h", "e Ġ", "Ġt he")
    assert "a b" not in made["prose"], "the front matter is no prose"
    assert made["code"] == bpe_demo.train(["return self\n" * 9])


def test_the_last_piece_is_held_back():
    assert [bpe_demo.testable(TEXT, count) for count in (1, 2, 4)] == [0, 1, 3]
    assert bpe_demo.testable("", 4) == 0
