"""Runs speculative decoding: draft, verify, accept, commit, yield. `reference.py` is the same on one page: start there.

The plain baseline is this loop with no drafts: same kernels, same cache, so that a speedup never comes from two code
paths. It yields tensor-free events, polls a cancel flag every round, and knows neither screens nor queues. It also
yields what it wants the target to score, so that `batch.py` can run one pass for many such loops.

Dimension key: N drafts of a round, W = N + 1 tokens scored, V vocabulary.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch

from engine.config import ACCEPTANCE, AUTO, MAX_GAMMA, MAX_NODES, RunConfig, load_object, method_of
from engine.decoding.batch import Prefill, Scoring, Steps, alone
from engine.decoding.constrained import Allowed, Constrained
from engine.decoding.text import Text
from engine.decoding.trace_recorder import HostVerdict, TraceRecorder
from engine.device import DeviceTimer, now, to_device
from engine.drafters.base import Draft, Drafter, DrafterSetup, DraftOffer, DraftPolicy, GammaPolicy
from engine.errors import BadInput, Unavailable
from engine.models.decoder.prompt_cache import PromptCache
from engine.models.decoder.runner import Runner
from engine.models.decoder.tree_shape import tree_shape
from engine.sampling.constraint import GrammarReader
from engine.sampling.random_streams import Uniforms
from engine.sampling.rejection import Verdict
from engine.sampling.top_words import greedy_words
from engine.sampling.warping import penalise, warp
from engine.trace.events import Round, Timings


class Rules(NamedTuple):
    """The functions that make the output exact; `tools/exactness/mutants.py` has wrong ones. ``verdicts``: replacements
    of functions that `ACCEPTANCE` names, by the same "module:name". ``block_stream`` numbers the accept draws of drafts
    that are decided on together by their place in the round."""

    warp: Callable = warp
    verdicts: Mapping[str, Callable] = MappingProxyType({})
    block_stream: Callable[[int], int] = lambda step: step
    constrained: Callable = Constrained

    def function(self, path: str) -> Callable:
        """Returns the function at "module:name", or what replaces it here."""
        unknown = {*self.verdicts} - {name for rule in ACCEPTANCE.values() for name in (rule.chain, rule.tree)}
        assert not unknown, f"no rule calls {unknown}"
        return self.verdicts.get(path) or load_object(path)


TRUE_RULES = Rules()


@dataclass
class SpeculativeDecoder:
    """One run. Times are in seconds."""

    config: RunConfig
    prompt: Sequence[int]
    target: Runner
    drafters: Sequence[Drafter]  # of the method, or those that compete
    gamma_policy: GammaPolicy  # chooses γ
    eos_ids: frozenset[int]  # ids that end a text, from `eos_ids` in models/loader.py
    recorder: TraceRecorder
    cancelled: Callable[[], bool] = lambda: False  # polled once a round
    rules: Rules = TRUE_RULES  # tests and experiments replace them
    copy_from: int = 0  # as in `DrafterSetup`
    reader: GrammarReader | None = None  # for the run's constraint, None without one
    sharers: Callable[[], int] = lambda: 1  # how many runs share its passes
    drafts_first: bool = False  # drafts for the first token, too, as replays and experiments do
    prompts: PromptCache | None = None  # where the run may take its prompt from
    started: float = 0.0
    prefill_seconds: float = 0.0  # in which the target read the prompt
    reading_seconds: float = 0.0  # in which drafts read it, so far
    first_round: Round | None = None
    last_round: Round | None = None
    recent: deque[Round] = field(default_factory=lambda: deque(maxlen=64))  # for the clock, after the first

    def __post_init__(self):
        self.started = self.started or time.perf_counter()
        self._shared_by = 1  # see `sharers`
        self._judge = self.gamma_policy if isinstance(self.gamma_policy, DraftPolicy) else None
        # The methods whose draft model gave numbers that are not finite, and the place from which each was left out.
        self.given_up: dict[str, int] = {}
        self.kept_tokens: dict[str, int] = {}  # as in `RunFinished`
        self._read_alike: int | None = None  # the tokens before the first tree, whose sums have another order
        self._unread = {drafter.name for drafter in self.drafters if drafter.reads_prompt}
        self._rule = ACCEPTANCE[self.config.acceptance]
        self._verify_chain, self._verify_tree = map(self.rules.function, (self._rule.chain, self._rule.tree))
        length = len(self.prompt) + self.config.max_new_tokens
        # `Engine.prepare` has refused what does not fit.
        self.capacity = min(length + MAX_NODES + 2, max(self.target.max_length, length))
        self.uniforms = Uniforms(self.config.seed, self.config.max_new_tokens + MAX_NODES + 2)
        self._constrained: Constrained | None = None
        if self.reader:
            drafts = self.config.method == AUTO or method_of(self.config.method).needs_constraint
            self._constrained = self.rules.constrained(self.reader, self.target.vocab_size, self.target.device, drafts)
        detokenizer = self.recorder.detokenizer
        self.text = Text(self.config, self.prompt, self.target, detokenizer, self.eos_ids, self.reader)

    @property
    def memory(self) -> int:
        """Bytes that the run takes: caches, and a round's logits, p and q; with a constraint also the masks of its
        rows, the masked logits, and p without them."""
        rows, copies = (MAX_NODES + 1) * self.target.vocab_size, 6 if self.reader else 3
        return sum(each.memory(self.capacity) for each in (self.target, *self.drafters)) + copies * 4 * rows

    def rounds(self) -> Iterator[Round]:
        """Yields the rounds until the end of the text, which then has its ``reason``."""
        return alone(self.steps())

    @torch.inference_mode()
    def steps(self) -> Steps:
        """Yields the rounds, and between them every pass of the target, for a `Batch`."""
        try:
            yield from self._prefill()
            index = 0
            while self.text.reason is None:  # a round polls the flag itself, so that its last bytes become text
                self.last_round = yield from self._round(index)
                self.first_round = self.first_round or self.last_round
                self.recent.append(self.last_round)
                yield self.last_round
                index += 1
            self._keep_text()
        finally:
            for each in (self.target, *self.drafters):
                each.release()

    def _prefill(self) -> Steps:
        config, before, target = self.config, time.perf_counter(), self.target
        target.reset(self.capacity)
        ids = self.text.ids[:-1]  # the last one is the first pending token
        if self.prompts and (count := self.prompts.take(target, ids)):
            self.kept_tokens["target"] = count
        ids = ids[target.length :]
        while ids and not self._has_ended():
            ids = ids[(yield Prefill(target, ids)) :]
        self._keep_text()
        if self._has_ended():
            return
        self._setup = DrafterSetup(
            sampling=config.sampling,
            vocab_size=target.vocab_size,
            uniforms=self.uniforms,
            history=self.text.history,
            capacity=self.capacity,
            device=target.device,
            prompt_length=len(self.prompt),
            copy_from=self.copy_from,
            eos_ids=self.eos_ids,
            control_ids=self.recorder.detokenizer.special | self.eos_ids,
            trees=target.trees,
            reader=self.reader,
            reads_grammar=bool(self._constrained and self._constrained.drafts),
            read=self._read_draft,
        )
        for drafter in self.drafters:
            if drafter.name not in self._unread:
                self._start(drafter)
        self.prefill_seconds = now(target.device) - before

    def _start(self, drafter: Drafter) -> None:
        """Starts a drafter; while one with a model then reads the prompt, the clock of the run stands still."""
        before, known = time.perf_counter(), self.text.ids[: len(self.prompt) + len(self.config.prefix)]
        drafter.start(known, self._setup, **self.config.settings_of(method_of(drafter.name)))
        if drafter.name in self._unread:
            self._unread.remove(drafter.name)
            self.reading_seconds += now(self.target.device) - before

    def _keep_text(self) -> None:
        """Keeps what the target has read, for the next run whose text begins so."""
        if self.prompts:
            self.prompts.keep(self.target, self.text.ids[: self.target.length][: self._read_alike])

    def _read_draft(self, runner: Runner, ids: Sequence[int]) -> None:
        """Lets a draft model read its prompt."""
        if self.prompts is None:
            runner.prefill(ids)
        elif count := self.prompts.read(runner, ids):
            self.kept_tokens["draft"] = count

    def _has_ended(self) -> bool:
        """Polls the cancel flag; returns whether the run is over."""
        if self.text.reason is None and self.cancelled():
            self.text.reason = "cancelled"
        return self.text.reason is not None

    def _round(self, index: int) -> Generator[Scoring, torch.Tensor, Round]:
        start, base, timer = self._now(), self.target.length, DeviceTimer(self.target.device)
        text, position, reading = self.text, self.text.emitted, self.reading_seconds
        # 1 draft
        timer.start("draft")
        offer, gamma, allowed = self._draft(timer)
        draft = allowed.draft
        timer.stop()
        # 2 verify: one pass over the pending token and the drafts
        pending = to_device(text.ids[-1:], self.target.device)
        if draft.parents is not None and self._read_alike is None:
            self._read_alike = base
        logits = yield Scoring(self.target, torch.cat([pending, draft.tokens]), draft.parents, timer)  # [N+1, V]
        # 3 accept
        timer.start("accept")
        u, u_closing, depth = self._draws(draft, position)
        if text.history is not None:
            seen = text.history.rows(draft.tokens, draft.parents)
            logits = penalise(logits.float(), seen, self.config.sampling.repetition_penalty)
        removed = {}
        if self._constrained:
            removed = self._constrained.measure_removed(logits, allowed, self.config) if self.config.trace else {}
            logits = self._constrained.mask_target(logits, allowed)
        p, rule_draft, words = self._probabilities(logits, draft)
        verdict = self._accept(p, rule_draft, u, u_closing)
        if allowed.is_inside is not None:
            verdict = verdict._replace(tested=verdict.tested & allowed.is_inside)
        timer.stop()
        verdict = self.recorder.fetch(p, logits, rule_draft, verdict, words, removed)
        self._check_finite(verdict, offer)
        # 4 commit
        path = [node for node, accepted in enumerate(verdict.path, start=1) if accepted]
        self.target.keep(base, [0, *path])
        if offer:
            if offer.drafter.name not in self._unread:
                offer.drafter.commit(len(path))
            if len(draft):
                offer.drafter.observe_target(logits)
        outcomes, keys = allowed.with_forbidden(verdict.outcomes, draft.keys, {0, *path})
        self.gamma_policy.observe(offer.keys if offer else None, outcomes, keys, draft.passes, scored=len(draft))
        draft_texts = self.recorder.draft_texts(verdict, draft)
        pieces = text.append([*verdict.accepted_tokens, verdict.closing])
        tail = text.end() if self._has_ended() else ""
        # 5 yield
        tokens = self.recorder.tokens(verdict, allowed, draft_texts, pieces, tail, u, u_closing, depth, position)
        end, seconds = self._now(), timer.seconds()
        host = max(0.0, end - start - sum(seconds.values()))  # in a batch also the others' turns
        return Round(
            index=index,
            gamma=gamma,
            tokens=tokens,
            parents=draft.parent_nodes,
            draft_steps=draft.passes,
            context=base,
            timings=Timings(**seconds, host=host),
            start=start,
            end=end,
            drafter=offer.drafter.name if offer and self.config.method == AUTO else "",
            row_cost=draft.estimates.row_cost if draft.estimates and self.config.trace else None,
            rows=self._shared_by,
            forbidden=self.recorder.forbidden(allowed.forbidden, depth, position),
            reading=self.reading_seconds - reading,
        )

    def _check_finite(self, verdict: HostVerdict, offer: DraftOffer | None) -> None:
        """Raises Unavailable if the target's numbers are not finite. If a draft's are not, its drafting ends."""
        place = self.text.emitted
        if not verdict.is_finite:
            if self.reader is not None and not self.reader.allowed_after(verdict.accepted_tokens).any():
                raise BadInput(
                    f"After {place} new tokens the constraint demands a text that this model's tokenizer cannot "
                    "write; change the constraint."
                )
            raise Unavailable(
                f"The target's logits are not finite (NaN or infinity) after {place} new tokens, so no token can be "
                "chosen; its weights are damaged, or too large for this precision. Choose another precision or model."
            )
        if offer and not verdict.draft_is_finite:
            self.given_up[offer.drafter.name] = place

    def _now(self) -> float:
        return time.perf_counter() - self.started - self.reading_seconds

    def _draft(self, timer: DeviceTimer) -> tuple[DraftOffer | None, int, Allowed]:
        """Returns the offer that was chosen, γ, and what the constraint allows of its draft. Leaves one place for the
        token that closes the round. Nothing is drafted for the first token, so that it never waits for a draft."""
        config, ids = self.config, self.text.ids
        room = min(config.max_new_tokens - self.text.emitted - 1, MAX_GAMMA, self.capacity - self.target.length - 2)
        if (sharers := self.sharers()) != self._shared_by:
            self.gamma_policy.share(sharers)
            self._shared_by = sharers
        may_draft = self.text.emitted or self.drafts_first
        able = (drafter for drafter in self.drafters if may_draft and drafter.name not in self.given_up)
        offers = [offer for drafter in able if (offer := drafter.offer(ids))]
        offer, gamma = self.gamma_policy.choose(offers, room) if offers and room > 0 else (None, 0)
        if offer and gamma:
            name = offer.drafter.name
            if name in self._unread:
                self._start(offer.drafter)
                timer.start("draft")
            draft = offer.draft(gamma, self._judge)
        else:
            draft, name = Draft(torch.zeros(0, dtype=torch.long, device=self.target.device)), ""
        if len(draft) > MAX_NODES:
            raise BadInput(f"{name!r} drafted {len(draft)} tokens in one round; at most {MAX_NODES} are scored.")
        keeps_gamma = draft.parents is not None and config.gamma != AUTO
        allowed = Allowed(draft)
        if self._constrained:
            allowed = self._constrained.mask_draft(draft, method_of(name).is_window)
        return offer, gamma if keeps_gamma else len(allowed.draft), allowed

    def _probabilities(self, logits: torch.Tensor, draft: Draft) -> tuple[torch.Tensor, Draft, torch.Tensor | None]:
        """Returns p [N+1, V], and the draft as the rule reads it. Greedy rows on a CPU are reduced to the words that
        matter [C], which are returned third; the draft's tokens are then places among them."""
        is_reducible = self.config.sampling.greedy and draft.q is None and logits.device.type == "cpu"
        if not is_reducible or self.rules.warp is not warp:
            return self.rules.warp(logits, self.config.sampling), draft, None
        words, p, tokens = greedy_words(logits, draft.tokens)
        return p, replace(draft, tokens=tokens), words

    def _accept(self, p: torch.Tensor, draft: Draft, u, u_closing) -> Verdict:
        """Applies the rule that the run asks for."""
        draws = [to_device(x, self.target.device, torch.float32) for x in (u, u_closing)]
        settings = self.config.settings_of(self._rule)
        if draft.parents is None:
            return self._verify_chain(p, draft.q, draft.tokens, *draws, **settings)
        return self._verify_tree(p, draft.q, draft.tokens, draft.parents, *draws, **settings)

    def _draws(self, draft: Draft, position: int):
        """Returns u [N] for the accept draws, u_closing [N+1] by the node that the closing token follows, depth [N+1]
        of each node; all on the host."""
        depth = np.arange(len(draft) + 1) if draft.parents is None else tree_shape(draft.parents)[0]
        if self._rule.is_joint:
            u = self.uniforms.accepting_together(position, len(draft), self.rules.block_stream)
        else:
            u = self.uniforms.accepting(position, depth, draft.parent_nodes)
        return u, self.uniforms.closing(position, depth), depth.tolist()
