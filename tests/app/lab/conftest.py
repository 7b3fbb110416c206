"""Counts each batch of the toy's runs once a session: the same rule, settings and seeds give the same outcomes."""

import pytest

import engine.exactness.distribution_test as lab

OUTCOMES = {}


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
