"""The rules of check_prose for functions, for sentences on screen and for lessons."""

import pytest
from check_prose import functions, is_bare, problems, verbless_docstrings

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
SCRIPT = """export async function stored(name) {}
function* walkTree() {}
  feed = text => text,
const of = ({ a }, b = f(1)) => a,
  isStarted = () => 1,
  shared = x => 2 * x;
won = a.b(c => 1);
"""


@pytest.mark.parametrize(
    ("suffix", "source", "bare"),
    [(".py", SOURCE, {"shown", "_listed", "of"}), (".js", SCRIPT, {"stored", "of", "shared"})],
)
def test_participles_and_prepositions_name_no_function(suffix, source, bare):
    assert {name for _, name in functions(suffix, source) if is_bare(name)} == bare


def test_docstring_of_a_function_begins_with_a_verb():
    wrong = ("The sum.", "Zeros at it.", "Items of a list.", "Charts and files of it.", "``x``: all.", "[rows, 2].")
    starts = (*wrong, "Returns the sum of all.", "Also adds them.", "Warns of noise.")
    lines = [f'def f():\n    """{start}"""' for start in starts] + ['@property\ndef g():\n    """The sum."""']
    found = [word for _, word in verbless_docstrings("\n".join(lines))]
    assert found == ["The", "Zeros", "Items", "Charts", "``x``", "[rows"]


@pytest.mark.parametrize(
    "name, text, found",
    [
        ("some.md", "It is\n**Who would rather wait** pays.\nWho reads it?\n", ["2"]),
        ("some.html", "<p>Cheap.\nWhoever pays</p>", ["2"]),
        ("some.js", "const anew = say('Of each run.', `drawn anew`, 'dear');", ["1", "1"]),
        ("some.py", 'dear = note(\n    info="Of every run.", key="dear"\n)  # a dear row\n', ["3", "2"]),
        ("some.py", "given = 1  # behind it\n", ["1", "1"]),
        ("some.py", "a = 1  # Of each byte eight numbers.\n", ["1"]),
        ("some.py", '"""``pace``: of the tokens, by that\nof each."""\n', ["1", "1"]),
        ("tests/some.py", '"""``pace``: of the tokens, by that\nof each."""\n', []),
        ("some.md", "Its cost is that\nof a row, and\nthose of two add up.\n", ["1", "3"]),
        ("some.js", "/* x\n * Who has one. */\n// Of every row\n", ["2", "3"]),
        ("lessons/01_some.md", "Likewise.\nIt cannot.\n", ["1", "2"]),
        ("lessons/README.md", "Likewise.\nIt cannot.\n", []),
        ("tests/test_some.py", f"def test_{'x' * 66}():\n    given = 'anew '\ndef told(): ...\n", ["1", "3"]),
    ],
)
def test_old_words_and_names_are_found_with_their_lines(name, text, found):
    assert [problem.split(":")[0] for problem in problems(name, text)] == found
