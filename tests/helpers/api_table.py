"""Writes the table of arguments in docs/api.md, from the signature of the API's `run` and the list of settings.

`python tests/helpers/api_table.py` writes it again; a test compares the two.
"""

import json
import re
import sys

from paths import ROOT

sys.path[:0] = [str(ROOT)]

from app.api.openapi import ALIASES, ARGUMENTS, STREAM, description  # noqa: E402

FILE = ROOT / "docs" / "api.md"
TABLE = re.compile(r"(?<=\| argument \| default \| \|\n\|---\|---\|---\|\n)(\|.*\n)+")


def row(name: str) -> str:
    argument = ARGUMENTS[name]
    default = "required" if argument.default is argument.empty else json.dumps(argument.default)
    names = " or ".join(f"`{each}`" for each in (name, *(alias for alias in ALIASES if ALIASES[alias] == name)))
    return f"| {names} | {default} | {description(name)} |\n"


def text() -> str:
    """Returns docs/api.md with the table as it should be."""
    rows = [*map(row, ARGUMENTS), f"| `stream` | false | {STREAM} |\n"]
    return TABLE.sub(lambda _: "".join(rows), FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
