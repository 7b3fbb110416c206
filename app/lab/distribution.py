"""Is it lossless? on the page: what is asked for, the numbers as runs come in, Stop, and the files. Thin."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import gradio as gr

from app.controls import METHODS, Control, choices, plausible
from app.experiments.distribution import pieces
from app.experiments.trials import MOST_LENGTH, MOST_RUNS, RIGHT, SHOWS, TOY, Asked, Finding, Trials
from app.files import Exports
from app.service import Service, Stage
from app.session import experimenter
from app.views import lab_distribution as view
from app.views.notice import notice
from engine.config import SamplingParams
from engine.errors import EngineError

SKIP = gr.skip()
START = Asked()
TOY_METHODS = {
    "lm": "draft model: another table of three words",
    "ngram": "n-gram lookup: copies what came before",
    "independent": "tree, siblings drawn independently",
    "without_replacement": "tree, siblings drawn without replacement",
    "top": "tree of the draft's favourites",
    "none": "none: plain decoding",
}
PROMPT = "The weather today is"
# What a pair starts with, and the toy: few outcomes that can all be counted, in little time.
BEGINS = {
    True: {"method": START.method, "temperature": START.sampling.temperature, "top_k": 0,
           "top_p": START.sampling.top_p, "runs": START.runs, "length": START.length},
    False: {"temperature": 1.0, "top_k": 3, "top_p": 1.0, "runs": 150, "length": 2},
}  # fmt: skip
PREFERRED = ("lm", "eagle", "ngram")  # a draft model's q is spread out, which is where a wrong rule shows
CONTROLS = (
    Control("pair", "Model", "The toy shows every mistake; a real pair shows that the engine is right.", TOY, "choice"),
    Control("rule", "Rule", "How drafts are accepted: the right way, or with one mistake.", RIGHT, "choice"),
    Control("method", "Method", "What guesses ahead. A mistake on the toy brings its own.", START.method, "choice"),
    Control("gamma", "Draft length γ", "Tokens guessed in a round.", START.gamma, "slider", 1, 8, 1),
    Control("temperature", "Temperature", "Above 0; 1 leaves the model as it is.", START.sampling.temperature, "slider",
            0.05, 2, 0.05),
    Control("top_k", "Top-k", "Only the k likeliest tokens, so that outcomes can be counted; 0 is off.", 0, "slider", 0,
            20, 1),
    Control("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", START.sampling.top_p, "slider", 0.05,
            1, 0.01),
    Control("runs", "Runs", f"More runs see smaller errors. Up to {MOST_RUNS:,}.", START.runs, "number", 20, MOST_RUNS,
            1),
    Control("length", "Tokens looked at", "Of each run, from its beginning.", START.length, "slider", 1, MOST_LENGTH,
            1),
    Control("first", "First seed", "Each run has the next one; another start makes other runs.", 0, "number", 0,
            2**53 - 1, 1),
    Control("prompt", "Text to continue", "Every run begins behind it.", PROMPT, "text", lines=2),
)  # fmt: skip
NAMES = tuple(control.name for control in CONTROLS)
QUICK = ("raw-q", "argmax-drafts", "no-residual")  # have a button of their own


class Screen(NamedTuple):
    """The outputs by name; what is not named stays as it is. ``found``: the visitor's own, by rule."""

    notice: Any = SKIP
    run: Any = SKIP
    stop: Any = SKIP
    rule: Any = SKIP
    charts: Any = SKIP
    rules: Any = SKIP
    outcomes: Any = SKIP
    whole_file: Any = SKIP
    rules_file: Any = SKIP
    outcomes_file: Any = SKIP
    found: Any = SKIP


class Choices(NamedTuple):
    """What follows from the model chosen."""

    rule: Any = SKIP
    method: Any = SKIP
    temperature: Any = SKIP
    top_k: Any = SKIP
    top_p: Any = SKIP
    runs: Any = SKIP
    length: Any = SKIP
    prompt: Any = SKIP
    notice: Any = SKIP


