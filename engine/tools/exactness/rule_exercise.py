"""Grades a rule of acceptance that a learner has written: token by token on a recorded round, then by its law.

The learner's file runs here, with all that this user may do, so it has to be the learner's own. A fault in it is a
`BadInput` that names its line.

Dimension key: N drafts of a round, V words; p [N+1, V], q [N, V], u [N].
"""

import ast
import operator
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from engine.errors import BadInput, and_list, percent
from engine.files import decode_text
from engine.tools.exactness.distribution_test import judge
from engine.tools.exactness.known_rules import (
    DRAFTS,
    LENGTH,
    RECORDED,
    RIGHT_RULE,
    START,
    TARGET,
    WRONG_RULES,
    Row,
    Verdict,
    decide,
    law_of,
    rows,
    scale,
)
from engine.tools.exactness.results import FALSE_ALARM, TOY_DRAFT, TOY_TARGET, TOY_WORDS, Draws, RuleTestResult

TEMPLATE = Path(__file__).with_name("rule_template.txt")
FUNCTION = "accept_and_close"
ROUNDS = 10_000
_SEED = 60  # of the draws; a rule that decides as the right one does gets the same result each time
_LONGEST_CALL, _LONGEST = 5.0, 120.0  # seconds
_SAME = 1e-6  # rows that differ by less are equal

Rule = Callable[[list[Row], list[Row], Sequence[int], Sequence[float]], Verdict]


class Grade(NamedTuple):
    """``tokens``: [is it as the rule decides, a sentence] for each decision of the recorded run. ``result``: the law's
    test. ``right_alpha``: the share of tested drafts that the right rule accepts. ``others``: how many of the rounds
    were decided otherwise than by the right rule; ``example``: a sentence about the first one. ``name``: the entry of
    `WRONG_RULES` whose law the draws follow, or ""."""

    tokens: list[tuple[bool, str]]
    result: RuleTestResult
    right_alpha: float
    others: int
    example: str
    name: str


def grade(rule: Rule, show: Callable[[float], None] = lambda share: None) -> Grade:
    """Grades a rule; ``show`` gets the share of the work that is done. Raises BadInput for a fault in the rule."""
    tokens, place = [], 0
    for start, drafts, u in RECORDED:
        p, q = rows(start, drafts, TOY_TARGET, TOY_DRAFT)
        tokens += _decisions(p, q, drafts, u, rule(p, q, drafts, u), place)
        place += decide(RIGHT_RULE, p, q, drafts, u)[0] + 1
    with redirect_stdout(StringIO()):  # what the rule prints has been seen once, in the recorded run
        draws, right_alpha, others, example = _draw(rule, show)
    result, name = judge(law_of(), draws), ""
    if not result.lossless:
        chances = {name: judge(law_of(known), draws).p_value for name, known in WRONG_RULES.items()}
        likeliest = max(chances, key=lambda each: chances[each])
        name = likeliest if chances[likeliest] >= FALSE_ALARM else ""
    return Grade(tokens, result, right_alpha, others, example, name)


def verdict(grade: Grade) -> str:
    """Says in some sentences what the draws show, which known rule they follow, and what public bug is like it."""
    result, known = grade.result, WRONG_RULES.get(grade.name)
    chance = f"p {'< 1e-9' if result.p_value < 1e-9 else f'= {result.p_value:.2g}'}"
    count = f"In {ROUNDS:,} rounds of another pair, the words came as often as the target writes them ({chance})"
    mine = (
        f"It accepts {percent(result.alpha or 0)} of the tested drafts; the rule accepts {percent(grade.right_alpha)}."
    )
    if not grade.others:
        return f"{count}, and every decision was the rule’s own. Your rule is right."
    if result.lossless:
        return (
            f"{count}: lossless, as far as so many can tell. But {grade.others:,} of them would have "
            f"been decided otherwise by the rule, such as {grade.example} {mine}"
        )
    count = (
        f"In {ROUNDS:,} rounds of another pair, the words did not come as often as the target writes them ({chance})"
    )
    if known is None:
        return f"{count}. {mine} No single mistake that we know has this law. A decision to look at: {grade.example}"
    public = f" {known.resembles}" if known.resembles else ""
    return f"{count}. {mine} This is the law of the known mistake {grade.name}: {known.words}{public}"


def _decisions(
    p: list[Row], q: list[Row], drafts: Sequence[int], u: Sequence[float], mine: Verdict, place: int = 0
) -> Iterator[tuple[bool, str]]:
    """Yields whether each decision of a round is the right one, with a sentence about it. ``place``: tokens before."""
    (count, mine_row), (accepted, row) = mine, decide(RIGHT_RULE, p, q, drafts, u)
    for i, token in enumerate(drafts[: min(count, accepted) + 1]):
        did, does = ("accept" if i < each else "reject" for each in (count, accepted))
        reason = f"p/q = {p[i][token] / q[i][token]:.2f} is {'' if i < accepted else 'not '}above u"
        so = (
            f", and so does the rule, because {reason}." if did == does else f"; the rule {does}s it, because {reason}."
        )
        yield did == does, f"token {place + i + 1}, “{TOY_WORDS[token]}”: you {did}ed it at u = {u[i]:.2f}{so}"
    if count == accepted:
        is_same, after = _are_same(mine_row, row), "rejection" if accepted < len(drafts) else "full round"
        so = ", and so does the rule." if is_same else f"; the rule draws from {_words(row)}."
        yield is_same, f"token {place + accepted + 1}, after the {after}: you draw from {_words(mine_row)}{so}"


