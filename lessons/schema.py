"""Defines a lesson as data; pydantic checks every field of its front matter on construction."""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import date
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from engine.config import AUTO, DEFAULT_PAIR, RunConfig, SamplingParams
from engine.constraint import Constraint
from engine.errors import matching
from engine.files import ASSETS
from lessons import expressions, markup
from lessons.constraint_examples import CONSTRAINT_EXAMPLES
from lessons.examples import Example

TRACES = ASSETS / "data" / "traces" / "lessons"
# The experiments of the Lab tab, and the titles of their tabs.
LABS = {
    "answer": "The answer",
    "theory": "Theory",
    "sweep": "Sweep",
    "compare": "Compare",
    "distribution": "Is it lossless?",
    "users": "Many users",
}
# The modules of assets/web/lessons/tools that a step may name, and the minutes that a learner plays with each. ruler.js
# has two, and write_rule.js is in the folder rule/.
TOOLS = dict.fromkeys(
    ("roofline", "temperature", "acceptance_log", "overlap", "pass_places", "rejection_demo", "curve", "formula_blocks",
     "memory", "batching", "tokenizer_mismatch", "float_sums", "cost", "grow_tree", "recipe", "experts", "own_text",
     "kinds_of_text", "heat", "prompt_bar", "own_numbers", "ruler"), 0.75
) | {
    "drafters": 2.5, "guess_words": 2.5, "mystery": 2.0, "unknown_runs": 1.5, "reports": 1.0, "bursts": 1.0,
    "json_masks": 1.0, "budget": 1.0, "duel": 0.5, "parting": 0.5, "pass_picture": 0.5,
    "write_rule": 0.0,  # an exercise for afterwards, as its step says
}  # fmt: skip
# The list shows the lessons in these parts, each of lessons that follow each other.
Part = Literal["Start here", "How it works", "Is it right?", "Does it pay?", "Better guesses", "Use it"]
PARTS: tuple[str, ...] = get_args(Part)
WORDS_PER_MINUTE = 238  # Brysbaert 2019
MINUTES_TO_DECIDE, MINUTES_TO_VOTE = 0.2, 0.8  # on a question: a learner alone, a class
STRICT = ConfigDict(extra="forbid", strict=True)


class LessonError(ValueError):
    """A mistake in a lesson's file; the sentence says where."""


def _expression(value: str) -> str:
    try:
        expressions.parse(value)
    except ValueError as error:
        raise ValueError(f"{value!r} is not an expression: {error}") from error
    return value


def _blocks(value: Any) -> Any:
    return markup.blocks(value) if isinstance(value, str) else value


Line = Annotated[str, AfterValidator(lambda value: " ".join(value.split()))]
Text = Annotated[Line, Field(pattern=r"\S")]
Expression = Annotated[str, AfterValidator(_expression)]
Prose = Annotated[tuple[markup.TextBlock, ...], BeforeValidator(_blocks), Field(min_length=1)]
Position = Annotated[
    str,
    matching(
        r"|start|end|\d+ (drafted|scored|done|verdict \d+)", 'start, end or "ROUND drafted|scored|done|verdict N"'
    ),
]
Token = Annotated[str, matching(r"token \d+\.\d+", '"token ROUND.N"')]
Lab = Annotated[str, matching("|".join(["", *LABS]), f"one of {', '.join(LABS)}")]
Tool = Annotated[str, matching("|".join(["", *TOOLS]), f"one of {', '.join(TOOLS)}")]


@dataclass(frozen=True, config=STRICT)
class Toy:
    """A run of the weather model: its prompt, and how to draft. ``method``: as in exactness/toy_models."""

    prompt: Text
    gamma: Annotated[int, Field(ge=0, le=16)]
    tokens: Annotated[int, Field(ge=1, le=200)]
    seed: Annotated[int, Field(ge=0, le=2**31)]
    method: Literal["lm", "independent", "without_replacement", "top"] = "lm"