class Distribution:
    def __init__(self, service: Service):
        self.service, self.exports = service, Exports()
        self._latest: dict[str, object] = {}  # each visitor's newest press, to whom the screen belongs

    # ── controls ──

    def methods(self, pair: str) -> list[str]:
        if pair == TOY:
            return list(TOY_METHODS)
        offered = self.service.methods(pair)
        return sorted(offered, key=lambda m: PREFERRED.index(m) if m in PREFERRED else len(PREFERRED))

    def chosen(self, pair: str, rule: str) -> Choices:
        """What the toy or a pair has to offer, and why it cannot run here where that is so; nothing is loaded."""
        toy = pair == TOY
        try:
            offered = self.methods(pair)
            reasons = [] if toy else self.service.problems(pair)
        except EngineError as error:
            return Choices(notice=notice("error", str(error)))
        rules, start = view.rule_choices(toy), BEGINS[toy]
        return Choices(
            gr.update(choices=rules, value=rule if rule in dict(rules).values() else RIGHT),
            gr.update(choices=choices(TOY_METHODS if toy else METHODS, offered), value=start.get("method", offered[0])),
            *(start[name] for name in ("temperature", "top_k", "top_p", "runs", "length")),
            gr.update(visible=not toy),
            notice("error", " ".join(reasons)) if reasons else notice("quiet"),
        )

    def revealing(self, rule: str):
        """A handler that sets the controls, in the order of NAMES, so that a mistake which hides can be seen."""

        def handler() -> list:
            follows = self.chosen(TOY, rule)._asdict()
            shown = follows | {name: gr.update(value=value) for name, value in SHOWS[rule].items()}
            return [gr.update(value=TOY) if name == "pair" else shown.get(name, SKIP) for name in NAMES]

        return handler

    # ── running ──

    def run(self, request: gr.Request, found: Mapping, *values) -> Iterator[Screen]:
        """The rule that is chosen. ``values``: of every control, in the order of NAMES."""
        yield from self._run(request, found, values, None)

    def only(self, *rules: str):
        """A handler that runs these rules, whichever is chosen."""

        def handler(request: gr.Request, found: Mapping, *values) -> Iterator[Screen]:
            yield from self._run(request, found, values, rules)

        return handler

    def every(self, request: gr.Request, found: Mapping, *values) -> Iterator[Screen]:
        """The right rule, then every mistake that can be made with this model, one after the other."""
        toy = dict(zip(NAMES, values, strict=True))["pair"] == TOY
        rules = [rule for _, rule in view.rule_choices(toy)]
        yield from self._run(request, found, values, rules)

    def stop(self, request: gr.Request) -> None:
        """Ends it with the run at hand; the running handler then judges what there is."""
        self.service.stop(experimenter(request))

    def _run(self, request: gr.Request, found: Mapping, values, rules: Sequence[str] | None) -> Iterator[Screen]:
        """Whatever happens, the buttons come back and what was found stays. Where another button has been pressed
        meanwhile the screen is that one's."""
        visitor, press = experimenter(request), object()
        self._latest[visitor] = press
        try:
            for screen in self._screens(visitor, dict(found), values, rules):
                if self._latest.get(visitor) is not press:
                    return
                yield screen
        finally:
            if self._latest.get(visitor) is press:
                del self._latest[visitor]

    def _screens(self, visitor: str, now: dict, values, rules: Sequence[str] | None) -> Iterator[Screen]:
        try:
            trials = Trials([asked(values, rule) for rule in rules or [None]])
            if any(f.asked.setting != trials.asked[0].setting for f in now.values()):
                now = {}  # rules are only compared under the same settings
            yield _begun(now, trials)
            for screen, latest in self._follow(visitor, trials, now):
                now = latest
                yield screen
            yield self._ended(now, trials, _told(trials))
        except EngineError as error:
            said = str(error) + (" What was found by then stays." if now else "")
            yield self._ended(now, None, notice("error", said))

    def _follow(self, visitor: str, trials: Trials, now: dict[str, Finding]) -> Iterator[tuple[Screen, dict]]:
        config = trials.asked[0].config
        with closing(self.service.experiment(visitor, pieces(trials), config)) as reports:
            for report in reports:
                if isinstance(report, Stage):
                    yield Screen(notice("progress", report.message, report.fraction or trials.share)), now
                    continue
                finding = report.value
                trials.add(finding)
                rule = finding.asked.rule
                now = {name: f for name, f in now.items() if name != rule} | {rule: finding}  # the newest comes last
                drawn = _drawn(now, finding)._replace(rules=view.rules(now, at_work="" if finding.whole else rule))
                yield drawn._replace(notice=_progress(trials, finding), found=now), now

    # ── what is shown at the end ──

    def _ended(self, now: dict[str, Finding], trials: Trials | None, told: str) -> Screen:
        """Files are prepared now: a button that fills itself when pressed hands out the file of the run before."""
        last = list(now.values())[-1] if now else None
        drawn = _drawn(now, last) if last else Screen()
        return drawn._replace(
            notice=told, run=gr.update(value="Run"), stop=gr.update(interactive=False), found=now, **self._written(now)
        )

    def _written(self, now: dict[str, Finding]) -> dict[str, Any]:
        if not now:
            return _files(None, None, None)
        last, name = list(now.values())[-1], "speclens-lossless"
        try:
            paths = self.exports.texts(
                {
                    f"{name}.json": view.to_json(now),
                    f"{name}-rules.csv": view.rules_csv(now),
                    f"{name}-outcomes-{last.asked.rule}.csv": view.outcomes_csv(last),
                }
            )
        except OSError:  # a full disk takes the files away, not the page
            gr.Warning("The files of this test could not be written on the server.")
            return _files(None, None, None)
        return _files(*paths)


