"""Writes the types of a trace for the browser's code, from engine/trace/events.py and what the page gets of it.

`python tests/helpers/trace_types.py` writes assets/web/player/trace.d.ts again; a test compares the two.
"""

import sys
from types import NoneType, UnionType
from typing import Literal, get_args, get_origin, get_type_hints

from paths import ROOT

sys.path[:0] = [str(ROOT)]

from engine.trace import events  # noqa: E402

FILE = ROOT / "assets" / "web" / "player" / "trace.d.ts"
# The fields of an event that the page gets, and those that only the page gets, with their types.
TOKEN = ("text", "status", "position", "id", "label", "p", "q", "u", "accept", "gap", "running", "h", "expected",
         "threshold", "p_top", "q_top", "residual", "removed")  # fmt: skip
FORBIDDEN = ("text", "position", "id", "parent")
ROUND = ("index", "start", "end", "tokens")
ALSO = {
    "Token": {"sibling?": "true", "grammar?": "true"},
    "Forbidden": {},
    "Round": {
        "accepted": "number", "tested": "number", "drafted": "number", "parents?": "number[]", "row?": "number",
        "by?": "string", "method?": "string", "counted?": "boolean", "forbidden?": "Forbidden[]",
    },
}  # fmt: skip
ALWAYS = {"id"}  # sent without a value, too


def typescript(kind) -> str:
    """Returns the TypeScript type of a Python one.

    >>> typescript(int | None), typescript(tuple[events.Token, ...])
    ('number | null', 'Token[]')
    """
    if get_origin(kind) is Literal:
        return " | ".join(f"'{value}'" for value in get_args(kind))
    if get_origin(kind) is UnionType:
        return " | ".join(map(typescript, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"{typescript(get_args(kind)[0])}[]"
    return {int: "number", float: "number", str: "string", bool: "boolean", NoneType: "null"}.get(kind) or kind.__name__


def fields(event: type, names: tuple[str, ...]) -> str:
    """Returns the fields of an interface; those without a value are left out of a line, so they are optional."""
    hints, lines = get_type_hints(event), []
    for name in names:
        kind = "Status" if hints[name] == events.Status else typescript(hints[name])
        is_optional = kind.endswith(" | null") and name not in ALWAYS
        lines.append(f"  {name}?: {kind.removesuffix(' | null')};" if is_optional else f"  {name}: {kind};")
    lines += [f"  {name}: {kind};" for name, kind in ALSO[event.__name__].items()]
    return "\n".join(lines)


def text() -> str:
    return f"""\
// Written by tests/helpers/trace_types.py from engine/trace/events.py; a test compares the two.

export type Status = {typescript(events.Status)};
export type Reason = {typescript(events.Reason)};
export type Candidate = [id: number, text: string, mass: number];
export interface Distribution {{
  top: Candidate[];
  rest: number;
}}

// A field without a value is left out, and so is a distribution that repeats another token's.
export interface Token {{
{fields(events.Token, TOKEN)}
}}

// A draft that was not scored; ``parent``: the node that it would have followed, 0 being the pending token.
export interface Forbidden {{
{fields(events.Forbidden, FORBIDDEN)}
}}

export interface Round {{
{fields(events.Round, ROUND)}
}}
"""


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
