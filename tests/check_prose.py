"""Checks comments, sentences, names, documents and lessons by prose.toml: `python tests/check_prose.py [PATH …]`.

It finds the worst patterns only; plain English is still the writer's job.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = tomllib.loads((ROOT / "tests" / "prose.toml").read_text(encoding="utf-8"))
DOCSTRINGS = RULES["docstrings"]
STARTS = re.compile(rf"(?:{'|'.join(DOCSTRINGS['starts'])})\b")
FUNCTIONS = RULES["functions"]
LESSONS = RULES["lessons"]
LESSON_FILES = sorted(ROOT.glob("lessons/[0-9]*.md"))
DOCUMENTS = (".md", ".html")
# A string of several words, in JavaScript.
SENTENCE = re.compile(r"""'(?:[^'\\\n]|\\.)* (?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)* (?:[^`\\\n]|\\.)*`""")
# ``function name(``, and a name that is declared as an arrow function.
JS_FUNCTION = re.compile(r"\bfunction\*?\s+(\w+)\s*\(|\b(\w+) = (?:async )?(?:\((?:[^()]|\([^()]*\))*\)|\w+) =>")
# Words that can only be contractions; "'s" may be a possessive.
CONTRACTION = re.compile(
    r"\b(?:\w+n['’]t|\w+['’](?:re|ve|ll|d|m)|(?:it|that|there|here|let|what|who|how)['’]s)\b", re.I
)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment and docstring."""
    source = path.read_text(encoding="utf-8")
    if path.suffix in (".js", ".css"):
        for match in re.finditer(r"/\*.*?\*/|(?<![:'\"`\\])//[^\n]*", source, re.S):
            yield source.count("\n", 0, match.start()) + 1, match[0]
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield node.body[0].lineno, text


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of a document as a whole, or of each comment, docstring and string of several words."""
    source = path.read_text(encoding="utf-8")
    if path.suffix in DOCUMENTS:
        yield 1, source
        return
    yield from prose(path)
    if path.suffix == ".js":
        yield from ((source.count("\n", 0, match.start()) + 1, match[0][1:-1]) for match in SENTENCE.finditer(source))
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value


def names(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of every function, class, argument, attribute and variable that is defined."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def bare_names(path: Path) -> Iterator[tuple[int, str]]:
    """(line, name) of each function that is called by a participle or a preposition alone. A property may have a word
    of the field, and one that is True or False any participle."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        for match in JS_FUNCTION.finditer(source):
            name = match[1] or match[2]
            if is_participle(name) or name in FUNCTIONS["prepositions"]:
                yield source.count("\n", 0, match.start()) + 1, name
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        word = node.name.strip("_").lower()
        is_bare = is_participle(word)
        if is_property(node):
            is_bool = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
            is_bare = is_bare and not is_bool and word not in FUNCTIONS["of_the_field"]
        if is_bare or word in FUNCTIONS["prepositions"]:
            yield node.lineno, node.name


def is_participle(name: str) -> bool:
    is_one_word = "_" not in name and name == name.lower()
    return is_one_word and ((name.endswith("ed") and name not in FUNCTIONS["verbs"]) or name in FUNCTIONS["irregular"])


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and "property" in each.id for each in node.decorator_list)


def verbless_docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, first word) of each function's docstring that does not begin with a verb. A property's may be a noun."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_property(node):
            words = re.findall(r"\w+", (ast.get_docstring(node) or "").removeprefix("Also "))
            if words and (not words[0].endswith("s") or words[0] in DOCSTRINGS["nouns"]):
                yield node.body[0].lineno, words[0]


