"""Shares among the lab's tests: a real engine on a tiny pair, and counts of the toy's runs.

The same rule, settings and seeds give the same outcomes, so each batch of the toy's runs is counted once a session.
"""

import pytest
from tiny_pairs import model_folder

import engine.exactness.distribution_test as lab
from engine.runtime.engine import load_engine

OUTCOMES = {}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab")
    model_folder(root / "target")
    model_folder(root / "draft", noise=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.runtime.engine.cache_root", lambda: root / "cache")
        yield load_engine(f"{root / 'target'}+{root / 'draft'}", "cpu")


@pytest.fixture(autouse=True)
def remembered_outcomes(monkeypatch):
    toy_runs, count_outcomes = lab.toy_runs, lab.count_outcomes

    def named_runs(target, draft, *settings):
        runs = toy_runs(target, draft, *settings)
        runs.settings = settings
        return runs

    def count_once(runs, seeds, length, *rest, **more):
        key = getattr(runs, "settings", None), seeds, length
        if key[0] and key in OUTCOMES:
            return OUTCOMES[key]
        draws = count_outcomes(runs, seeds, length, *rest, **more)
        if key[0] and draws.runs == len(seeds):  # fewer were cancelled
            OUTCOMES[key] = draws
        return draws

    monkeypatch.setattr(lab, "toy_runs", named_runs)
    monkeypatch.setattr(lab, "count_outcomes", count_once)
