"""Shares one tiny engine among the tests of the benchmarks, with costs measured into a cache of its own."""

import pytest

from engine.runtime.engine import load_engine


@pytest.fixture(scope="module")  # not of the session, which would leave its cache folder to all later tests
def engine(tiny_pair, tmp_path_factory):
    """A random target, and a draft of its first layer: its guesses are accepted now and rejected then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield load_engine(tiny_pair, "cpu", "fp32")
