"""Runs one request on llama.cpp (llama-cpp-python, where it is installed): plain, or with its own prompt lookup.

It reads the very GGUF file of the pair, gets the same ids and as many threads, and ends at the same ids.
"""

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from engine.config import RunConfig
from engine.decoding.tokenization import encode_prompt
from engine.device import peak_memory
from engine.errors import BadInput, Unavailable
from engine.models.onnx.session import threads
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import Cancelled, never
from engine.tools.bench.sample import Sample

LLAMA_CPP = ("llama-cpp", "llama-cpp-lookup")
_SPINNING = 0.1  # seconds after which our threads surely sleep
_LOOKUP_TOKENS = 10  # drafted at a time: the default of its own class


@dataclass
class LlamaCppSystem:
    engine: Engine
    name: str
    setting: str | None = None  # it has none; every system says
    _model: Any = None

    def __post_init__(self):
        if self.engine.gguf is None:
            raise BadInput(f"{self.name} reads GGUF files, but {self.engine.pair.name} has none; leave it out.")

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        """Runs greedy requests only, because its samplers draw other numbers."""
        if not config.sampling.greedy or config.sampling.repetition_penalty != 1.0:
            raise BadInput(f"{self.name} is compared at temperature 0 without a penalty; set --temperature 0.")
        prompt, eos = encode_prompt(self.engine.target.tokenizer, config), self.engine.target.eos
        model = self._load(len(prompt) + config.max_new_tokens + _LOOKUP_TOKENS + 1)
        model.reset()
        before = 0 if model.draft_model is None else model.draft_model.calls
        ids, times = [], []
        with cores_for_others():
            start = time.perf_counter()
            for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0, reset=True):
                ids.append(int(token))
                times.append(time.perf_counter())
                if token in eos or len(ids) >= config.max_new_tokens or cancelled():
                    break
        passes = len(ids) if model.draft_model is None else model.draft_model.calls - before + 1
        # As with transformers: the first token comes out of the pass over the prompt.
        return Sample(
            tokens=len(ids), seconds=times[-1] - start, decode_seconds=times[-1] - times[0], decode_tokens=len(ids) - 1,
            ttft=times[0] - start, passes=passes, peak_memory=peak_memory("cpu"), ids=tuple(ids),
        )  # fmt: skip

    def _load(self, context: int):
        """Returns the model with room for ``context`` tokens or more."""
        if self._model is None or self._model.n_ctx() < context:
            lookup = _Lookup() if self.name == "llama-cpp-lookup" else None
            self._model = open_model(cast(Path, self.engine.gguf), context, lookup is not None, lookup)
        return self._model


def open_model(gguf: Path, context: int, all_logits: bool, lookup=None):
    """Opens the file in llama.cpp, with room for ``context`` tokens and as many threads as we take. Raises Unavailable
    where the package is missing."""
    llama_cpp, count = _package(), threads()
    return llama_cpp.Llama(
        str(gguf), n_ctx=-(-context // 512) * 512, n_threads=count, n_threads_batch=count, draft_model=lookup,
        logits_all=all_logits, verbose=False,
    )  # fmt: skip


class _Lookup:
    """llama-cpp-python's own prompt lookup; ``calls`` counts how often it drafted: after every pass but the last."""

    def __init__(self):
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

        self.calls, self._lookup = 0, LlamaPromptLookupDecoding(num_pred_tokens=_LOOKUP_TOKENS)

    def __call__(self, ids, **options):
        self.calls += 1
        return self._lookup(ids, **options)


def _package():
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError) as error:
        raise Unavailable(
            "llama-cpp needs the package llama-cpp-python; run `pip install llama-cpp-python` or leave it out."
        ) from error
    if not hasattr(llama_cpp, "Llama"):
        raise Unavailable("The package llama_cpp here is not llama-cpp-python; install that or leave llama-cpp out.")
    return llama_cpp


@contextmanager
def cores_for_others():
    """Leaves the cores to another runtime while the block runs: torch has its threads, and ours no longer spin, as they
    do for 30 to 50 ms after a pass (onnxruntime 1.32)."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads())
    time.sleep(_SPINNING)
    try:
        yield
    finally:
        torch.set_num_threads(before)
