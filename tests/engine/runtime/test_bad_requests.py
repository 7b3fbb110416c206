"""The bad-input list, against the real engine thread: one clear sentence each, and the next request is served."""

import errno
import math
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from fake_engine import rest
from tiny_models import byte_tokenizer
from tiny_pairs import engine_in, model_folder, request, run

from engine.config import RunConfig, SamplingParams
from engine.errors import BadInput, EngineError
from engine.models.loader import load_model
from engine.runtime.worker import Worker
from engine.tools.cli.corpus import save
from engine.trace.costs import CostModel
from engine.trace.trace import fold
from engine.weights import corpus_file

# A folder's name → one of its files, the new content (or what becomes of the old; None: no file), part of the sentence.
BROKEN = {
    "no weights": ("model.safetensors", None, "has no safetensors weights"),
    "cut weights": ("model.safetensors", lambda data: data[:-100], "bytes instead of"),
    "no config": ("config.json", None, "has no config.json"),
    "cut config": ("config.json", b"{", "config.json is damaged"),
    "config of words": ("config.json", lambda data: data.replace(b'"hidden_size": 64', b'"hidden_size": "many"'),
                        "gives no hidden_size"),
    "another's config": ("config.json", lambda data: data.replace(b'"hidden_size": 64', b'"hidden_size": 128'),
                         "(264, 64), but config.json says (264, 128)"),
    "no tokenizer": ("tokenizer.json", None, "has no tokenizer"),
    "empty tokenizer": ("tokenizer.json", b"{}", "empty tokenizer"),
    "end tokens as a list": ("generation_config.json", b"[1]", "generation_config.json is damaged"),
}  # fmt: skip


@pytest.fixture(scope="module")
def root(pairs):
    root = pairs.root
    for name in ("pickle", *BROKEN):
        shutil.copytree(root / "draft", root / name)
    (root / "pickle" / "model.safetensors").rename(root / "pickle" / "pytorch_model.bin")
    for name, (file, change, _) in BROKEN.items():
        path = root / name / file
        if change is None:
            path.unlink()
        else:
            path.write_bytes(change(path.read_bytes()) if callable(change) else change)
    return root


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        costs = CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001)
        patch.setattr("engine.runtime.calibration.measure", lambda *args, **more: costs)
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
    assert not re.search(r"Traceback|Error:|<class|object at 0x|unexpected error", said), said
    return said


@pytest.fixture(scope="module")
def good_answer(worker, root):
    return answer(worker, root / "target")


@pytest.fixture
def refused(worker, root, good_answer):
    """Runs a bad request, with ``patch`` in force, and a good one after it; returns the sentence of the bad one."""

    def check(patch: dict | None = None, **settings) -> str:
        with pytest.MonkeyPatch.context() as patched, pytest.raises(EngineError) as caught:
            for name, value in (patch or {}).items():
                patched.setattr(name, value)
            pair = settings.pop("pair", "target")
            pair = "+".join(str(root / part) if (root / part).is_dir() else part for part in pair.split("+"))
            answer(worker, pair, **settings)
        assert answer(worker, root / "target") == good_answer
        return sentence(caught.value)

    return check


def failing(error: Exception):
    def fail(*args, **kwargs):
        raise error

    return fail


