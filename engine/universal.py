"""Any transformers causal LM whose cache can be cropped, behind the Runner protocol: slower, never wrong.

Recurrent models and caches that cannot be rolled back are refused, by name where the config tells and otherwise by
trying it: tokens are fed, taken back and fed again, and must score the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from engine.errors import BadInput, Unavailable

_PREFILL_CHUNK = 512
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}


class UniversalRunner:
    """Chains only: trees need an attention mask that not every architecture takes."""

    trees = False
    captured = False

    def __init__(self, folder: Path, dtype: torch.dtype, device: str):
        try:
            model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, trust_remote_code=False, use_safetensors=True, local_files_only=True
            )
        except torch.OutOfMemoryError as error:
            raise Unavailable(f"{folder} does not fit into memory; choose a smaller pair or a lower precision.") from error
        except Exception as error:  # architectures fail to load in many ways; the reason is what helps
            raise Unavailable(f"transformers cannot load {folder}: {str(error).splitlines()[0][:300]}") from error
        self.model = model.to(device).eval()
        self.dtype, self.device = dtype, device
        text = model.config.get_text_config()
        self.vocab_size = model.get_output_embeddings().weight.shape[0]
        self.max_length = getattr(text, "max_position_embeddings", None) or 2048
        self.cache: DynamicCache | None = None
        self._refuse_if_it_cannot_roll_back()

    def _refuse_if_it_cannot_roll_back(self) -> None:
        kind = self.model.config.model_type
        refused = Unavailable(
            f"{kind} models keep a state that cannot be rolled back, so drafts cannot be taken back; "
            "speculative decoding needs a model with a key/value cache."
        )
        if getattr(self.model, "_is_stateful", False):
            raise refused
        try:
            self.reset(8)
            self.forward(torch.arange(1, 4, device=self.device) % self.vocab_size)
            probe = torch.arange(4, 7, device=self.device) % self.vocab_size
            first = self.forward(probe)
            self.rollback(3)
            again = self.forward(probe)
        except (AttributeError, NotImplementedError, TypeError, ValueError) as error:
            raise refused from error
        finally:
            self.release()
        if (first - again).abs().max() > _TOLERANCE[self.dtype]:
            raise refused

    @property
    def length(self) -> int:
        return self.cache.get_seq_length() if self.cache is not None else 0

    def reset(self, capacity: int) -> None:
        if capacity > self.max_length:
            raise BadInput(
                f"Prompt and answer together need {capacity} tokens, but this model's context is {self.max_length}; "
                "shorten the prompt or ask for fewer new tokens."
            )
        self.cache = DynamicCache()

    @torch.inference_mode()
    def prefill(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), _PREFILL_CHUNK):
            self.forward(torch.tensor(ids[start : start + _PREFILL_CHUNK], device=self.device), last=True)

    @torch.inference_mode()
    def forward(self, tokens, parents=None, last=False):
        assert parents is None, "this model runs chains only"
        output = self.model(
            tokens[None], past_key_values=self.cache, use_cache=True, logits_to_keep=1 if last else 0
        )
        return output.logits[0]

    def loop(self, key, total: int, body: Callable):
        return body(lambda ids, offset: self.forward(ids, last=True))

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        surplus = self.length - length
        if surplus:
            self.cache.crop(-surplus)

    def keep(self, base: int, nodes: list[int]) -> None:
        assert nodes == list(range(len(nodes))), "this model runs chains only"
        self.rollback(base + len(nodes))

    def release(self) -> None:
        self.cache = None

    def close(self) -> None:
        self.release()
        self.model = None
