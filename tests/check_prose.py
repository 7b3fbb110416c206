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
DOCSTRINGS, FUNCTIONS = RULES["docstrings"], RULES["functions"]
STARTS = re.compile(rf"(?:{'|'.join(DOCSTRINGS['starts'])})\b")
DOCUMENTS = (".md", ".html")
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
Found = Iterator[tuple[int, str]]  # (line, text)

# In JavaScript: comments (of CSS, too), strings of several words, functions and names declared as an arrow function.
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`\\])//[^\n]*", re.S)
SENTENCE = re.compile(r"""'(?:[^'\\\n]|\\.)* (?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)* (?:[^`\\\n]|\\.)*`""")
JS_FUNCTION = re.compile(r"\bfunction\*?\s+(\w+)\s*\(|\b(\w+) = (?:async )?(?:\((?:[^()]|\([^()]*\))*\)|\w+) =>")


def line_of(match: re.Match) -> int:
    return match.string.count("\n", 0, match.start()) + 1


def prose(suffix: str, source: str) -> Found:
    """Each comment and docstring."""
    if suffix in (".js", ".css"):
        yield from ((line_of(match), match[0]) for match in COMMENT.finditer(source))
    elif suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | FUNCTION) and (
                text := ast.get_docstring(node, clean=False)
            ):
                yield node.body[0].lineno, text


def sentences(suffix: str, source: str) -> Found:
    """A document as a whole, or each string of several words."""
    if suffix in DOCUMENTS:
        yield 1, source
    elif suffix == ".js":
        yield from ((line_of(match), match[0][1:-1]) for match in SENTENCE.finditer(source))
    elif suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value


def names(source: str) -> Found:
    """Each function, class, argument, attribute and variable that is defined."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name)
                | ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store())
            ):  # fmt: skip
                yield node.lineno, name


def functions(suffix: str, source: str) -> Found:
    """Each function whose name may not be a participle. A property may have a word of the field, and one that is True
    or False any participle."""
    if suffix == ".js":
        yield from ((line_of(match), match[1] or match[2]) for match in JS_FUNCTION.finditer(source))
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTION):
            is_bool = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
            if not is_property(node) or not (is_bool or node.name in FUNCTIONS["of_the_field"]):
                yield node.lineno, node.name


def is_property(node: FUNCTION) -> bool:
    return any(isinstance(each, ast.Name) and "property" in each.id for each in node.decorator_list)


def is_bare(name: str) -> bool:
    """Returns whether a name is one word, and that is a participle or a preposition."""
    word = name.strip("_")
    is_participle = word.endswith("ed") and word not in FUNCTIONS["verbs"]
    return word.islower() and "_" not in word and (is_participle or word in FUNCTIONS["words"])


def verbless_docstrings(source: str) -> Found:
    """The first word of each function's docstring that does not begin with a verb. A property's may be a noun."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, FUNCTION) and not is_property(node):
            text = (ast.get_docstring(node) or "").removeprefix("Also ")
            first = text.partition(" ")[0].rstrip(".,:")
            is_noun = first in DOCSTRINGS["nouns"] or re.match(r"(?!Warns)\w+s(?: and \w+)? of\b", text)
            if text and (not re.fullmatch(r"\w+s", first) or is_noun):
                yield node.body[0].lineno, first


def search(rules: dict[str, str], texts: Iterable[tuple[int, str]], flags: int = re.I) -> Iterator[str]:
    for line, text in texts:
        for pattern, advice in rules.items():
            for match in re.finditer(pattern, text, flags):
                yield f"{line + line_of(match) - 1}: {match[0]!r}: {advice}"


def problems(place: str, source: str) -> Iterator[str]:
    """Each problem of the file at a path from the root on, after its line."""
    suffix, is_test = Path(place).suffix, place.startswith("tests/")
    comments = list(prose(suffix, source))
    on_screen = (
        () if is_test and suffix == ".py" else [each for each in sentences(suffix, source) if each not in comments]
    )
    unmarked = ((line, re.sub(r"^\s*(?:#|//|/?\*+)\s*", "", text, flags=re.M)) for line, text in comments)
    yield from search(RULES["everywhere"], (*unmarked, *on_screen), re.M)
    joined = [(line, re.sub(r"\s+(?:#|//|\*)?\s*", " ", text)) for line, text in comments]
    yield from search(RULES["phrases"], joined)
    if not is_test:
        yield from search(RULES["parameters"], (*joined, *on_screen))
    if re.match(r"lessons/\d", place):
        yield from search(RULES["lessons"], [(1, source)])
    if suffix == ".py" and is_test:
        longest = RULES["tests"]["longest"]
        for line, name in names(source):
            if name.startswith("test_") and len(name) > longest:
                yield f"{line}: {name} is too long: test_subject_verb[_condition], at most {longest}"
        for line, name in functions(suffix, source):
            if name in RULES["names"]["participles"]:
                yield f"{line}: the function {name!r} is called by a participle: use a verb or a noun"
    if is_test or suffix not in (".py", ".js"):
        return
    for line, name in functions(suffix, source):
        if is_bare(name):
            yield f"{line}: the function {name!r} is called by a participle or a preposition: use a verb or a noun"
    if suffix == ".py":
        for line, text in comments:
            if match := STARTS.match(text):
                yield f"{line}: a docstring begins with a verb, not with {match[0]!r}"
        for line, name in names(source):
            if name.strip("_").lower() in RULES["names"]["participles"]:
                yield f"{line}: the name {name!r} is a participle: use a noun, a verb or is_…"
        for line, word in () if place.startswith(tuple(DOCSTRINGS["without_verbs"])) else verbless_docstrings(source):
            yield f"{line}: a function's docstring begins with a verb, as in 'Returns …', not with {word!r}"


def main() -> None:
    paths = sys.argv[1:] or ["app", "engine", "lessons", "assets", "tests", "app.py", "*.md"]
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", *paths], cwd=ROOT, text=True)
    files = [ROOT / name for name in sorted(set(listed.splitlines()))]
    found = []
    for path in files:
        if path.suffix in (".py", ".js", ".css", *DOCUMENTS) and path.exists():
            place, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
            found += [f"{place}:{problem}" for problem in problems(place, source)]
    print(*found, sep="\n")
    sys.exit(f"{len(found)} places to write in plain English (CONTRIBUTING.md)" if found else 0)


if __name__ == "__main__":
    main()
