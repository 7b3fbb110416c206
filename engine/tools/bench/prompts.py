"""Reads prompts from JSON-lines files, each with what its row says of its own request. Imports no torch.

Every command reads its rows here and names what it can use of them (a `Use`). What it does not use is refused by name:
otherwise the figures would belong to another request.
"""

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from engine.config import RunConfig, SamplingParams
from engine.constraint import CONSTRAINTS, Constraint
from engine.errors import BadInput, spell
from engine.files import ASSETS, read_text

SHIPPED = ASSETS / "data" / "prompts.jsonl"  # no draft was trained on them
SAMPLING = tuple(each.name for each in fields(SamplingParams))
_SERVERS_OWN = ("presence_penalty", "frequency_penalty", "seed")
# A row's name → the setting that it is. `form` and `raw` say whether the text is a chat, `max_tokens` is OpenAI's name.
_NAMES = {
    "system": "system", "thinking": "thinking", "stop": "stop", "form": "chat", "raw": "chat",
    **dict.fromkeys(("max_new_tokens", "tokens", "max_tokens", "max_completion_tokens"), "max_new_tokens"),
    **{name: name for name in (*SAMPLING, *_SERVERS_OWN)},
}  # fmt: skip
_TEXTS = {"prompt", "turns", "messages", "kind", "category", *CONSTRAINTS, "compact", "compact_json"}
_LABELS = {"id", "question_id", "source", "reference", "title", "note", "language", "meta", "metadata"}  # no effect
_OTHER_NAMES = ("response_format", "guided_json", "structured_outputs", "response_schema")  # of a schema


@dataclass(frozen=True)
class Use:
    """What a command can use of a row beyond its text and kind: names of `Prompt.settings`, and the kinds of constraint
    that it holds answers to. ``turns``: which chats it can ask, with "messages" or also with the "turns" of a user
    alone; ``is_ours``: our engine runs the rows, so constraints are compiled here, and raw texts may have one."""

    settings: frozenset[str] = frozenset()
    constraints: frozenset[str] = frozenset()
    turns: frozenset[str] = frozenset()
    is_ours: bool = False

    def check(self, prompt: "Prompt") -> "Prompt":
        """Returns the prompt. Raises BadInput that names the first part of it that is not used."""
        kinds = [prompt.constraint.kind] if prompt.constraint else []
        turns = ["turns" if None in prompt.earlier else "messages"] if prompt.earlier else []
        unused = [name for name, _ in prompt.settings if name not in self.settings]
        unused += [kind for kind in kinds if kind not in self.constraints or not (self.is_ours or prompt.is_chat)]
        unused += [name for name in turns if name not in self.turns]
        if unused:
            name = "form" if unused[0] == "chat" else unused[0]
            hint = {"turns": "write `messages`, with the answers between"}.get(name, "leave it out")
            raw = " of a raw text" if name in kinds and name in self.constraints else ""
            raise BadInput(f"{prompt.place} has {name}{raw}, which is not used here; {hint}.")
        if prompt.constraint and self.is_ours:
            from engine.sampling.constraint_compiler import check_syntax

            try:
                check_syntax(prompt.constraint)
            except BadInput as error:
                raise BadInput(f"{prompt.place}: {error}") from error
        return prompt


_OF_A_RUN = frozenset({"system", "thinking", "stop", "chat", "max_new_tokens", *SAMPLING})
MEASUREMENT = Use(
    _OF_A_RUN, frozenset(CONSTRAINTS), frozenset({"messages", "turns"}), is_ours=True
)  # seeds change from turn to turn
SWEEP = replace(MEASUREMENT, settings=_OF_A_RUN - {"temperature"})  # a sweep has temperatures of its own
# OpenAI's own fields, and the sampling that vLLM, SGLang, llama-server and TensorRT-LLM add to them.
SERVER = Use((_OF_A_RUN - {"thinking"}) | {*_SERVERS_OWN}, frozenset({"json_schema"}), frozenset({"messages"}))
TEXT = Use()  # for commands that read texts and nothing else


