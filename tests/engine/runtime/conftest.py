"""Shares the embedded pair's real weights: loaded once by transformers, once by the engine.

Without the weights these tests are skipped with the reason; with REQUIRE_WEIGHTS=1 they fail.
"""

import os
import warnings

import pytest
import torch
from real_model import PAIR

from engine.errors import Unavailable
from engine.models.transformers_runner import load_transformers
from engine.runtime.engine import load_engine
from engine.trace.events import CostModel
from engine.weights.catalogue import get_pair
from engine.weights.store import locate

# A draft step over a target step.
SHARES = {"none": 0.0, "exit": 0.07} | dict.fromkeys(("lm", "eagle", "eagle-chain", "block", "medusa"), 0.05)


@pytest.fixture(scope="session")
def folder():
    try:
        found, why = locate(get_pair(PAIR).target), f"run `python -m engine fetch {PAIR}`"
    except Unavailable as error:
        found, why = None, str(error)
    if found is None:
        reason = f"THE REAL MODEL WAS NOT TESTED, its weights are not here: {why}"
        if os.environ.get("REQUIRE_WEIGHTS") == "1":
            pytest.fail(reason)
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def reference(folder):
    return load_transformers(folder, torch.float32, "cpu")


@pytest.fixture(scope="session")
def engine(folder):
    """The pair in fp32, with costs that are set instead of measured; test_calibration.py measures."""
    engine = load_engine(PAIR, "cpu", "fp32")
    v = {1: 1.0, 2: 1.05, 20: 1.4}
    engine._costs = {method: CostModel(c, v, 200, 0.03) for method, c in SHARES.items()}
    yield engine
    engine.close()
