"""Gives the tests of this folder an empty cache, and a hub on this machine."""

import pytest
from hubs import hub

__all__ = ["hub"]


@pytest.fixture(autouse=True)
def cache(own_cache):
    return own_cache
