"""Reads the lessons: `NN_slug.md` is TOML between two lines of ``+++``, then a section of prose for each step.

Everything is checked on the way in, and what is wrong is said with the file and the field. What a sum comes to is for
whoever has the runs (app.views.lesson); here it only has to be one.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from engine.trace import Trace, load
from lessons import prose
from lessons.part import LessonError, Part, as_sum
from lessons.shape import ASKS, LABS, Ask, Check, Lesson, Option, Question, Scenario, Step, Toy

FOLDER = Path(__file__).resolve().parent
TRACES = FOLDER.parent / "assets" / "traces" / "lessons"
TOY_METHODS = ("lm", "independent", "without_replacement", "top")
TOOLS = ("roofline", "dice", "curve", "memory", "crowd", "cuts", "adding", "price")
_FILE = re.compile(r"(\d\d)_([a-z0-9_]+)\.md")
_TOKEN = re.compile(r"token (\d+)\.(\d+)")
_CONTROL = re.compile(r"control ([a-z_]+)")
_PLACE = re.compile(r"start|end|(\d+) (drafted|scored|done|verdict \d+)")


@lru_cache(maxsize=1)
def lessons(folder: Path = FOLDER) -> tuple[Lesson, ...]:
    """All there are, in order; their numbers run from 1 without a gap."""
    files = sorted(path for path in folder.glob("[0-9]*.md"))
    found = tuple(parse(path.name, path.read_text(encoding="utf-8"), glossary()) for path in files)
    numbers = [lesson.number for lesson in found]
    if numbers != list(range(1, len(found) + 1)):
        raise LessonError(f"{folder.name}: the lessons are numbered {numbers}; they run from 1 without a gap.")
    return found


@lru_cache(maxsize=1)
def glossary() -> Mapping[str, str]:
    """word → what it means, in a sentence."""
    path = FOLDER / "glossary.toml"
    return Part(path.name, tomllib.loads(path.read_text(encoding="utf-8"))).texts()


@lru_cache(maxsize=64)
def run(scenario: Scenario) -> Trace:
    """The scenario's trace: read from its file, or made by the toy (which needs torch, but no model)."""
    if scenario.toy is None:
        return load(TRACES / f"{scenario.trace}.json")
    from engine import toy

    target, draft = toy.weather()
    asked = scenario.toy
    drafter = toy.drafter_for(asked.method, draft)
    prompt = [target.words.index(word) for word in asked.prompt.split()]
    return toy.recorded(target, drafter, prompt, gamma=asked.gamma, max_new_tokens=asked.tokens, seed=asked.seed)


def parse(name: str, text: str, words: Mapping[str, str]) -> Lesson:
    """One file. LessonError names the file, and the field or the line."""
    number, slug = _numbered(name)
    front, body = _split(name, text)
    sections = prose.sections(body)
    teacher = [content for title, content in sections if title == "For the teacher"]
    told = [(title, content) for title, content in sections if title != "For the teacher"]
    if len(teacher) != 1:
        raise LessonError(f"{name} needs one section '## For the teacher'.")
    scenarios = tuple(_scenario(part) for part in front.parts("scenarios", 1, "scenario"))
    steps = front.parts("steps", 3, "step")
    if len(steps) != len(told):
        raise LessonError(
            f"{name} has {len(steps)} steps in front and {len(told)} sections of prose; they go together."
        )
    lesson = Lesson(
        slug=slug,
        number=number,
        title=front.text("title"),
        summary=front.text("summary"),
        minutes=front.number("minutes", 2, 45),
        outcomes=front.strings("outcomes", 2),
        scenarios=scenarios,
        steps=tuple(
            _step(part, *section, [s.name for s in scenarios]) for part, section in zip(steps, told, strict=True)
        ),
        quiz=tuple(_question(part) for part in front.parts("quiz", 2, "quiz question")),
        teacher=prose.blocks(teacher[0]),
        checks=tuple(_check(part) for part in front.parts("checks", 0, "check")),
        live=front.table("live"),
        live_hint=front.text("live_hint", ""),
        given=front.strings("given"),
    )
    front.over()
    _check_lines(name, lesson, words)
    return lesson


def _numbered(name: str) -> tuple[int, str]:
    match = _FILE.fullmatch(name)
    if not match:
        raise LessonError(f"{name}: a lesson's file is called like 03_accept_or_reject.md.")
    return int(match[1]), match[2]


def _split(name: str, text: str) -> tuple[Part, str]:
    lines = text.splitlines()
    ends = [i for i, row in enumerate(lines) if row.strip() == "+++"]
    if len(ends) < 2 or ends[0] != 0:
        raise LessonError(f"{name}, line 1: the front matter stands between two lines of +++.")
    try:
        values = tomllib.loads("\n".join(lines[1 : ends[1]]))
    except tomllib.TOMLDecodeError as error:
        raise LessonError(f"{name}: the front matter is no TOML: {error} (counted from line 2).") from error
    return Part(name, values), "\n".join(lines[ends[1] + 1 :])


