"""Writes the controls into the query of a link and reads them back. Pure: knows neither gradio nor a model.

A link is untrusted: each parameter is validated by its control, and refused ones are left out with a sentence.
Opening a link never starts a run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from app.form import Control
from app.jobs.engine_facade import Pair
from engine.config import AUTO, constraint_methods
from engine.errors import BadInput, quantity

MOST = 7_000  # characters of a query: some servers take a request line of 8,192 bytes and no more
MOST_PIECES = 64
REVISION, HIDE, ONLY, PRESENT, FORCE = "revision", "hide", "only", "present", "force"
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?([eE]-?\d{1,3})?")
_REVISION = re.compile(r"[0-9A-Za-z._-]{1,64}")
_FORCE = re.compile(r"(\d{1,5}):(\d{1,9})")
_SWITCH = {"1": True, "0": False}


FORCED = "Once your run has ended, the link's token is forced at place {} of its output."


@dataclass(frozen=True)
class Link:
    """The content of a link: ``values`` of controls, controls to ``hide``, whether to ``present``, and the place and
    token of a branch.

    ``has_settings``: whether it describes a run, if only one with every default. ``refused``: a sentence for each
    parameter that was left out. ``notes``: sentences on other differences.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    hide: tuple[str, ...] = ()
    present: bool = False
    force: tuple[int, int] | None = None
    has_settings: bool = False
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def query(
    values: Mapping[str, Any],
    controls: Mapping[str, Control],
    revision: str = "",
    force: tuple[int, int] | None = None,
) -> str:
    """Writes the query of a link: all values that differ from the defaults, the first 12 digits of ``revision``, and
    the place and the token of a branch.

    BadInput if it is longer than MOST.

    >>> from app.form import controls_by_name
    >>> from app.server.limits import Limits
    >>> query({"temperature": 0.5, "auto": False}, controls_by_name(Limits()), "ab810cf68114")
    'auto=0&temperature=0.5&revision=ab810cf68114'
    """
    pieces = {
        name: _write(values[name]) for name, control in controls.items()
        if name in values and values[name] != control.default
    }  # fmt: skip
    if revision:
        pieces[REVISION] = revision[:12]
    if force:
        pieces[FORCE] = "{}:{}".format(*force)
    text = urlencode(pieces, safe=":", errors="replace")
    if len(text) > MOST:
        raise BadInput(
            f"This prompt makes a link of {len(text):,} characters, and links up to {MOST:,} work everywhere; "
            "save the trace and send the file instead."
        )
    return text


def read_link(text: str, controls: Mapping[str, Control], pairs: Sequence[Pair], prompt_chars: int) -> Link:
    """Parses a query, with or without its "?". Ignores unknown parameters."""
    if len(text) > MOST + 1_000:
        return Link(refused=(f"The link is {len(text):,} characters long; up to {MOST:,} are read.",))
    try:
        pieces = dict(parse_qsl(text.removeprefix("?"), keep_blank_values=True, max_num_fields=MOST_PIECES))
    except ValueError:
        return Link(refused=(f"This is not a SpecLens link (more than {MOST_PIECES} parameters).",))
    values, refused = {}, []
    for name, control in controls.items():
        if name in pieces:
            try:
                values[name] = _read(control, pieces[name], pairs, prompt_chars)
            except BadInput as error:
                refused.append(str(error))
    pair = next((pair for pair in pairs if pair.name == values.get("pair", controls["pair"].default)), None)
    if pair and values.get("method", AUTO) not in (AUTO, *pair.methods, *constraint_methods()):
        refused.append(f"{pair.title} has no draft for the method {values.pop('method')!r}.")
    hide, unknown = _controls_to_hide(pieces.get(HIDE, ""), pieces.get(ONLY), controls)
    if unknown:
        refused.append(f"The link names {unknown} that this page does not have.")
    force = None
    try:
        force = _read_branch_point(pieces[FORCE], pair) if FORCE in pieces else None
    except BadInput as error:
        refused.append(str(error))
    notes = _revision(pieces.get(REVISION), pair)
    present, has_settings = _SWITCH.get(pieces.get(PRESENT, "0"), False), bool(values) or REVISION in pieces
    return Link(values, hide, present, force, has_settings, tuple(refused), notes)


def sentence(link: Link, controls: Mapping[str, Control], is_shown: bool = False) -> str:
    """Returns the sentences about the link that the page was opened with; ``is_shown``: its run is on the stage."""
    names = [label(controls[name]) for name in link.values] or ["every default"] * link.has_settings
    press = "press Run" if "prompt" in link.hide else "read the prompt, then press Run"
    filled = f"Filled in from the link: {', '.join(names)}. Nothing has run yet: {press}."
    refused = [*link.refused, "Everything else in the link was used."] if link.refused and names else link.refused
    forced = [FORCED.format(link.force[0] + 1)] if link.force else []
    return " ".join([*refused, *link.notes, *([filled] if names and not is_shown else []), *forced])


def label(control: Control) -> str:
    """Returns the control's label on the page, except for the switch that reads only "auto" there."""
    return "Draft length: auto" if control.name == "auto" else control.label


def _write(value: Any) -> str:
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
        raise BadInput(f"{control.label} cannot be {text[:40]!r}; choose from {', '.join(known)}.")
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


def _read_branch_point(text: str, pair: Pair | None) -> tuple[int, int]:
    """Reads the place and the token of a branch. Whether the output has that place shows only when it is there."""
    match = _FORCE.fullmatch(text)
    if match is None:
        raise BadInput(f"The link forces {text[:40]!r}, which is not a place and a token's number, as in 12:345.")
    place, token = map(int, match.groups())
    if pair and 0 < pair.vocabulary <= token:
        raise BadInput(f"The link forces token {token:,}, but {pair.title} knows {pair.vocabulary:,} tokens.")
    return place, token


def _controls_to_hide(hide: str, only: str | None, controls: Mapping[str, Control]) -> tuple[tuple[str, ...], str]:
    """Returns the controls to hide, which ``hide`` names or ``only`` leaves out, and the number of unknown ones in
    words (empty for none)."""
    named, visible = ({name.strip() for name in text.split(",") if name.strip()} for text in (hide, only or ""))
    others = len((named | visible) - set(controls))
    unknown = quantity(others, "control") if others else ""
    return tuple(name for name in controls if name in named or (only is not None and name not in visible)), unknown


def _revision(linked: str | None, pair: Pair | None) -> tuple[str, ...]:
    if not linked or pair is None or not _REVISION.fullmatch(linked) or pair.revision.startswith(linked):
        return ()
    here = f"revision {pair.revision[:12]}" if pair.revision else "weights without a revision"
    return (f"The link was made with revision {linked[:12]} of {pair.name}; this server has {here}: runs may differ.",)
