"""Tests rules on the page: the form, the numbers as runs come in, and the files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, Control, choices, plausible
from app.jobs.request import VisitorRequest
from app.lab.controls import whole_number
from app.lab.distribution import files, view
from app.lab.distribution.request import REVEALING, TOY_PROMPT, RuleReport, RuleTest, RuleTests, Tested, rules_of
from app.lab.distribution.work import work_units
from app.lab.experiment import Experiment, PageState, define_outputs
from app.ui.widgets import SKIP
from app.views.notice import notice
from engine.config import RunConfig, SamplingParams
from engine.tools.exactness.results import JSON_TOKENS, JSON_TOY, MISTAKES, RIGHT, TOY, TOY_METHODS, TOYS
from engine.trace.events import Progress

MOST_RUNS, MOST_LENGTH, MOST_SEED = 20_000, 4, 2**53 - 1
# The settings that a toy and a pair start with: few outcomes, so that they can be counted in little time.
# A length above γ, or a bonus token would never be seen.
TOY_START = {"method": "lm", "temperature": 0.5, "top_k": 0, "top_p": 0.95, "runs": 2_000, "length": 3}
STARTS = {TOY: TOY_START, JSON_TOY: TOY_START | {"temperature": 1.0, "top_p": 1.0, "runs": 1_000}}
PAIR_START = {"temperature": 1.0, "top_k": 3, "top_p": 1.0, "runs": 150, "length": 2}
CONTROLS = (
    Control("pair", "Model", "The toy shows every mistake; a real pair shows that the engine is right.", TOY, "choice"),
    Control("rule", "Rule", "How drafts are accepted: the right way, or with one mistake.", RIGHT, "choice"),
    Control("method", "Method", "What guesses ahead. On the toy, each mistake sets the method that shows it.",
            TOY_START["method"], "choice"),
    Control("gamma", "Draft length γ", "Tokens guessed in a round.", 2, "slider", 1, 8, 1),
    Control("temperature", "Temperature", "Above 0; 1 leaves the model as it is.", TOY_START["temperature"], "slider",
            0.05, 2, 0.05),
    Control("top_k", "Top-k", "Only the k likeliest tokens, so that outcomes can be counted; 0 is off.", 0, "slider", 0,
            20, 1),
    Control("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", TOY_START["top_p"], "slider", 0.05, 1,
            0.01),
    Control("runs", "Runs", f"More runs see smaller errors. Up to {MOST_RUNS:,}.", TOY_START["runs"], "number", 20,
            MOST_RUNS, 1),
    Control("length", "Tokens looked at", "How many tokens at the start of each run are compared.",
            TOY_START["length"], "slider", 1, MOST_LENGTH, 1),
    Control("first", "First seed", "Each run has the next one. Start at another seed for other runs.", 0, "number", 0,
            MOST_SEED, 1),
    Control("prompt", "Text to continue", "Every run continues it.", "The weather today is", "text", lines=2),
)  # fmt: skip
NAMES = tuple(control.name for control in CONTROLS)
QUICK = ("raw-q", "argmax-drafts", "no-residual")  # have a button of their own


class RuleTestHandlers(Experiment):
    """A state's result: each RuleReport by its rule, all with the same settings."""

    Outputs = define_outputs("charts", "rules", "outcomes")
    RECORDED = "distribution.json"
    read_saved = staticmethod(files.from_json)
    FILES = 3
    REMAINS = "The results so far stay."
    FIRST = "the first runs had ended"
    PREFERRED = ("lm", "eagle", "ngram")  # a draft model's q is spread out, which is where a wrong rule shows

    # ── controls ──

    def select_pair(self, pair: str, rule: str) -> list:
        """Returns the controls in the order of NAMES, and the pair's notice."""
        options, words = self.list_options(pair, rule), notice("quiet") if pair in TOYS else self.pair_notice(pair)
        return [*(options.get(name, SKIP) for name in NAMES), words]

    def list_options(self, pair: str, rule: str) -> dict[str, Any]:
        """Returns what the controls offer for a model, by name."""
        toy, rules, start = pair in TOYS, view.rule_choices(pair), STARTS.get(pair, PAIR_START)
        labels, methods = (TOY_METHODS, list(TOY_METHODS)) if toy else (METHOD_LABELS, self.methods(pair))
        return start | {
            "rule": gr.update(choices=rules, value=rule if rule in rules_of(pair) else RIGHT),
            "method": gr.update(choices=choices(labels, methods), value=start.get("method", methods[0])),
            "length": gr.update(value=start["length"], visible=pair != JSON_TOY),  # whole answers of that one count
            "prompt": gr.update(visible=not toy),
        }

    def refill(self, values: Sequence) -> list:
        form = dict(zip(NAMES, values, strict=True))
        options = self.list_options(form["pair"], form["rule"])
        updates = {name: each for name, each in options.items() if isinstance(each, dict)}
        for name in ("rule", "method"):  # a list keeps its own choice where it no longer has the kept one
            if form[name] not in [value for _, value in updates[name]["choices"]]:
                form[name] = updates[name]["value"]
        return [updates.get(name, {}) | gr.update(value=value) for name, value in form.items()]

    def reveal(self, rule: str) -> list:
        """Returns the controls, in the order of NAMES, set so that a mistake shows which the first settings hide."""
        toy = MISTAKES[rule].toy
        options = self.list_options(toy, rule) | {"pair": gr.update(value=toy)}
        options |= {name: gr.update(value=value) for name, value in REVEALING.get(rule, {}).items()}
        return [options.get(name, SKIP) for name in NAMES]

    @staticmethod
    def select_rule(pair: str, rule: str) -> Any:
        """Returns the list of rules, where the pair has the rule at all."""
        return rule if rule in rules_of(pair) else SKIP

    # ── running ──

    def run(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Tests the rule that is chosen. ``values``: one for each control, in the order of NAMES."""
        yield from self.stream(
            request, state, lambda mine: self._run(mine, state, values, [values[NAMES.index("rule")]])
        )

    def only(self, *rules: str):
        """Returns a handler that tests these rules, whichever is chosen."""

        def handler(request: gr.Request, state: PageState, *values) -> Iterator:
            yield from self.stream(request, state, lambda mine: self._run(mine, state, values, rules))

        return handler

    def every(self, request: gr.Request, state: PageState, *values) -> Iterator:
        """Tests the right rule, then every mistake that can be made with this model."""
        rules = rules_of(values[NAMES.index("pair")])
        yield from self.stream(request, state, lambda mine: self._run(mine, state, values, rules))

    def _run(self, request: VisitorRequest, state: PageState, values, rules: Sequence[str]) -> Iterator:
        tests = RuleTests([parse_form(values, rule) for rule in rules])
        earlier = state.result or {}
        if any(report.test.settings != tests.tests[0].settings for report in earlier.values()):
            earlier = {}  # rules are only compared under the same settings
        yield self.Outputs(notice("progress", "Starting", 0.0))
        config = None if tests.tests[0].toy else tests.tests[0].config
        for report in self.reports(request, work_units(tests), config):
            if isinstance(report, Progress):
                yield self.Outputs(notice("progress", report.message, report.fraction or tests.share))
                continue
            tests.add(report)
            earlier = {rule: each for rule, each in earlier.items() if rule != report.rule}
            state.result = earlier = earlier | {report.rule: report}  # the newest comes last
            at_work = "" if report.complete else report.rule
            yield self.show(state.result, at_work)._replace(notice=_progress(tests, report))
        words = _conclusion(tests) if tests.results else self.early_stop(state)
        yield self.show(state.result)._replace(notice=words)

    def show(self, result: Tested | None, at_work: str = "") -> Any:
        """Draws the results so far. ``at_work``: the rule whose runs are still coming in."""
        if not result:
            return self.Outputs()
        newest = list(result.values())[-1]
        return self.Outputs(
            charts=view.charts(newest, result), rules=view.rules(result, at_work), outcomes=view.outcomes(newest)
        )

    def verdict(self, result: Tested) -> str:
        return view.tally([*result.values()], len(result))

    def files(self, result: Tested) -> Mapping[str, str]:
        newest, name, where = list(result.values())[-1], "speclens-lossless", self.where()
        return {
            f"{name}.json": files.to_json(result, where),
            f"{name}-rules.csv": files.rules_csv(result, where),
            f"{name}-outcomes-{newest.rule}.csv": files.outcomes_csv(newest, where),
        }


def parse_form(values: Sequence, rule: str) -> RuleTest:
    """Raises BadInput that names the control."""
    form = dict(zip(NAMES, values, strict=True))
    if form["pair"] in TOYS:
        form["prompt"] = TOY_PROMPT  # the control is hidden
    form = {control.name: plausible(control, form[control.name]) for control in CONTROLS}
    numbers = {
        control.name: whole_number(form[control.name], control.label, control.low, control.high)
        for control in CONTROLS
        if control.name in ("gamma", "runs", "length", "first")
    }
    if form["pair"] == JSON_TOY:
        numbers["length"] = JSON_TOKENS  # that control is hidden, too
    sampling = SamplingParams(*(form[name] for name in ("temperature", "top_k", "top_p")))
    config = RunConfig(
        form["prompt"],
        form["pair"],
        form["method"],
        gamma=numbers["gamma"],
        sampling=sampling,
        max_new_tokens=numbers["length"],
        seed=numbers["first"],
        chat=False,
    )
    return RuleTest(config, rule, numbers["runs"])


def _progress(tests: RuleTests, report: RuleReport) -> str:
    nth = tests.tests.index(report.test) + 1
    return notice("progress", view.progress(report, nth, len(tests.tests)), tests.share)


def _conclusion(tests: RuleTests) -> str:
    results = list(tests.results.values())
    if len(tests.tests) == 1:
        return notice(*view.verdict(results[0]))
    return notice("quiet", view.tally(results, len(tests.tests)))