def _scenario(part: Part) -> Scenario:
    name, title = part.text("name"), part.text("title")
    trace = part.text("trace", "")
    toy = part.table("toy")
    part.over()
    if bool(trace) == bool(toy):
        raise LessonError(f"{part.where} is either a 'trace' or a 'toy' run.")
    if not toy:
        if not (TRACES / f"{trace}.json").is_file():
            raise LessonError(f"{part.where}: there is no recording {trace}.json in assets/traces/lessons.")
        return Scenario(name, title, trace)
    inner = Part(f"{part.where}, toy", toy)
    made = Toy(
        prompt=inner.text("prompt"),
        gamma=inner.number("gamma", 0, 16),
        tokens=inner.number("tokens", 1, 200),
        seed=inner.number("seed", 0, 2**31),
        method=inner.one_of("method", TOY_METHODS, "lm"),
    )
    inner.over()
    return Scenario(name, title, toy=made)


def _step(part: Part, title: str, text: str, runs: list[str]) -> Step:
    where = f"{part.where} ({title})"
    if not text:
        raise LessonError(f"{where} has no prose.")
    ask = part.table("ask")
    step = Step(
        title=title,
        text=prose.blocks(text),
        run=part.one_of("run", tuple(runs), runs[0]),
        at=part.matching("at", _PLACE, "end"),
        then=part.matching("then", _PLACE, ""),
        points=part.matching("points", (_TOKEN, _CONTROL), ""),
        tool=part.one_of("tool", TOOLS, ""),
        settings=part.table("settings"),
        ask=_ask(Part(f"{where}, ask", ask)) if ask else None,
        live=part.switch("live"),
        lab=part.one_of("lab", tuple(LABS), ""),
        hint=part.text("hint", ""),
    )
    part.over()
    if bool(step.lab) != bool(step.hint):
        raise LessonError(f"{where}: 'lab' and 'hint' go together: where to go, and what to try there.")
    return step


def _ask(part: Part) -> Ask:
    kind = part.one_of("kind", ASKS)
    verdict, number, choice = (kind == each for each in ASKS)
    ask = Ask(
        kind=kind,
        text=part.text("text"),
        explain=part.text("explain"),
        token=part.matching("token", _TOKEN) if verdict else "",
        answer=part.sum("answer") if number else "",
        within=part.sum("within") if number else "",
        unit=part.text("unit", "") if number else "",
        options=tuple(_chosen(option) for option in part.parts("options", 2, "option")) if choice else (),
    )
    part.over()
    return ask


def _chosen(part: Part) -> Option:
    option = Option(part.text("text"), part.text("why", ""), part.sum("when"))
    part.over()
    return option


def _question(part: Part) -> Question:
    text, options = part.text("text"), []
    for row in part.parts("options", 2, "option"):
        right = "right" in row.values
        options.append(Option(row.text("text"), row.text("right" if right else "wrong"), right=right))
        row.over()
    part.over()
    if sum(option.right for option in options) != 1:
        raise LessonError(f"{part.where} has {sum(o.right for o in options)} right options; there is exactly one.")
    return Question(text, tuple(options))


def _check(part: Part) -> Check:
    check = Check(part.text("says"), part.sum("holds"))
    part.over()
    return check


def _check_lines(name: str, lesson: Lesson, words: Mapping[str, str]) -> None:
    """Words are in the glossary, sums are sums, and a number is either worked out or said to be given."""
    for where, runs in told(lesson):
        for each in runs:
            at = f"{name}, {where}"
            if each.style == "word" and each.more not in words:
                raise LessonError(f"{at}: the glossary has no {each.more!r}.")
            if each.style == "sum":
                as_sum(each.text, at)
            if each.style == "text" and re.search(r"[*`{}$]|\[\[|\]\]", each.text):
                raise LessonError(f"{at}: a mark is left open, or stands within another: {each.text[:60]!r}.")
            if each.style in ("text", "bold", "italic"):
                for number in re.findall(r"\d+(?:[.,]\d+)*", each.text):
                    if number not in lesson.given:
                        raise LessonError(f"{at}: {number} is neither worked out as {{sum}} nor listed in 'given'.")


def told(lesson: Lesson) -> list[tuple[str, tuple[prose.Run, ...]]]:
    """Every line a learner reads, and where it stands."""
    found = [("summary", prose.line(lesson.summary))]
    found += [("outcomes", prose.line(text)) for text in lesson.outcomes]
    for step in lesson.steps:
        found += [(step.title, line) for block in step.text for line in block.lines]
        if step.ask:
            asked = [step.ask.text, step.ask.explain, *(t for o in step.ask.options for t in (o.text, o.why))]
            found += [(f"{step.title}, ask", prose.line(text)) for text in asked]
    for question in lesson.quiz:
        texts = [question.text, *(text for option in question.options for text in (option.text, option.why))]
        found += [("quiz", prose.line(text)) for text in texts]
    return [*found, *(("For the teacher", line) for block in lesson.teacher for line in block.lines)]
