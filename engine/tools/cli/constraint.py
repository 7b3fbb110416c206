"""Reads a run's constraint from the command line, and prints its effect. Imports no torch."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.constraint import CONSTRAINTS, Constraint
from engine.errors import percent, quantity
from engine.files import read_text
from engine.trace.trace import Trace


def parse(
    json_schema: Path | None, regex: str | None, choice: Sequence[str], grammar: Path | None, is_compact: bool
) -> Constraint | None:
    """Returns the constraint of these options; None without one. Raises BadInput for an unreadable file, an empty
    constraint, and more than one."""
    files = {"json_schema": json_schema, "grammar": grammar}
    texts = {kind: read_text(file, CONSTRAINTS[kind]) for kind, file in files.items() if file}
    return Constraint.from_texts(is_compact, regex=regex, choice=choice or None, **texts)


def rows(trace: Trace) -> Iterator[tuple[str, str]]:
    """Yields the facts of a run with a constraint, by name; none without one."""
    constraint = trace.started.constraint
    if not constraint:
        return
    own, tokens = sum(token.from_grammar for token in trace.emitted), len(trace.emitted)
    cut = sum(len(round_.forbidden) for round_ in trace.rounds)
    removed = [sum(c.mass for c in t.removed.top) + t.removed.rest for t in trace.emitted if t.removed is not None]
    layout = ", compact" if constraint.get("compact") is True else ""
    yield "constraint", f"{CONSTRAINTS.get(str(constraint.get('kind')), 'of an unknown kind')}{layout}"
    yield (
        "from the grammar",
        f"{own} of {quantity(tokens, 'token')} (§); not scored: {quantity(cut, 'forbidden draft')} (⊘)",
    )
    if removed:
        yield "removed by it", f"{percent(sum(removed) / len(removed), 1)} of p on average"
