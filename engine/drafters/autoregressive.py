"""Shares the drafting loop of all draft models: one pass a token, each drawn from q with the target's own settings.

Dimension key: N drafts, V target vocabulary, Vd words the draft can guess.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from engine.config import MAX_GAMMA
from engine.device import to_device, to_host
from engine.drafters.base import PER_TOKEN, Draft, Drafter, DrafterSetup, DraftOffer, DraftPolicy, Keys
from engine.sampling.constraint import Path, mask_guesses, unpack
from engine.sampling.random_streams import DRAFTING
from engine.sampling.top_words import likeliest
from engine.sampling.warping import draw, penalise, warp

LONGEST_CATCH_UP = 8  # committed tokens fed together with the first step; more than that are prefilled
_ACCEPTANCE = (0.12, 0.23, 0.35, 0.44, 0.53, 0.62, 0.73, 0.78, 0.87, 0.95)  # by tenth of certainty
_BUCKETS = len(_ACCEPTANCE)
NOT_FINITE = -1  # the certainty of a row that is not finite
_CAPTURED = "captured"  # the only key inside a CUDA graph, where decisions per token are impossible


class AutoregressiveDrafter(Drafter):
    """Base of drafters with a draft model. A subclass updates the model's cache in `propose` and calls `run_loop`; one
    whose model draws differently overrides `own_id`, `guesses`, `next_inputs` or `keys`.

    Acceptance is predicted by the draft model's own certainty, so its confidence keys are the highest probability of
    the unwarped distribution in tenths. Inside a captured CUDA graph γ is fixed before the round instead.
    """

    name: str
    reads_prompt: ClassVar[bool] = True
    is_parallel: ClassVar[bool] = False  # whether one pass gives the rows of all tokens
    is_scored: ClassVar[bool] = True  # whether these tokens, and no others of their text, get the target's rows
    shortest: ClassVar[int] = 1  # tokens of the shortest text after which it can draft
    spare: ClassVar[int] = 0  # tokens that its cache holds beside the text's
    target_ids: Any = None  # tensor [Vd]: the target's id of each draft word; None where the ids are the same
    # Share of greedy drafts accepted at each certainty, over the shipped drafts' held-out prompts. It nearly equals
    # the certainty itself, at any draft position, for the head and the small model alike.
    priors: ClassVar[Any] = {PER_TOKEN: 0.5, _CAPTURED: 0.5, **dict(enumerate(_ACCEPTANCE))}

    def __init__(self, runner: Any):
        self.runner = runner
        self._buffers: dict[tuple, torch.Tensor] = {}

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup = setup
        self.runner.reset(min(setup.capacity + self.spare, self.runner.max_length))

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        return DraftOffer(self, self.keys(), partial(self.propose, text)) if len(text) >= self.shortest else None

    def keys(self) -> Keys:
        return (_CAPTURED,) * MAX_GAMMA if self.runner.captured else PER_TOKEN

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        """Makes the draft of a `DraftOffer`."""
        raise NotImplementedError

    def memory(self, capacity: int) -> int:
        return self.runner.memory(capacity)

    def release(self) -> None:
        self.runner.release()

    def run_loop(self, ids: torch.Tensor, u: torch.Tensor, policy: DraftPolicy | None, **inputs: torch.Tensor) -> Draft:
        """Feeds ``ids`` [W], the model's own, with its further inputs, then drafts one token a pass by ``u`` [gamma];
        on CUDA all of it is one graph. Appends up to W + gamma − 1 tokens to the cache."""
        runner, seen = self.runner, self.penalised_tokens()
        policy = None if runner.captured else policy
        key = (self.name, len(ids), len(u), self.setup.sampling)  # the buffers are the drafter's own
        return runner.loop(key, len(ids) + len(u) - 1, lambda step: self.draft(step, ids, inputs, u, seen, policy))

    def own_id(self, token: torch.Tensor) -> torch.Tensor:
        """Returns the model's id [1] of a token that it drafted."""
        return token

    def guesses(self, logits: torch.Tensor) -> torch.Tensor:
        """Returns the logits [1, Vd] of the words that it may draft."""
        return logits

    def next_inputs(self, state: torch.Tensor | None) -> dict[str, Any]:
        """Returns the model's inputs beside a drafted token, from its own outgoing state."""
        return {}

    def draft(self, step: Callable, ids, inputs: Mapping, u: torch.Tensor, seen: torch.Tensor | None, policy) -> Draft:
        """Drafts up to gamma tokens by ``u`` [gamma]; ``step`` as in `Runner.loop`, the rest as in `run_loop`. With a
        ``policy`` the chain ends before a token that is not worth verifying is drawn, and in any case before one whose
        row is not finite. Where the host does not look at each row, ``finite`` of the draft tells."""
        tokens, q_rows, path, passes, offset, tops, is_broken = [], [], [], 0, 0, [], False
        seen = None if seen is None else seen.clone()
        while len(tokens) < len(u):
            logits, state = step(ids, offset, **inputs)
            offset, passes = offset + len(ids), 1 if self.is_parallel else passes + 1
            logits = self.mask_guess(self.guesses(logits)[:, : self.setup.vocab_size].float(), tokens)
            if policy is not None:
                path += certainties(logits)
                is_broken = path[-1] == NOT_FINITE
                if is_broken or (self.is_scored and not policy.worth_verifying(path)):
                    path.pop()
                    break
            elif logits.device.type == "cpu":
                if is_broken := not math.isfinite(logits.max()):
                    break
            else:
                tops.append(logits.amax(-1))
            token, q = self.sample(logits, seen, u[len(tokens) : len(tokens) + 1])
            tokens.append(token)
            q_rows.append(q)
            if policy is not None and not self.is_parallel and not policy.worth_drafting(path):
                break
            ids, inputs = self.own_id(token), self.next_inputs(state)
        finite = torch.full_like(u[:1], math.nan) if is_broken else torch.cat(tops) if tops else None
        if not tokens:
            empty = torch.zeros(0, dtype=torch.long, device=self.setup.device)
            return Draft(empty, passes=passes, finite=finite)
        q = None if q_rows[0] is None else torch.cat(q_rows)
        return Draft(torch.cat(tokens), q, None, passes, tuple(path), finite=finite)

    def mask_guess(self, logits: torch.Tensor, drafts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Masks the words in logits [1, Vd] after ``drafts`` that the run's constraint forbids there. On a device the
        host does not know the drafts; a forbidden one is then cut off before the pass."""
        if self.setup.reader is None or logits.device.type != "cpu":
            return logits
        return self.mask_rows(logits, [tuple(int(token) for token in drafts)])

    def mask_rows(self, logits: torch.Tensor, paths: Sequence[Path]) -> torch.Tensor:
        """Masks logits [W, Vd] after each path, but for the words that the constraint allows, or the one it demands."""
        reader, V = self.setup.reader, self.setup.vocab_size
        assert reader is not None
        may_come = reader.to_draft if self.setup.reads_grammar else reader.tokens_after
        masks = [may_come(path) for path in paths]
        bits = np.stack([np.full((V + 7) // 8, 0xFF, np.uint8) if mask is None else mask for mask in masks])
        allowed = unpack(bits, V, logits.device)
        own = allowed[:, : logits.shape[1]] if self.target_ids is None else allowed[:, self.target_ids]
        return mask_guesses(logits, own)

    def sample(self, logits: torch.Tensor, seen: torch.Tensor | None, u: torch.Tensor):
        """Draws a token from logits [1, Vd] by u [1]. Returns the target's id of it [1], and q [1, V] (None when
        greedy, which spares building one-hot rows). Marks the token in ``seen``."""
        ids = self.target_ids
        if seen is not None:
            repeated = seen[:, : logits.shape[1]] if ids is None else seen[:, ids]
            logits = penalise(logits, repeated, self.setup.sampling.repetition_penalty)
        if self.setup.sampling.greedy:
            is_on_host, q = logits.device.type == "cpu", None
            token = torch.from_numpy(likeliest(logits)) if is_on_host else logits.argmax(-1)
        else:
            q = certain_where_broken(warp(logits, self.setup.sampling))
            token = draw(q, u)
            q = self.spread_over_target(q)
        token = token if ids is None else ids[token]
        if seen is not None:
            seen.scatter_(1, token[None], True)
        return token, q

    def spread_over_target(self, q: torch.Tensor) -> torch.Tensor:
        """Spreads q [R, Vd] over the target's words: [R, V]."""
        V = self.setup.vocab_size
        if self.target_ids is None:
            return F.pad(q, (0, V - q.shape[1]))
        return q.new_zeros(len(q), V).index_copy_(1, self.target_ids, q)

    def uniforms(self, text: Sequence[int], gamma: int) -> torch.Tensor:
        """Returns [gamma] numbers by position and step of the round. A discarded token decides how far its round
        drafted, and so when its place is drafted again; that draft must not use the same number."""
        position = self.setup.position(text)
        tables = (self.setup.uniforms.table(DRAFTING, step) for step in range(gamma))
        return self.buffer("u", [table[position + step] for step, table in enumerate(tables)], torch.float32)

    def penalised_tokens(self) -> torch.Tensor | None:
        """Returns [1, V] bool: the tokens that the repetition penalty counts; None without one."""
        history = self.setup.history
        return None if history is None else self.copy_to_buffer("seen", history.seen[None])

    def buffer(self, name: str, values, dtype: torch.dtype) -> torch.Tensor:
        return self.copy_to_buffer(name, to_device(values, self.setup.device, dtype))

    def copy_to_buffer(self, name: str, fresh: torch.Tensor) -> torch.Tensor:
        """Copies ``fresh`` into the buffer of this name and shape. Captured graphs read that buffer in later runs."""
        key = (name, fresh.shape)
        if key not in self._buffers:
            self._buffers[key] = torch.empty_like(fresh)
        return self._buffers[key].copy_(fresh)


def certainties(logits: torch.Tensor) -> list[int]:
    """Returns the highest probability of each row of logits [W, Vd] in tenths, 0 … 9; NOT_FINITE for others."""
    tops = to_host((logits.amax(-1) - logits.logsumexp(-1)).exp()).tolist()
    return [NOT_FINITE if math.isnan(top) else min(int(top * _BUCKETS), _BUCKETS - 1) for top in tops]


def certain_where_broken(q: torch.Tensor) -> torch.Tensor:
    """Returns q [W, Vd] with all mass on the last word in rows that are not finite, because that is the word which is
    then drawn. On a CPU the host has looked already."""
    if q.device.type == "cpu":
        return q
    is_broken = q[:, :1].isnan()
    q = q.nan_to_num(0.0)
    q[:, -1:] += is_broken
    return q
