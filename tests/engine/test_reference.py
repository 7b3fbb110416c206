"""reference.py and the loop write the same tokens by the same verdicts from the same random numbers; no mutant does."""

import pytest
import torch
from import_map import imported
from paths import ROOT
from reference_runs import random_numbers, verdicts

from engine import reference
from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.sampling.warping import warp
from engine.tools.exactness.mutants import MUTANTS
from engine.tools.exactness.toy_models import ToyLM, make_drafter, toy_decoder

TARGET = ToyLM.random(8, seed=1, spread=1.2)
DRAFT = TARGET.with_noise(0.8, seed=2)
TEMPERATURES = [SamplingParams(temperature) for temperature in (0.0, 0.7, 1.3)]
TRUNCATED = [SamplingParams(0.7, top_k=3), SamplingParams(1.3, top_p=0.8), SamplingParams(1.0, min_p=0.2)]
STATUSES = {"accepted", "rejected", "discarded", "resampled", "bonus", "plain"}
MISTAKES = [mutant for mutant in MUTANTS if mutant.mistake.method == "lm" and mutant.mistake.acceptance == "token"]
PROPOSE = reference.propose


def model(toy: ToyLM, sampling: SamplingParams) -> reference.Model:
    """Returns a toy as reference.py takes it. Only top-k, top-p and min-p come from the loop's own `warp`."""

    def rows(ids):
        logits = torch.stack([toy.logits(ids[: i + 1]) for i in range(len(ids))])
        if sampling == SamplingParams(sampling.temperature):
            return reference.probabilities(logits, sampling.temperature)
        return warp(logits, sampling)

    return rows


def both(seed: int, sampling=TEMPERATURES[1], gamma=4, max_new_tokens=24, eos=(), rules=TRUE_RULES, drafter=None):
    """Returns the verdicts of each round by reference.py, and those by the loop."""
    prompt, drafter = [seed % 8, 1], drafter or make_drafter("lm", DRAFT)
    target, draft = model(TARGET, sampling), model(DRAFT, sampling)
    u = random_numbers(seed, gamma, max_new_tokens)
    ours = reference.speculate(target, draft, prompt, max_new_tokens, gamma, u, eos)
    settings = {"gamma": gamma, "max_new_tokens": max_new_tokens, "seed": seed, "trace": False}
    theirs = toy_decoder(TARGET, drafter, prompt, sampling, eos=eos, rules=rules, **settings).rounds()
    return [verdicts(r) for r in ours], [[(token.id, token.status) for token in r.tokens] for r in theirs]


def differs(**settings) -> bool:
    """Returns whether the two part in one of eight runs."""
    runs = (both(seed, **settings) for seed in range(8))
    return any(ours != theirs for ours, theirs in runs)


@pytest.mark.parametrize("gamma", [1, 3, 6])
@pytest.mark.parametrize("sampling", TEMPERATURES + TRUNCATED, ids=["greedy", "0.7", "1.3", "top-k", "top-p", "min-p"])
def test_reference_writes_the_loops_tokens_by_its_verdicts(sampling, gamma):
    seen = set()
    for seed in range(12):
        ours, theirs = both(seed, sampling, gamma)
        assert ours == theirs
        seen |= {status for verdicts_of_round in ours for _, status in verdicts_of_round}
    assert seen >= STATUSES - ({"discarded", "plain"} if gamma == 1 else {"plain"})


@pytest.mark.parametrize("max_new_tokens", [1, 2, 3, 7])
def test_reference_drafts_as_few_tokens_at_the_end_as_the_loop(max_new_tokens):
    for seed in range(12):
        ours, theirs = both(seed, gamma=5, max_new_tokens=max_new_tokens)
        assert ours == theirs and all(len(tokens) <= max_new_tokens for tokens in ours)


def test_reference_ends_the_text_where_the_loop_does():
    """Accepted drafts and closing tokens may end it. The prompt ends with the same id, which ends nothing."""
    last = set()
    for seed in range(60):
        ours, theirs = both(seed, eos=(1, 5))
        assert ours == theirs
        last.add(ours[-1][-1][1])
    assert last >= {"accepted", "discarded", "resampled", "bonus"}


@pytest.mark.parametrize("mutant", MISTAKES, ids=lambda mutant: mutant.name)
def test_reference_differs_from_every_mutant_of_the_loop(mutant):
    sampling = SamplingParams(0.6, top_p=0.97)
    assert not differs(sampling=sampling)
    assert differs(sampling=sampling, rules=mutant.rules, drafter=mutant.drafter(DRAFT))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("residual", lambda p, q: p),
        ("count_accepted", lambda p, q, drafts, u: sum(u[i] < p[i][token] for i, token in enumerate(drafts))),
        ("propose", lambda draft, text, u: PROPOSE(draft, text, u[:1] * len(u))),
        ("draw", lambda row, u: int(row.argmax())),
        ("cut_at_end", lambda tokens, eos_ids: tokens),
        ("probabilities", lambda logits, temperature: (logits * temperature).softmax(-1)),
    ],
)
def test_loop_differs_from_every_mutant_of_the_reference(name, wrong, monkeypatch):
    assert not differs(eos=(5,))
    monkeypatch.setattr(reference, name, wrong)
    assert differs(eos=(5,))


def test_reference_fits_on_a_page_and_needs_nothing_else_of_the_engine():
    path = ROOT / "engine" / "reference.py"
    assert path.read_text(encoding="utf-8").count("\n") <= 100 and imported("engine", path) == set()
