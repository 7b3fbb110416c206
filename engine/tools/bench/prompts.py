"""Reads prompts from JSON-lines files. Imports no torch."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.config import MAX_NEW_TOKENS
from engine.constraint import CONSTRAINTS, Constraint
from engine.errors import BadInput
from engine.files import ASSETS, read_text

SHIPPED = ASSETS / "data" / "prompts.jsonl"  # no draft was trained on them
_OTHER_NAMES = ("response_format", "guided_json", "structured_outputs", "response_schema")  # of a schema


@dataclass(frozen=True)
class Prompt:
    text: str
    category: str
    constraint: Constraint | None = None
    settings: tuple[tuple[str, Any], ...] = ()  # (name, value) of what its row says of its own request

    @property
    def own(self) -> dict[str, Any]:
        return dict(self.settings)


def read_prompts(path: Path, limit: int | None = None, may_constrain: bool = False) -> list[Prompt]:
    """Returns the rows of a file as `parse_prompts` does. Raises BadInput for one that cannot be read, or has a
    constraint where it may have none."""
    prompts = parse_prompts(read_text(Path(path), "file of prompts"), str(path))
    prompts = spread(prompts, limit) if limit else prompts
    return prompts if may_constrain else check_free(prompts)


def check_free(prompts: list[Prompt]) -> list[Prompt]:
    """Returns the prompts. Raises BadInput if one has a constraint, because its answer would not be held to it."""
    for prompt in prompts:
        if prompt.constraint:
            raise BadInput(
                f"The prompt {prompt.text[:40]!r} has a {CONSTRAINTS[prompt.constraint.kind]}, which is not followed "
                "here; leave it out (`bench` without --users follows it)."
            )
    return prompts


def parse_prompts(text: str, where: str) -> list[Prompt]:
    """Reads the rows of JSON lines, or of one JSON list: `prompt`, or the first of `turns`, and `kind` or `category`;
    with `json_schema` and `compact`, or `regex`, `choice` or `grammar`, what the answer must match; `system` and
    `max_new_tokens`. BadInput names the line that is wrong, and ``where`` it is."""
    entries, lines = rows_of_list(text), text.split("\n")  # splitlines() would cut at U+2028 in a string
    rows, kind = (entries, "Entry") if entries else (lines, "Line")
    prompts = [_prompt(f"{kind} {number} of {where}", row) for number, row in enumerate(rows, 1) if row.strip()]
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
        text = row["prompt"] if "prompt" in row else row["turns"][0]
        category = str(row.get("kind") or row.get("category") or "other")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f'{place} is no JSON object with "prompt" (or "turns") and "kind".') from error
    if not isinstance(text, str) or not text.strip():
        raise BadInput(f"{place} has a prompt that is empty or no text.")
    if other := next((name for name in _OTHER_NAMES if row.get(name) is not None), None):
        raise BadInput(f"{place} has {other}, which is not read; write its schema as json_schema.")
    own = {name: row.get(name) for name in CONSTRAINTS}
    settings = {name: row[name] for name in ("system", "max_new_tokens") if row.get(name) is not None}
    if not isinstance(settings.get("system", ""), str):
        raise BadInput(f"{place} has a system that is no text.")
    most = settings.get("max_new_tokens", 1)
    if type(most) is not int or not 1 <= most <= MAX_NEW_TOKENS:
        raise BadInput(f"{place} has a max_new_tokens that is no number from 1 to {MAX_NEW_TOKENS:,}.")
    try:
        constraint = Constraint.from_texts(row.get("compact") is True, **own)
        return Prompt(text, category, constraint, tuple(settings.items()))
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error


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
    text = "\0".join(f"{p.category}\1{p.text}{p.constraint or ''}{p.settings or ''}" for p in prompts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def after_long_texts(prompts: Sequence[Prompt], characters: int) -> list[Prompt]:
    """Puts each prompt after the texts of those that follow it, from the first one again after the last: at least
    ``characters`` of them, or all."""
    longer = []
    for i, prompt in enumerate(prompts):
        others, before = [*prompts[i + 1 :], *prompts[:i]], []
        while others and sum(map(len, before)) < characters:
            before.append(others.pop(0).text)
        longer.append(Prompt("\n\n".join([*before, prompt.text]), prompt.category))
    return longer
