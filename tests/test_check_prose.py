"""The rules of check_prose for functions, for sentences on screen and for lessons."""

import pytest
from check_prose import LESSON_FILES, bare_names, lesson_problems, old_words, sentences, verbless_docstrings

SOURCE = """
class Some:
    @property
    def accepted(self): ...
    @property
    def shown(self): ...
    @property
    def started(self) -> bool: ...
    def _listed(self): ...
    def embed(self): ...
    def read_at(self): ...
def of(): ...
"""


def test_participles_and_prepositions_name_no_function(tmp_path):
    (tmp_path / "some.py").write_text(SOURCE)
    assert {name for _, name in bare_names(tmp_path / "some.py")} == {"shown", "_listed", "of"}


def test_participles_and_prepositions_name_no_javascript_function(tmp_path):
    lines = (
        "export async function stored(name) {}", "function* walkTree() {}", "  feed = text => text,", "const sum = 1;",
        "const of = ({ a }, b = f(1)) => a,", "  isStarted = () => 1,", "  shared = x => 2 * x;", "won = a.b(c => 1);",
    )  # fmt: skip
    (tmp_path / "some.js").write_text("\n".join(lines))
    assert list(bare_names(tmp_path / "some.js")) == [(1, "stored"), (5, "of"), (7, "shared")]


def test_docstring_of_a_function_begins_with_a_verb(tmp_path):
    starts = ("The sum.", "Tokens a second.", "Returns the sum.", "Also adds them.")
    lines = [f'def f():\n    """{start}"""' for start in starts] + ['@property\ndef g():\n    """The sum."""']
    (tmp_path / "some.py").write_text("\n".join(lines))
    assert [word for _, word in verbless_docstrings(tmp_path / "some.py")] == ["The", "Tokens"]


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("some.md", "It is\n**Who would rather wait** pays.\nWho reads it?\n", ["2"]),
        ("some.html", "<p>Cheap.\nWhoever pays</p>", ["2"]),
        ("some.js", "const anew = say('Of each run.', `drawn anew`, 'dear');", ["1", "1"]),
        ("some.py", 'dear = note(\n    info="Of every run.", key="dear"\n)  # a dear row\n', ["3", "2"]),
    ],
)
def test_old_words_are_found_in_documents_and_sentences(tmp_path, name, text, found):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [problem.split(":")[0] for problem in old_words(sentences(tmp_path / name))] == found


def test_lesson_that_reads_like_a_translation_is_reported(tmp_path):
    source = LESSON_FILES[0].read_text(encoding="utf-8")
    assert list(lesson_problems(LESSON_FILES[0])) == []
    stiff = (
        source.replace('why = "', 'why = "Then ').replace("n't", " not").replace("'s ", " is ").replace("Mara", "She")
    )
    (tmp_path / "00_stiff.md").write_text(stiff + "\nLikewise.\n", encoding="utf-8")
    found = " ".join(lesson_problems(tmp_path / "00_stiff.md"))
    assert all(each in found for each in ("'Likewise'", "begin with 'Then'", "contractions", "Mara"))
