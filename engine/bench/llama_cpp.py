"""Runs one request on llama.cpp (llama-cpp-python, where it is installed): plain, or with its own prompt lookup.

It reads the very GGUF file of the pair, gets the same ids and as many threads, and ends at the same ids.
"""

import time
from dataclasses import dataclass, field

import torch

from engine.bench.benchmark import Cancelled, never
from engine.bench.sample import Sample
from engine.config import RunConfig
from engine.decoding.tokenization import encode_prompt
from engine.device import peak_memory
from engine.errors import BadInput, Unavailable
from engine.runtime.engine import Engine

LLAMA_CPP = ("llama-cpp", "llama-cpp-lookup")
_LOOKUP_TOKENS = 10  # drafted at a time: the default of its own class


@dataclass
class LlamaCppSystem:
    engine: Engine
    name: str
    setting: None = None
    _models: dict = field(default_factory=dict)  # by context length

    def __post_init__(self):
        if self.engine.gguf is None:
            raise BadInput(f"{self.name} reads GGUF files, but {self.engine.pair.name} has none; leave it out.")

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        """Greedy requests only: its samplers draw other numbers."""
        if not config.sampling.greedy or config.sampling.repetition_penalty != 1.0:
            raise BadInput(f"{self.name} is compared at temperature 0 without a penalty; set --temperature 0.")
        prompt, eos = encode_prompt(self.engine.target.tokenizer, config), self.engine.target.eos
        model = self._model(len(prompt) + config.max_new_tokens + _LOOKUP_TOKENS + 1)
        model.reset()
        ids, times, start = [], [], time.perf_counter()
        for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0, reset=True):
            ids.append(int(token))
            times.append(time.perf_counter())
            if token in eos or len(ids) >= config.max_new_tokens or cancelled():
                break
        # As with transformers: the first token comes out of the pass over the prompt.
        return Sample(
            tokens=len(ids), seconds=times[-1] - start, decode_seconds=times[-1] - times[0], decode_tokens=len(ids) - 1,
            ttft=times[0] - start, passes=len(ids), peak_memory=peak_memory("cpu"), ids=tuple(ids),
        )  # fmt: skip

    def _model(self, context: int):
        context = -(-context // 512) * 512
        if context not in self._models:
            llama_cpp = _package()
            lookup = None
            if self.name == "llama-cpp-lookup":
                from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

                lookup = LlamaPromptLookupDecoding(num_pred_tokens=_LOOKUP_TOKENS)
            threads = torch.get_num_threads()
            self._models = {
                context: llama_cpp.Llama(
                    str(self.engine.gguf), n_ctx=context, n_threads=threads, n_threads_batch=threads,
                    draft_model=lookup, logits_all=lookup is not None, verbose=False,
                )
            }  # fmt: skip
        return self._models[context]


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
