"""A fake CUDA device for each test."""

import pytest
from fake_cuda import FakeCuda


@pytest.fixture
def cuda(monkeypatch):
    return FakeCuda(monkeypatch)


@pytest.fixture
def eager_cuda(monkeypatch):
    """Returns a device without captured graphs, as where SPECLENS_CUDA_GRAPHS is 0."""
    return FakeCuda(monkeypatch, captured=False)
