"""The sentence of each method: what it reads and what it costs here, as far as that is known."""

from fake_worker import FakeEngine, FakeWorker

from app.form import METHOD_LABELS
from app.jobs.engine_facade import MethodCosts
from app.jobs.service import Service
from app.server.limits import Limits
from app.ui.method_choices import method_choices, method_labels
from engine.config import METHODS


def test_a_method_says_its_step_its_rows_and_its_memory():
    costs = dict.fromkeys(METHODS, MethodCosts(None, 0))
    costs |= {"lm": MethodCosts(0.4217, 69_400_000), "medusa": MethodCosts(0.05, 4_053_760)}
    costs["quantised"] = MethodCosts(None, 133_600_000)
    labels = method_labels(costs)
    assert labels["lm"].endswith("; c = 0.42 plain steps a draft, about 69 MB")
    assert labels["quantised"].endswith("; c not measured here yet, about 134 MB")
    assert labels["lookahead"].endswith("; up to 30 more rows per pass") and labels["none"] == METHOD_LABELS["none"]


def test_costs_are_shown_once_an_engine_is_loaded():
    worker = FakeWorker(load=0.1)
    service = Service(FakeEngine(worker), Limits())
    assert ("draft model: a small model guesses", "lm") in method_choices(service, "smollm2-135m")
    worker.load = 0
    labels = {value: label for label, value in method_choices(service, "smollm2-135m")}
    assert tuple(labels) == ("auto", "none", "ngram", "lm") and "c = 0.42" in labels["lm"]
