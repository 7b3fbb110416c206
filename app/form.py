"""Makes the controls of a run from the list of settings, for the page and its links. Uses no gradio.

A control's name is its element's id, its parameter in a link, and its argument in the API.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.server.limits import Limits
from engine.config import AUTO, RunConfig, Setting
from engine.constraint import CONSTRAINTS, Constraint
from engine.errors import BadInput, did_you_mean, quantity, spell
from engine.settings import SETTINGS, make_config, read_config
from lessons.constraint_examples import CONSTRAINT_EXAMPLES
from lessons.examples import EXAMPLES

Control = Setting  # as it is on the page
START = next(iter(EXAMPLES.values())).prompt
METHOD_LABELS = SETTINGS["method"].choices
FREE = "none"  # the kind of constraint of a run that may write anything
CONSTRAINT_LABELS = {
    FREE: "none: any text",
    "json_schema": "JSON schema: an object with named fields",
    "regex": "regular expression: a pattern",
    "choice": "choice: one of these texts",
    "grammar": "Lark grammar: rules of your own",
}
CONSTRAINT_CONTROLS = ("constraint", *CONSTRAINTS, "compact_json")
THINKING = {None: "default", True: "on", False: "off"}
# Each kind of constraint has a control of its own by its name, so that its text stays while another kind is tried.
_CHANGES: dict[str, dict[str, Any]] = {
    "prompt": {"hint": "Shift + Enter runs it.", "default": START},
    "precision": {"hint": "How exact weights and arithmetic are; changing it loads the model again."},
    "compact_json": {"default": True, "only": ("constraint", "json_schema")},
} | {kind: {"default": CONSTRAINT_EXAMPLES[kind].text, "only": ("constraint", kind)} for kind in CONSTRAINTS}
_AUTO = Control("auto", "auto", "Chosen again for each round from measured costs.", True, "switch")
_CONSTRAINT = Control("constraint", "Constraint", "What the whole answer must match. A click fills in an example:",
                      FREE, "choice", choices=CONSTRAINT_LABELS)  # fmt: skip
_AFTER = {"method": (_AUTO,), "system": (_CONSTRAINT,)}  # controls that only the page has, each after a setting
CONTROLS: tuple[Control, ...] = tuple(
    control
    for name, setting in SETTINGS.items()
    for control in (replace(setting, **_CHANGES.get(name, {})), *_AFTER.get(name, ()))
)
NAMES = tuple(control.name for control in CONTROLS)


def choices(words: Mapping[str, str], values: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """Returns (label, value) pairs for a list; without ``values`` all of ``words``."""
    return [(words.get(value, value), value) for value in (words if values is None else values)]


def controls_by_name(limits: Limits) -> dict[str, Control]:
    """Returns the controls by name, in order, with the limits of this server."""
    controls = {control.name: control for control in CONTROLS}
    room = f"Up to {quantity(limits.prompt_tokens, 'token')} ({quantity(limits.prompt_chars, 'character')})."
    controls["prompt"] = replace(controls["prompt"], hint=f"{room} {controls['prompt'].hint}")
    tokens = controls["tokens"]
    most = min(tokens.default, limits.new_tokens)
    controls["tokens"] = replace(tokens, default=most, high=limits.new_tokens, hint=f"Up to {limits.new_tokens:,}.")
    if limits.pairs:
        controls["pair"] = replace(controls["pair"], default=limits.pairs[0])
    return controls


def defaults(limits: Limits | None = None) -> dict[str, Any]:
    """Returns the value of every control after a reset. A page starts with its recorded run's (`startup_run`)."""
    return {name: control.default for name, control in controls_by_name(limits or Limits()).items()}


def settings(
    values: Mapping[str, Any], limits: Limits | None = None, constraint: Constraint | None = None
) -> RunConfig:
    """Returns the controls as a validated request, with defaults for missing ``values``; raises BadInput.

    The tokens are checked against ``limits`` first. Otherwise a visitor would read the engine's limit first.
    Choices that depend on the server (pairs, their methods) are checked by the service.
    """
    if unknown := sorted(map(str, set(values) - set(NAMES))):
        hint = did_you_mean(unknown[0][:40], NAMES, 1, 0.7)  # 0.6 takes "stop" for "top_p"
        raise BadInput(f"There is no control {unknown[0][:40]!r}; {hint}")
    complete = defaults(limits) | dict(values)
    for control in CONTROLS:
        value = complete[control.name] if control.applies_to(complete) else control.default
        complete[control.name] = plausible(control, value)
    if limits:
        limits.check_tokens(complete["tokens"])
    return make_config(
        complete,
        gamma=_gamma(complete),
        max_new_tokens=complete["tokens"],
        chat=complete["form"] == "chat",
        system=complete["system"] if complete["system"].strip() else None,
        thinking=next(value for value, word in THINKING.items() if word == complete["thinking"]),
        constraint=constraint or _constraint(complete),
    )


def control_values(config: RunConfig) -> dict[str, Any]:
    """Returns the value of each control for ``config``: the inverse of ``settings``."""
    auto = config.gamma == AUTO or config.method == "none"  # the next method is to draft
    values = read_config(config) | {
        "auto": auto,
        "gamma": defaults()["gamma"] if auto else config.gamma,
        "tokens": config.max_new_tokens,
        "form": "chat" if config.chat else "raw",
        "thinking": THINKING[config.thinking],
        "system": config.system or "",
    }
    values |= _constraint_values(config.constraint)
    values |= {control.name: control.default for control in CONTROLS if control.name not in values}
    return {name: values[name] for name in NAMES}


def _constraint(values: Mapping[str, Any]) -> Constraint | None:
    """Returns the constraint of the controls; raises BadInput."""
    kind = values["constraint"]
    if kind == FREE:
        return None
    if not values[kind].strip():
        raise BadInput(f"The {CONSTRAINTS[kind]} is empty; write one, or choose no constraint.")
    return Constraint(kind, values[kind], kind == "json_schema" and values["compact_json"])


def _constraint_values(constraint: Constraint | None) -> dict[str, Any]:
    """Returns the values of the controls that count with this constraint."""
    if constraint is None:
        return {"constraint": FREE}
    compact = {"compact_json": constraint.compact} if constraint.kind == "json_schema" else {}
    return {"constraint": constraint.kind, constraint.kind: constraint.text} | compact


def _gamma(values: Mapping[str, Any]) -> int | str:
    if values["method"] == "none":
        return 0
    return AUTO if values["auto"] else values["gamma"]


def plausible(control: Control, value: Any) -> Any:
    """Returns the value in the type of its control, or raises BadInput; RunConfig checks the ranges."""
    match control.kind:
        case "text":
            if value is not None and not isinstance(value, str):
                raise BadInput(f"{control.label} must be text.")
            return value or ""
        case "switch":
            if not isinstance(value, bool):
                raise BadInput(f"{control.label} must be on or off.")
        case "choice":
            known = isinstance(value, str) and (not control.choices or value in control.choices)
            if not known:
                offered = f"choose from {', '.join(control.choices)}" if control.choices else "choose one of the list"
                raise BadInput(f"{control.label} cannot be {spell(value)}; {offered}.")
        case "slider" | "number":
            if value is None:
                raise BadInput(f"{control.label} is empty; give it a number.")
            if isinstance(value, int | float) and abs(value) >= 2**63:
                raise BadInput(f"{control.label} is far too large; give it a smaller number.")
            is_integer = control.step == 1 and isinstance(value, float) and value.is_integer()
            return int(value) if is_integer else value  # browsers send 4 as 4.0
    return value
