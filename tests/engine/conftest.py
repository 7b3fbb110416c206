"""Shares one tiny pair among all tests of the engine."""

import pytest
from tiny_pairs import model_folder


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory) -> str:
    """TARGET_DIR+DRAFT_DIR: the draft is a first layer short of the target."""
    root = tmp_path_factory.mktemp("pair")
    for name, layers in (("target", 2), ("draft", 1)):
        model_folder(root / name, num_hidden_layers=layers, max_position_embeddings=512)
    return f"{root / 'target'}+{root / 'draft'}"


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """A cache folder of the test's own: what others have measured or fetched is not in it."""
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
