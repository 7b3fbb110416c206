"""The bad-input list, against the real engine thread: one clear sentence each, and the next request is served."""

import errno
import math
import re
import shutil

import pytest
import torch
from fake_engine import rest
from sample_traces import small
from tiny_models import fallback_tokenizer
from tiny_pairs import model_folder, request

from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput, EngineError, Unavailable
from engine.runtime.worker import Worker
from engine.trace.events import CostModel
from engine.trace.trace import fold, from_json, to_json


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("pairs")
    model_folder(root / "good")
    model_folder(root / "draft", noise=0.05)
    model_folder(root / "bare", template=None)
    model_folder(root / "stranger", tokenizer=fallback_tokenizer(), vocab_size=300)
    model_folder(root / "mamba", "mamba")
    for name in ("no weights", "cut weights", "junk weights", "no config", "no tokenizer", "pickle"):
        shutil.copytree(root / "draft", root / name)
    (root / "no weights" / "model.safetensors").unlink()
    (root / "pickle" / "model.safetensors").rename(root / "pickle" / "pytorch_model.bin")
    (root / "no config" / "config.json").unlink()
    (root / "no tokenizer" / "tokenizer.json").unlink()
    (root / "junk weights" / "model.safetensors").write_bytes(b"\xff" * 1000)
    cut = root / "cut weights" / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-100])
    return root


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(
            "engine.runtime.calibration.measure", lambda *args, **more: CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001)
        )
        patch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path_factory.mktemp("hub")))
        found = Worker("cpu", "fp32")
        yield found
        found.close()


def answer(worker, pair, **settings) -> str:
    return fold(rest(worker.submit([("run", request(pair, **settings))]))).text


def sentence(error: EngineError) -> str:
    """One line that ends, starts with a capital or a name, and shows nothing of Python's inside."""
    said = str(error)
    assert re.fullmatch(r"\S[^\n]{15,600}[.?]", said), said
    assert not re.search(r"Traceback|Error:|<class|object at 0x|stumbled", said), said
    return said


@pytest.fixture
def refused(worker, root):
    """Runs a bad request, with ``patch`` in force, between two good ones, which must agree; returns its sentence."""

    def check(patch=None, **settings) -> str:
        before = answer(worker, root / "good")
        with pytest.MonkeyPatch.context() as patched, pytest.raises(EngineError) as caught:
            for name, value in (patch or {}).items():
                patched.setattr(name, value)
            answer(worker, **({"pair": root / "good"} | settings))
        assert answer(worker, root / "good") == before
        return sentence(caught.value)

    return check


def failing(error: Exception):
    def fail(*args, **kwargs):
        raise error

    return fail


# --- settings: refused before they reach the engine ----------------------------------------------------------------

