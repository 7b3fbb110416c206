"""Tests rules on the page: a rule is chosen or broken on purpose, and judged by many seeded runs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import gradio as gr

from app.form import METHOD_LABELS, choices
from app.jobs.request import VisitorRequest
from app.lab.distribution import view
from app.lab.distribution.work import (
    REVEALING,
    TOY_PROMPT,
    RuleTest,
    RuleTests,
    rules_of,
    work_units,
)
from app.lab.experiment import Experiment, PageState, define_outputs
from app.lab.form import Field, dropdown, slider, text
from app.lab.layout import Layout
from app.ui.widgets import QUIET, SKIP
from app.views.notice import notice
from engine.config import RunConfig, SamplingParams
from engine.tools.exactness.results import JSON_TOKENS, JSON_TOY, MISTAKES, RIGHT, TOY, TOY_METHODS, TOYS
from engine.trace.events import Progress

LEAD = """<p class="sl-lab-lead">Speculative decoding promises the target's own distribution. Test it here. Every way
a text can begin has an exact probability, computed from the target alone. Many runs, each with its own seed, are then
counted against it.</p>"""
WORDS = """<dl class="sl-lossless-words">
<dt>α</dt><dd>the share of tested drafts that were accepted. A wrong rule can raise it, so a faster engine proves
nothing.</dd>
<dt>Distance</dt><dd>half the sum of all gaps between seen and exact shares: 0 when all agree, 1 when nothing does.</dd>
<dt>A lossless engine shows</dt><dd>the distances that chance alone gives to 95 of 100 lossless engines: the grey box of
the chart.</dd>
<dt>χ²</dt><dd>the sum of all squared gaps, each divided by what chance allows. Chance alone gives about as much as the
degrees in brackets.</dd>
<dt>p-value</dt><dd>how often chance alone would give a lossless engine so large a χ². Under 0.001 the output is called
wrong, so a lossless engine fails once in 1,000 times.</dd>
</dl>"""
BREAK = """<h3 class="sl-lossless-break">Break it</h3>
<p class="sl-lab-lead">Press a button to test one rule with the settings below. It adds a row to the table; the first
one replaces the recorded rows. Watch the distance, then α: in the recorded rows, favourites tested as draws accept
every draft and are the furthest off. Replacement from p leaves α nearly where it was; only the distance gives it away.
The last button has a toy write JSON under a grammar, which wrong masks break.</p>"""
HIDING = """<p class="sl-lab-lead">Two bugs do not show up with the default settings. These buttons load settings that
reveal them, and test the correct rule first.</p>"""
NO_MODELS = "This page is shared and tests no real pair; the toy below needs no model."
MOST_RUNS = 20_000
# The settings that a toy and a pair start with: few outcomes, so that they can be counted in little time.
# A length above γ, or a bonus token would never be seen.
TOY_START = {"method": "lm", "temperature": 0.5, "top_k": 0, "top_p": 0.95, "runs": 2_000, "length": 3}
STARTS = {TOY: TOY_START, JSON_TOY: TOY_START | {"temperature": 1.0, "top_p": 1.0, "runs": 1_000}}
PAIR_START = {"temperature": 1.0, "top_k": 3, "top_p": 1.0, "runs": 150, "length": 2}
QUICK = ("raw-q", "argmax-drafts", "no-residual")  # have a button of their own


class Distribution(Experiment):
    """Its result is each RuleReport by its rule, all with the same settings."""

    NAME = "lossless"
    Outputs = define_outputs("charts", "rules", "outcomes")
    RECORDED = "distribution.json"
    view = view
    FILES = (("json", "Save everything (JSON)"), ("rules-csv", "Save the rules (CSV)"),
             ("outcomes-csv", "Save the last rule's outcomes (CSV)"))  # fmt: skip
    REMAINS = "The results so far stay."
    FIRST = "the first runs had ended"
    PREFERRED = ("lm", "eagle", "ngram")  # a draft model's q is spread out, which is where a wrong rule shows

    def form(self) -> list[list[Field]]:
        titles = {TOY: "The toy: three words, no model needed", JSON_TOY: "The toy that a grammar holds to JSON"}
        if self.service.runs.offers_experiments:
            titles |= self.service.offer.titles
        start, most = TOY_START, f"More runs see smaller errors. Up to {MOST_RUNS:,}."
        return [
            [dropdown("pair", "Model", "The toy shows every mistake; a real pair shows that the engine is right.", TOY,
                      choices(titles), min_width=240, scale=3),
             dropdown("rule", "Rule", "How drafts are accepted: the right way, or with one mistake.", RIGHT,
                      view.rule_choices(TOY), min_width=260, scale=4),
             dropdown("method", "Method",
                      "What guesses ahead. On the toy, each mistake sets the method that shows it.", start["method"],
                      choices(TOY_METHODS), min_width=240, scale=3)],
            [text("prompt", "Text to continue", "Every run continues it.", "The weather today is", 2, visible=False)],
            [slider("gamma", "Draft length γ", "Tokens guessed in a round.", 2, 1, 8, min_width=210),
             slider("temperature", "Temperature", "Above 0; 1 leaves the model as it is.", start["temperature"], 0.05,
                    2, 0.05, min_width=210),
             slider("top_k", "Top-k", "Only the k likeliest tokens, so that outcomes can be counted; 0 is off.",
                    start["top_k"], 0, 20, min_width=210),
             slider("top_p", "Top-p", "The likeliest tokens up to this mass; 1 is off.", start["top_p"], 0.05, 1, 0.01,
                    min_width=210)],
            [Field("runs", "Runs", most, start["runs"], "number", 20, MOST_RUNS, 1, layout={"min_width": 210}),
             slider("length", "Tokens looked at", "How many tokens at the start of each run are compared.",
                    start["length"], 1, 4, min_width=210),
             Field("first", "First seed", "Each run has the next one. Start at another seed for other runs.", 0,
                   "number", 0, 2**53 - 1, 1, layout={"min_width": 210})],
        ]  # fmt: skip

    def lay_out(self, page: Layout) -> None:
        def small(name: str, label: str) -> gr.Button:
            return gr.Button(label, elem_id=page.id(name), size="sm", min_width=140)

        with gr.Row(elem_classes="sl-actions"):
            page.run_and_stop()
        page.html(BREAK)
        with gr.Row(elem_classes="sl-lossless-quick"):
            quick = {rule: small(rule, view.BUTTONS[rule]) for rule in (RIGHT, *QUICK)}
            every = small("every", "Right, then every mistake")
            masks = small("masks", "Broken JSON: every mistake with masks")
        with page.fold("models, a rule and how many runs"):
            page.html(LEAD)
            page.form()
            page.html(HIDING)
            with gr.Row(elem_classes="sl-lossless-quick"):
                revealing = {rule: small(rule, view.BUTTONS[rule]) for rule in REVEALING}
        page.notices("" if self.service.runs.offers_experiments else notice("quiet", NO_MODELS))
        page.show("rules")
        page.html(WORDS)
        page.charts(view.CHARTS)
        page.show("outcomes")
        page.files()
        page.wire()
        page.connect(every.click, "every")
        pair, rule_list, form = page.widgets["pair"], page.widgets["rule"], [*page.widgets.values()]
        for rule, button in quick.items():
            chosen = button.click(partial(self.select_rule, rule=rule), pair, rule_list, **QUIET)
            page.connect(chosen.then, (rule,))
        for rule, button in revealing.items():
            filled = button.click(partial(self.reveal, rule), None, form, **QUIET)
            page.connect(filled.success, (RIGHT, rule))
        filled = masks.click(partial(self.reveal, view.FIRST_MASK), None, form, **QUIET)
        page.connect(filled.success, "every")
        pair.input(self.select_pair, [pair, rule_list], [*form, page.outputs["notice"]], **QUIET)

    # ── controls ──

    def select_pair(self, pair: str, rule: str) -> list:
        """Returns the controls of another model, and the pair's notice."""
        words = notice("quiet") if pair in TOYS else self.pair_notice(pair)
        return [*self._updates(self.list_options(pair, rule)), words]

    def reveal(self, rule: str) -> list:
        """Returns the controls set so that a mistake shows which the first settings hide."""
        toy = MISTAKES[rule].toy
        options = self.list_options(toy, rule) | {"pair": gr.update(value=toy)}
        return self._updates(options | {name: gr.update(value=each) for name, each in REVEALING.get(rule, {}).items()})

    def _updates(self, options: Mapping[str, Any]) -> list:
        return [options.get(field.name, SKIP) for field in self.fields]

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

    def lists(self, form: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the lists, each with its own choice where it no longer has the one of the form."""
        options = self.list_options(form["pair"], form["rule"])
        updates = {name: each | {"value": form[name]} for name, each in options.items() if isinstance(each, dict)}
        for name in ("rule", "method"):
            if form[name] not in [value for _, value in updates[name]["choices"]]:
                updates[name]["value"] = options[name]["value"]
        return updates

    @staticmethod
    def select_rule(pair: str, rule: str) -> Any:
        """Returns the list of rules, where the pair has the rule at all."""
        return rule if rule in rules_of(pair) else SKIP

    # ── running ──

    def parse(self, values: Sequence, rule: str) -> RuleTest:
        """Raises BadInput that names the control."""
        form = self.by_name(values)
        hidden = {"prompt": TOY_PROMPT} if form["pair"] in TOYS else {}
        form = self.read([*(form | hidden).values()])
        length = JSON_TOKENS if form["pair"] == JSON_TOY else form["length"]  # that control is hidden, too
        sampling = SamplingParams(form["temperature"], form["top_k"], form["top_p"])
        config = RunConfig(
            form["prompt"], form["pair"], form["method"], gamma=form["gamma"], sampling=sampling,
            max_new_tokens=length, seed=form["first"], chat=False,
        )  # fmt: skip
        return RuleTest(config, rule, form["runs"])

    def updates(self, request: VisitorRequest, state: PageState, values: Sequence, how: Any) -> Iterator:
        """Tests the rule that is chosen. ``how``: other rules instead, or "every": the right one, then every mistake
        that can be made with this model."""
        form = self.by_name(values)
        rules = rules_of(form["pair"]) if how == "every" else how or [form["rule"]]
        tests = RuleTests([self.parse(values, rule) for rule in rules])
        earlier = state.result or {}
        if any(report.test.settings != tests.tests[0].settings for report in earlier.values()):
            earlier = {}  # rules are only compared under the same settings
        yield self.Outputs(notice("progress", "Starting", 0.0))
        config = None if tests.tests[0].is_toy else tests.tests[0].config
        for report in self.reports(request, work_units(tests), config):
            if isinstance(report, Progress):
                yield self.Outputs(notice("progress", report.message, report.fraction or tests.share))
                continue
            tests.add(report)
            earlier = {rule: each for rule, each in earlier.items() if rule != report.rule}
            state.result = earlier = earlier | {report.rule: report}  # the newest comes last
            words = view.progress(report, tests.tests.index(report.test) + 1, len(tests.tests))
            drawn = view.draw(state.result, at_work="" if report.is_complete else report.rule)
            yield self.Outputs(notice("progress", words, tests.share), **drawn)
        if not tests.results:
            yield self.Outputs(self.early_stop(state))
            return
        results = [*tests.results.values()]
        words = view.judge(results[0]) if len(rules) == 1 else ("quiet", view.tally(results, len(rules)))
        yield self.draw(state.result)._replace(notice=notice(*words))