SETTINGS = [
    ({"prompt": ""}, "prompt is empty; type something"),
    ({"prompt": None}, "prompt is empty"),
    ({"prompt": "half \ud83d"}, "half of a surrogate pair"),
    ({"gamma": -1}, "gamma is -1, but must be a whole number from 0 to 32"),
    *(({"gamma": gamma}, f"gamma is {gamma!r}") for gamma in (33, 2.5, "many")),
    ({"gamma": True}, "gamma is true"), ({"precision": None}, "precision is null"),
    *(({"max_new_tokens": limit}, f"max_new_tokens is {limit}") for limit in (0, 10**9)),
    *(({"seed": seed}, f"seed is {seed}") for seed in (-1, 2**63)),
    *(({"stop": stop}, "Stop strings") for stop in (("",), ("a",) * 17)),
    ({"precision": "int1"}, "precision is 'int1'"),
    ({"acceptance": "lenient"}, "acceptance is 'lenient'; choose from token, block"),
    *(({"acceptance": "typical", "own_settings": {name: value}}, f"{name} is {value}, but must be a number from 0 to 1")
      for name, value in (("epsilon", 1.5), ("epsilon", -0.1), ("delta", 2), ("delta", math.nan))),
]  # fmt: skip
SAMPLING = [
    ({"temperature": -0.5}, "temperature is -0.5, but must be a number from 0"),
    *(({"temperature": value}, f"temperature is {value!r}") for value in (math.nan, math.inf, "warm")),
    ({"temperature": 1e-9}, "use 0 for greedy"),
    ({"top_k": -1}, "top_k is -1"),
    *(({"top_p": value}, f"top_p is {value}") for value in (0.0, 1.5)),
    ({"min_p": -0.1}, "min_p is -0.1"),
    *(({"repetition_penalty": value}, f"repetition_penalty is {value}") for value in (0.0, math.nan)),
]
LOOKAHEAD = [
    ({"window": 0}, "window is 0, but must be a whole number from 1 to 16"),
    ({"ngram_size": 1}, "ngram_size is 1, but must be a whole number from 2 to 8"),
    ({"guesses": 2.5}, "guesses is 2.5, but must be a whole number from 1 to 16"),
    ({"window": 16, "ngram_size": 8}, "make 147 rows a round; choose smaller ones"),
    ({"widnow": 3}, "no setting 'widnow'; choose from epsilon, delta, window"),
]


def own_settings(**settings):
    return RunConfig("hi", method="lookahead", own_settings=settings)


def test_a_wrong_setting_is_refused_with_a_sentence():
    kinds = (partial(RunConfig, prompt="hi"), SETTINGS), (SamplingParams, SAMPLING), (own_settings, LOOKAHEAD)
    for kind, settings, said in ((kind, *row) for kind, rows in kinds for row in rows):
        with pytest.raises(BadInput) as caught:
            kind(**settings)
        assert said in sentence(caught.value)


MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("can't allocate memory: 12 TB"), MemoryError(),
    RuntimeError("Exception during initialization: Failed to allocate memory for requested buffer of size 12"),
)  # fmt: skip
NO_ONNX = {"engine.models.onnx.session.works": lambda: False}
LITTLE_MEMORY = {"engine.weights.preflight.available_memory": lambda device="cpu": 10**6}
FULL_DISK = {"engine.weights.store.need_disk": failing(OSError(errno.ENOSPC, "No space left on device"))}
NO_HUB = {"engine.weights.hub._probe": failing(ConnectionError("Connection refused"))}
REQUESTS = [
    ({"prompt": "a" * 5000}, {}, r"The prompt has 5,000 tokens; with up to 16 new ones that is too many"),
    ({"pair": "smollm2-153m"}, {}, r"There is no pair 'smollm2-153m'; did you mean smollm2-135m"),
    ({"pair": "/no/such/folder"}, {}, r"There is no folder"),
    ({"method": "magic"}, {}, r"'magic' is not a method; choose from none, ngram, quantised, lookahead\."),
    ({"method": "lm"}, {}, r"has no 'lm' draft; choose from none, ngram, quantised, lookahead\."),
    ({"pair": "bare", "chat": True}, {}, r"no chat template; run it on raw text"),
    ({"pair": "target+stranger", "method": "lm"}, {}, r"no token in common with the target's, so"),
    ({"pair": "bare"}, LITTLE_MEMORY, r"about [\d.]+ GB in fp32 .* cpu has 1.0 MB free; choose a smaller pair"),
    ({"pair": "target+cut weights", "method": "lm"}, {}, r"bytes instead of"),
    ({"pair": "bare"}, NO_ONNX | {"engine.models.loader.LlamaModel": failing(MEMORY[0])},
     r"bare does not fit into the memory of cpu; choose a smaller pair"),
    ({}, {"engine.models.onnx.llama.OnnxLlama.new_cache": failing(MEMORY[0])}, r"request does not fit into the memory"),
    ({"pair": "smollm2-135m"}, FULL_DISK, r"The disk that holds .* is full; free some space or name another cache"),
    ({"pair": "qwen3-4b"}, NO_HUB, r"The hub cannot be reached for Qwen/Qwen3-4B"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "patch", "said"), REQUESTS, ids=[said[:40] for *_, said in REQUESTS])
