"""Finds the rounds in the pieces of a streamed answer.

A piece is one round where the reader kept up; a slow reader gets several in one piece. Where the server lists how many
drafts each round accepted, the rounds are known all the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from engine.config import MAX_NODES
from engine.tools.servers.streamed_answer import Piece, StreamedAnswer
from engine.trace.events import Distribution

Step = tuple[int, int]  # accepted, drafted


@dataclass(frozen=True, slots=True)
class ServedToken:
    text: str
    id: int | None = None
    p: float | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a log tells of a draft: its likeliest words with q, and the one that was drafted, where that is certain."""

    likeliest: Distribution | None = None
    word: ServedToken | None = None

    def q(self, id_: int | None) -> float | None:
        top = self.likeliest.top if self.likeliest else ()
        return next((each.mass for each in top if each.id == id_), None)


@dataclass(frozen=True, slots=True)
class ServedRound:
    """Tokens that one pass of the target gave. ``step``: None of a round that did not draft; ``is_told``: False where
    the server does not say whether it did. ``offers``: one for each draft, or none."""

    tokens: tuple[ServedToken, ...]
    start: float
    end: float
    step: Step | None = None
    is_told: bool = True
    offers: tuple[Offer, ...] = ()


def rounds_of(answer: StreamedAnswer) -> list[ServedRound]:
    """Returns the rounds, the prompt's own pass first. Adds a note to the answer for each thing that it inferred."""
    pieces = answer.pieces
    # Counts that come with the last piece alone do not say which rounds they are of.
    if not pieces or (any(each.drafted for each in pieces) and all(each.drafted is not None for each in pieces)):
        if several := sum(piece.size > 1 for piece in pieces):
            answer.notes.append(
                f"{several} pieces held several tokens; a round within one is shown as early as it can be."
            )
        return list(_rounds_by_counts(pieces))
    steps = answer.steps if answer.steps is not None else _uniform(answer)
    shares = None if steps is None or answer.hidden_tokens else _align(answer, steps)
    if shares is None and answer.counters:
        answer.notes.append("The server’s counts do not say which round drafted what, so the stream alone is shown.")
    if shares is None:
        first, *others = (piece.size for piece in pieces)
        sizes = [[1, first - 1] if first > 1 else [1], *([size] for size in others)]
        return [each for piece in zip(*_with_starts(pieces), sizes, strict=True) for each in _divide(*piece)]
    rounds = [[step[0] + 1 if step else 1 for step in share] for share in shares]
    merged = sum(len(share) > 1 + (i == 0) for i, share in enumerate(shares))
    if merged:
        answer.notes.append(
            f"{merged} pieces of the stream held several rounds; each of those has an equal part of the time."
        )
    return [each for piece in zip(*_with_starts(pieces), rounds, shares, strict=True) for each in _divide(*piece)]


def _with_starts(pieces: list[Piece]) -> tuple[list[Piece], list[float]]:
    """Returns the pieces, and when the time of each began; the first one's belongs to the prompt."""
    return pieces, [pieces[0].at, *(piece.at for piece in pieces[:-1])]


def _divide(
    piece: Piece, start: float, sizes: list[int], share: list[Step | None] | None = None
) -> Iterator[ServedRound]:
    """Divides one piece into rounds. They share its time equally; the last one may have been cut short."""
    tokens, part = _tokens(piece), (piece.at - start) / len(sizes)
    ends = list(accumulate(sizes))
    for i, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        times = (start + i * part, piece.at if i == len(sizes) - 1 else start + (i + 1) * part)
        yield from _rounds(tokens[end - size : end], *times, share[i] if share else None, share is not None)


def _rounds(tokens: tuple, start: float, end: float, step: Step | None, is_told: bool) -> Iterator[ServedRound]:
    """Yields one round; where its counts are impossible, one without counts, or several if it is too long."""
    accepted, drafted = step or (0, 0)
    if is_told and accepted <= drafted <= MAX_NODES and len(tokens) <= accepted + 1:
        yield ServedRound(tokens, start, end, step)
        return
    for i in range(0, len(tokens), MAX_NODES):
        yield ServedRound(tokens[i : i + MAX_NODES], start, end, None, False)
        start = end


def _tokens(piece: Piece) -> tuple[ServedToken, ...]:
    """Returns a piece's tokens. Where it does not say which has which text, the last one has all of it."""
    texts = piece.texts or ("",) * (piece.size - 1) + (piece.text,)
    ids, ps = piece.ids or (None,) * piece.size, piece.ps or (None,) * piece.size
    return tuple(ServedToken(*row) for row in zip(texts, ids, ps, strict=True))


