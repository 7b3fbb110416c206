"""The sweep on the page: what is asked for, the screen as the turns come in, Stop, and the files."""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import gradio as gr

from app.experiments.sweep import Plan, Standing, pieces, prompts
from app.files import Exports
from app.service import Service, Stage
from app.session import experimenter
from app.views import lab_sweep as view
from app.views.notice import notice
from app.views.production import Choice, production
from app.views.sheet import empty
from engine.config import AUTO, RunConfig
from engine.errors import BadInput, EngineError, Unavailable
from engine.lab.cells import Cell, best, to_csv
from engine.scores import ALL

SKIP = gr.skip()
GAMMAS = ("1", "2", "3", "4", "6", "8", AUTO)
TEMPERATURES = (0.0, 0.5, 1.0)
MOST_EACH, MOST_REPEATS = 8, 5
SECONDS_BETWEEN_NEWS = 0.5


class Screen(NamedTuple):
    """The outputs of a sweep, by name; what is not named stays as it is."""

    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    result: Any = SKIP
    temperature: Any = SKIP
    charts: Any = SKIP
    table: Any = SKIP
    recipes: Any = SKIP
    csv: Any = SKIP
    json: Any = SKIP


@dataclass(frozen=True)
class Swept:
    """What a visitor's last sweep came to. Kept in gr.State."""

    pair: str = ""
    plan: Plan | None = None
    cells: tuple[Cell, ...] = ()
    whole: bool = False


class Sweeping:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    def run(self, request: gr.Request, *values) -> Iterator[Screen]:
        """Measure what is missing of a sweep; what was measured before, by anybody here, is shown at once."""
        yield from self._run(request, values, afresh=False)

    def start_over(self, request: gr.Request, *values) -> Iterator[Screen]:
        """As ``run``, but everything anew."""
        yield from self._run(request, values, afresh=True)

    def _run(self, request: gr.Request, values, afresh: bool) -> Iterator[Screen]:
        swept = Swept()
        try:
            pair, plan = planned(*values)
            swept = Swept(pair, plan)
            yield Screen(notice("progress", "Starting"), gr.update(value="Running…"), _on(True), result=swept)
            for screen in self._follow(request, pair, plan, afresh):
                swept = swept if screen.result is SKIP else screen.result
                yield screen
            told = self._told(swept)
        except EngineError as error:
            told = notice("error", f"{error} {_kept(swept)}".strip())
        yield self._over(swept, told)

    def _follow(self, request, pair: str, plan: Plan, afresh: bool) -> Iterator[Screen]:
        standing, pace, due = None, Pace(), 0.0
        # What this server allows is checked on it: the longest text that a visitor can bring, and the length of a run.
        asked = plan.own.strip() or "A sweep"
        method = AUTO if len(plan.methods) > 1 else plan.methods[0]  # auto brings every draft of the pair
        config = RunConfig(asked, pair=pair, method=method, max_new_tokens=plan.tokens)
        for each in plan.methods:
            if reasons := self.service.problems(pair, each):
                raise Unavailable(" ".join(reasons))
        work = pieces(plan, lambda: standing, afresh)
        with closing(self.service.experiment(experimenter(request), work, config)) as reports:
            for report in reports:
                if isinstance(report, Stage):
                    yield Screen(notice("progress", report.message, report.fraction))
                    continue
                standing = report.value
                pace.see(standing)
                if standing.cells is not None:
                    shown = Swept(pair, plan, standing.cells, standing.whole)
                    yield self._drawn(shown, plan.temperatures[0])._replace(notice=_progress(standing, pace))
                elif time.monotonic() >= due:
                    yield Screen(_progress(standing, pace))
                    due = time.monotonic() + SECONDS_BETWEEN_NEWS

    def _drawn(self, swept: Swept, temperature: float) -> Screen:
        if not swept.cells:
            return Screen(charts=view.blank(), table=empty(), result=swept)
        return Screen(
            result=swept,
            charts=view.drawn(swept.cells, temperature),
            table=view.table(swept.cells, temperature),
        )

    def _told(self, swept: Swept) -> str:
        if swept.whole:
            return notice("good", view.advice(swept.cells, swept.plan.temperatures[0]))
        return notice("quiet", f"Stopped. {_kept(swept)}".strip())

    def _over(self, swept: Swept, told: str) -> Screen:
        plain = Screen(told, gr.update(value="Run the sweep"), _on(False), result=swept)
        if not swept.cells:
            return plain
        temperatures = swept.plan.temperatures
        shown = gr.update(
            choices=[(f"{t:g}", t) for t in temperatures], value=temperatures[0], visible=len(temperatures) > 1
        )
        csv, json = self._files(swept)
        drawn = self._drawn(swept, temperatures[0])
        recipes = self._recipes(swept, temperatures[0])
        return plain._replace(
            temperature=shown, charts=drawn.charts, table=drawn.table, recipes=recipes, csv=csv, json=json
        )

    def look(self, swept: Swept, temperature: float) -> Screen:
        """The same sweep at another of its temperatures."""
        if not swept.cells or temperature not in swept.plan.temperatures:
            return Screen()
        told = notice("good", view.advice(swept.cells, temperature))
        return self._drawn(swept, temperature)._replace(
            notice=told, recipes=self._recipes(swept, temperature), result=SKIP
        )

    def _recipes(self, swept: Swept, temperature: float) -> str:
        """The best setting, for other engines."""
        top = best(swept.cells)[temperature, ALL]
        models = self.service.models(swept.pair, top.method)
        choice = Choice(top.method, top.gamma, models.target, models.draft, models.gguf, temperature == 0)
        return production(choice, whence="the fastest above")

    def _files(self, swept: Swept) -> list:
        about = {"pair": swept.pair} | asdict(swept.plan)
        texts = {
            "speclens-sweep.csv": to_csv(swept.cells),
            "speclens-sweep.json": view.as_json(swept.cells, about),
        }
        try:
            return [gr.update(value=path, interactive=True) for path in self.exports.texts(texts)]
        except OSError:
            gr.Warning("The files of this sweep could not be written on the server.")
            return [SKIP, SKIP]

    def stop(self, request: gr.Request) -> None:
        self.service.stop(experimenter(request))

    def offered(self, pair: str, chosen: list[str]) -> Any:
        """The methods of a pair; those that stay keep their tick."""
        try:
            methods = [method for method in self.service.methods(pair) if method != "none"]
        except EngineError:
            return SKIP
        return gr.update(choices=methods, value=[method for method in chosen if method in methods] or methods[:1])

    def size(self, *values) -> str:
        """How much work the sweep is, before it is begun."""
        try:
            _, plan = planned(*values)
        except EngineError as error:
            return notice("quiet", str(error))
        return notice(
            "quiet", f"{_count(plan.turns, 'turn')}, {_count(plan.runs, 'run')} of up to {plan.tokens} tokens."
        )


