"""On a GPU every method leaves the target's law and its greedy text as they are, alone and in shared passes.

These are the checks of `python -m engine prove`, which run on a CPU elsewhere.
"""

import pytest
from head_cases import CASE_OF, CHEAP, write_heads
from tiny_pairs import pair_with_draft

from engine.runtime.engine import load_engine
from engine.runtime.run_batch import RunBatch
from engine.tools.exactness.proof import prove, subject_of

pytestmark = pytest.mark.gpu
METHODS = ("ngram", "lookahead", "lm", "auto", *CASE_OF)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The pair's name of each method."""
    root = tmp_path_factory.mktemp("pairs")
    heads = write_heads(root)
    with_draft = pair_with_draft(root, "qwen3", max_position_embeddings=1024)
    return {method: heads.pair(CASE_OF[method].kind) if method in CASE_OF else with_draft for method in METHODS}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_proved_on_the_device(pairs, method, monkeypatch, tmp_path):
    monkeypatch.setattr("engine.runtime.engine.cache_root", lambda: tmp_path)
    engine = load_engine(pairs[method], "cuda", "fp32")
    try:
        if method in CASE_OF:
            engine.drafts.drafter(method)
        engine._costs[method] = CHEAP
        subject = subject_of(method, 3, engine, lambda limit: RunBatch(engine, limit))
        checks = {check.name: check for check in prove(subject, runs=200)}
    finally:
        engine.close()
    assert [check.words for check in checks.values() if check.state == "failed"] == []
    assert checks["greedy"].state == "passed" and checks["law"].state == "passed", checks