def test_a_request_that_only_the_engine_can_judge(refused, settings, patch, said):
    assert re.search(said, refused(patch, **settings))


@pytest.mark.parametrize(
    ("pair", "where", "error"),
    [("bare", "engine.models.onnx.llama.OnnxLlama", MEMORY[0]),
     ("gpt2", "transformers.AutoModelForCausalLM.from_pretrained", MEMORY[0]),
     *(pytest.param(*case, marks=pytest.mark.slow) for case in (
         ("bare", "engine.models.onnx.llama.OnnxLlama", MEMORY[1]),
         ("bare", "engine.models.onnx.llama.OnnxLlama", MEMORY[2]),
         ("bare", "onnxruntime.InferenceSession", MEMORY[3]),
         ("gpt2", "engine.models.loader.TransformersRunner.forward", MEMORY[1])))],
)  # fmt: skip
def test_a_full_memory_names_the_pair(refused, pair, where, error):
    said = refused({where: failing(error)}, pair=pair)
    assert f"{pair} does not fit into the memory of cpu; choose a smaller pair" in said


@pytest.mark.parametrize(("name", "said"), [
    *((name, said) for name, (*_, said) in BROKEN.items()),
    ("pickle", "a pickle, which is never loaded"),
    *((name, f"{name} models keep a state that cannot be rolled back") for name in ("mamba", "recurrent_gemma")),
])  # fmt: skip
def test_missing_damaged_and_impossible_models(worker, root, name, said):
    with pytest.raises(EngineError) as caught:
        answer(worker, root / name)
    assert said in sentence(caught.value)
    with pytest.raises(EngineError) as caught:
        load_model(root / name, "cpu", "fp32")
    assert name in sentence(caught.value)


def test_weights_that_went_bad_between_two_requests(refused, root, worker):
    shutil.copytree(root / "draft", root / "gone")
    answer(worker, f"{root}/target+{root}/gone")
    shutil.rmtree(root / "gone")
    assert "There is no folder" in refused(pair=f"target+{root}/gone", method="lm")


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_a_prompt_with_a_token_beyond_the_model_is_refused_by_its_name(own_cache, tmp_path, runtime):
    """Its tokenizer has 261 tokens; texts without the last ones run."""
    model_folder(tmp_path / "small", vocab_size=256)
    engine = engine_in(runtime, tmp_path / "small", "none")
    with pytest.raises(BadInput, match="token 'the', number 259, but the model has only 256 tokens"):
        run(engine, prompt="see the cat")
    assert len(run(engine, prompt="a cat").emitted) == 16


def test_a_corpus_with_a_token_beyond_the_model_is_refused(tmp_path):
    save(tmp_path / "c.npz", [np.array([3, 259, 4])], byte_tokenizer())
    with pytest.raises(BadInput, match="token 259, but the target has only 256"):
        corpus_file.load(tmp_path / "c.npz", byte_tokenizer(), 256)
    assert len(corpus_file.load(tmp_path / "c.npz", byte_tokenizer(), 264)) == 4


def test_a_special_token_that_is_a_stop_text_ends_a_run(own_cache, tmp_path):
    model_folder(tmp_path)
    engine, config = engine_in("onnx", tmp_path, "none"), request(tmp_path, stop=("<end>",), prefix=(1,))
    with pytest.raises(BadInput, match="The forced token ends the text"):
        next(engine.run(config, stop_at_eos=False))
    assert next(engine.run(replace(config, stop=("<pad>",)), stop_at_eos=False))