class Pace:
    """How long a run takes, from those seen since the beginning; warming up does not count."""

    def __init__(self):
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] = (0, 0.0)

    def see(self, standing: Standing) -> None:
        if standing.cells is None and standing.doing != "warming up":
            self._last = (standing.done, time.monotonic())
            self._first = self._first or self._last

    def left(self, standing: Standing) -> float | None:
        """Seconds; None while nothing is known."""
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        each = (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])
        return each * (standing.of - standing.done)


def planned(pair, methods, gammas, temperatures, categories, each, own, repeats, tokens) -> tuple[str, Plan]:
    """The controls as a plan. BadInput says what is missing."""
    for what, values in (("method", methods), ("draft length", gammas), ("temperature", temperatures)):
        if not values:
            raise BadInput(f"Choose at least one {what}.")
    if not categories and not (own or "").strip():
        raise BadInput("Choose at least one kind of text, or give one of your own.")
    return pair, Plan(
        tuple(methods),
        tuple(AUTO if g == AUTO else _whole(g, "Draft length", 1, 32) for g in gammas),
        tuple(float(t) for t in temperatures),
        tuple(name for name in prompts() if name in categories),
        _whole(each, "Texts of each kind", 1, MOST_EACH),
        own or "",
        _whole(repeats, "Repeats", 1, MOST_REPEATS),
        _whole(tokens, "Max tokens", 1, 8_192),
    )


def _whole(value, what: str, low: int, high: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{what} must be a number.") from None
    if not low <= number <= high:
        raise BadInput(f"{what} must be from {low} to {high:,}.")
    return number


def _progress(standing: Standing, pace: Pace) -> str:
    left = pace.left(standing)
    rest = "" if left is None else f", about {_minutes(left)} left"
    doing = f": {standing.doing}" if standing.doing else ""
    return notice(
        "progress",
        f"Run {min(standing.done + 1, standing.of)} of {standing.of}{doing}{rest}",
        standing.done / standing.of,
    )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, seconds):.0f} s"


def _kept(swept: Swept) -> str:
    if not swept.cells:
        return ""
    return "What was measured is kept: the same sweep goes on from here."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _on(possible: bool):
    return gr.update(interactive=possible)