def _words(row: Row) -> str:
    return and_list(f"{word} {share:.2f}" for word, share in zip(TOY_WORDS, row, strict=True))


def _are_same(row: Row, other: Row) -> bool:
    return all(abs(a - b) < _SAME for a, b in zip(row, other, strict=True))


def _draw(rule: Rule, show: Callable[[float], None]) -> tuple[Draws, float, int, str]:
    numbers, words = random.Random(_SEED), range(len(TARGET))
    counts, mine, right, others, example = Counter(), [0, 0], [0, 0], 0, ""

    def choose(row: Row) -> int:
        return numbers.choices(words, row)[0]

    for done in range(ROUNDS):
        drafts: list[int] = []
        while len(drafts) < DRAFTS:
            drafts.append(choose(rows(START, (*drafts, 0))[1][-1]))
        p, q = rows(START, drafts)
        u = [numbers.random() for _ in drafts]
        own, its = rule(p, q, drafts, u), decide(RIGHT_RULE, p, q, drafts, u)
        for total, (accepted, _) in ((mine, own), (right, its)):
            total[0] += accepted
            total[1] += min(accepted + 1, DRAFTS)
        if own[0] != its[0] or not _are_same(own[1], its[1]):
            others += 1
            example = example or next(words for is_right, words in _decisions(p, q, drafts, u, own) if not is_right)
        outcome = [*drafts[: own[0]], choose(own[1])]
        while len(outcome) < LENGTH:
            outcome.append(choose(TARGET[outcome[-1]]))
        counts[tuple(outcome)] += 1
        if done % 500 == 0:
            show(done / ROUNDS)
    return Draws(counts, *mine), right[0] / right[1], others, example


class _TooLong(BaseException):
    """A call of the learner's code does not end. Not an Exception, so that no `except Exception` of theirs holds it."""


class OwnRule:
    """A learner's rule from a file. Each fault of it is a BadInput, in one sentence with the line."""

    def __init__(self, path: Path):
        self._path, self._line, self._end = path, 0, time.monotonic() + _LONGEST
        try:
            source = decode_text(path.read_bytes())
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise BadInput(f"{path} cannot be read: {why}. `exercise rule --start FILE` writes one.") from error
        names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
        tree = self._guard(lambda: ast.parse(source))
        if holes := _holes(tree):
            raise BadInput(f"{path.name} still has ... in line {and_list(holes)}; write the rule there.")
        self._guard(lambda: exec(compile(tree, str(path), "exec"), names))
        self._function: Any = names.get(FUNCTION)
        if not callable(self._function):
            raise BadInput(f"{path.name} has no function {FUNCTION}(p, q, drafts, u); keep the one it began with.")
        self._line = getattr(getattr(self._function, "__code__", None), "co_firstlineno", 0)

    def __call__(self, p: list[Row], q: list[Row], drafts: Sequence[int], u: Sequence[float]) -> Verdict:
        rows_p, rows_q, numbers = (torch.tensor(each, dtype=torch.float64) for each in (p, q, u))
        answer = self._guard(lambda: self._function(rows_p, rows_q, list(drafts), numbers))
        try:
            accepted, row = answer
            accepted, row = operator.index(accepted), torch.as_tensor(row, dtype=torch.float64)
        except Exception:
            raise self._fault("this must return how many drafts are accepted, and a row of numbers") from None
        if not 0 <= accepted <= len(drafts):
            raise self._fault(f"{accepted} drafts cannot be accepted, because the round has {len(drafts)}")
        if row.shape != rows_p[0].shape:
            raise self._fault(f"the row must have {len(TARGET)} numbers, one for each word, as p[i] has")
        for word, share in zip(TOY_WORDS, row.tolist(), strict=True):
            if not -_SAME < share < float("inf"):
                words = f"the row has {share:.2f} for “{word}”, which is no probability"
                if accepted < len(q) and _are_same(row.tolist(), (rows_p[accepted] - rows_q[accepted]).tolist()):
                    words += ". p − q is the known mistake residual-unclamped: the residual keeps its negative parts"
                raise self._fault(words)
        if not row.clamp_min(0).sum():
            raise self._fault("the row is 0 for every word, so none can be drawn from it")
        return accepted, scale(row.clamp_min(0).tolist())

    def _guard(self, call: Callable[[], Any]) -> Any:
        """Calls the learner's code. A trace function notices the line, and a loop that does not end."""
        end, path = min(self._end, time.monotonic() + _LONGEST_CALL), str(self._path)

        def watch(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename != path:
                return None
            frame.f_trace_opcodes = True  # `while True: pass` has no other event
            if event == "line":  # so that an exception on its way out leaves the line where it began
                self._line = frame.f_lineno
            if time.monotonic() > end:
                raise _TooLong
            return watch

        before = sys.gettrace()
        sys.settrace(watch)
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except _TooLong:
            raise self._fault("this had not ended after some seconds; look for a loop without an end") from None
        except SyntaxError as error:
            self._line = error.lineno or 0
            raise self._fault(f"Python cannot read this ({error.msg})") from None
        except BaseException as error:  # SystemExit, too: the file may call exit()
            words = " ".join(str(error).split())[:200].rstrip(".")
            raise self._fault(f"{type(error).__name__}{f': {words}' if words else ''}") from None
        finally:
            sys.settrace(before)

    def _fault(self, words: str) -> BadInput:
        where = f", line {self._line}" if self._line else ""
        return BadInput(f"{self._path.name}{where}: {words}.")


def _holes(tree: ast.Module) -> list[int]:
    """Returns the lines that assign `...`; an index such as p[..., 0] may have it."""
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is ...
    )
