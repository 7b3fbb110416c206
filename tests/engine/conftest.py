"""Shares one tiny pair among all tests of the engine, and folders of unlike models."""

from types import SimpleNamespace

import pytest
from head_cases import write_heads
from tiny_models import OTHERS, seeded
from tiny_pairs import VOCABULARY, model_folder
from unlike_tokenizers import letters


@pytest.fixture(autouse=True)
def own_numbers():
    """Gives every test the same random numbers, whichever tests ran before it."""
    with seeded(0):
        yield


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory) -> str:
    """TARGET_DIR+DRAFT_DIR: the draft is a first layer short of the target."""
    root = tmp_path_factory.mktemp("pair")
    for name, layers in (("target", 2), ("draft", 1)):
        model_folder(root / name, num_hidden_layers=layers, max_position_embeddings=512, seed=1, initializer_range=0.15)
    return f"{root / 'target'}+{root / 'draft'}"


@pytest.fixture(scope="session")
def pairs(tmp_path_factory):
    """``root``: a folder of models, of which "draft" often agrees with "target"; ``models``: transformers' own."""
    root = tmp_path_factory.mktemp("pairs")
    settings = {
        "target": {},
        "draft": {"noise": 0.05},
        "other": {"seed": 3},
        "wider": {"vocab_size": VOCABULARY + 40},
        "short": {"max_position_embeddings": 48},
        "bare": {"template": None},
        "stranger": {"tokenizer": letters(*"αβγ"), "vocab_size": 300},
        **{name: {"name": name} for name in OTHERS},
    }
    return SimpleNamespace(root=root, models={name: model_folder(root / name, **own) for name, own in settings.items()})


@pytest.fixture(scope="session")
def heads(tmp_path_factory):
    """Writes a head of each kind into ``root/KIND``. ``models``: transformers' own target; ``students``: the trained
    module; ``pair(kind)``: the name of the pair."""
    return write_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """A cache folder of the test's own: what others have measured or fetched is not in it."""
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
