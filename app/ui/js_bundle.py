"""Joins ES modules into one script: a browser imports none from a file, and loads eighty files slowly.

Each module becomes a function that returns its exports; the functions run in the order of the imports. A module may use
``import { a, b } from './other.js';``, ``import DATA from './data.json' with { type: 'json' };``, and ``export`` before
a function, a class, or a constant of one name. Comments from ``//`` to the end of a line, types in ``/** */`` at the
beginning of lines, indentation, empty lines and the break after a comma or an opening bracket are left out, because
every exported file carries the script; so a template of several lines may not depend on them.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

IMPORT = re.compile(r"^import (\{\s*\w+(?:,\s*\w+)*,?\s*\}) from '(\.\.?/[\w./-]+\.js)';$", re.MULTILINE)
DATA = re.compile(r"^import (\w+) from '(\.\.?/[\w./-]+\.json)' with \{ type: 'json' \};$", re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*?|class|const) (\w+))", re.MULTILINE)
TYPES = re.compile(r"^[ \t]*/\*\*.*?\*/", re.MULTILINE | re.DOTALL)
# A comment after code holds no quotes, because " // " within a string would be followed by one.
LEFT_OUT = re.compile(r"^[ \t]*//.*\n|[ \t]+//[ \t][^'\"`\n]*$|^[ \t]+", re.MULTILINE)
EMPTY = re.compile(r"\n{2,}")
CONTINUED = re.compile(r"^((?:(?!//).)*[,({\[])\n", re.MULTILINE)  # not where a comment is left
OTHER = re.compile(r"^[ \t]*(?:import|export)\b|\bimport\s*[(.]", re.MULTILINE)


def bundle(root: Path, modules: Iterable[str]) -> str:
    """Returns JavaScript that runs the modules, and all that they import, and leaves the exports of these modules alone
    in ``modules`` by path. Paths are relative to ``root``.

    ValueError with file and line for any other form of import or export, a missing file or name, and a circle.
    """
    result, asked_for = _Bundle(root.resolve()), list(modules)
    for module in asked_for:
        result.add(module)
    exports = ", ".join(f"'{module}': {result.names[module]}" for module in asked_for)
    return "\n".join(["'use strict';", *result.scripts, f"const modules = {{ {exports} }};"])


class _Bundle:
    def __init__(self, root: Path):
        self.root = root
        self.scripts: list[str] = []
        self.exports: dict[str, list[str]] = {}  # by module, for those in ``scripts``
        self.names: dict[str, str] = {}  # of each module in the script, by path
        self.pending: list[str] = []  # modules whose imports are being added

    def add(self, path: str) -> None:
        """Adds the module unless it is there, and before it what it imports."""
        if path in self.exports:
            return
        self.pending.append(path)
        text = (self.root / path).read_text(encoding="utf-8")
        text = TYPES.sub(lambda match: "\n" * match[0].count("\n"), text)  # each line keeps its number
        text = IMPORT.sub(lambda match: self._declaration(path, match), text)
        code = EXPORT.sub("", DATA.sub(lambda match: f"const {match[1]} = {self._data(path, match)};", text))
        if other := OTHER.search(code):
            raise ValueError(f"{path}:{_line(other)}: js_bundle.py does not know this form of import or export")
        self.pending.pop()
        self.exports[path] = EXPORT.findall(text)
        self.names[path], names = f"m{len(self.names)}", ", ".join(self.exports[path])
        code = CONTINUED.sub(r"\1", EMPTY.sub("\n", LEFT_OUT.sub("", code)))
        self.scripts.append(f"const {self.names[path]} = (() => {{\n{code}return {{ {names} }};}})();")

    def _declaration(self, path: str, match: re.Match) -> str:
        """Returns what an import becomes: a declaration on as many lines."""
        place, target = f"{path}:{_line(match)}", (self.root / path).parent / match[2]
        if not target.is_file():
            raise ValueError(f"{place}: there is no {match[2]}")
        other = target.resolve().relative_to(self.root).as_posix()
        if other in self.pending:
            raise ValueError(f"{place}: {' → '.join(self.pending)} → {other} is a circle")
        self.add(other)
        for name in re.findall(r"\w+", match[1]):
            if name not in self.exports[other]:
                raise ValueError(f"{place}: {other} does not export {name}")
        return f"const {match[1]} = {self.names[other]};"

    def _data(self, path: str, match: re.Match) -> str:
        """Returns an imported file of data on one line, in which no tag can end the script."""
        file = (self.root / path).parent / match[2]
        if not file.is_file():
            raise ValueError(f"{path}:{_line(match)}: there is no {match[2]}")
        return json.dumps(json.loads(file.read_text(encoding="utf-8"))).replace("<", "\\u003c")


def _line(match: re.Match) -> int:
    return match.string.count("\n", 0, match.start()) + 1
