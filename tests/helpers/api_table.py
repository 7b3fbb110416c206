"""Writes the table of arguments in docs/api.md, from the signature of the API's `run` and the list of settings.

`python tests/helpers/api_table.py` writes it again; a test compares the two.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from app.api.endpoints import Api  # noqa: E402
from app.api.http import ALIASES, NAMES  # noqa: E402
from engine.settings import SETTINGS, describe  # noqa: E402

FILE = ROOT / "docs" / "api.md"
TABLE = re.compile(r"(?<=\| argument \| default \| \|\n\|---\|---\|---\|\n)(\|.*\n)+")
STREAM = "| `stream` | false | A line of JSON about once a second, instead of one answer at the end. |\n"


def row(name: str, argument: inspect.Parameter) -> str:
    default = "required" if argument.default is argument.empty else json.dumps(argument.default)
    _, *words = get_args(argument.annotation) if hasattr(argument.annotation, "__metadata__") else (None,)
    names = " or ".join(f"`{each}`" for each in (name, *(alias for alias in ALIASES if ALIASES[alias] == name)))
    return f"| {names} | {default} | {words[0] if words else describe(SETTINGS[name])} |\n"


def text() -> str:
    """Returns docs/api.md with the table as it should be."""
    rows = [row(name, each) for name, each in inspect.signature(Api.run).parameters.items() if name in NAMES]
    return TABLE.sub(lambda _: "".join([*rows, STREAM]), FILE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
