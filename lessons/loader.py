"""Reads the lessons: `NN_slug.md` is TOML between two lines of ``+++``, then a section of prose for each step.

Everything is checked when it is read, and a mistake is reported with the file and the field. Expressions are only
parsed here; app.lessons_tab.view evaluates them, because it has the runs.
"""

import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from engine.errors import explain
from engine.trace.trace import Trace, load
from lessons import expressions, markup
from lessons.schema import (
    MINUTES_TO_DECIDE,
    MINUTES_TO_VOTE,
    PARTS,
    TRACES,
    WORDS_PER_MINUTE,
    Claim,
    Lesson,
    LessonError,
    Minute,
    NumberAsk,
    Recording,
    Scenario,
    Teaching,
    Text,
)

FOLDER = Path(__file__).resolve().parent
_FILE = re.compile(r"(\d\d)_([a-z0-9_]+)\.md")
_TEACHER = "For the teacher"


@lru_cache(maxsize=1)
def lessons(folder: Path = FOLDER) -> tuple[Lesson, ...]:
    """Returns all lessons in order. LessonError unless they run from 0 without a gap, part by part."""
    files = sorted(folder.glob("[0-9]*.md"))
    parsed = tuple(parse(path.name, path.read_text(encoding="utf-8"), glossary()) for path in files)
    numbers = [lesson.number for lesson in parsed]
    if numbers != list(range(len(parsed))):
        raise LessonError(f"{folder.name}: the lessons are numbered {numbers}; they must run from 0 without a gap.")
    if [lesson.number for lesson in sorted(parsed, key=lambda lesson: PARTS.index(lesson.part))] != numbers:
        raise LessonError(f"{folder.name}: the lessons of a part must follow each other, in the order {PARTS}.")
    for lesson in parsed:
        for where, spans in prose_lines(lesson):
            if unknown := [span.text for span in spans if span.style == "lesson" and int(span.more) not in numbers]:
                raise LessonError(f"lesson {lesson.number}, {where}: there is no {unknown[0]}.")
    return parsed


def minutes(lesson: Lesson, together: bool = False) -> int:
    """Estimates how long a learner takes alone: to read the text and the longest reply to each question, to decide on
    each question, and to play with each tool. ``together``: a class, which votes on each question."""
    asks = [step.ask for step in lesson.steps if step.ask]
    lines = [text for step in lesson.steps for block in step.text for text in block.lines]
    texts = [lesson.summary, *lesson.outcomes, *(text for ask in asks for text in (ask.text, ask.explain))]
    for question in (*asks, *lesson.quiz):
        answers = replies(question)
        texts += [*(text for text, _ in answers), max((reply for _, reply in answers), key=len, default="")]
    texts += [question.text for question in lesson.quiz]
    words = sum(map(_words, (*lines, *map(markup.line, texts))))
    play = sum(step.minutes_to_play for step in lesson.steps)
    deciding = MINUTES_TO_VOTE if together else MINUTES_TO_DECIDE
    return math.ceil(words / WORDS_PER_MINUTE + deciding * (len(asks) + len(lesson.quiz)) + play)


def _words(line: tuple[markup.Span, ...]) -> int:
    return sum(len((claims()[span.text].says if span.style == "claim" else span.text).split()) for span in line)


@lru_cache(maxsize=1)
def glossary() -> Mapping[str, str]:
    """Returns the glossary: word → its meaning in a sentence."""
    return _read_table(dict[str, Text], "glossary.toml")


@lru_cache(maxsize=1)
def claims() -> Mapping[str, Claim]:
    """Returns what the lessons say about other engines, by the name that they cite it with."""
    return _read_table(dict[str, Claim], "engine_claims.toml")


@lru_cache(maxsize=1)
def recordings() -> Mapping[str, Recording]:
    """Returns what `python -m lessons record` runs, by the name of the file."""
    return _read_table(dict[str, Recording], "recordings.toml")


@lru_cache(maxsize=1)
def minute() -> Minute:
    """Returns the page of sixty seconds that comes before the lessons."""
    page = _read_table(Minute, "minute.toml")
    for name in ("lead", "guess", "check", "keep", "end", "wrong", "wrong_end"):
        for span in markup.line(getattr(page, name)):
            if problem := _problem(span, (), glossary()):
                raise LessonError(f"minute.toml, {name}: {problem}.")
    return page


@lru_cache(maxsize=1)
def teaching() -> Teaching:
    """Returns the plans and the handouts for teachers. LessonError for a lesson that there isn't, or a wrong line."""
    content = _read_table(Teaching, "teaching.toml")
    named = {*content.lessons, *(part.lesson for plan in content.plans for part in plan.parts if part.lesson)}
    if unknown := named - {lesson.slug for lesson in lessons()}:
        raise LessonError(f"teaching.toml: there is no lesson {min(unknown)!r}.")
    for slug, handout in content.lessons.items():
        texts = [text for each in handout.misconceptions for text in (each.wrong, each.right)]
        texts += [text for each in handout.ticket for text in (each.text, each.answer)]
        for span in (span for text in texts for span in markup.line(text)):
            if problem := _problem(span, content.constants, glossary()):
                raise LessonError(f"teaching.toml, {slug}: {problem}.")
    return content


