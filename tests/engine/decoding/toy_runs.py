"""The toy pair of the tests of decoding, and readings of its rounds."""

from dataclasses import replace

from engine.config import SamplingParams
from engine.tools.exactness.toy_models import ToyLM

GREEDY, WARM = SamplingParams(), SamplingParams(0.8)
METHODS = ["none", "ngram", "lm", "independent", "without_replacement", "top"]
TARGET = ToyLM.random(8, seed=1, spread=1.2)
DRAFT = TARGET.with_noise(0.8, seed=2)


def ids_of(rounds) -> list[int]:
    return [token.id for r in rounds for token in r.emitted]


def timeless(rounds, **changes) -> list:
    return [replace(r, timings=None, start=0.0, end=0.0, reading=0.0, **changes) for r in rounds]
