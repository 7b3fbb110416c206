"""The loop: draft, verify, accept, commit. Start reading here.

The plain baseline is this loop with nothing drafted: same kernels, same cache, so a speedup is never an artefact of
two code paths. Knows no screen and no queue; it yields tensor-free events and reads a cancel flag every round.

Dimension key: N drafts of a round, W = N + 1 tokens scored, V vocabulary.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from engine.acceptance import accept_chain, accept_tree
from engine.clock import Clock
from engine.config import MAX_GAMMA, RunConfig
from engine.device import to_device
from engine.drafters.base import ASK, Draft, Drafter, Setup
from engine.events import Round, Timings, Token
from engine.recorder import Outcome, Recorder
from engine.runner import Runner, tree_shape
from engine.sampling import ACCEPTING, CLOSING, History, Uniforms, penalise, warp


class Rules(NamedTuple):
    """The three functions that make the output exact; `engine.broken` has wrong ones, for tests and lessons."""

    warp: Callable = warp
    chain: Callable = accept_chain
    tree: Callable = accept_tree


TRUE_RULES = Rules()


@dataclass
class Decoding:
    """Everything one run needs. ``chooser`` picks γ; ``eos``: ids that end a text; ``cancelled`` is asked every round;
    ``rules`` are for tests and lessons to replace."""

    config: RunConfig
    prompt: Sequence[int]
    target: Runner
    drafter: Drafter
    chooser: object
    eos: frozenset[int]
    recorder: Recorder
    cancelled: Callable[[], bool] = lambda: False
    rules: Rules = TRUE_RULES
    started: float = 0.0
    reason: str | None = None
    prefill_seconds: float = 0.0

    def __post_init__(self):
        self.started = self.started or time.perf_counter()
        self.committed = list(self.prompt)
        self.text = ""
        room = len(self.prompt) + self.config.max_new_tokens + MAX_GAMMA + 2
        self.room = min(room, max(self.target.max_length, len(self.prompt) + self.config.max_new_tokens))
        self.uniforms = Uniforms(self.config.seed, self.config.max_new_tokens + MAX_GAMMA + 2)
        penalised = self.config.sampling.repetition_penalty != 1.0
        self.history = History(self.prompt, self.target.vocab_size, self.target.device) if penalised else None

    @property
    def emitted(self) -> int:
        return len(self.committed) - len(self.prompt)

    @torch.inference_mode()
    def rounds(self) -> Iterator[Round]:
        """Run to the end, a Round at a time; ``reason`` and ``text`` are set when it is over."""
        try:
            self._prefill()
            index = 0
            self._stop_asked()
            while self.reason is None:  # later, a round itself asks: only then do its last bytes become text
                yield self._round(index)
                index += 1
        finally:
            self.target.release()
            self.drafter.release()

    def _prefill(self) -> None:
        config, before = self.config, time.perf_counter()
        self.target.reset(self.room)
        self.target.prefill(self.prompt[:-1])  # the last one is the first pending token
        target = self.target
        setup = Setup(
            config.sampling, target.vocab_size, self.uniforms, self.history, self.room, target.device, self.chooser
        )
        self.drafter.start(self.prompt, setup)
        if torch.device(self.target.device).type == "cuda":
            torch.cuda.synchronize()
        self.prefill_seconds = time.perf_counter() - before

    def _stop_asked(self) -> bool:
        if self.reason is None and self.cancelled():
            self.reason = "cancelled"
        return self.reason is not None

    def _round(self, index: int) -> Round:
        start, base, position, clock = self._now(), self.target.length, self.emitted, Clock(self.target.device)
        clock.mark()
        # 1 draft
        gamma, situation, draft = self._draft(position)
        clock.mark()
        # 2 verify: one pass over the pending token and the drafts
        pending = to_device(self.committed[-1:], self.target.device)
        logits = self.target.forward(torch.cat([pending, draft.tokens]), draft.parents)  # [N+1, V]
        clock.mark()
        # 3 accept
        if self.history is not None:
            seen = self.history.rows(draft.tokens, draft.parents)
            logits = penalise(logits.float(), seen, self.config.sampling.repetition_penalty)
        p = self.rules.warp(logits, self.config.sampling)
        u, u_closing, depth = self._uniforms(draft, position)
        draws = [to_device(x, self.target.device, torch.float32) for x in (u, u_closing)]
        if draft.parents is None:
            verdict = self.rules.chain(p, draft.q, draft.tokens, *draws)
        else:
            verdict = self.rules.tree(p, draft.q, draft.tokens, draft.parents, *draws)
        clock.mark()
        outcome = self.recorder.fetch(p, logits, draft, verdict)
        # 4 commit
        path = [0, *(i + 1 for i in range(len(draft)) if outcome.path[i])]
        self.target.keep(base, path)
        self.drafter.commit(len(path) - 1)
        self.chooser.observe(situation, int(outcome.tested.sum()), len(path) - 1, draft.situations, draft.steps)
        tokens = self._tokens(outcome, draft, depth[1:], u, u_closing, position)
        end, laps = self._now(), clock.laps()
        timings = Timings(*laps, host=max(0.0, end - start - sum(laps)))
        return Round(index, gamma, tokens, self._parents(draft), draft.steps, base, timings, start, end)

    def _now(self) -> float:
        return time.perf_counter() - self.started

    def _draft(self, position: int):
        """γ for this round and the drafts; one place is left for the token that closes the round."""
        most = min(self.config.max_new_tokens - position - 1, MAX_GAMMA, self.room - self.target.length - 2)
        situation = self.drafter.situation(self.committed)
        gamma = 0 if situation is None or most < 1 else self.chooser.choose(situation, most)
        if gamma == 0:
            return 0, situation, Draft(torch.zeros(0, dtype=torch.long, device=self.target.device))
        draft = self.drafter.propose(self.committed, gamma, position)
        return len(draft) if situation == ASK else gamma, situation, draft

    def _uniforms(self, draft: Draft, position: int):
        """u [N] for the accept draws (siblings have streams of their own), u_closing [N+1] by the node closed after,
        depth [N+1] of each node; all on the host."""
        parents = self._parents(draft)
        depth = np.arange(len(draft) + 1) if draft.parents is None else tree_shape(parents)[0].numpy()
        sibling = [parents[:i].count(parents[i]) for i in range(len(parents))] if draft.parents else [0] * len(draft)
        tables = [self.uniforms.table(ACCEPTING, s) for s in sibling]
        u = [float(t[position + d - 1]) for t, d in zip(tables, depth[1:].tolist(), strict=True)]
        closing = self.uniforms.table(CLOSING)[position + depth]
        return u, closing, depth.tolist()

    @staticmethod
    def _parents(draft: Draft) -> tuple[int, ...]:
        return tuple(range(len(draft))) if draft.parents is None else tuple(draft.parents)

    def _tokens(self, outcome: Outcome, draft: Draft, depth, u, u_closing, position: int) -> tuple[Token, ...]:
        """Statuses and texts in order; commits what is emitted and notices the end inside the block."""
        tested = zip(outcome.path, outcome.tested, strict=True)
        statuses = ["accepted" if kept else "rejected" if seen else "discarded" for kept, seen in tested]
        drafts = self.recorder.drafts(outcome, draft, depth, u, position, statuses)
        closing = self.recorder.closing(outcome, draft, float(u_closing[outcome.last]), position, drafts)
        tokens: list[Token] = []
        for token in [*drafts, closing]:
            if self.reason is None:
                tokens.append(self._emit(token) if token.emitted else token)
            elif token is not closing:  # behind the end of the text, whatever the verdict on it was
                tokens.append(replace(token, status="discarded", u=None))
        if self.history is not None:
            self.history.add(self.committed[len(self.prompt) + position :])
        return tuple(self._flushed(tokens) if self._stop_asked() else tokens)

    def _emit(self, token: Token) -> Token:
        self.committed.append(token.id)
        piece = self.recorder.text.push(token.id)
        self.text += piece
        self._look_for_end(token.id, len(piece))
        return replace(token, text=piece, label=self.recorder.text.label(token.id, piece))

    def _flushed(self, tokens: list[Token]) -> list[Token]:
        """At the end no later token completes a character: the last emitted one shows its bytes as they are."""
        tail = self.recorder.text.tail()
        self.text += tail
        last = max(i for i, token in enumerate(tokens) if token.emitted)
        return [replace(t, text=t.text + tail) if i == last else t for i, t in enumerate(tokens)]

    def _look_for_end(self, token: int, fresh: int) -> None:
        if token in self.eos:
            self.reason = "eos"
        elif any(s in self.text[-(len(s) + fresh) :] for s in self.config.stop):
            self.reason = "stop"
        elif self.emitted >= self.config.max_new_tokens:
            self.reason = "length"
