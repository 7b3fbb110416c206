"""Any α on the page: what is asked for, what comes back, and going on where it stopped. Thin."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import gradio as gr

from app.controls import METHODS, choices
from app.experiments.spots import Begun, Costs, Measured, Place, Spot, Wanted
from app.experiments.synthetic import PROMPT, pieces
from app.files import Exports
from app.races import SECONDS_BETWEEN_UPDATES
from app.service import Service, Stage
from app.session import experimenter
from app.views import lab_synthetic as view
from app.views.notice import notice
from engine.config import RunConfig
from engine.errors import BadInput, EngineError

SKIP = gr.skip()
ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GAMMAS = tuple(view.LOOKS)
FEWEST_TOKENS, MOST_TOKENS, MOST_REPEATS = 16, 192, 5
PREFERRED = ("eagle", "lm", "ngram")  # whose costs are looked at first: a draft at every place, and a cheap one


class Screen(NamedTuple):
    """The outputs by name; what is not named stays as it is. ``kept`` is the visitor's own."""

    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    restart: Any = SKIP
    charts: Any = SKIP
    thresholds: Any = SKIP
    points: Any = SKIP
    table_file: Any = SKIP
    whole_file: Any = SKIP
    kept: Any = SKIP


class Choices(NamedTuple):
    """What follows from the pair chosen."""

    method: Any = SKIP
    notice: Any = SKIP


class Pace:
    """Waits until there may be another update, however fast a small model makes points."""

    def __init__(self):
        self._due = 0.0

    def wait(self) -> None:
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + SECONDS_BETWEEN_UPDATES


class Synthetic:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()

    # ── controls ──

    def methods(self, pair: str) -> list[str]:
        """Those that draft, the likeliest choice first."""
        offered = [method for method in self.service.methods(pair) if method != "none"]
        return sorted(offered, key=lambda method: PREFERRED.index(method) if method in PREFERRED else len(PREFERRED))

    def chosen(self, pair: str, method: str) -> Choices:
        """The methods of a pair, and why it cannot run here where that is so; nothing is loaded for it."""
        try:
            offered = self.methods(pair)
            reasons = self.service.problems(pair)
        except EngineError as error:
            return Choices(notice=notice("error", str(error)))
        value = method if method in offered else offered[0]
        said = notice("error", " ".join(reasons)) if reasons else notice("quiet")
        return Choices(gr.update(choices=choices(METHODS, offered), value=value), said)

    # ── measuring ──

    def run(
        self, request: gr.Request, pair: str, method: str, alphas, gammas, tokens, repeats, kept: Measured
    ) -> Iterator[Screen]:
        """Measures what ``kept`` lacks. Whatever happens, the buttons come back and what was measured stays."""
        now, wanted = kept, None
        try:
            wanted = asked(alphas, gammas, repeats)
            config = RunConfig(PROMPT, pair, method, 1, max_new_tokens=_whole(tokens, "Tokens of a run"), trace=False)
            if (kept.pair, kept.method, kept.tokens) != (pair, method, config.max_new_tokens):
                now = Measured(pair, method, config.max_new_tokens)
            yield self._begun(now, wanted)
            fresh = wanted.left(now.spots)
            if fresh:
                with closing(self._measure(experimenter(request), config, wanted, now)) as steps:
                    for latest, screen in steps:
                        now = latest
                        if screen:
                            yield screen
            yield self._ended(now, wanted, _told(now, wanted, fresh))
        except EngineError as error:
            said = str(error) + (" The points measured so far stay." if now.spots else "")
            yield self._ended(now, wanted, notice("error", said))

    def _measure(
        self, visitor: str, config: RunConfig, wanted: Wanted, now: Measured
    ) -> Iterator[tuple[Measured, Screen | None]]:
        """Everything known after each report; drawn with the next words, which come at once: one update a point."""
        spots: dict[Place, Spot] = dict(now.spots)
        pace, drawn = Pace(), Screen()
        with closing(self.service.experiment(visitor, pieces(config, wanted, spots), config)) as reports:
            for report in reports:
                found = report if isinstance(report, Stage) else report.value
                match found:
                    case Costs():
                        now = replace(now, costs=found)
                    case Spot():
                        spots[found.place] = found
                        now = replace(now, spots=dict(spots))
                if isinstance(found, Costs | Spot):
                    drawn = self._drawn(now, wanted)
                    yield now, None
                    continue
                told = _stage(found) if isinstance(found, Stage) else _progress(found, wanted, spots)
                pace.wait()
                yield now, drawn._replace(notice=told)
                drawn = Screen()

    def stop(self, request: gr.Request) -> None:
        """Ends the run at the next round of the engine; the running handler then shows what there is."""
        self.service.stop(experimenter(request))

    def restart(self) -> Screen:
        """Everything measured is forgotten; the choices stay."""
        return Screen(
            notice("quiet", "Cleared. Run measures anew."),
            charts=view.chart(Measured()),
            thresholds=view.thresholds(Measured()),
            points=view.points(Measured()),
            kept=Measured(),
            restart=gr.update(interactive=False),
            **_files(None, None),
        )

    # ── what is shown ──

    def _begun(self, now: Measured, wanted: Wanted) -> Screen:
        return Screen(
            notice("progress", "Starting"),
            gr.update(value="Running…"),  # not disabled: that would drop the keyboard's focus
            gr.update(interactive=True),
            gr.update(interactive=False),
            view.chart(now, wanted.gammas),
            view.thresholds(now),
            view.points(now),
            kept=now,
            **_files(None, None),
        )

    def _drawn(self, now: Measured, wanted: Wanted) -> Screen:
        return Screen(
            charts=view.chart(now, wanted.gammas), thresholds=view.thresholds(now), points=view.points(now), kept=now
        )

    def _ended(self, now: Measured, wanted: Wanted | None, told: str) -> Screen:
        """Files are prepared now: a button that fills itself when pressed hands out the file of the run before."""
        drawn = self._drawn(now, wanted) if wanted and now.costs else Screen()
        return drawn._replace(
            notice=told,
            run=gr.update(value="Run"),
            stop=gr.update(interactive=False),
            restart=gr.update(interactive=bool(now.spots)),
            kept=now,
            **self._written(now),
        )

    def _written(self, now: Measured) -> Mapping[str, Any]:
        if not now.spots:
            return _files(None, None)
        name = f"speclens-any-alpha-{_letters(now.pair)}-{_letters(now.method)}"
        try:
            paths = self.exports.texts({f"{name}.csv": view.to_csv(now), f"{name}.json": view.to_json(now)})
        except OSError:  # a full disk takes the files away, not the page
            gr.Warning("The files of these points could not be written on the server.")
            return _files(None, None)
        return _files(*paths)


