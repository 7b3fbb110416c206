"""Defines every control of a run in one list, from which the page and its links are made. Uses no gradio.

A control's name is its element's id, its parameter in a link, and its argument in the API, whose signature
(`app/api/endpoints.py`) keeps an order of its own for clients that pass arguments by position.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.server.limits import Limits
from engine.config import (
    ACCEPTANCE,
    AUTO,
    CONSTRAINTS,
    DEFAULT_PAIR,
    METHODS,
    PRECISIONS,
    Constraint,
    LookaheadSizes,
    RunConfig,
    SamplingParams,
)
from engine.errors import BadInput, quantity, spell
from lessons.constraint_examples import CONSTRAINT_EXAMPLES
from lessons.examples import EXAMPLES

START = next(iter(EXAMPLES.values())).prompt

Kind = Literal["text", "choice", "switch", "slider", "number"]
PAGE_MAX_GAMMA = 16  # the engine allows 32, but chains longer than 16 only lose time
METHOD_LABELS = {AUTO: "auto: the best for each round"}
METHOD_LABELS |= {
    name: f"{method.title}: {method.description}{'; needs a constraint' if method.needs_constraint else ''}"
    for name, method in METHODS.items()
}
ACCEPTANCE_LABELS = {name: f"{rule.title}: {rule.description}" for name, rule in ACCEPTANCE.items()}
TYPICAL, LOOKAHEAD = ("acceptance", "typical"), ("method", "lookahead")
FREE = "none"  # the kind of constraint of a run that may write anything
# Each kind has a control of its own by its name, so that its text stays while another kind is tried.
_CONSTRAINT_TITLES = {
    "json_schema": ("JSON schema", "an object with named fields"),
    "regex": ("regular expression", "a pattern"),
    "choice": ("choice", "one of these texts"),
    "grammar": ("Lark grammar", "rules of your own"),
}
CONSTRAINT_LABELS = {FREE: "none: any text"} | {
    kind: f"{title}: {words}" for kind, (title, words) in _CONSTRAINT_TITLES.items()
}
CONSTRAINT_HINTS = {
    "json_schema": "The whole answer is JSON that fits this schema.",
    "regex": "The whole answer matches this, from its first letter to its last.",
    "choice": "The whole answer is one of these texts, one a line.",
    "grammar": "The whole answer follows these rules, from the one called start.",
}
CONSTRAINT_CONTROLS = ("constraint", *CONSTRAINT_HINTS, "compact_json")
THINKING = {None: "default", True: "on", False: "off"}


@dataclass(frozen=True)
class Control:
    """``choices``: value → words. ``step`` is 1 for whole numbers. ``lines``: of a text box. ``only``: another control
    and the one value of it with which this one counts; it is hidden with any other, and stays at its default."""

    name: str
    label: str
    hint: str
    default: Any
    kind: Kind
    low: Any = None  # numbers of a slider, which Gradio demands
    high: Any = None
    step: float | None = None
    choices: Mapping[str, str] | None = None
    lines: int = 1
    only: tuple[str, str] | None = None

    def applies_to(self, values: Mapping[str, Any]) -> bool:
        """Returns whether it has a part in a run of these ``values``, of every control by name."""
        return self.only is None or values[self.only[0]] == self.only[1]


CONTROLS: tuple[Control, ...] = (
    Control("prompt", "Prompt", "Shift + Enter runs it.", START, "text", lines=7),
    # app.jobs.offer lists the pairs, from the catalogue.
    Control("pair", "Models", "The target, and what drafts for it.", DEFAULT_PAIR, "choice"),
    Control("method", "Method", "What guesses ahead of the target.", AUTO, "choice", choices=METHOD_LABELS),
    Control("auto", "auto", "Chosen again for each round from measured costs.", True, "switch"),
    Control("gamma", "Draft length γ", "Tokens guessed in a round.", 4, "slider", 0, PAGE_MAX_GAMMA, 1),
    Control("temperature", "Temperature", "0 is greedy: the likeliest token.", 0, "slider", 0, 2, 0.05),
    Control("seed", "Seed", "Same seed, same output.", 0, "number", 0, 2**53 - 1, 1),
    Control("tokens", "Max tokens", "", 128, "number", 1, None, 1),  # the hint is this server's limit
    Control(
        "form", "Prompt form", "Chat uses the model's template; raw continues the text.", "chat", "choice",
        choices={"chat": "chat", "raw": "raw text"},
    ),
    Control(
        "thinking", "Thinking", "Whether the model reasons aloud before it answers.", "default", "choice",
        choices={"default": "the template's default", "on": "on", "off": "off"},
    ),
    Control("system", "System prompt", "Leave it empty for the template's own.", "", "text", lines=2),
    Control("constraint", "Constraint", "What the whole answer must match. A click fills in an example:",
            FREE, "choice", choices=CONSTRAINT_LABELS),
    *(Control(kind, title[0].upper() + title[1:], CONSTRAINT_HINTS[kind], CONSTRAINT_EXAMPLES[kind].text, "text",
              lines=3, only=("constraint", kind))
      for kind, (title, _) in _CONSTRAINT_TITLES.items()),
    Control("compact_json", "Compact JSON", "No spaces between its parts, so more of the text is certain beforehand.",
            True, "switch", only=("constraint", "json_schema")),
    Control("top_k", "Top-k", "Only the k likeliest tokens; 0 is off.", 0, "slider", 0, 200, 1),
    Control("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", 1, "slider", 0.05, 1, 0.05),
    Control("min_p", "Min-p", "Drops tokens below this share of the likeliest; 0 is off.", 0, "slider", 0, 1, 0.01),
    Control("repetition_penalty", "Repetition penalty", "Above 1, repeating costs; 1 is off.", 1, "slider", 0.5, 2,
            0.05),
    Control(
        "acceptance", "Acceptance rule",
        "Token and block are exact, of chains and trees. Typical is lossy above temperature 0.", "token",
        "choice", choices=ACCEPTANCE_LABELS,
    ),
    Control("epsilon", "Threshold ε", "A p above ε is always enough.", RunConfig.epsilon, "slider", 0, 1, 0.01,
            only=TYPICAL),
    Control("delta", "Factor δ", "A p above δ · exp(−H) is enough, too; H is the entropy of p.", RunConfig.delta,
            "slider", 0, 1, 0.01, only=TYPICAL),
    Control("window", "Window W", "Places ahead that the target guesses in each pass.", LookaheadSizes.window, "slider",
            1, 16, 1, only=LOOKAHEAD),
    Control("ngram_size", "n-gram N", "Tokens of an n-gram. A pass scores (N − 1) · (W + G) rows more.",
            LookaheadSizes.ngram, "slider", 2, 8, 1, only=LOOKAHEAD),
    Control("guesses", "Guesses G", "n-grams of the pool that are tried in a round.", LookaheadSizes.guesses, "slider",
            1, 16, 1, only=LOOKAHEAD),
    Control(
        "precision", "Precision", "How exact weights and arithmetic are; changing it loads the model again.", AUTO,
        "choice", choices={name: name for name in PRECISIONS},
    ),
)  # fmt: skip
NAMES = tuple(control.name for control in CONTROLS)
# Controls that are a field of the request, or of its sampling, by the same name.
_FIELDS = ("prompt", "pair", "method", "seed", "acceptance", "epsilon", "delta", "precision")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_LOOKAHEAD = {"window": "window", "ngram_size": "ngram", "guesses": "guesses"}  # control → field of its sizes


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
        near = difflib.get_close_matches(unknown[0][:40], NAMES, n=1, cutoff=0.7)  # 0.6 takes "stop" for "top_p"
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(NAMES)}."
        raise BadInput(f"There is no control {unknown[0][:40]!r}; {hint}")
    complete = defaults(limits) | dict(values)
    for control in CONTROLS:
        value = complete[control.name] if control.applies_to(complete) else control.default
        complete[control.name] = plausible(control, value)
    if limits:
        limits.check_tokens(complete["tokens"])
    return RunConfig(
        **{name: complete[name] for name in _FIELDS},
        gamma=_gamma(complete),
        sampling=SamplingParams(**{name: complete[name] for name in _SAMPLING}),
        lookahead=LookaheadSizes(**{field: complete[name] for name, field in _LOOKAHEAD.items()}),
        max_new_tokens=complete["tokens"],
        chat=complete["form"] == "chat",
        system=complete["system"] if complete["system"].strip() else None,
        thinking=next(value for value, word in THINKING.items() if word == complete["thinking"]),
        constraint=constraint or _constraint(complete),
    )


def control_values(config: RunConfig) -> dict[str, Any]:
    """Returns the value of each control for ``config``: the inverse of ``settings``."""
    auto = config.gamma == AUTO or config.method == "none"  # the next method is to draft
    values = {name: getattr(config, name) for name in _FIELDS}
    values |= {name: getattr(config.sampling, name) for name in _SAMPLING}
    values |= {name: getattr(config.lookahead, field) for name, field in _LOOKAHEAD.items()}
    values |= {
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
            known = isinstance(value, str) and (control.choices is None or value in control.choices)
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