SETTINGS = [
    ({"prompt": ""}, "prompt is empty; type something"),
    ({"prompt": " \n\t\u3000"}, "prompt is empty; type something"),
    ({"prompt": None}, "prompt is empty"),
    ({"prompt": "half \ud83d"}, "half of a surrogate pair"),
    ({"gamma": -1}, "gamma is -1, but must be a whole number from 0 to 32"),
    ({"gamma": 33}, "gamma is 33"),
    ({"gamma": 2.5}, "gamma is 2.5"),
    ({"gamma": "many"}, "gamma is 'many'"),
    ({"gamma": True}, "gamma is True"),
    ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ({"max_new_tokens": 10**9}, "max_new_tokens is 1000000000"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": 2**63}, "seed is"),
    ({"stop": ("",)}, "Stop strings"),
    ({"stop": ("a",) * 17}, "Stop strings"),
]
SAMPLING = [
    ({"temperature": -0.5}, "temperature is -0.5, but must be a number from 0"),
    ({"temperature": math.nan}, "temperature is nan"),
    ({"temperature": math.inf}, "temperature is inf"),
    ({"temperature": "warm"}, "temperature is 'warm'"),
    ({"temperature": 1e-9}, "use 0 for greedy"),
    ({"top_k": -1}, "top_k is -1"),
    ({"top_p": 0.0}, "top_p is 0.0"),
    ({"top_p": 1.5}, "top_p is 1.5"),
    ({"min_p": -0.1}, "min_p is -0.1"),
    ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0"),
    ({"repetition_penalty": math.nan}, "repetition_penalty is nan"),
]


@pytest.mark.parametrize(("settings", "said"), SETTINGS, ids=str)
def test_settings(settings, said):
    with pytest.raises(BadInput) as caught:
        RunConfig(**({"prompt": "hi"} | settings))
    assert said in sentence(caught.value)


@pytest.mark.parametrize(("settings", "said"), SAMPLING, ids=str)
def test_sampling_settings(settings, said):
    with pytest.raises(BadInput) as caught:
        SamplingParams(**settings)
    assert said in sentence(caught.value)


# --- requests that only the engine can judge -----------------------------------------------------------------------


def test_a_prompt_longer_than_the_context(refused):
    assert "The prompt has 5000 tokens and up to 16 new ones" in refused(prompt="a" * 5000)


def test_an_unknown_pair(refused):
    assert "There is no pair 'smollm2-153m'; did you mean smollm2-135m" in refused(pair="smollm2-153m")
    assert "There is no folder" in refused(pair="/no/such/folder")


def test_an_unknown_method_and_one_that_the_pair_lacks(refused):
    assert "'magic' is not a method; choose from none, ngram." in refused(method="magic")
    assert "has no 'lm' draft; choose from none, ngram." in refused(method="lm")


def test_no_chat_template(refused, root):
    assert "no chat template; run it on raw text" in refused(pair=root / "bare", chat=True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no weights", "has no safetensors weights"),
        ("cut weights", "model.safetensors is damaged"),
        ("junk weights", "model.safetensors is damaged"),
        ("no config", "has no config.json"),
        ("no tokenizer", "has no tokenizer"),
        ("pickle", "is a pickle, which is never loaded"),
        ("mamba", "cannot be rolled back"),
    ],
)
@pytest.mark.parametrize("role", ["target", "draft"])
def test_missing_damaged_and_impossible_models(refused, root, name, said, role):
    if role == "target":
        assert said in refused(pair=root / name)
    else:
        assert said in refused(pair=f"{root / 'good'}+{root / name}", method="lm")


def test_a_draft_with_another_tokenizer(refused, root):
    assert "draft has another tokenizer" in refused(pair=f"{root / 'good'}+{root / 'stranger'}", method="lm")


def test_weights_that_went_bad_between_two_requests(refused, root, worker):
    pair = f"{root / 'good'}+{root / 'gone'}"
    shutil.copytree(root / "draft", root / "gone")
    answer(worker, pair)
    shutil.rmtree(root / "gone")
    assert "There is no folder" in refused(pair=pair, method="lm")


def test_too_little_memory_before_loading(refused, root):
    said = refused(pair=root / "bare", patch={"engine.weights.preflight.available_memory": lambda device="cpu": 10**6})
    assert re.search(r"needs about [\d.]+ GB in fp32 .* cpu has 1.0 MB free; choose a smaller pair", said)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory: 12 TB")],
)
def test_out_of_memory_while_loading(refused, root, error):
    said = refused(pair=root / "bare", patch={"engine.models.loader.LlamaModel": failing(error)})
    assert "bare does not fit into the memory of cpu; choose a smaller pair" in said


def test_no_disk_space_for_the_cache(refused):
    full = failing(OSError(errno.ENOSPC, "No space left on device"))
    said = refused(pair="smollm2-135m", patch={"engine.weights.store.need_disk": full})
    assert re.search(r"The disk that holds .* is full; free some space or name another cache folder", said)


def test_a_hub_that_cannot_be_reached(refused):
    gone = failing(ConnectionError("Connection refused"))
    assert "The hub cannot be reached for Qwen/Qwen3-4B" in refused(
        pair="qwen3-4b", patch={"engine.weights.hub._probe": gone}
    )


def test_a_corrupt_trace_stops_nothing(root, worker):
    with pytest.raises(BadInput) as caught:
        from_json(to_json(small())[:-20])
    sentence(caught.value)
    assert answer(worker, root / "good")


def test_errors_are_of_the_two_kinds_that_people_may_read():
    assert issubclass(BadInput, EngineError) and issubclass(Unavailable, EngineError)
