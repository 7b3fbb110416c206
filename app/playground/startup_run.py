"""Loads the recorded run that the page shows when it opens, before a model is loaded, and the controls' values.

So the prompt line always holds the prompt of the run on the stage, and Run repeats it on this machine.
"""

from dataclasses import replace
from functools import cache

from app.form import Control, controls_by_name
from app.jobs.service import Service
from app.playground.form_values import values_of
from app.views import player_feed, run_charts
from engine.errors import BadInput
from engine.files import ASSETS
from engine.trace.trace import Trace, load

OPENING = ASSETS / "data" / "traces" / "opening.json"
BASELINE = ASSETS / "data" / "traces" / "opening-baseline.json"
SENTENCE = (
    "A drafter guesses up to {} tokens. The model (the target) checks them in one pass, up to the first it rejects."
)


@cache
def load_recorded() -> tuple[Trace | None, Trace | None]:
    """Loads the recorded run and its baseline; (None, None) with a line on the console if they cannot be read."""
    try:
        return load(OPENING), load(BASELINE)
    except BadInput as error:
        print(f"The page opens without its recorded run: {error}", flush=True)
        return None, None


def controls(service: Service) -> dict[str, Control]:
    """Returns every control by name, with the recorded run's settings as their values if it can run here."""
    specs, (run, _) = controls_by_name(service.limits), load_recorded()
    try:
        values = values_of(run, service) if run else {"pair": None}
    except BadInput:
        return specs
    if values["pair"] != service.offer.pair:
        return specs
    return {name: replace(spec, default=values[name]) for name, spec in specs.items()}


def opening() -> tuple[str, list[str]]:
    """Returns the first value of the stage, and of the charts of each tab."""
    run, baseline = load_recorded()
    if run is None:
        return "", run_charts.complete(None)
    text = player_feed.complete("recorded", run, recorded=True) + player_feed.numbers(run, baseline, recorded=True)
    sentence = SENTENCE.format(max(len(each.parents) for each in run.rounds))
    return text + player_feed.status("quiet", sentence), run_charts.complete(run, baseline)
