"""Writes a method and a draft length as a configuration for other engines, or says "not supported".

The recipes are templates in assets/data/engine_recipes.toml. Their reader shows the version beside each, because flags
change.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from string import Template
from typing import Any

from engine.config import AUTO, METHODS, NGRAM_LONGEST, draft_of, is_plain
from engine.files import ASSETS
from engine.trace.load_schedule import LoadSchedule

SHIPPED = "assets/"  # drafts in this repository; a hub's name has one part before its "/"
IN_EIGHT_BITS = ("lm", "eagle", "block")  # the shipped drafts that other engines read in 16 bits
_EAGLE1 = re.compile(r"eagle[-_]?[12](?![0-9])", re.I)  # EAGLE-2 drafts with a head of EAGLE-1
_PATHS = {"medusa": "PATH_OF_MEDUSA_HEADS", "block": "PATH_OF_A_BLOCK_HEAD"}  # where none is known
TYPICAL = 4  # the draft length of γ = auto until a run shows one


@dataclass(frozen=True, slots=True)
class Choice:
    """The setting to configure. ``target`` and ``draft`` are hub names or folders, ``gguf`` a file or a name for -hf of
    llama.cpp.

    ``chosen``: the draft length that auto took on average in the run on screen. ``translated``: whether the draft has
    another tokenizer. ``schedule``: how many drafts at which number of requests at once, where that was measured.
    ``eagle``: 1 or 3, the version of an EAGLE head; None where its files are not here, so that its name decides.
    ``has_schema``: whether the answers must match a JSON schema.
    """

    method: str
    gamma: int | str
    target: str
    draft: str | None = None
    gguf: str | None = None
    greedy: bool = True
    chosen: int | None = None
    translated: bool = False
    schedule: LoadSchedule | None = None
    eagle: int | None = None
    has_schema: bool = False

    @property
    def recipe(self) -> str:
        """The name of its recipes: the method whose draft it takes, or eagle1 for an EAGLE-1 head."""
        method = draft_of(self.method)  # these engines are configured with the draft alone
        is_first = self.eagle == 1 or (self.eagle is None and _EAGLE1.search(self.draft or ""))
        return "eagle1" if method == "eagle" and is_first else method

    def _gguf_option(self) -> str:
        if not self.gguf:
            return "-m target.gguf"
        return f"{'-m' if self.gguf.endswith('.gguf') else '-hf'} {shlex.quote(self.gguf)}"

    @property
    def values(self) -> dict[str, object]:
        """The value of each name in a recipe."""
        gamma = self.gamma if isinstance(self.gamma, int) else self.chosen or TYPICAL
        draft = self.draft or _PATHS.get(self.method, "PATH_OF_AN_EAGLE3_HEAD")
        return {
            "gamma": gamma,
            "gamma_and_one": gamma + 1,
            "longest": NGRAM_LONGEST,
            "target": shlex.quote(self.target),
            "target_json": json.dumps(self.target),
            "draft": shlex.quote(draft),
            "draft_json": json.dumps(draft),
            "draft_inside": json.dumps(draft).replace("'", "'\"'\"'"),
            "ranges": json.dumps(self.schedule.ranges if self.schedule else ()),
            "gguf": self._gguf_option(),
        }


@dataclass(frozen=True, slots=True)
class Target:
    """Another engine: its name, the version followed, a recipe's fields for each method it supports, and the reason for
    each that it does not. A recipe's ``translated`` are the fields that differ for a draft with another tokenizer.
    ``missing`` may have "others", the reason for any method not listed. ``port``: where its server listens by default;
    None for a library. ``record_note``: what its recording needs. ``schema``: how it takes a JSON schema while it
    drafts, and in which versions that breaks."""

    name: str
    version: str
    recipes: Mapping[str, Mapping[str, Any]]
    missing: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    record_note: str = ""
    schema: str = ""


def _read() -> tuple[Target, ...]:
    targets = []
    for engine in tomllib.loads((ASSETS / "data" / "engine_recipes.toml").read_text(encoding="utf-8"))["engine"]:
        common = {name: value for name, value in engine.items() if isinstance(value, str)}
        recipes = {method: common | recipe for method, recipe in engine["recipes"].items()}
        more = {name: engine[name] for name in ("missing", "port", "record_note", "schema") if name in engine}
        targets.append(Target(engine["name"], engine["version"], recipes, **more))
    return tuple(targets)


TARGETS = _read()


def answers(choice: Choice) -> list[dict]:
    """Returns every engine's recipe or refusal; none for auto, which no engine has."""
    return [] if choice.method == AUTO else [_answer(target, choice) for target in TARGETS]