def old_words(texts: Iterable[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        for pattern, advice in RULES["everywhere"].items():
            for match in re.finditer(pattern, text, re.M):
                yield f"{line + text.count(chr(10), 0, match.start())}: {match[0]!r}: {advice}"


def problems(path: Path) -> Iterator[str]:
    place = path.relative_to(ROOT).as_posix()
    yield from old_words(prose(path) if place.startswith("tests/") and path.suffix == ".py" else sentences(path))
    if path.suffix in DOCUMENTS:
        return
    for line, text in prose(path):
        for pattern, advice in RULES["phrases"].items():
            for match in re.finditer(pattern, re.sub(r"\s+(?:#|//|\*)?\s*", " ", text), re.I):
                yield f"{line}: {match[0]!r}: {advice}"
        if path.suffix == ".py" and not place.startswith("tests/") and (match := STARTS.match(text)):
            yield f"{line}: a docstring begins with a verb, not with {match[0]!r}"
    for line, name in names(path) if path.suffix == ".py" else ():
        if place.startswith("tests/"):
            if name.startswith("test_") and len(name) > RULES["tests"]["longest"]:
                yield f"{line}: {name} is too long: test_subject_verb[_condition], at most {RULES['tests']['longest']}"
        elif name.strip("_").lower() in RULES["names"]["participles"]:
            yield f"{line}: the name {name!r} is a participle: use a noun, a verb or is_…"
    if path.suffix in (".py", ".js") and not place.startswith("tests/"):
        for line, name in bare_names(path):
            yield f"{line}: the function {name!r} is called by a participle or a preposition: use a verb or a noun"
    if path.suffix == ".py" and not place.startswith("tests/"):
        for line, word in () if place.startswith(tuple(DOCSTRINGS["without_verbs"])) else verbless_docstrings(path):
            yield f"{line}: a function's docstring begins with a verb, as in 'Returns …', not with {word!r}"


def replies(front: dict) -> list[str]:
    """The replies to the answers of a lesson's questions."""
    asks = [step["ask"] for step in front["steps"] if "ask" in step]
    options = [option for question in (*asks, *front["quiz"]) for option in question.get("options", ())]
    sides = [text for place in (*asks, *options) for side in ("low", "high", "why", "right", "wrong")
             if (text := place.get(side))]  # fmt: skip
    return [text for text in sides if isinstance(text, str)]


def lesson_problems(path: Path) -> Iterator[str]:
    """What can be counted of a lesson's English."""
    source = path.read_text(encoding="utf-8")
    _, front, prose_of_steps = source.split("+++\n", 2)
    for pattern, advice in LESSONS["phrases"].items():
        for match in re.finditer(pattern, source, re.I):
            yield f"{source.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: {advice}"
    said = replies(tomllib.loads(front))
    riddles = [text for text in said if text.startswith("Then ")]
    if len(riddles) > LESSONS["most_then"] * len(said):
        yield f"1: {len(riddles)} of {len(said)} replies begin with 'Then', as {riddles[0][:40]!r}: say what is so"
    spoken = " ".join((*said, prose_of_steps))
    if (count := len(CONTRACTION.findall(spoken))) < LESSONS["least_contractions"]:
        yield f"1: {count} contractions, at least {LESSONS['least_contractions']}: write it's, that's, don't, you'll"
    if "Mara" not in prose_of_steps:
        yield "1: Mara doesn't appear"


def main() -> None:
    paths = sys.argv[1:] or ["app", "engine", "lessons", "assets", "tests", "app.py", "*.md"]
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", *paths], cwd=ROOT, text=True)
    files = [
        ROOT / name for name in sorted(set(listed.splitlines())) if name.endswith((".py", ".js", ".css", *DOCUMENTS))
    ]
    found = [f"{path.relative_to(ROOT)}:{problem}" for path in files if path.exists() for problem in problems(path)]
    if not sys.argv[1:]:
        found += [f"{path.relative_to(ROOT)}:{problem}" for path in LESSON_FILES for problem in lesson_problems(path)]
    print(*found, sep="\n")
    sys.exit(f"{len(found)} places to write in plain English (CONTRIBUTING.md)" if found else 0)


if __name__ == "__main__":
    main()
