"""Shares one tiny pair among all tests of the engine."""

import pytest
from byte_llama import make_tiny


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory) -> str:
    """TARGET_DIR+DRAFT_DIR: the draft is a first layer short of the target."""
    root = tmp_path_factory.mktemp("pair")
    return f"{make_tiny(root / 'target')}+{make_tiny(root / 'draft', layers=1)}"
