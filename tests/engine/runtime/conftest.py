"""Shares the embedded pair's real weights: loaded once by transformers, once by the engine."""

import pytest
import torch
from real_model import PAIR

from engine.models.decoder.transformers_runner import load_transformers
from engine.runtime.engine import load_engine
from engine.trace.costs import CostModel

# A draft step over a target step.
SHARES = {"none": 0.0, "exit": 0.07} | dict.fromkeys(("lm", "eagle", "eagle-chain", "block", "medusa"), 0.05)


@pytest.fixture(scope="session")
def reference(real_folder):
    return load_transformers(real_folder, torch.float32, "cpu")


@pytest.fixture(scope="session")
def engine(real_folder):
    """The pair in fp32, with costs that are set instead of measured; test_calibration.py measures."""
    engine = load_engine(PAIR, "cpu", "fp32")
    v = {1: 1.0, 2: 1.05, 20: 1.4}
    engine._costs = {method: CostModel(c, v, 200, 0.03) for method, c in SHARES.items()}
    yield engine
    engine.close()