@dataclass(frozen=True, config=STRICT)
class Recording:
    """An entry of recordings.toml. ``example``: the name of a prompt in examples.py; ``pair``: one of the catalogue;
    ``constraint``: the kind of an example in constraint_examples.py, which the answer must match."""

    example: Line
    method: Line
    tokens: int
    is_wrong: bool = field(default=False, kw_only=True)  # the lookup copies one token too late; not timed
    gamma: int | str = 4
    temperature: float = 0.0
    seed: int = 0
    pair: Line = DEFAULT_PAIR
    precision: Line = AUTO
    constraint: Literal["", "json_schema"] = ""

    def config(self, examples: Mapping[str, Example]) -> RunConfig:
        """Raises BadInput for settings that no run can have."""
        sampling, prompt = SamplingParams(self.temperature), examples[self.example].prompt
        config = RunConfig(prompt, self.pair, self.method, self.gamma, sampling, self.tokens, self.seed)
        kind = self.constraint
        demanded = Constraint(kind, CONSTRAINT_EXAMPLES[kind].text, compact=True) if kind else None
        return replace(config, precision=self.precision, constraint=demanded)


@dataclass(frozen=True, config=STRICT)
class Claim:
    """An entry of engine_claims.toml: a sentence about another engine or model, with what it was seen in and when."""

    engine: Text
    version: Text
    seen: date
    source: Text
    says: Text

    @property
    def origin(self) -> str:
        """Where and when it was seen, as the card of its mark and the end of a printed page say."""
        if self.version.startswith(self.engine.split()[0].rstrip(",")):
            named = self.version
        else:
            named = f"{self.engine}{' ' if self.version[0].isdigit() else ': '}{self.version}"
        return f"{named}, seen {self.seen:%B %Y}. {self.source}"


@dataclass(frozen=True, config=STRICT)
class Scenario:
    """A run to look at: either a recording in assets/data/traces/lessons, named by ``trace``, or a ``toy`` run."""

    name: Text
    title: Text
    trace: Line = ""
    toy: Toy | None = None

    def __post_init__(self):
        if bool(self.trace) == bool(self.toy):
            raise ValueError("it needs either 'trace' or 'toy'")
        if self.trace and not (TRACES / f"{self.trace}.json").is_file():
            raise ValueError(f"there is no recording {self.trace}.json in assets/data/traces/lessons")


@dataclass(frozen=True, config=STRICT)
class VerdictAsk:
    """Predict what happens to a token; the run has the answer."""

    kind: Literal["verdict"]
    text: Text
    explain: Text
    token: Token


@dataclass(frozen=True, config=STRICT)
class NumberAsk:
    """Predict the value of ``answer``; a guess is right if it is off by at most ``within``.

    ``low``, ``high``: what a guess below or above would mean. ``share``: the answer is a part of 1, so that 75 % is
    understood, too."""

    kind: Literal["number"]
    text: Text
    explain: Text
    answer: Expression
    within: Expression
    low: Text
    high: Text
    unit: Line = ""
    share: bool = False


@dataclass(frozen=True, config=STRICT)
class Option:
    """The option is right where the expression ``when`` is true. ``why``: the reason, or what it would mean."""

    text: Text
    when: Expression
    why: Text


@dataclass(frozen=True, config=STRICT)
class ChoiceAsk:
    kind: Literal["choice"]
    text: Text
    explain: Text
    options: Annotated[tuple[Option, ...], Field(min_length=2)]


Ask = Annotated[VerdictAsk | NumberAsk | ChoiceAsk, Field(discriminator="kind")]


@dataclass(frozen=True, config=STRICT)
class Paper:
    """What a question needs in print. ``context``: what the run shows at this step, in words; ``table``:
    its numbers, in rows of which the first is the head; ``text``: replaces a question that works with a tool."""

    context: Line = ""
    table: tuple[tuple[Line, ...], ...] = ()
    text: Line = ""

    @property
    def lines(self) -> list[str]:
        return [line for line in (self.context, self.text, *(cell for row in self.table for cell in row)) if line]