def lead(choice: Choice, origin: str) -> str:
    """Returns a sentence about the draft length. ``origin``: the origin of the setting."""
    if choice.method == AUTO:
        return "Press Run or choose a method: auto takes the best drafter for each round."
    if is_plain(choice.method, choice.gamma):
        return f"Plain decoding, {origin}, needs no configuration."
    drafting = METHODS[choice.method].title if choice.method in METHODS else choice.method
    if isinstance(choice.gamma, int):
        return f"For {drafting} with γ = {choice.gamma}, {origin}."
    fixed = f"For {drafting}. Here γ is chosen again each round; most of these engines take one fixed number"
    if choice.chosen:
        return f"{fixed}, so it gets the average of the run on screen: {choice.chosen}."
    return f"{fixed}; it gets {TYPICAL} until a run shows which length it drafts with."


def _answer(target: Target, choice: Choice) -> dict:
    line = {"name": target.name, "version": target.version} | _record(target, choice)
    if is_plain(choice.method, choice.gamma):
        return line | {"note": "Nothing to configure: plain decoding is what it does by itself."}
    method = choice.recipe
    why = target.missing.get(method) or ("" if method in target.recipes else target.missing.get("others"))
    if why:
        return line | {"note": f"Not supported: {why}"}
    if method not in target.recipes:
        return line | {"note": "Not described yet for this method."}
    recipe = target.recipes[method]
    if choice.translated and "translated" not in recipe:
        return line | {"note": "Not supported: the draft model must have the target's tokenizer."}
    code = _fill_in({**recipe, **(recipe["translated"] if choice.translated else {})}, choice)
    schema = f"With a JSON schema: {target.schema}" if choice.has_schema else ""
    return line | code | {"note": f"{code['note']} {schema}".strip()}


def _record(target: Target, choice: Choice) -> dict[str, str]:
    """Returns the command that records this engine's server for Open file; empty for a library. The page never asks an
    address by itself."""
    if target.port is None:
        return {}
    code = (
        f"python -m engine server record http://localhost:{target.port} \\\n"
        f'  --model {choice.values["target"]} --prompt "Count from 1 to 12." --out run.json'
    )
    return {"record": code, "record_note": target.record_note}


def _of_shipped(choice: Choice, code: str) -> list[str]:
    """Says what to know about a draft of this repository that the code names, or a GGUF file of it."""
    draft = choice.draft or ""
    if not draft.startswith(SHIPPED) or not (draft in code or "draft.gguf" in code.split()):
        return []
    notes = ["The draft's path begins at the SpecLens folder."] if draft in code else []
    if draft_of(choice.method) in IN_EIGHT_BITS:
        notes.append(
            f"{draft} is stored in 8 bits: python -m engine training convert {draft} --out DIR writes the 16 bits that "
            "other programs read."
        )
    return notes


def _fill_in(recipe: Mapping[str, str], choice: Choice) -> dict[str, str]:
    fields = {"schedule": ""} | dict(recipe) | ({"sampled": ""} if choice.greedy else {})
    notes = [fields.get("note", ""), "" if choice.greedy else fields.get("sampled_note", "")]
    loads = choice.schedule
    if loads and loads.has_several and fields["schedule"]:
        choice = replace(choice, gamma=loads.most_drafts)
        notes.append(fields.get("schedule_note", ""))
    else:
        fields["schedule"] = ""
    if loads:
        notes.append(loads.words)
    template = Template(Template(fields["code"]).safe_substitute(fields))
    code = template.substitute(choice.values)
    if any(file in code.split() for file in ("target.gguf", "draft.gguf")):
        notes.append(fields["file_note"])
    notes += _of_shipped(choice, code)
    note = Template(" ".join(filter(None, notes))).substitute(choice.values)
    return {"code": code, "note": note}
