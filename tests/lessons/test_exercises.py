"""The exercises with new numbers: their file, and the functions of their expressions in Python and on the page."""

import re
import tomllib

import pytest

from app.lessons_tab import practice
from app.ui.html_component import read_asset
from lessons import exercises as module
from lessons.exercises import FUNCTIONS, Exercise, evaluate, exercises, texts_of
from lessons.loader import glossary
from lessons.schema import LessonError


def test_at_least_twelve_kinds_each_has_steps_and_usual_mistakes():
    kinds = exercises()
    assert len(kinds) >= 12 and len({kind.title for kind in kinds.values()}) == len(kinds)
    for name, kind in kinds.items():
        assert re.fullmatch(r"[a-z_]{3,20}", name), "a name is part of an address"
        assert all(text.strip().endswith((".", "?", ")")) for text in (kind.text, kind.explain, *kind.hints)), name


def test_both_languages_have_the_same_functions():
    source = read_asset("lessons/practice/practice_numbers.js").split("const FUNCTIONS = {")[1].split("\n};")[0]
    assert set(re.findall(r"^  (\w+):", source, re.M)) == FUNCTIONS.keys()


def test_an_answer_is_what_its_formula_gives():
    numbers = evaluate(exercises()["tokens"], {"alpha": 0.5, "gamma": 2})
    assert numbers["answer"] == 1.75
    assert evaluate(exercises()["pays_from"], {"later": 290, "plain": 100, "gain": 50})["answer"] == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lesson": "nowhere"}, "there is no lesson 'nowhere'"),
        ({"answer": "alpa"}, "uses 'alpa'"),
        ({"text": "α is {beta}."}, "uses 'beta'"),
        ({"text": "A [[nonsense]]."}, "the glossary has no 'nonsense'"),
        ({"values": {"max": "1"}}, "'max' has another meaning"),
        ({"hints": ["One."]}, "hints"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(monkeypatch, tmp_path, change, words):
    exercises()  # so that the lessons are read before
    kinds = tomllib.loads(module.FILE.read_text(encoding="utf-8"))
    changed = {"tokens": kinds["tokens"] | change}
    file = tmp_path / "exercises.toml"
    file.write_text("x = 1", encoding="utf-8")
    monkeypatch.setattr(module, "FILE", file)
    monkeypatch.setattr(module.tomllib, "loads", lambda text: changed)
    with pytest.raises(LessonError, match=re.escape(words)):
        exercises.__wrapped__()


def test_the_page_gets_every_kind_with_its_lesson_and_no_evaluated_number():
    page = practice.page(glossary())
    assert [kind["name"] for kind in page["kinds"]] == list(exercises())
    tokens = next(kind for kind in page["kinds"] if kind["name"] == "tokens")
    assert tokens["lesson"]["slug"] == "acceptance_tau_speedup" and ["sum", "alpha", ".2f"] in tokens["text"]
    assert page["words"].keys() <= glossary().keys() and "residual" in page["words"]


def test_sheet_holds_a_key_unless_it_is_left_out():
    with_key, without = (practice.sheet(glossary(), has_key) for has_key in (True, False))
    assert '"hasKey":true' in with_key.replace(" ", "") and '"hasKey":false' in without.replace(" ", "")


def test_texts_name_no_number_that_belongs_to_the_draw():
    """A number in a text is evaluated, but for small ones and powers of two that no seed changes."""
    fixed = {"0", "1", "2", "3", "8", "16"}

    def numbers(kind: Exercise) -> set[str]:
        plain = (re.sub(r"\{[^}]*\}|\$[^$]*\$|`[^`]*`", "", text) for text in texts_of(kind) if text not in kind.show)
        return {number for text in plain for number in re.findall(r"\d[\d,.]*\d|\d", text)}

    assert {name: found for name, kind in exercises().items() if (found := numbers(kind) - fixed)} == {
        "cache": {"1,073,741,824"}
    }