@dataclass(frozen=True, config=STRICT)
class Number:
    """A number to drag. ``slider``: the label of the tool's slider that it moves and follows."""

    label: Text
    value: Expression
    low: float
    high: float
    step: float
    slider: Line = ""

    @property
    def digits(self) -> int:
        """How many digits after the point it is shown with."""
        return len(f"{self.step:g}".partition(".")[2])


@dataclass(frozen=True, config=STRICT)
class Result:
    """What a sentence says of its numbers. ``value``: an expression for it before any number is dragged, for paper; the
    page computes it with a tool's function, and a test compares the two."""

    value: Expression
    digits: int = 2


@dataclass(frozen=True, config=STRICT)
class Sentence:
    """Numbers of a step's prose to drag, ``[[drag name]]``, and their results, ``[[live name]]``. ``model``: one of
    assets/web/lessons/page/sentence_models.js; ``inputs``: its other numbers."""

    model: Literal["ceiling", "chance", "verdict", "tokens", "speedup", "budget"]
    numbers: Mapping[str, Number]
    results: Mapping[str, Result]
    inputs: Mapping[str, Expression] = field(default_factory=dict)


@dataclass(frozen=True, config=STRICT)
class LessonStep:
    """``run``: the scenario shown beside it, at position ``at``; it moves to ``then`` once the learner has answered.

    ``points``: the token of the run, or the control of the playground, to highlight. ``lab``: the experiment to open,
    where ``hint`` says what to try. ``vote``: a class votes on the options of ``ask`` before its answer is shown.
    ``dark``: the run is hidden, during the whole "step" or until it is "done". ``paper``: what ``ask`` needs in print.
    """

    title: Text
    text: Prose
    run: Text
    at: Position = "end"
    then: Position = ""
    points: Annotated[str, matching(r"|token \d+\.\d+|control [a-z_]+", '"token ROUND.N" or "control NAME"')] = ""
    tool: Tool = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    ask: Ask | None = None
    vote: bool = False
    live: bool = False
    lab: Lab = ""
    hint: Line = ""
    dark: Literal["", "step", "done"] = ""
    sentence: Sentence | None = None
    paper: Paper = field(default_factory=Paper)

    def __post_init__(self):
        spans = [span for block in self.text for line in block.lines for span in line]
        for style, known in (("drag", "numbers"), ("live", "results")):
            named = sorted(span.text for span in spans if span.style == style)
            if named != sorted(getattr(self.sentence, known, ())):
                raise ValueError(
                    f"the prose has {style} marks for {named}, which 'sentence.{known}' must name, each once"
                )
        if bool(self.lab) != bool(self.hint):
            raise ValueError("'lab' and 'hint' go together: which experiment to open, and what to try there")
        if self.vote and (self.ask is None or self.ask.kind == "number"):
            raise ValueError("'vote' needs a question with options")

    @property
    def minutes_to_play(self) -> float:
        is_one_round = self.tool == "guess_words" and self.settings.get("rounds") == 1
        return 0.5 if is_one_round else TOOLS.get(self.tool, 0)


@dataclass(frozen=True, config=STRICT)
class Answer:
    """An option of a quiz, with its reason under ``right`` or under ``wrong``."""

    text: Text
    right: Line = ""
    wrong: Line = ""

    def __post_init__(self):
        if bool(self.right) == bool(self.wrong):
            raise ValueError("it needs its reason, as either 'right' or 'wrong'")

    @property
    def why(self) -> str:
        return self.right or self.wrong


