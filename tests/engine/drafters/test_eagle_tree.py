"""A tree of an EAGLE head holds its own guesses after each path, and its features follow the path that is kept.

What it shares with other heads: ../models/test_heads.py.
"""

import pytest
import torch
from exact_laws import paths_of
from head_cases import CHEAP, TEXT, WORDS, begin, load_unrounded, trained_logits
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, generated, ids_of, run

from engine.config import SamplingParams
from engine.sampling.warping import penalise


@pytest.fixture(scope="module", params=RUNTIMES)
def each_engine(heads, request):
    return load_unrounded(heads.pair("eagle"), "eagle", request.param)


@pytest.fixture(scope="module")
def engine(heads):
    engine = load_unrounded(heads.pair("eagle"), "eagle")
    engine._costs |= {"none": CHEAP, "eagle": CHEAP, "eagle-chain": CHEAP}
    return engine


@torch.inference_mode()  # as in a run, which may have made the drafter's buffers
@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_a_tree_has_what_the_trained_module_guesses_after_each_path(heads, each_engine, penalty):
    """Every node's children are the likeliest words after its own path; the paths beside it do not mislead it."""
    ids, words, params = TEXT[:20], WORDS.tolist(), SamplingParams(repetition_penalty=penalty)
    asked = {"capacity": 128, "counts_repeats": penalty > 1, "sampling": params, "trees": True}
    target, drafter = begin(each_engine, "eagle", ids, **asked)
    draft = drafter.propose(ids, 14)
    paths = paths_of(draft.tokens.tolist(), draft.parents)
    for node, path in enumerate(paths):
        logits = trained_logits(heads, "eagle", ids, [*path, 0])[-1]  # the last one may be any
        seen = torch.zeros(VOCABULARY, dtype=torch.bool)
        seen[[*ids, *path]] = True
        best = penalise(logits[None], seen[WORDS][None], penalty)[0].topk(10)
        children = [i for i, parent in enumerate(draft.parents, start=1) if parent == node]
        assert [words.index(paths[child][-1]) for child in children] == best.indices[: len(children)].tolist()
    assert len(draft) == 14 and len(set(draft.parents)) < 14 and draft.passes > 1
    target.release()
    drafter.release()


def test_a_penalised_run_is_the_plain_one(heads, engine):
    settings = {"sampling": SamplingParams(repetition_penalty=1.8), "gamma": 3, "max_new_tokens": 30}
    prompt, written = ids_of(run(engine, "eagle", **settings))
    assert written == generated(heads.models["eagle"], prompt, 30, repetition_penalty=1.8)


def test_a_branch_at_a_rounds_end_is_the_rest_of_its_run(engine):
    """The head reads the features of the prefix, too."""
    asked = {"gamma": 3, "max_new_tokens": 40, "temperature": 0.9, "seed": 5}
    first = run(engine, "eagle", **asked)
    ended = [token.id for each in first.rounds[:6] for token in each.emitted]
    again = run(engine, "eagle", prefix=ended, **asked)
    assert again.output == first.output and again.text == first.text
    verdicts = [[(t.id, t.status, t.u) for t in each.tokens] for each in first.rounds[6:]]
    assert [[(t.id, t.status, t.u) for t in each.tokens] for each in again.rounds] == verdicts


@pytest.mark.slow
def test_drafts_at_the_end_of_the_context_keep_the_targets_text(heads, engine):
    """Shorter drafts are made where a whole γ no longer fits, and the text is still the target's own."""
    room = 256 - len(run(engine, max_new_tokens=1).started.prompt)
    expected = None
    for method in ("eagle-chain", "eagle"):
        prompt, written = ids_of(run(engine, method, gamma=7, max_new_tokens=room))
        expected = expected or generated(heads.models["eagle"], prompt, room)
        assert written == expected