def _rounds_by_counts(pieces: list[Piece]) -> Iterator[ServedRound]:
    """Yields the rounds of a server that counts drafts up with each piece: one begins where the count grows, after the
    first token. A piece has several tokens where a character has several bytes; a round in it begins as early as it
    can."""
    counts, steps, step, is_first = (0, 0), [], None, True
    tokens, start = (), pieces[0].at if pieces else 0.0
    for piece in pieces:
        now = (piece.accepted or 0, piece.drafted or 0)
        if now[1] > counts[1]:
            steps.append((max(0, now[0] - counts[0]), now[1] - counts[1]))
            counts = now
        for token in _tokens(piece):
            if not tokens:
                step = steps.pop(0) if steps and not is_first else None
            tokens, is_first = (*tokens, token), False
            if len(tokens) > (step[0] if step else 0):
                yield from _rounds(tokens, start, piece.at, step, True)
                tokens, start = (), piece.at
    if tokens:
        yield from _rounds(tokens, start, pieces[-1].at, step, True)


def _uniform(answer: StreamedAnswer) -> list[Step] | None:
    """Returns the steps of a server that gives totals only, where they leave no choice: as many rounds as pieces, all
    with the same number of drafts, and as many accepted as the pieces show."""
    counts, sizes = answer.counters, [piece.size for piece in answer.pieces]
    if not counts:
        return None
    if not counts["drafted"]:
        return []
    sizes = [size for size in (sizes[0] - 1, *sizes[1:]) if size]
    rounds = counts.get("rounds", len(sizes))
    if "rounds" not in counts and counts["accepted"] and max(sizes, default=0) < 2:
        return None  # each piece is a token, so pieces say nothing about rounds
    if not rounds or rounds != len(sizes) or counts["drafted"] % rounds:
        return None
    gamma, accepted = counts["drafted"] // rounds, [size - 1 for size in sizes]
    accepted[-1] += counts["accepted"] - sum(accepted)  # the last round may have been cut short
    is_possible = all(0 <= a <= gamma for a in accepted) and accepted[-1] >= sizes[-1] - 1
    return [(a, gamma) for a in accepted] if is_possible else None


def _align(answer: StreamedAnswer, steps: list[Step]) -> list[list[Step | None]] | None:
    """Returns the rounds of each piece: steps in order, and None for a token of a round that did not draft. None where
    they do not fit. Where a piece of one token may be either, the steps are placed as early as they can be."""
    sizes, ends = [piece.size for piece in answer.pieces], [0, *accumulate(a + 1 for a, _ in steps)]
    reached = _reachable_steps(sizes, ends, may_be_plain=False) or _reachable_steps(sizes, ends, may_be_plain=True)
    if not reached:
        return None
    late, early = (_path(reached, len(steps), side) for side in (0, 1))
    unsure = sum(one != other for one, other in zip(late, early, strict=True))
    if unsure:
        answer.notes.append(
            f"{unsure} one-token rounds may have drafted or not; the server does not say which ones did."
        )
    shares: list[list[Step | None]] = []
    for i, (size, start, end) in enumerate(zip(sizes, [0, *early], early, strict=False)):
        plain = max(0, size - (i == 0) - (ends[end] - ends[start]))
        shares.append([None] * (i == 0) + steps[start:end] + [None] * plain)
    return shares


def _reachable_steps(sizes: list[int], ends: list[int], may_be_plain: bool) -> list[dict[int, tuple[int, int]]]:
    """Returns for each piece: how many steps may have been used after it → the fewest and the most before it. Empty
    where the steps do not come out. The first token is the prompt's, and the last step may have been cut short."""
    options, before = [], {0: (0, 0)}
    for i, size in enumerate(sizes):
        room, after, is_last = size - (i == 0), {}, i == len(sizes) - 1
        for j in sorted(before):
            for k in range(j, len(ends)):
                used, is_cut = ends[k] - ends[j], is_last and k == len(ends) - 1 > j and ends[k - 1] - ends[j] < room
                if used > room and not is_cut:
                    break
                if used >= room or may_be_plain:
                    after[k] = (after.get(k, (j, j))[0], j)
        options.append(after)
        before = after
    return options if len(ends) - 1 in before else []


def _path(reached: list[dict[int, tuple[int, int]]], end: int, side: int) -> list[int]:
    """Steps used after each piece, from the last one back; ``side`` 1 uses them as early as possible, 0 as late."""
    used = [end]
    for after in reversed(reached[1:]):
        used.append(after[used[-1]][side])
    return used[::-1]