@dataclass(frozen=True, config=STRICT)
class Question:
    text: Text
    options: Annotated[tuple[Answer, ...], Field(min_length=2)]

    def __post_init__(self):
        if (count := sum(bool(option.right) for option in self.options)) != 1:
            raise ValueError(f"it has {count} right options; there must be exactly one")


@dataclass(frozen=True, config=STRICT)
class Own:
    """What a reader's own text shows in the lesson: rounds of n-gram lookup, played in the browser.

    ``note``: what such a text can show there, and what only a model could. ``v``: an expression for the costs by width,
    where a speed is predicted. ``view``: as in assets/web/lessons/tools/own_text.js."""

    note: Text
    v: Expression | Literal[""] = ""
    gamma: Annotated[int, Field(ge=0, le=10)] = 4
    view: Literal["rounds", "lengths", "tree", "users"] = "rounds"


@dataclass(frozen=True, config=STRICT)
class ProseCheck:
    """A claim of the prose, as an expression that must be true."""

    says: Text
    holds: Expression


@dataclass(frozen=True, config=STRICT)
class Lesson:
    """``live``: values for the playground's controls by name. ``constants``: numbers in the prose that no run gives."""

    slug: str
    number: int
    title: Text
    summary: Text
    part: Part
    outcomes: Annotated[tuple[Text, ...], Field(min_length=2)]
    scenarios: Annotated[tuple[Scenario, ...], Field(min_length=1)]
    steps: Annotated[tuple[LessonStep, ...], Field(min_length=2)]
    quiz: Annotated[tuple[Question, ...], Field(min_length=2)]
    teacher: Prose
    own: Own
    checks: tuple[ProseCheck, ...] = ()
    live: Mapping[str, Any] = field(default_factory=dict)
    live_hint: Line = ""
    constants: tuple[Text, ...] = ()

    def __post_init__(self):
        names = [scenario.name for scenario in self.scenarios]
        for step in self.steps:
            if step.run not in names:
                raise ValueError(f"{step.run!r} is not one of the scenarios {', '.join(names)}")


@dataclass(frozen=True, config=STRICT)
class Misconception:
    """A wrong belief that learners often have, and the truth."""

    wrong: Text
    right: Text


@dataclass(frozen=True, config=STRICT)
class TicketQuestion:
    text: Text
    answer: Text


@dataclass(frozen=True, config=STRICT)
class Handout:
    """What a teacher takes along for one lesson. ``board``: a drawing in letters; ``ticket``: asked at the end."""

    board: Annotated[str, Field(pattern=r"\S")]
    misconceptions: Annotated[tuple[Misconception, ...], Field(min_length=3, max_length=3)]
    ticket: Annotated[tuple[TicketQuestion, ...], Field(min_length=1)]


@dataclass(frozen=True, config=STRICT)
class PlanPart:
    """A part of a plan. ``lesson``: a lesson's name, unless the part belongs to none."""

    minutes: int
    do: Text
    lesson: Line = ""


@dataclass(frozen=True, config=STRICT)
class Plan:
    title: Text
    minutes: int
    aim: Text
    homework: Text
    parts: tuple[PlanPart, ...]

    def __post_init__(self):
        if (total := sum(part.minutes for part in self.parts)) != self.minutes:
            raise ValueError(f"its parts take {total} minutes, not {self.minutes}")


@dataclass(frozen=True, config=STRICT)
class Teaching:
    """Plans, and a handout for each lesson by its name: the content of teaching.toml."""

    plans: tuple[Plan, ...]
    lessons: Mapping[str, Handout]
    constants: tuple[Text, ...] = ()


@dataclass(frozen=True, config=STRICT)
class Minute:
    """The page of sixty seconds before the lessons. ``trace``: the recording that it plays; ``wrong_trace``: the same
    text with wrong guesses, for its fourth move."""

    title: Text
    trace: Text
    wrong_trace: Text
    lead: Text
    guess: Text
    check: Text
    keep: Text
    end: Text
    wrong: Text
    wrong_end: Text
