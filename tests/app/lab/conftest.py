"""Shares a real engine on a tiny pair among the lab's tests."""

import pytest
from tiny_pairs import pair_with_draft

from engine.runtime.engine import load_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab")
    pair = pair_with_draft(root, max_position_embeddings=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(root / "cache"))
        yield load_engine(pair, "cpu")
