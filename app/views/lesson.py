"""A lesson as its page reads it: prose with every number worked out, the runs beside it, questions with their answers.

Pure: a lesson and its traces in, plain data out. Sums fail loudly; a test works out every one of every lesson.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.controls import CONTROLS, NAMES, defaults, settings
from app.views import ribbon
from app.views.numbers import at, names
from engine.trace import Trace
from lessons import prose, sums
from lessons.part import LessonError
from lessons.shape import LABS, Ask, Lesson, Option, Step

TRUE_TO = {"accepted": "It stays.", "rejected": "It goes.", "discarded": "It is never tested."}


def contents(lessons: Sequence[Lesson]) -> list[dict]:
    """The list of lessons: what each is about, and how long it takes."""
    return [
        {
            "number": each.number,
            "slug": each.slug,
            "title": each.title,
            "summary": each.summary,
            "minutes": each.minutes,
        }
        for each in lessons
    ]


def page(lesson: Lesson, runs: Mapping[str, Trace], words: Mapping[str, str]) -> dict:
    """``runs``: the trace of every scenario by its name; ``words``: the glossary."""
    teller = Teller(lesson, runs)
    told = {
        "number": lesson.number,
        "slug": lesson.slug,
        "title": lesson.title,
        "minutes": lesson.minutes,
        "outcomes": [teller.line(text) for text in lesson.outcomes],
        "steps": [teller.step(step) for step in lesson.steps],
        "quiz": [teller.question(question) for question in lesson.quiz],
        "teacher": teller.blocks(lesson.teacher),
        "runs": {
            scenario.name: {"title": scenario.title, "value": _value(lesson, scenario.name, runs[scenario.name])}
            for scenario in lesson.scenarios
        },
        "live": live(lesson) if lesson.live else None,
    }
    return told | {"words": {word: words[word] for word in sorted(teller.words)}}


def live(lesson: Lesson) -> dict[str, Any]:
    """Every control's value for "Run it live": the lesson's own, else its default. BadInput if they clash."""
    values = defaults() | dict(lesson.live)
    settings(values)
    return {"values": values, "hint": lesson.live_hint}


def broken_claims(lesson: Lesson, runs: Mapping[str, Trace]) -> list[str]:
    """What the prose claims and the runs do not bear out."""
    known = names(runs)
    return [check.says for check in lesson.checks if sums.work_out(check.holds, known) is not True]


def _value(lesson: Lesson, name: str, trace: Trace) -> str:
    return ribbon.whole(f"lesson-{lesson.number}-{name}", trace, recorded=True)


class Teller:
    """Turns what a lesson says into pieces that a page can draw with textContent alone."""

    def __init__(self, lesson: Lesson, runs: Mapping[str, Trace]):
        self.lesson, self.runs, self.words = lesson, runs, set()
        self.known = names(runs)

    def sum(self, text: str) -> Any:
        try:
            return sums.work_out(text, self.known)
        except (ValueError, TypeError, ZeroDivisionError, IndexError, AttributeError) as error:
            raise LessonError(f"lesson {self.lesson.number}: the sum {text!r} fails: {error}") from error

    def line(self, text: str) -> list[list[str]]:
        return self.pieces(prose.line(text))

    def pieces(self, runs: Sequence[prose.Run]) -> list[list[str]]:
        """[style, text] of each piece, and of a glossary word its entry."""
        found = []
        for run in runs:
            if run.style == "sum":
                found.append(["sum", self.shown(run.text, run.more)])
            elif run.style == "word":
                self.words.add(run.more)
                found.append(["word", run.text, run.more])
            else:
                found.append([run.style, run.text])
        return found

    def shown(self, text: str, form: str) -> str:
        value = self.sum(text)
        if isinstance(value, float) and not form:
            form = ".3g"
        return format(value, form).replace("%", " %")

    def blocks(self, blocks: Sequence[prose.Block]) -> list[dict]:
        return [{"kind": block.kind, "lines": [self.pieces(line) for line in block.lines]} for block in blocks]

    def step(self, step: Step) -> dict:
        return {
            "title": step.title,
            "blocks": self.blocks(step.text),
            "run": step.run,
            "at": step.at,
            "then": step.then,
            "points": self.target(step),
            "tool": step.tool,
            "settings": {key: self.sum(v) if isinstance(v, str) else v for key, v in step.settings.items()},
            "ask": self.ask(step.ask, self.runs[step.run]) if step.ask else None,
            "live": step.live,
            "lab": {"name": step.lab, "title": LABS[step.lab], "hint": step.hint} if step.lab else None,
        }

    def target(self, step: Step) -> dict | None:
        """What glows: a token by round and place, counted from 0, or a control by its name."""
        if not step.points:
            return None
        kind, what = step.points.split(" ")
        if kind == "control":
            if what not in NAMES:
                raise LessonError(f"lesson {self.lesson.number}: there is no control {what!r} to point at")
            return {"control": what, "label": next(c.label for c in CONTROLS if c.name == what)}
        place = [int(part) for part in what.split(".")]
        self.token(self.runs[step.run], what)
        return {"token": [place[0] - 1, place[1] - 1]}

    def token(self, trace: Trace, what: str):
        round_, place = (int(part) for part in what.removeprefix("token ").split("."))
        try:
            return at(trace, round_, place)
        except ValueError as error:
            raise LessonError(f"lesson {self.lesson.number}: {error}") from error

    def ask(self, ask: Ask, trace: Trace) -> dict:
        """``options`` of a verdict or a choice, exactly one of them right; of a number the answer and its tolerance."""
        told = {"kind": ask.kind, "text": self.line(ask.text), "explain": self.line(ask.explain)}
        if ask.kind == "number":
            answer, within = float(self.sum(ask.answer)), float(self.sum(ask.within))
            if within <= 0:
                raise LessonError(f"lesson {self.lesson.number}: {ask.text!r} accepts no guess")
            return told | {"answer": answer, "within": within, "unit": ask.unit}
        if ask.kind == "verdict":
            status = self.token(trace, ask.token).status
            if status not in TRUE_TO:
                raise LessonError(
                    f"lesson {self.lesson.number}: {ask.token} is {status}, which is no verdict on a draft"
                )
            told["options"] = [
                {"text": self.line(text), "right": status == name, "why": []} for name, text in TRUE_TO.items()
            ]
        else:
            told["options"] = [self.option(option, self.sum(option.when) is True) for option in ask.options]
        if sum(option["right"] for option in told["options"]) != 1:
            raise LessonError(f"lesson {self.lesson.number}: {ask.text!r} has not exactly one right answer")
        return told

    def option(self, option: Option, right: bool) -> dict:
        return {"text": self.line(option.text), "right": right, "why": self.line(option.why)}

    def question(self, question) -> dict:
        return {
            "text": self.line(question.text),
            "options": [self.option(option, option.right) for option in question.options],
        }