@lru_cache(maxsize=64)
def run(scenario: Scenario) -> Trace:
    """Returns the scenario's trace: read from its file, or generated by the toy (which needs torch, but no model)."""
    if scenario.toy is None:
        return load(TRACES / f"{scenario.trace}.json")
    # Waits while the engine's thread imports transformers. Otherwise CPython (3.11) hands out the module that
    # transformers (5.23) replaces with a lazy one, and the imports of both threads fail.
    import transformers  # noqa: F401
    from engine.tools.exactness import toy_models  # isort: skip

    target, draft = toy_models.weather_pair()
    toy = scenario.toy
    drafter = toy_models.make_drafter(toy.method, draft)
    prompt = [target.words.index(word) for word in toy.prompt.split()]
    return toy_models.record_trace(target, drafter, prompt, gamma=toy.gamma, max_new_tokens=toy.tokens, seed=toy.seed)


def parse(name: str, text: str, words: Mapping[str, str]) -> Lesson:
    """Parses one file. LessonError names the file, and the field or the line."""
    match = _FILE.fullmatch(name)
    if not match:
        raise LessonError(f"{name}: a lesson's file is called like 03_accept_or_reject.md.")
    front, body = _split(name, text)
    sections = markup.sections(body)
    teacher = [content for title, content in sections if title == _TEACHER]
    prose = [{"title": title, "text": content} for title, content in sections if title != _TEACHER]
    if len(teacher) != 1:
        raise LessonError(f"{name} needs one section '## {_TEACHER}'.")
    steps = front.get("steps", [])
    if len(steps) != len(prose):
        raise LessonError(f"{name} has {len(steps)} steps in its front matter, but {len(prose)} sections of prose.")
    first = {"run": next((scenario.get("name") for scenario in front.get("scenarios", [])), "")}
    front["steps"] = [first | step | section for step, section in zip(steps, prose, strict=True)]
    front |= {"slug": match[2], "number": int(match[1]), "teacher": teacher[0]}
    lesson = validate(Lesson, front, name)
    _check_lines(name, lesson, words)
    return lesson


def _read_table(kind: type, name: str):
    return validate(kind, tomllib.loads((FOLDER / name).read_text(encoding="utf-8")), name)


def validate(kind: type, values: dict, name: str):
    """Returns ``values`` as ``kind``. LessonError names the file and the field."""
    try:  # as JSON, because strict validation of Python objects takes no dict for a dataclass
        return TypeAdapter(kind).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise LessonError(f"{name} is not valid at {explain(error)}. Lists count from 0.") from error


def _split(name: str, text: str) -> tuple[dict, str]:
    """Returns the front matter and the body."""
    lines = text.splitlines()
    ends = [i for i, row in enumerate(lines) if row.strip() == "+++"]
    if len(ends) < 2 or ends[0] != 0:
        raise LessonError(f"{name}, line 1: the front matter must be between two lines of +++.")
    try:
        return tomllib.loads("\n".join(lines[1 : ends[1]])), "\n".join(lines[ends[1] + 1 :])
    except tomllib.TOMLDecodeError as error:
        raise LessonError(f"{name}: the front matter is not TOML: {error} (counted from line 2).") from error


def _check_lines(name: str, lesson: Lesson, words: Mapping[str, str]) -> None:
    """Raises LessonError unless glossary words exist, expressions parse, and numbers are evaluated or constants."""
    for where, spans in prose_lines(lesson):
        for span in spans:
            if problem := _problem(span, lesson.constants, words):
                raise LessonError(f"{name}, {where}: {problem}.")


def _problem(span: markup.Span, constants: Collection[str], words: Mapping[str, str]) -> str | None:
    if span.style == "word" and span.more not in words:
        return f"the glossary has no {span.more!r}"
    if span.style == "claim" and span.text not in claims():
        return f"engine_claims.toml has no {span.text!r}"
    if span.style == "sum":
        try:
            expressions.parse(span.text)
        except ValueError as error:
            return f"{span.text!r} is not an expression: {error}"
    if span.style == "text" and re.search(r"[*`{}$]|\[\[|\]\]", span.text):
        return f"a mark is left open, or is inside another: {span.text[:60]!r}"
    if span.style in ("text", "bold", "italic"):
        for number in re.findall(r"\d+(?:[.,]\d+)*", span.text):
            if number not in constants:
                return f"{number} is neither evaluated as {{expression}} nor listed in 'constants'"
    return None


def replies(question) -> list[tuple[str, str]]:
    """Returns each (option, reply) of a question or a quiz; ("", reply) for a number that is too low or too high."""
    if isinstance(question, NumberAsk):
        return [("", question.low), ("", question.high)]
    return [(option.text, option.why) for option in getattr(question, "options", ())]


def prose_lines(lesson: Lesson) -> list[tuple[str, tuple[markup.Span, ...]]]:
    """Returns every line that a learner reads, with its place in the lesson."""
    lines = [("summary", markup.line(lesson.summary))]
    lines += [("outcomes", markup.line(text)) for text in lesson.outcomes]
    for step in lesson.steps:
        lines += [(step.title, line) for block in step.text for line in block.lines]
        if step.ask:
            texts = [step.ask.text, step.ask.explain, *(text for pair in replies(step.ask) for text in pair)]
            lines += [(f"{step.title}, ask", markup.line(text)) for text in (*texts, *step.paper.lines)]
    lines += [("own", markup.line(lesson.own.note))]
    for question in lesson.quiz:
        texts = [question.text, *(text for option in question.options for text in (option.text, option.why))]
        lines += [("quiz", markup.line(text)) for text in texts]
    return [*lines, *((_TEACHER, line) for block in lesson.teacher for line in block.lines)]
