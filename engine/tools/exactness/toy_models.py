"""Defines tiny language models whose probabilities are all known, for tests and lessons.

A `ToyLM` is a table: the next token's logits depend on the last two tokens only. `ToyRunner` runs it as a Runner,
so that the real loop works on it with any drafter. `exact_distribution` enumerates the probability of every
output. `weather_pair` is a three-word pair written by hand, with probabilities that can be checked on paper.

Dimension key: V vocabulary, W tokens fed at once, N drafts.
"""

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from engine.config import AUTO, MAX_GAMMA, METHODS, RunConfig, SamplingParams
from engine.decoding.draft_length import FixedGamma
from engine.decoding.loop import TRUE_RULES, Rules, SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.drafters import drafter_class
from engine.drafters.base import Draft, Drafter, DrafterSetup, DraftOffer, DraftPolicy
from engine.drafters.draft_model import DraftModelDrafter
from engine.models.decoder.runner import Runner
from engine.sampling.constraint import GrammarReader
from engine.sampling.random_streams import DRAFTING
from engine.sampling.warping import draw, penalise, warp
from engine.tools.exactness.results import TOY_DRAFT, TOY_TARGET, TOY_WORDS, TREES
from engine.tools.exactness.word_tokenizer import WordTokenizer
from engine.trace.events import PromptToken, RunFinished, RunStarted
from engine.trace.trace import Trace

PLAIN = SamplingParams(temperature=1.0)  # p and q as the tables have them


class ToyLM:
    """``table`` [V+1, V, V]: logits after (the token before last, the last token); index V means "nothing before"."""

    def __init__(self, table: torch.Tensor, words: Sequence[str] | None = None):
        self.table = table.float()
        self.vocab_size = table.shape[-1]
        self.words = tuple(words) if words else tuple("abcdefghijklmnopqrstuvwxyz"[: self.vocab_size])
        assert table.shape == (self.vocab_size + 1, self.vocab_size, self.vocab_size)
        assert len(self.words) == self.vocab_size

    @classmethod
    def random(cls, vocabulary: int, seed: int, spread: float = 1.5) -> "ToyLM":
        """Draws normal logits; a larger ``spread`` gives a more certain model."""
        generator = torch.Generator().manual_seed(seed)
        return cls(spread * torch.randn(vocabulary + 1, vocabulary, vocabulary, generator=generator))

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[float]], words: Sequence[str]) -> "ToyLM":
        """Makes a model of rows [V][V], the probabilities of the next token after each token; earlier tokens have no
        influence."""
        logits = torch.tensor(rows).log()
        return cls(logits.expand(len(rows) + 1, -1, -1), words)

    def with_noise(self, noise: float, seed: int) -> "ToyLM":
        """Returns a draft for this model: the same table with noise, so that p and q are similar but not equal."""
        generator = torch.Generator().manual_seed(seed)
        return ToyLM(self.table + noise * torch.randn(self.table.shape, generator=generator), self.words)

    def logits(self, context: Sequence[int]) -> torch.Tensor:
        """Returns logits [V] after a context of at least one token."""
        before = context[-2] if len(context) > 1 else self.vocab_size
        return self.table[before, context[-1]]

    def probabilities(self, context: Sequence[int], sampling: SamplingParams) -> torch.Tensor:
        """Returns p [V] after the context, warped and penalised as a run would."""
        seen = torch.zeros(1, self.vocab_size, dtype=torch.bool)
        seen[0, list(context)] = True
        return warp(penalise(self.logits(context)[None], seen, sampling.repetition_penalty), sampling)[0]


def weather_pair() -> tuple[ToyLM, ToyLM]:
    """Returns a target and a draft over sun, rain and wind.

    For example, after "sun" p(rain) is 0.3 and q(rain) 0.4, so a drafted rain stays with chance 0.75.
    """
    return ToyLM.from_rows(TOY_TARGET, TOY_WORDS), ToyLM.from_rows(TOY_DRAFT, TOY_WORDS)


