"""The controls as the query of a link, and back. Pure: knows neither gradio nor a model.

A link comes from anybody: it is read piece by piece, each piece held to what its control takes, and what does not fit
is left out with a sentence that says so. Nothing in a link runs by itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from app.controls import Control
from app.service import Pair
from engine.config import AUTO
from engine.errors import BadInput

MOST = 7_000  # characters of a query: some servers take a request line of 8,192 bytes and no more
MOST_PIECES = 64
REVISION, HIDE, PRESENT = "revision", "hide", "present"
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE]-?\d{1,3})?")
_REVISION = re.compile(r"[0-9A-Za-z._-]{1,64}")
_SWITCH = {"1": True, "0": False}


@dataclass(frozen=True)
class Link:
    """What a link asks for: ``values`` of the controls it names, those to ``hide``, whether to ``present``.

    ``refused``: a sentence for each piece that was left out. ``notes``: what else its reader should know.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    hide: tuple[str, ...] = ()
    present: bool = False
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def query(values: Mapping[str, Any], controls: Mapping[str, Control], revision: str = "") -> str:
    """What differs from the defaults, ready to stand behind a "?"; ``revision`` of the pair's weights, shortened.

    BadInput where it is longer than a link may be.

    >>> query({"temperature": 0.5, "auto": False}, described(Limits()), "ab810cf68114")
    'temperature=0.5&auto=0&revision=ab810cf68114'
    """
    pieces = {
        name: _written(values[name]) for name, control in controls.items()
        if name in values and values[name] != control.default
    }  # fmt: skip
    if revision:
        pieces[REVISION] = revision[:12]
    text = urlencode(pieces, errors="replace")
    if len(text) > MOST:
        raise BadInput(
            f"This prompt makes a link of {len(text):,} characters, and links up to {MOST:,} work everywhere; "
            "save the trace and send the file instead."
        )
    return text


def read(text: str, controls: Mapping[str, Control], pairs: Sequence[Pair], prompt_chars: int) -> Link:
    """A link's query, with or without its "?". Pieces that are not ours are passed over."""
    if len(text) > MOST + 1_000:
        return Link(refused=(f"The link is {len(text):,} characters long; up to {MOST:,} are read.",))
    try:
        pieces = dict(parse_qsl(text.removeprefix("?"), keep_blank_values=True, max_num_fields=MOST_PIECES))
    except ValueError:
        return Link(refused=(f"The link has more than {MOST_PIECES} parts, which is none of ours.",))
    values, refused = {}, []
    for name, control in controls.items():
        if name in pieces:
            try:
                values[name] = _read(control, pieces[name], pairs, prompt_chars)
            except BadInput as error:
                refused.append(str(error))
    pair = next((pair for pair in pairs if pair.name == values.get("pair", controls["pair"].default)), None)
    if pair and values.get("method", AUTO) not in (AUTO, *pair.methods):
        refused.append(f"{pair.title} has no draft for the method {values.pop('method')!r}.")
    hide, unknown = _hidden(pieces.get(HIDE, ""), controls)
    if unknown:
        refused.append(f"The link hides {unknown} that this page does not have.")
    notes = _revision(pieces.get(REVISION), pair)
    return Link(values, hide, _SWITCH.get(pieces.get(PRESENT, "0"), False), tuple(refused), notes)


def sentence(link: Link, controls: Mapping[str, Control]) -> str:
    """What the page says about the link it was opened with."""
    names = [label(controls[name]) for name in link.values]
    filled = f"Filled in from the link: {', '.join(names)}. Nothing has run yet: read the prompt, then press Run."
    refused = [*link.refused, "The rest of the link is as it was."] if link.refused and names else link.refused
    return " ".join([*refused, *link.notes, *([filled] if names else [])])


def label(control: Control) -> str:
    """As the page has it; the switch that says no more than "auto" stands beside what it rules."""
    return "Draft length: auto" if control.name == "auto" else control.label


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read(control: Control, text: str, pairs: Sequence[Pair], prompt_chars: int) -> Any:
    match control.kind:
        case "text":
            if len(text) > prompt_chars:
                raise BadInput(f"{control.label} has {len(text):,} characters; this page takes up to {prompt_chars:,}.")
            return text
        case "switch":
            known = _SWITCH
        case "choice":
            choices = [pair.name for pair in pairs] if control.name == "pair" else control.choices
            known = {choice: choice for choice in choices}
        case _:
            return _number(control, text)
    if text not in known:
        raise BadInput(f"{control.label} cannot be {text[:40]!r}; the link may name {', '.join(known)}.")
    return known[text]


def _number(control: Control, text: str) -> int | float:
    number = float(text) if _NUMBER.fullmatch(text) else None
    low, high = control.low, control.high
    if number is None or number < low or (high is not None and number > high):
        bounds = f"from {low:,} up" if high is None else f"from {low:,} to {high:,}"
        raise BadInput(f"{control.label} cannot be {text[:40]!r}; it is a number {bounds}.")
    if control.step != 1:
        return number
    if not number.is_integer():
        raise BadInput(f"{control.label} cannot be {text[:40]!r}; it is a whole number.")
    return int(text) if text.lstrip("-").isdecimal() else int(number)


def _hidden(text: str, controls: Mapping[str, Control]) -> tuple[tuple[str, ...], str]:
    """The controls to hide, and how many others were named, in words."""
    named = {name.strip() for name in text.split(",") if name.strip()}
    others = len(named - set(controls))
    unknown = f"{others} control{'s' if others > 1 else ''}" if others else ""
    return tuple(name for name in controls if name in named), unknown


def _revision(asked: str | None, pair: Pair | None) -> tuple[str, ...]:
    if not asked or pair is None or not _REVISION.fullmatch(asked) or pair.revision.startswith(asked):
        return ()
    here = f"revision {pair.revision[:12]}" if pair.revision else "weights without a revision"
    return (f"The link was made with revision {asked[:12]} of {pair.name}; this server has {here}: runs may differ.",)
