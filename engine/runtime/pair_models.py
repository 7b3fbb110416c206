"""Loads the models of one pair on one device, and keeps the hash of each folder's weights."""

import gc
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch

from engine.config import ROUNDED
from engine.device import return_memory
from engine.errors import Unavailable, percent
from engine.files import ProgressCallback, cache_root, gigabytes, read_json, write_file
from engine.models.decoder.prompt_cache import PromptCache, prompt_cache_limit
from engine.models.decoder.rounding_check import moved_probability
from engine.models.decoder.runner import DecoderRunner
from engine.models.decoder.transformers_config import load_config
from engine.models.heads.loader import load_head, runner_of
from engine.models.loader import LoadedModel, load_model, runs_in_onnx
from engine.models.onnx import session as onnx_session
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.preflight import available_memory
from engine.weights.specs import ModelSpec, PairSpec
from engine.weights.store import locate

NEEDS_STATES = "{} reads hidden states, which only our own decoder gives; use another method."
MOST_MOVED = 0.1  # probability that rounding may move in a draft; acceptance falls by no more than that


class PairModels:
    """``precision``: the target's, which is loaded at once. ``progress`` is called during each load. ``hashes``: the
    hash of the weights in each loaded folder. ``notes``: sentences about drafts that run in another way than asked for,
    by name."""

    def __init__(self, pair: PairSpec, device: str, precision: str, progress: ProgressCallback):
        self.pair, self.device, self.precision, self.progress = pair, device, precision, progress
        self.hashes: dict[Path, str] = {}
        self.prompts = PromptCache(prompt_cache_limit())
        self.notes: dict[str, str] = {}
        self.target = self.load(pair.target, "the target", precision)
        self.hashes[self.target.folder] += self._rounding()
        self.share_cores()

    def folder(self, spec: ModelSpec) -> Path:
        """Returns the folder of a model's weights. Raises Unavailable if they are not on this machine."""
        folder = locate(spec)
        if folder is None:
            raise Unavailable(
                f"The weights of {spec.name} are not here yet; run `python -m engine fetch {self.pair.name}` first."
            )
        return folder

    def load(self, spec: ModelSpec, what: str, precision: str) -> LoadedModel:
        folder, step = self.folder(spec), f"Loading {what}, {spec.name}"
        self.progress(0.0, step)
        model = load_model(folder, self.device, precision, lambda share: self.progress(share, step))
        self.hashes.setdefault(folder, weights_hash(folder))  # a copy of the target keeps the target's
        return model

    def load_draft(self, spec: ModelSpec) -> LoadedModel:
        """Loads a draft model or a head. Beside a rounded target a draft model is rounded, too, unless that ruins its
        guesses; those shipped here are in 8 bits beside any target. Raises Unavailable where the memory does not
        suffice."""
        precision = self._draft_precision(spec)
        self._check_memory(f"The draft {spec.name}", spec.memory(precision))
        if spec.head:
            draft = self._load_head(spec)
        elif precision in ROUNDED and spec.alpha is None:
            draft = self._load_rounded(spec, precision)
        else:
            draft = self.load(spec, "the draft", precision)
        self.share_cores()
        return draft

    def _draft_precision(self, spec: ModelSpec) -> str:
        if spec.alpha is not None and runs_in_onnx(self.device, "int8"):
            return "int8"
        return "fp32" if self.precision in ROUNDED and not self.runs_in_onnx else self.precision

    def _load_rounded(self, spec: ModelSpec, precision: str) -> LoadedModel:
        """Loads the draft in the target's precision, or in fp32, with a note, where it cannot be rounded or would then
        guess other words."""
        try:
            draft = self.load(spec, "the draft", precision)
            moved = self._move(draft, precision)
            if moved <= MOST_MOVED:
                if getattr(draft.runner.model, "doubles_rows", False):  # reading a kept prompt again costs less
                    draft.runner.model.give_up_same_bits()
                if draft.folder != self.target.folder:
                    self.hashes[draft.folder] += f"-{precision}"
                return draft
            draft.runner.close()
            reason = f"in {precision} it would move {percent(moved)} of its probability to other words."
        except Unavailable as error:
            reason = str(error)
        self._check_memory(f"The draft {spec.name}", spec.memory("fp32"))
        draft = self.load(spec, "the draft in fp32", "fp32")
        self.notes[spec.name] = f"The draft {spec.name} runs in fp32, which is slower: {reason}"
        return draft

    def _move(self, draft: LoadedModel, precision: str) -> float:
        """Measures how much probability rounding moves in a draft, once for each file."""
        cached = cache_root() / "rounding" / f"{self.hashes[draft.folder]}-{precision}.json"
        known = read_json(cached).get("moved")
        if isinstance(known, float):
            return known
        self.progress(1.0, f"Comparing the draft in {precision} with its own fp32")
        onnx_session.share_cores(is_onnx=False)
        moved = moved_probability(draft.folder, load_config(draft.folder), draft.runner, draft.tokenizer)
        with suppress(Unavailable):  # without a cache it is measured again next time
            write_file(cached, json.dumps({"moved": moved}))
        return moved

    def load_copy(self) -> DecoderRunner:
        """Loads the target in int4. Raises Unavailable where it would not be faster than the target."""
        if self.precision != "fp32" or not isinstance(self.target.runner, DecoderRunner):
            raise Unavailable(
                f"An int4 copy drafts for a target in fp32 on our own decoder, not in {self.precision}; use another "
                "method."
            )
        if not self.runs_in_onnx:
            reason = onnx_session.problem() or "Use another method."
            raise Unavailable(f"An int4 copy is quicker than its target only where ONNX Runtime runs both. {reason}")
        self._check_memory("An int4 copy", self.pair.target.weight_bytes("int4"))
        copy = cast(DecoderRunner, self.load(self.pair.target, "the target's int4 copy", "int4").runner)
        copy.model.give_up_same_bits()
        return copy

    def _load_head(self, spec: ModelSpec) -> LoadedModel:
        target, folder = self.target, self.folder(spec)
        if not isinstance(target.runner, DecoderRunner):
            raise Unavailable(NEEDS_STATES.format(spec.name))
        self.progress(0.0, f"Loading {spec.name}")
        with torch.inference_mode():
            model = load_head(spec.head, folder, target.runner.model)
            head, reads = runner_of(spec.head, model, target.runner)
        target.runner.tap(sorted({*target.runner.model.taps, *reads}))
        self.hashes[folder] = weights_hash(folder)
        in_torch = "fp32" if self.precision in ROUNDED else self.precision
        precision = getattr(model, "precision", in_torch)  # only ONNX Runtime runs a head in a precision of its own
        return LoadedModel(head, target.tokenizer, target.eos, folder, precision)

    def _check_memory(self, what: str, needed: int) -> None:
        self.prompts.make_room(needed, self.device)
        free = available_memory(self.device)
        if free is not None and needed > free:
            raise Unavailable(
                f"{what} needs about {gigabytes(needed)} beside the target, but {self.device} has {gigabytes(free)} "
                "free; choose another method or a smaller pair."
            )

    def share_cores(self) -> None:
        """Shares the cores after a load: torch has them where it computes the target."""
        return_memory()
        if torch.device(self.device).type == "cpu":
            onnx_session.share_cores(self.runs_in_onnx)

    @property
    def runs_in_onnx(self) -> bool:
        """Whether ONNX Runtime computes the target's passes."""
        runner = self.target.runner
        return isinstance(runner, DecoderRunner) and runner.model.on_host

    def _rounding(self) -> str:
        """Returns the suffix that tells a rounded model's hash from the original's. "-dense" marks products that round
        the weights alone."""
        if self.precision not in ROUNDED:
            return ""
        return f"-{self.precision}" + ("" if self.runs_in_onnx else "-dense")

    def check_bits(self) -> None:
        """Raises Unavailable where a rounded target would score drafts with other bits than a plain step."""
        if self.precision in ROUNDED and self.runs_in_onnx and not self.target.runner.same_bits:
            raise Unavailable(
                f"On this processor a pass over drafts gives an {self.precision} target other numbers than plain "
                "steps, so drafting would change its text; choose fp32, or the method none."
            )

    def check_trees(self) -> None:
        """Raises Unavailable for a target that runs chains only."""
        if not self.target.runner.trees:
            raise Unavailable(
                f"Lookahead scores a tree, which this target in {self.precision} cannot; choose another precision, or "
                "another method."
            )

    def close(self, drafts: Iterable[LoadedModel]) -> None:
        """Releases all memory of the target and ``drafts``, even if other objects still refer to them."""
        self.prompts.clear()
        for model in (self.target, *drafts):
            model.runner.close()
            model.runner = None
        gc.unfreeze()
        gc.collect()  # transformers' modules refer to themselves
        return_memory()
        if torch.device(self.device).type == "cuda":
            torch.cuda.empty_cache()