def exact_distribution(model: ToyLM, prompt: Sequence[int], length: int, sampling: SamplingParams = PLAIN):
    """Enumerates the exact distribution of the next ``length`` tokens, {tokens: probability} in float64.

    Every drafter must leave it unchanged.
    """
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer = {}
        for so_far, mass in law.items():
            row = model.probabilities([*prompt, *so_far], sampling).double()
            for token, share in enumerate((row / row.sum()).tolist()):
                longer[*so_far, token] = mass * share
        law = longer
    return law


class ToyRunner(Runner):
    """A ToyLM as a runner; its "cache" is the list of tokens itself."""

    trees = True
    device = "cpu"

    def __init__(self, model: ToyLM, max_length: int = 1 << 20):
        self.model, self.vocab_size, self.max_length = model, model.vocab_size, max_length
        self.ids: list[int] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    def reset(self, capacity: int) -> None:
        self.ids = []

    def prefill(self, ids: Sequence[int]) -> None:
        self.ids += list(ids)

    def forward(self, tokens: torch.Tensor, parents: Sequence[int] | None = None, last: bool = False) -> torch.Tensor:
        """Appends tokens [W]; gives logits [W, V], or [1, V] with ``last``."""
        W, fed = len(tokens), tokens.tolist()
        before = [self.ids[-1] if self.ids else self.vocab_size]  # the token before each node
        before += [fed[p] for p in (range(W - 1) if parents is None else parents)]
        self.ids += fed
        rows = self.model.table[before, fed]
        return rows[-1:] if last else rows

    def fork(self) -> "ToyRunner":
        return ToyRunner(self.model, self.max_length)

    def memory(self, capacity: int) -> int:
        return 8 * capacity

    def rollback(self, length: int) -> None:
        assert 0 <= length <= self.length
        del self.ids[length:]

    def keep(self, base: int, nodes: list[int]) -> None:
        self.ids[base:] = [self.ids[base + node] for node in nodes]

    def release(self) -> None:
        self.ids = []

    def close(self) -> None:
        self.release()


class ToyTreeDrafter(Drafter):
    """Drafts a tree from a ToyLM: ``widths[d]`` children for every node of depth d (1 after the last entry).

    ``siblings`` says how the children of a node are chosen, and so what q each was drawn from:
    "independent" draws from the same q, "without_replacement" from q less the earlier siblings, and "top" takes the
    most probable ones (one-hot q).
    """

    name = "toy-tree"
    priors = MappingProxyType({0: 0.5})

    def __init__(self, model: ToyLM, siblings: str = "independent", widths: Sequence[int] = (2, 2)):
        assert siblings in TREES
        self.model, self.siblings, self.widths = model, siblings, tuple(widths)

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup = setup

    def offer(self, text: Sequence[int]) -> DraftOffer | None:
        return DraftOffer(self, (0,) * MAX_GAMMA, partial(self._draft, text))

    def _draft(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None) -> Draft:
        tokens, rows, parents, position = [], [], [], self.setup.position(text)
        level = [(0, list(text))]  # nodes of the depth reached, each with its whole context
        for depth in range(gamma):
            width = self.widths[depth] if depth < len(self.widths) else 1
            deeper = []
            for parent, context in level:
                u = [self._uniform(position, len(tokens) + i, depth, i) for i in range(width)]
                for token, row in self._children(context, u):
                    tokens.append(token)
                    rows.append(row)
                    parents.append(parent)
                    deeper.append((len(tokens), [*context, token]))
            level = deeper
        q = None if self.siblings == "top" else torch.stack(rows)
        return Draft(torch.tensor(tokens), q, tuple(parents), passes=gamma)

    def _uniform(self, position: int, number: int, depth: int, sibling: int) -> float:
        """Returns the draw of draft ``number`` of a round. No (stream, place) comes twice, in one round or in two."""
        return float(self.setup.uniforms.table(DRAFTING, number)[position + number])

    def _children(self, context: list[int], u: Sequence[float]) -> list[tuple[int, torch.Tensor]]:
        """Draws (token, the row it was drawn from) of a sibling for each of ``u``, in the order they will be tried."""
        q = self.model.probabilities(context, self.setup.sampling)
        if self.siblings == "top":
            return [(int(t), q) for t in q.topk(len(u)).indices]
        children = []
        for number in u:
            if not q.any():
                break  # fewer possible tokens than siblings
            token = int(draw(q[None], torch.tensor([number])))
            children.append((token, q))
            if self.siblings == "without_replacement":
                q = q.index_fill(0, torch.tensor([token]), 0.0)
                q = q / q.sum().clamp_min(1e-38)
        return children