def asked(values: Sequence, rule: str | None = None) -> Asked:
    """The controls as a request; ``rule`` overrules the one that is chosen. BadInput says what is wrong."""
    given = dict(zip(NAMES, values, strict=True))
    # Hidden on the toy, and what stands there is no business of it.
    given["prompt"] = given["prompt"] if given["pair"] != TOY else ""
    given = {control.name: plausible(control, given[control.name]) for control in CONTROLS}
    sampling = SamplingParams(*(given.pop(name) for name in ("temperature", "top_k", "top_p")))
    return Asked(**given | {"sampling": sampling} | ({"rule": rule} if rule else {}))


def _begun(now: dict, trials: Trials) -> Screen:
    return Screen(
        notice("progress", "Starting", 0.0),
        gr.update(value="Running…"),  # not disabled: that would drop the keyboard's focus
        gr.update(interactive=True),
        trials.asked[0].rule if len(trials.asked) == 1 else SKIP,
        view.blank(),
        view.rules(now),
        view.outcomes(None),
        found=now,
        **_files(None, None, None),
    )


def _drawn(now: dict[str, Finding], finding: Finding) -> Screen:
    return Screen(charts=view.charts(finding, now), rules=view.rules(now), outcomes=view.outcomes(finding))


def _progress(trials: Trials, finding: Finding) -> str:
    nth = trials.asked.index(finding.asked) + 1
    return notice("progress", view.progress(finding, nth, len(trials.asked)), trials.share)


def _told(trials: Trials) -> str:
    findings = list(trials.found.values())
    if not findings:
        return notice("quiet", "Stopped before the first runs had ended.")
    if len(trials.asked) == 1:
        return notice(*view.verdict(findings[0]))
    return notice(*view.tally(findings, len(trials.asked)))


def _files(whole: str | None, rules: str | None, outcomes: str | None) -> dict[str, Any]:
    given = {"whole_file": whole, "rules_file": rules, "outcomes_file": outcomes}
    return {name: gr.update(value=path, interactive=path is not None) for name, path in given.items()}
