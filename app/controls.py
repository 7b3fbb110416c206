"""Every control of a run, described once: the page, its links and its API are made from this list. Knows no gradio.

A control's name is its element's id, its parameter in a link, and its argument in the API.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.examples import START
from app.limits import Limits
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput

Kind = Literal["text", "choice", "switch", "slider", "number"]
PAIR = "smollm2-135m"
MAX_GAMMA = 16  # the engine takes 32; past 16 a chain only loses here
METHODS = {
    AUTO: "auto: fastest here",
    "ngram": "n-gram lookup: copies what came before",
    "lm": "draft model: a small model guesses",
    "eagle": "EAGLE head: reads the model's own states",
    "none": "none: plain decoding, the baseline",
}
THINKING = {None: "default", True: "on", False: "off"}


@dataclass(frozen=True)
class Control:
    """``choices``: value → words. ``step`` is 1 for whole numbers. ``lines``: of a text box."""

    name: str
    label: str
    hint: str
    default: Any
    kind: Kind
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: Mapping[str, str] | None = None
    advanced: bool = False
    lines: int = 1


CONTROLS: tuple[Control, ...] = (
    Control("prompt", "Prompt", "Shift + Enter runs it.", START, "text", lines=7),
    # Which pairs there are is the catalogue's to say: app.service offers them.
    Control("pair", "Models", "The target, and what drafts for it.", PAIR, "choice"),
    Control("method", "Method", "What guesses ahead of the target.", AUTO, "choice", choices=METHODS),
    Control("auto", "auto", "Chosen anew each round from measured costs.", True, "switch"),
    Control("gamma", "Draft length γ", "Tokens guessed in a round.", 4, "slider", 0, MAX_GAMMA, 1),
    Control("temperature", "Temperature", "0 is greedy: the likeliest token.", 0, "slider", 0, 2, 0.05),
    Control("seed", "Seed", "Fixes draws.", 0, "number", 0, 2**53 - 1, 1),
    Control("tokens", "Max tokens", "Where the run ends at the latest.", 128, "number", 1, None, 1),
    Control(
        "form", "Prompt form", "Chat uses the model's template; raw continues the text.", "chat", "choice",
        choices={"chat": "chat", "raw": "raw text"}, advanced=True,
    ),
    Control(
        "thinking", "Thinking", "Whether the model reasons aloud before it answers.", "default", "choice",
        choices={"default": "the template's default", "on": "on", "off": "off"}, advanced=True,
    ),
    Control("system", "System prompt", "Empty: the template's own.", "", "text", advanced=True, lines=2),
    Control("top_k", "Top-k", "Only the k likeliest tokens; 0 is off.", 0, "slider", 0, 200, 1, advanced=True),
    Control("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", 1, "slider", 0.05, 1, 0.05,
            advanced=True),
    Control("min_p", "Min-p", "Drops tokens below this share of the likeliest; 0 is off.", 0, "slider", 0, 1, 0.01,
            advanced=True),
    Control("repetition_penalty", "Repetition penalty", "Above 1, repeating costs; 1 is off.", 1, "slider", 0.5, 2,
            0.05, advanced=True),
    Control(
        "precision", "Precision", "Of weights and arithmetic; another one loads the model anew.", AUTO, "choice",
        choices={AUTO: "auto", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}, advanced=True,
    ),
)  # fmt: skip
NAMES = tuple(control.name for control in CONTROLS)


def choices(words: Mapping[str, str], values: Iterable[str] | None = None) -> list[tuple[str, str]]:
    """What a list shows, and what it stands for; without ``values`` all there are."""
    return [(words.get(value, value), value) for value in (words if values is None else values)]


def described(limits: Limits) -> dict[str, Control]:
    """The controls by name, in order, with what this server allows written into them."""
    found = {control.name: control for control in CONTROLS}
    room = f"Up to {limits.prompt_tokens:,} tokens ({limits.prompt_chars:,} characters)."
    found["prompt"] = replace(found["prompt"], hint=f"{room} {found['prompt'].hint}")
    tokens = found["tokens"]
    most = min(tokens.default, limits.new_tokens)
    found["tokens"] = replace(tokens, default=most, high=limits.new_tokens, hint=f"Up to {limits.new_tokens:,}.")
    if limits.pairs:
        found["pair"] = replace(found["pair"], default=limits.pairs[0])
    return found


def defaults(limits: Limits | None = None) -> dict[str, Any]:
    """What every control shows at start and after a reset."""
    return {name: control.default for name, control in described(limits or Limits()).items()}


def settings(values: Mapping[str, Any]) -> RunConfig:
    """The controls as a validated request; what ``values`` lacks has its default.

    BadInput refuses in a sentence. Choices that depend on the server (pairs, their methods) are the service's to check.
    """
    unknown = set(values) - set(NAMES)
    if unknown:
        raise BadInput(f"There is no control {min(map(str, unknown))[:40]!r}; choose from {', '.join(NAMES)}.")
    given = defaults() | dict(values)
    for control in CONTROLS:
        given[control.name] = plausible(control, given[control.name])
    return RunConfig(
        prompt=given["prompt"],
        pair=given["pair"],
        method=given["method"],
        gamma=_gamma(given),
        sampling=SamplingParams(
            **{n: given[n] for n in ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")}
        ),
        max_new_tokens=given["tokens"],
        seed=given["seed"],
        chat=given["form"] == "chat",
        system=given["system"] if given["system"].strip() else None,
        thinking=next(value for value, word in THINKING.items() if word == given["thinking"]),
        precision=given["precision"],
    )


def read(config: RunConfig) -> dict[str, Any]:
    """The inverse of ``settings``: where each control stands for ``config``."""
    auto = config.gamma == AUTO
    return {
        "prompt": config.prompt,
        "pair": config.pair,
        "method": config.method,
        "auto": auto,
        "gamma": defaults()["gamma"] if auto else config.gamma,
        "temperature": config.sampling.temperature,
        "seed": config.seed,
        "tokens": config.max_new_tokens,
        "form": "chat" if config.chat else "raw",
        "thinking": THINKING[config.thinking],
        "system": config.system or "",
        "top_k": config.sampling.top_k,
        "top_p": config.sampling.top_p,
        "min_p": config.sampling.min_p,
        "repetition_penalty": config.sampling.repetition_penalty,
        "precision": config.precision,
    }


def _gamma(given: Mapping[str, Any]) -> int | str:
    if given["method"] == "none":
        return 0
    return AUTO if given["auto"] else given["gamma"]


def plausible(control: Control, value: Any) -> Any:
    """The value in the type its control has; ranges are RunConfig's to refuse."""
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
                raise BadInput(f"{control.label} cannot be {str(value)[:40]!r}; {offered}.")
        case "slider" | "number":
            if value is None:
                raise BadInput(f"{control.label} is empty; give it a number.")
            if isinstance(value, int | float) and abs(value) >= 2**63:
                raise BadInput(f"{control.label} is far too large; give it a smaller number.")
            whole = control.step == 1 and isinstance(value, float) and value.is_integer()
            return int(value) if whole else value  # browsers send 4 as 4.0
    return value
