"""Checks comments, docstrings and names against the style rule: `python tests/check_prose.py [PATH …]`.

It knows the worst patterns only; plain English is still the writer's job.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PHRASES = {
    r"\b(?:whoever|whatever|nobody|somebody|everybody)\b": "name the person or thing",
    r"\bwhat (?:is|was|were|are|has|had|comes?|came|stands|stood)\b": "use a noun",
    r"\b(?:is|are|was|were) no\b(?! longer)": "say what it is, or 'is not a …'",
    r", for (?:a|an|the|it|its|they|that|this|each|no|every|there)\b[^,.;:]* (?:is|was|has|may)\b": "write 'because'",
    r"\b(?:stands?|stood) (?:in|for|at|beside|behind|between|here|there)\b": "write 'is'",
    r"\bbehind\b": "write 'after'",
    r"\b(?:is|are|was|were|be) (?:told|asked)\b": "write 'receives' or 'is called with'",
    r"\b(?:courtesy|riddle|accused|guilty)\b": "no metaphors for code",
}  # fmt: skip
PARTICIPLES = {"told", "asked", "made", "kept", "begun", "brought", "whole", "wanted", "lent", "said", "found", "gone"}
PARTICIPLES |= {"taken", "given", "broken", "drawn_up", "swept", "standing", "entered", "joined", "chosen_by"}


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


def problems(path: Path) -> Iterator[str]:
    for line, text in prose(path):
        for pattern, advice in PHRASES.items():
            for match in re.finditer(pattern, re.sub(r"\s+(?:#|//|\*)?\s*", " ", text), re.I):
                yield f"{line}: {match[0]!r}: {advice}"
    if path.suffix == ".py" and "tests" not in path.parts:
        for line, name in names(path):
            if name.strip("_").lower() in PARTICIPLES:
                yield f"{line}: the name {name!r} is a participle: use a noun, a verb or is_…"


def main() -> None:
    paths = sys.argv[1:] or ["app", "engine", "lessons", "assets", "tests", "app.py"]
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", *paths], cwd=ROOT, text=True)
    files = [ROOT / name for name in sorted(set(listed.splitlines())) if name.endswith((".py", ".js", ".css"))]
    found = [f"{path.relative_to(ROOT)}:{problem}" for path in files if path.exists() for problem in problems(path)]
    print(*found, sep="\n")
    sys.exit(f"{len(found)} places to write in plain English (CONTRIBUTING.md)" if found else 0)


if __name__ == "__main__":
    main()