def asked(alphas, gammas, repeats) -> Wanted:
    """The boxes that are ticked as a plan. BadInput says which is empty."""
    if not alphas:
        raise BadInput("Tick at least one α to measure at.")
    if not gammas:
        raise BadInput("Tick at least one draft length γ.")
    if not (set(alphas) <= set(ALPHAS) and set(gammas) <= set(GAMMAS)):
        raise BadInput("Choose α and γ among the boxes.")
    count = _whole(repeats, "Repeats")
    if not 1 <= count <= MOST_REPEATS:
        raise BadInput(f"Repeats is {count}; choose from 1 to {MOST_REPEATS}.")
    return Wanted(tuple(sorted(map(float, alphas))), tuple(sorted(map(int, gammas))), count)


def _whole(value, what: str) -> int:
    if not isinstance(value, int | float) or not float(value).is_integer():
        raise BadInput(f"{what} must be a whole number.")
    return int(value)


def _stage(stage: Stage) -> str:
    return notice("progress", stage.message, stage.fraction)


def _progress(begun: Begun, wanted: Wanted, spots: Mapping[Place, Spot]) -> str:
    done = wanted.turns - wanted.left(spots)
    again = f", repeat {begun.repeat} of {wanted.repeats}" if wanted.repeats > 1 else ""
    words = f"Measuring {done + 1} of {wanted.turns}: α = {begun.alpha:g} with γ = {begun.gamma}{again}"
    return notice("progress", f"{words}, beside plain decoding", done / wanted.turns)


def _told(now: Measured, wanted: Wanted, fresh: int) -> str:
    """How it ended, in words; ``fresh``: turns that had to be measured."""
    left = wanted.left(now.spots)
    if left:
        done = wanted.turns - left
        return notice("quiet", f"Stopped: {done} of {wanted.turns} measured. Run goes on with the rest.")
    before = "" if fresh else "All of this had been measured: Start over measures it anew. "
    return notice("good" if max(s.speedup for s in now.points) > 1 else "slow", before + view.summary(now))


def _files(table: str | None, whole: str | None) -> dict[str, Any]:
    paths = {"table_file": table, "whole_file": whole}
    return {name: gr.update(value=path, interactive=path is not None) for name, path in paths.items()}


def _letters(text: str) -> str:
    """Of a name, what every file system takes."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in text)
    return kept[-40:].strip("-.")