@dataclass(frozen=True)
class Prompt:
    """A row. ``settings``: (name, value) of what it says of its own request, by the names of `RunConfig`; ``earlier``:
    the turns of the chat before ``text``, of user and assistant in turn, None for an answer that is not known yet;
    ``place``: its line, for sentences."""

    text: str
    category: str = "other"
    constraint: Constraint | None = None
    settings: tuple[tuple[str, Any], ...] = ()
    earlier: tuple[str | None, ...] = ()
    place: str = field(default="This row", compare=False)

    @property
    def own(self) -> dict[str, Any]:
        return dict(self.settings)

    @property
    def length(self) -> int:
        """Its characters, with the system prompt and the earlier turns."""
        return sum(map(len, (self.text, self.own.get("system", ""), *(turn or "" for turn in self.earlier))))

    @property
    def is_chat(self) -> bool:
        return self.own.get("chat", True)


def read_prompts(path: Path, limit: int | None = None, use: Use = TEXT) -> list[Prompt]:
    """Returns the rows of a file as `parse_prompts` does."""
    prompts = parse_prompts(read_text(Path(path), "file of prompts"), str(path), use)
    return spread(prompts, limit) if limit else prompts


def parse_prompts(text: str, where: str, use: Use = TEXT) -> list[Prompt]:
    """Reads the rows of JSON lines, or of one JSON list: `prompt`, `turns` or `messages`, and `kind` or `category`;
    with what the answer must match (`json_schema` and `compact`, or `regex`, `choice` or `grammar`), and the settings
    of the request by their names. BadInput names the line that is wrong, and ``where`` it is."""
    entries, lines = rows_of_list(text), text.split("\n")  # splitlines() would cut at U+2028 in a string
    rows, kind = (entries, "Entry") if entries else (lines, "Line")
    prompts = [
        use.check(_prompt(f"{kind} {number} of {where}", row)) for number, row in enumerate(rows, 1) if row.strip()
    ]
    if not prompts:
        raise BadInput(f'{where} holds no prompts; write one JSON object with "prompt" and "kind" on each line.')
    return prompts


def rows_of_list(text: str) -> list[str]:
    """Returns each object of a JSON list as a line; nothing where the text is something else."""
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        rows = None
    is_list = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return [json.dumps(row) for row in rows] if is_list else []


def _prompt(place: str, line: str) -> Prompt:
    try:
        row = json.loads(line)
        system, *turns = _conversation(row)
        category = str(row.get("kind") or row.get("category") or "other")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f'{place} is no JSON object with "prompt" (or "turns" or "messages") and "kind".') from error
    if not all(turn is None or (isinstance(turn, str) and turn.strip()) for turn in turns):
        raise BadInput(f"{place} has a prompt that is empty or no text.")
    row = {name: value for name, value in row.items() if value is not None}
    try:
        settings = _settings(row | ({"system": system} if system is not None else {}))
        own = {name: row.get(name) for name in CONSTRAINTS}
        compact = row.get("compact", row.get("compact_json", False))
        constraint = Constraint.from_texts(_choose("compact", {True: True, False: False})(compact), **own)
        prompt = Prompt(turns[-1], category, constraint, tuple(sorted(settings.items())), tuple(turns[:-1]), place)
        to_config(prompt)
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error
    if not prompt.is_chat and (lost := ["system"] * ("system" in settings) + ["turns"] * bool(prompt.earlier)):
        raise BadInput(f"{place} has {lost[0]}, for which a raw text has no place; leave it out, or make it a chat.")
    return prompt


def _conversation(row: dict) -> list[Any]:
    """Returns the system prompt of a row's messages, if they have one, and the turns of user and assistant. Of plain
    ``turns`` the answers are not known yet."""
    if "prompt" in row:
        return [None, row["prompt"]]
    if "turns" in row:
        return [None, *[turn for each in row["turns"][:-1] for turn in (each, None)], row["turns"][-1]]
    texts = [(message["role"], message["content"]) for message in row["messages"]]
    system = texts.pop(0)[1] if texts[0][0] in ("system", "developer") else None
    roles = ["user", "assistant"] * (len(texts) // 2) + ["user"]
    if [role for role, _ in texts] != roles or not all(isinstance(text, str) for _, text in texts):
        raise ValueError("roles")
    return [system, *(text for _, text in texts)]


def _settings(row: dict) -> dict[str, Any]:
    """Returns what a row says of its request, by the names of `RunConfig`. Raises BadInput for a name or a value that
    no request has."""
    settings: dict[str, Any] = {}
    for name, value in row.items():
        if name in _OTHER_NAMES:
            raise BadInput(f"{name} is not read; write its schema as json_schema.")
        if name in _TEXTS or name in _LABELS or name.startswith("_"):
            continue
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1)
            hint = (
                f"did you mean {near[0]}?" if near else "leave it out, or begin its name with _ to keep it as a note."
            )
            raise BadInput(f"{name[:40]} is not used by any command; {hint}")
        if _NAMES[name] in settings:
            raise BadInput(f"{name} is there twice, under two names; leave one of them out.")
        settings[_NAMES[name]] = _READERS.get(name, lambda value: value)(value)
    return {name: value for name, value in settings.items() if value is not None}


