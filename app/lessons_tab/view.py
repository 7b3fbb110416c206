"""Renders a lesson as plain data for its page: prose with evaluated numbers, runs, questions and answers.

Pure. An expression that fails raises LessonError; a test evaluates every expression of every lesson.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.form import CONTROLS, NAMES, defaults, settings
from app.lessons_tab.text_renderer import TextRenderer
from app.lessons_tab.variables import names, token_at, variables_of
from app.views import player_feed
from engine.trace.events import Token
from engine.trace.trace import Trace
from lessons.loader import minutes
from lessons.schema import LABS, Answer, Ask, Lesson, LessonError, LessonStep, Option, Own, Paper, Sentence

TRUE_TO = {"accepted": "It is accepted.", "rejected": "It is rejected.", "discarded": "It is discarded untested."}


def contents(listed: Sequence[Lesson]) -> list[dict]:
    return [_describe(each) | {"summary": each.summary, "part": each.part, "steps": len(each.steps)} for each in listed]


def _describe(lesson: Lesson) -> dict[str, Any]:
    return {name: getattr(lesson, name) for name in ("number", "slug", "title")} | {"minutes": minutes(lesson)}


def page(lesson: Lesson, runs: Mapping[str, Trace], words: Mapping[str, str], has_solutions: bool = True) -> dict:
    """Returns a lesson as data. ``runs``: the trace of every scenario by its name; ``words``: the glossary. Without
    solutions it has no notes for the teacher."""
    renderer = LessonRenderer(lesson, runs)
    value = _describe(lesson) | {
        "outcomes": [renderer.line(text) for text in lesson.outcomes],
        "steps": [renderer.step(step) for step in lesson.steps],
        "quiz": [renderer.question(question) for question in lesson.quiz],
        "teacher": renderer.blocks(lesson.teacher) if has_solutions else [],
        "runs": {
            scenario.name: {
                "title": scenario.title + _source(runs[scenario.name]),
                "value": _value(lesson, scenario.name, runs[scenario.name]),
            }
            for scenario in lesson.scenarios
            if any(step.run == scenario.name for step in lesson.steps)
        },
        "own": renderer.own(lesson.own),
        "live": live(lesson) if lesson.live else None,
    }
    return value | {"words": renderer.glossary(words), "sources": renderer.sources}


def live(lesson: Lesson) -> dict[str, Any]:
    """Returns every control's value for "Run it live": the lesson's own, else its default. BadInput if they clash."""
    values = defaults() | dict(lesson.live)
    settings(values)
    return {"values": values, "hint": lesson.live_hint}


def _source(trace: Trace) -> str:
    """Names the machine of a recording, and how its speedup was measured."""
    processor, numbers = trace.finished.extra.get("processor"), variables_of(trace)
    if not processor:
        return ""
    if "pairs" not in numbers:
        return f" ({processor}.)"
    is_quiet = "highest" in numbers
    ends = (
        f", which gave {numbers['lowest']:.2f} to {numbers['highest']:.2f} ×"
        if is_quiet
        else ", while others used the machine"
    )
    return f" ({processor}; measured: the middle of {numbers['pairs']} pairs{ends}.)"


def _meaning(verdict: str, token: Token) -> str:
    """Says what a verdict on a token means, right or wrong."""
    if verdict == "discarded":
        return "That would mean no test at all, but this draft gets its test."
    side = "below" if verdict == "accepted" else "not below"
    needs, but = ("needs", "and") if token.status == verdict else ("would have needed", "but")
    return f"That {needs} a random number {side} {token.accept:.2f}, {but} it was {token.u:.2f}."


def _value(lesson: Lesson, name: str, trace: Trace) -> str:
    return player_feed.complete(f"lesson-{lesson.number}-{name}", trace, recorded=True)


class LessonRenderer(TextRenderer):
    """Renders the pieces of one lesson, from its runs."""

    def __init__(self, lesson: Lesson, runs: Mapping[str, Trace]):
        self.lesson, self.runs = lesson, runs
        known = names(runs) | {"minutes": minutes(lesson), "class_minutes": minutes(lesson, together=True)}
        super().__init__(f"lesson {lesson.number}", known)

    def step(self, step: LessonStep) -> dict:
        same = {name: getattr(step, name) for name in ("title", "run", "at", "then", "tool", "live", "dark")}
        self.marks = self.marks_of(step.sentence)
        return same | {
            "blocks": self.blocks(step.text),
            "sentence": self.sentence(step.sentence) if step.sentence else None,
            "points": self.target(step),
            "settings": self.settings(step.settings),
            "ask": self.ask(step.ask, self.runs[step.run]) | {"vote": step.vote} if step.ask else None,
            "paper": self.paper(step.paper),
            "lab": {"name": step.lab, "title": LABS[step.lab], "hint": step.hint} if step.lab else None,
        }

    def marks_of(self, sentence: Sentence | None) -> dict[tuple[str, str], str]:
        """Returns the text of each drag and live mark as long as no number was dragged."""
        if sentence is None:
            return {}
        shown = {("drag", name): (each.value, each.digits) for name, each in sentence.numbers.items()}
        shown |= {("live", name): (each.value, each.digits) for name, each in sentence.results.items()}
        values = {mark: (self.evaluate(value), digits) for mark, (value, digits) in shown.items()}
        return {mark: v if isinstance(v, str) else f"{v:.{digits}f}" for mark, (v, digits) in values.items()}

    def sentence(self, sentence: Sentence) -> dict:
        """Returns the numbers that can be dragged, the other inputs, and the digits of each result."""
        numbers = {
            name: {"label": each.label, "value": float(self.evaluate(each.value)), "low": each.low, "high": each.high,
                   "step": each.step, "slider": each.slider}
            for name, each in sentence.numbers.items()
        }  # fmt: skip
        results = {name: each.digits for name, each in sentence.results.items()}
        return {
            "model": sentence.model,
            "inputs": self.settings(sentence.inputs),
            "numbers": numbers,
            "results": results,
        }

    def own(self, own: Own) -> dict:
        v = self.evaluate(own.v) if own.v else None
        return {"note": self.line(own.note), "v": v, "gamma": own.gamma, "view": own.view}

    def settings(self, values: Mapping[str, Any]) -> dict:
        """Evaluates settings: every text is an expression; a table holds more of them."""
        evaluate = {str: self.evaluate, dict: self.settings}
        return {key: evaluate.get(type(value), lambda other: other)(value) for key, value in values.items()}

    def paper(self, paper: Paper) -> dict:
        table = [[self.line(cell) for cell in row] for row in paper.table]
        return {"context": self.line(paper.context), "table": table, "text": self.line(paper.text)}

    def target(self, step: LessonStep) -> dict | None:
        """Returns the thing to highlight: a token as [round, place] counted from 0, or a control by its name."""
        if not step.points:
            return None
        kind, what = step.points.split(" ")
        if kind == "control":
            if what not in NAMES:
                raise LessonError(f"{self.place}: there is no control {what!r} to point at")
            return {"control": what, "label": next(c.label for c in CONTROLS if c.name == what)}
        place = [int(part) for part in what.split(".")]
        self.token(self.runs[step.run], what)
        return {"token": [place[0] - 1, place[1] - 1]}

    def token(self, trace: Trace, what: str):
        round_, place = (int(part) for part in what.removeprefix("token ").split("."))
        try:
            return token_at(trace, round_, place)
        except ValueError as error:
            raise LessonError(f"{self.place}: {error}") from error

    def ask(self, ask: Ask, trace: Trace) -> dict:
        """Returns the question with its ``options``, exactly one of them right, or with its number and tolerance."""
        question: dict[str, Any] = {"kind": ask.kind, "text": self.line(ask.text), "explain": self.line(ask.explain)}
        if ask.kind == "number":
            answer, within = float(self.evaluate(ask.answer)), float(self.evaluate(ask.within))
            if within <= 0:
                raise LessonError(f"{self.place}: {ask.text!r} accepts no guess")
            replies = {"low": self.line(ask.low), "high": self.line(ask.high)}
            return question | replies | {"answer": answer, "within": within, "unit": ask.unit, "share": ask.share}
        if ask.kind == "verdict":
            token = self.token(trace, ask.token)
            status = token.status
            if status not in TRUE_TO:
                raise LessonError(f"{self.place}: {ask.token} is {status}, which is no verdict on a draft")
            question["options"] = [
                {"text": self.line(text), "right": status == name, "why": self.line(_meaning(name, token))}
                for name, text in TRUE_TO.items()
            ]
        else:
            question["options"] = [self.option(option, self.evaluate(option.when) is True) for option in ask.options]
        if sum(bool(option["right"]) for option in question["options"]) != 1:
            raise LessonError(f"{self.place}: {ask.text!r} has not exactly one right answer")
        return question

    def option(self, option: Option | Answer, right: bool) -> dict:
        return {"text": self.line(option.text), "right": right, "why": self.line(option.why)}

    def question(self, question) -> dict:
        return {
            "text": self.line(question.text),
            "options": [self.option(option, bool(option.right)) for option in question.options],
        }
