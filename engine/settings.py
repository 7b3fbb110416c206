"""Lists every setting of a run. The page's form, links, the API, the command line and docs/api.md are made from it.

The order is the form's. ``low`` and ``high`` are what the page offers; `RunConfig` says what the engine takes.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from inspect import Parameter, Signature
from typing import Any

from engine.config import (
    ACCEPTANCE,
    AUTO,
    DEFAULT_PAIR,
    METHODS,
    PRECISIONS,
    RunConfig,
    SamplingParams,
    Setting,
    own_settings,
)

_METHODS = {AUTO: "auto: the best for each round"} | {
    name: f"{method.title}: {method.description}{'; needs a constraint' if method.needs_constraint else ''}"
    for name, method in METHODS.items()
}

SETTINGS = {setting.name: setting for setting in (
    Setting("prompt", "Prompt", "The question or text for the model.", "", "text", lines=7),
    # app.jobs.offer lists the pairs, from the catalogue.
    Setting("pair", "Models", "The target, and what drafts for it.", DEFAULT_PAIR, "choice"),
    Setting("method", "Method", "What guesses ahead of the target; auto is the best for each round.", AUTO, "choice",
            choices=_METHODS),
    # The engine allows 32, but chains longer than 16 only lose time.
    Setting("gamma", "Draft length γ", "Tokens guessed in a round.", 4, "slider", 0, 16, 1),
    Setting("temperature", "Temperature", "0 is greedy: the likeliest token.", 0, "slider", 0, 2, 0.05),
    Setting("seed", "Seed", "Same seed, same output.", 0, "number", 0, 2**53 - 1, 1),
    Setting("tokens", "Max tokens", "Stop after this many tokens.", 128, "number", 1, None, 1),
    Setting("form", "Prompt form", "Chat uses the model's template; raw continues the text.", "chat", "choice",
            choices={"chat": "chat", "raw": "raw text"}),
    Setting("thinking", "Thinking", "Whether the model reasons aloud before it answers.", "default", "choice",
            choices={"default": "the template's default", "on": "on", "off": "off"}),
    Setting("system", "System prompt", "Leave it empty for the template's own.", "", "text", lines=2),
    Setting("json_schema", "JSON schema", "The whole answer is JSON that fits this schema.", "", "text", lines=3),
    Setting("regex", "Regular expression", "The whole answer matches this, from its first letter to its last.", "",
            "text", lines=3),
    Setting("choice", "Choice", "The whole answer is one of these texts: one a line, or a JSON list.", "", "text",
            lines=3),
    Setting("grammar", "Lark grammar", "The whole answer follows these rules, from the one called start.", "", "text",
            lines=3),
    Setting("compact_json", "Compact JSON",
            "No white space: more of the text is certain beforehand, but lists may be empty.",
            False, "switch"),
    Setting("top_k", "Top-k", "Only the k likeliest tokens; 0 is off.", 0, "slider", 0, 200, 1),
    Setting("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", 1, "slider", 0.05, 1, 0.05),
    Setting("min_p", "Min-p", "Drops tokens below this share of the likeliest; 0 is off.", 0, "slider", 0, 1, 0.01),
    Setting("repetition_penalty", "Repetition penalty", "Above 1, repeating costs; 1 is off.", 1, "slider", 0.5, 2,
            0.05),
    Setting("acceptance", "Acceptance rule",
            "Token and block are exact, of chains and trees. Typical is lossy above temperature 0.", "token", "choice",
            choices={name: f"{rule.title}: {rule.description}" for name, rule in ACCEPTANCE.items()}),
    *own_settings().values(),
    Setting("precision", "Precision", "How exact weights and arithmetic are.", AUTO, "choice",
            choices={name: name for name in PRECISIONS}),
)}  # fmt: skip


def describe(setting: Setting) -> str:
    """Returns what an option's help and docs/api.md say about a setting.

    >>> describe(SETTINGS["epsilon"])
    'Typical acceptance: A p above ε is always enough.'
    """
    hint = setting.hint + (f" One of {', '.join(setting.choices)}." if setting.choices else "")
    if setting.only is None:
        return hint
    other, value = setting.only
    title = (METHODS if other == "method" else ACCEPTANCE)[value].title
    return f"{title[0].upper()}{title[1:]}: {hint}"


def make_config(values: Mapping[str, Any], **more: Any) -> RunConfig:
    """Makes a request of settings by name and ``more`` fields of `RunConfig`, which come first. Raises BadInput."""
    known = {field.name for field in fields(RunConfig)}
    config = {name: value for name, value in values.items() if name in known}
    sampling = {field.name: values[field.name] for field in fields(SamplingParams) if field.name in values}
    own = {name: values[name] for name in own_settings() if name in values}
    parts: dict[str, Any] = {"sampling": SamplingParams(**sampling), "own_settings": own}
    return RunConfig(**config | parts | more)


def read_config(config: RunConfig) -> dict[str, Any]:
    """Returns the value of each setting in ``config`` that has a field of its own, by name."""
    known = {**vars(config), **vars(config.sampling), **config.own_settings}
    return {name: known[name] for name in SETTINGS if name in known}


def add_settings(
    function: Callable, annotate: Callable[[Setting], Any], order: Iterable[str], left_out: Iterable[str] = ()
) -> Signature:
    """Returns the signature of a function that takes ``**settings``: instead of those, a parameter for each setting
    that it does not name itself and that is not ``left_out``. Names come in the given ``order``, others after them."""
    signature = inspect.signature(function)
    own = {name: each for name, each in signature.parameters.items() if each.kind is not each.VAR_KEYWORD}
    for name in (name for name in SETTINGS if name not in (*own, *left_out)):
        default, kind = SETTINGS[name].value_type(SETTINGS[name].default), Parameter.POSITIONAL_OR_KEYWORD
        own[name] = Parameter(name, kind, default=default, annotation=annotate(SETTINGS[name]))
    places = {name: place for place, name in enumerate(order)}
    return signature.replace(parameters=sorted(own.values(), key=lambda each: places.get(each.name, len(places))))