def make_drafter(method: str, draft: ToyLM):
    """Returns the drafter of a method without a model, of "lm", or of a tree named by how its siblings are chosen."""
    if method in METHODS and METHODS[method].reads == "text":
        return drafter_class(method)()
    return DraftModelDrafter(ToyRunner(draft)) if method == "lm" else ToyTreeDrafter(draft, method)


def toy_decoder(
    target: ToyLM,
    drafter,
    prompt: Sequence[int],
    sampling: SamplingParams = PLAIN,
    gamma: int = 4,
    rules: Rules = TRUE_RULES,
    eos: Sequence[int] = (),
    gamma_policy=None,
    reader: GrammarReader | None = None,
    drafts_first: bool = True,
    **config: Any,
) -> SpeculativeDecoder:
    """Returns the real loop on a toy target; ``list(toy_decoder(…).rounds())`` runs it, ``.text.ids`` then has all
    tokens. ``drafter``: one, or a list of those that compete. A toy has no prompt to read, so it drafts at once."""
    drafters = drafter if isinstance(drafter, list) else [drafter]
    config = {"method": AUTO if drafters is drafter else drafter.name, "max_new_tokens": 32} | config
    run_config = RunConfig("toy", gamma=gamma, sampling=sampling, **config)
    recorder = TraceRecorder(run_config, WordTokenizer(target.words, eos))
    policy = gamma_policy or FixedGamma(gamma)
    return SpeculativeDecoder(
        run_config, list(prompt), ToyRunner(target), drafters, policy, frozenset(eos), recorder, rules=rules,
        reader=reader, drafts_first=drafts_first,
    )  # fmt: skip


def generate(target: ToyLM, drafter, prompt: Sequence[int], **settings) -> list[int]:
    """Returns the new tokens of one run without tracing; settings as for `toy_decoder`."""
    run = toy_decoder(target, drafter, prompt, trace=False, **settings)
    for _ in run.rounds():
        pass
    return run.text.ids[len(prompt) :]


def record_trace(target: ToyLM, drafter, prompt: Sequence[int], **settings) -> Trace:
    """Returns the trace of one run; settings as for `toy_decoder`. Its times are the toy's own."""
    run = toy_decoder(target, drafter, prompt, **settings)
    rounds = tuple(run.rounds())
    assert run.text.reason is not None, "the rounds end with a reason"
    seconds = rounds[-1].end if rounds else 0.0
    started = RunStarted(
        config=run.config.as_dict() | {"prompt": " ".join(target.words[i] for i in prompt)},
        prompt=tuple(PromptToken(i, target.words[i]) for i in prompt),
        pair="toy",
        revision="",
        weights={},
        device="cpu",
        dtype="float32",
        versions={},
    )
    first = rounds[0] if rounds else None
    took = seconds - first.start if first else 0.0
    ttft = first.end if first else 0.0
    return Trace(
        started, rounds, RunFinished(run.text.reason, run.text.output, run.prefill_seconds, ttft, took, seconds)
    )