def _choose(name: str, values: dict[Any, Any]):
    def read(value):
        if not isinstance(value, str | bool) or value not in values:
            raise BadInput(f"{name} is {spell(value)}; choose from {', '.join(map(spell, values))}.")
        return values[value]

    return read


def _number(name: str, low: float, high: float, types: type = float):
    def read(value):
        if isinstance(value, bool) or not isinstance(value, (types, int)) or not low <= value <= high:
            raise BadInput(f"{name} is {spell(value)}, but must be a number from {low} to {high}.")
        return value

    return read


def _text(value):
    if not isinstance(value, str):
        raise BadInput(f"system is {spell(value)}, but must be a text.")
    return value or None


def _stop(value):
    texts = tuple(value) if isinstance(value, list) else (value,)
    if not all(isinstance(text, str) for text in texts):
        raise BadInput(f"stop is {spell(value)}, but must be a text or a list of texts.")
    return texts


_READERS = {
    "form": _choose("form", {"chat": True, "raw": False}), "raw": _choose("raw", {True: False, False: True}),
    "thinking": _choose("thinking", {True: True, False: False, "on": True, "off": False, "default": None}),
    "stop": _stop, "system": _text,
    **{name: _number(name, -2, 2) for name in ("presence_penalty", "frequency_penalty")},
    "seed": _number("seed", 0, 2**63 - 1, int),
}  # fmt: skip


def to_config(prompt: Prompt, **defaults: Any) -> RunConfig:
    """Returns the row as a request: its own settings come before the ``defaults``, which are fields of `RunConfig` and
    of its sampling. Settings that only servers have are left out. Raises BadInput."""
    values = defaults | {name: value for name, value in prompt.settings if name not in _SERVERS_OWN}
    sampling = SamplingParams(**{name: values.pop(name) for name in SAMPLING if name in values})
    # benchmark.py answers an open turn before a run.
    earlier = tuple(turn or "-" for turn in prompt.earlier)
    return RunConfig(prompt.text, sampling=sampling, constraint=prompt.constraint, earlier=earlier, **values)


def by_category(prompts: Sequence[Prompt]) -> dict[str, list[Prompt]]:
    """Returns the prompts of each category, both in file order."""
    groups: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        groups.setdefault(prompt.category, []).append(prompt)
    return groups


def spread(prompts: Sequence[Prompt], limit: int) -> list[Prompt]:
    """Returns ``limit`` of them, one from each category in turn, each category in file order."""
    groups = by_category(prompts).values()
    longest = max(map(len, groups))
    return [group[i] for i in range(longest) for group in groups if i < len(group)][:limit]


def with_free(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Returns each prompt under its constraint and, right after it, without one, in a category of each kind. Raises
    BadInput where no prompt has a constraint."""
    if not any(p.constraint for p in prompts):
        raise BadInput("No prompt has a JSON schema to leave out; add `json_schema` to a line, or run without --free.")
    return [
        replace(p, category="constrained" if constraint else "free", constraint=constraint)
        for p in prompts
        for constraint in dict.fromkeys((p.constraint, None))
    ]


def digest(prompts: Sequence[Prompt]) -> str:
    """Tells these prompts from others."""
    more = [f"{p.settings or ''}{p.earlier or ''}" for p in prompts]
    text = "\0".join(f"{p.category}\1{p.text}{p.constraint or ''}{own}" for p, own in zip(prompts, more, strict=True))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def after_long_texts(prompts: Sequence[Prompt], characters: int) -> list[Prompt]:
    """Puts each prompt after the texts of those that follow it, from the first one again after the last: at least
    ``characters`` of them, or all."""
    longer = []
    for i, prompt in enumerate(prompts):
        others, before = [*prompts[i + 1 :], *prompts[:i]], []
        while others and sum(map(len, before)) < characters:
            before.append(others.pop(0).text)
        longer.append(replace(prompt, text="\n\n".join([*before, prompt.text])))
    return longer
