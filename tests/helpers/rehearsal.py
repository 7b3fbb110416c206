"""Builds runs on fake CUDA tensors: tiny models of every family, drafters, trees, and verdicts that the test plays."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
import transformers
from fake_cuda import FakeCuda
from shared_passes import drive
from tiny_models import CHECKPOINTS, SMALL
from unlike_tokenizers import letters

from engine.config import AUTO, MAX_GAMMA, RunConfig, SamplingParams
from engine.decoding.batch import Batch
from engine.decoding.draft_length import AdaptiveGamma, FixedGamma, Rate, ReplayedGamma
from engine.decoding.drafter_choice import DrafterChoice
from engine.decoding.loop import TRUE_RULES, Rules, SpeculativeDecoder
from engine.decoding.trace_recorder import HostVerdict, TraceRecorder
from engine.device import to_device
from engine.drafters.base import Draft, Drafter, DraftOffer
from engine.drafters.block import BlockDrafter
from engine.drafters.context_index import ContextIndex
from engine.drafters.corpus import CorpusDrafter
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.eagle_chain import EagleChainDrafter
from engine.drafters.eagle_tree import EagleTreeDrafter
from engine.drafters.exit import ExitDrafter
from engine.drafters.intersection import IntersectionDrafter
from engine.drafters.lookahead import LookaheadDrafter
from engine.drafters.medusa import MedusaDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.drafters.reencoding import ReencodingDrafter
from engine.drafters.translation import Translation
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.block import BlockModel
from engine.models.heads.eagle3 import EagleModel
from engine.models.heads.eagle_config import BlockConfig, EagleConfig
from engine.models.heads.exit import ExitConfig, ExitModel
from engine.models.heads.medusa import MedusaConfig, MedusaModel
from engine.tools.exactness.word_tokenizer import WordTokenizer
from engine.trace.events import Round

V, E = SMALL["vocab_size"], SMALL["hidden_size"]
PROMPT = [5, 9, 13, 21, 5, 9, 13]  # its end repeats, so that prompt lookup has a match
LETTERS = [chr(0x100 + i) for i in range(V)]
TREE = (0, 0, 1, 1, 2, 3)  # siblings at two depths, and one branch that is longer
# Of two tokenizers with a letter for each id, and in the same order, because the test plays the verdicts.
TRANSLATION = Translation(letters(*LETTERS), letters(*LETTERS[: V - 8]))
COSTS = {1: 1.0, 8: 1.1, 33: 1.5}


class FakeWeights:
    """Has the interface of a TensorReader: tensors without numbers. ``names``: of the tensors that transformers' own
    model has; ``raws``: the shapes of those that are read as they are stored; ``words``: entries of the map d2t."""

    folder = Path("fake weights")

    def __init__(self, dtype: torch.dtype, device: str, names=(), words: int = 0, raws: Mapping | None = None):
        self.dtype, self.device, self.words, self.raws = dtype, device, words, raws or {}
        self.names = {*names, *self.raws}

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __call__(self, name: str, shape: tuple[int, ...] = (1, 2 * E)) -> torch.Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def raw(self, name: str) -> torch.Tensor:
        if name in self.raws:
            return torch.empty(self.raws[name], dtype=self.dtype)
        return torch.zeros(self.words, dtype=torch.long)


def config_of(family: str, **overrides) -> transformers.PretrainedConfig:
    """Returns a config with one layer, because a second one would dispatch the same operators."""
    kind, settings = CHECKPOINTS[family]
    return getattr(transformers, f"{kind}Config")(**{**SMALL, "num_hidden_layers": 1, **settings, **overrides})


def model_runner(
    cuda: FakeCuda, family: str = "qwen3", dtype=torch.bfloat16, device: str = "cuda", **overrides
) -> DecoderRunner:
    config = config_of(family, **overrides)
    with torch.device("meta"):
        names = {*transformers.AutoModelForCausalLM.from_config(config).state_dict()}
    if config.tie_word_embeddings:
        names.discard("lm_head.weight")  # a loader compares its numbers with those of the embedding
    with cuda.loading():
        weights = FakeWeights(dtype, device, names)
        return DecoderRunner(LlamaModel(weights.folder, config, dtype, device, weights=weights))


def head_runner(cuda: FakeCuda, target: DecoderRunner, patch, block: bool = False, rank: int = 0) -> DecoderRunner:
    """An EAGLE head, or a block head with a bias of this ``rank``, that reads two layers of the target and can guess
    half of its words."""
    model, words = target.model, V // 2
    fields = {
        "hidden_size": model.width, "vocab_size": V, "draft_vocab_size": words, "num_attention_heads": model.H,
        "num_key_value_heads": model.K, "head_dim": model.D, "intermediate_size": model.inner,
        "rms_norm_eps": model.eps, "num_hidden_layers": 1, "layers": (0, 1),
    }  # fmt: skip
    patch.setattr("engine.models.heads.reduced_output.word_ids", lambda d2t, *_: d2t)  # it reads the map's numbers
    with cuda.loading():
        if block:
            weights = FakeWeights(model.dtype, model.device, ["d2t"], words, {"lm_head.weight": (words, E)})
            config = BlockConfig(**fields, mask_token=3, markov_rank=rank)
            head = BlockModel(Path("head"), model, config=config, weights=weights)
        else:
            weights = FakeWeights(model.dtype, model.device, ["d2t"], words)
            head = EagleModel(Path("head"), model, config=EagleConfig(**fields), weights=weights)
        target.tap(head.reads)
        return DecoderRunner(head)


class TreeScript(Drafter):
    """Proposes the same tree every round, cut to the depth γ. ``drawn``: with rows of q."""

    name, priors = "tree", {0: 0.5}

    def __init__(self, parents: Sequence[int] = TREE, drawn: bool = True):
        self.parents, self.drawn = tuple(parents), drawn

    def start(self, prompt, setup) -> None:
        self.setup = setup

    def offer(self, text) -> DraftOffer:
        return DraftOffer(self, [0] * MAX_GAMMA, self._draft)

    def _draft(self, gamma: int, policy) -> Draft:
        depth, parents = [0], []
        for parent in self.parents:
            if depth[parent] == gamma:
                break
            depth.append(depth[parent] + 1)
            parents.append(parent)
        N, device = len(parents), self.setup.device
        q = torch.full((N, self.setup.vocab_size), 0.1, device=device) if self.drawn else None
        return Draft(to_device(range(3, 3 + N), device), q, tuple(parents), passes=gamma)


def drafters_of(method: str, cuda: FakeCuda, target: DecoderRunner, patch) -> list[Drafter]:
    """Returns the drafters of a method, or those that compete in auto."""
    names = ("ngram", "corpus", "lm", "eagle") if method == AUTO else (method,)
    return [drafter_of(name, cuda, target, patch) for name in names]


def drafter_of(method: str, cuda: FakeCuda, target: DecoderRunner, patch) -> Drafter:
    if method == "lm":
        same = target.model.dtype, target.device
        return DraftModelDrafter(model_runner(cuda, "llama", *same, max_position_embeddings=target.max_length))
    if method in ("intersection", "reencoding"):
        kind = IntersectionDrafter if method == "intersection" else ReencodingDrafter
        same = target.model.dtype, target.device
        unlike = model_runner(cuda, "llama", *same, max_position_embeddings=target.max_length, vocab_size=V - 8)
        return kind(unlike, TRANSLATION)
    if method in ("eagle", "eagle-chain"):
        kind = EagleTreeDrafter if method == "eagle" else EagleChainDrafter
        return kind(head_runner(cuda, target, patch), target)
    if method in ("block", "block with a bias"):
        rank = 4 if method == "block with a bias" else 0
        return BlockDrafter(head_runner(cuda, target, patch, block=True, rank=rank), target)
    if method == "medusa":
        # Three heads, in the layout where they share the target's output layer.
        raws = {f"{k}.0.linear.{part}": (E, E)[:n] for k in range(3) for n, part in ((2, "weight"), (1, "bias"))}
        with cuda.loading():
            weights = FakeWeights(target.model.dtype, target.device, raws=raws)
            heads = MedusaModel(Path("heads"), target.model, weights, MedusaConfig())
        target.tap(heads.reads)
        return MedusaDrafter(heads, target)
    if method == "exit":
        patch.setattr("engine.models.heads.reduced_output.word_ids", lambda d2t, *_: d2t)  # it reads the map's numbers
        model, config = target.model, ExitConfig(exit_layer=1, hidden_size=target.model.width, intermediate_size=8,
                                                 vocab_size=V)  # fmt: skip
        raws = {"lm_head.weight": (V // 2, E)}
        with cuda.loading():
            weights = FakeWeights(model.dtype, target.device, ["d2t"], V // 2, raws)
            head = ExitModel(Path("head"), model, config=config, weights=weights)
            runner = DecoderRunner(head, target.graphs)
        return ExitDrafter(runner, target)
    if method == "corpus":
        return CorpusDrafter(ContextIndex(np.array([9, 13, 5, 3, 4, 5, 6, 7] * 50)))
    simple = {"none": NoDrafter, "ngram": NgramDrafter, "lookahead": LookaheadDrafter, "tree": TreeScript}
    return TreeScript(drawn=False) if method == "one-hot tree" else simple[method]()


class PlayedRecorder(TraceRecorder):
    """Does all of the device's work, then gives the host a verdict of the test's: in turn all drafts are accepted, none
    and some; in a tree the path that takes each node's last child, so that the cache is compacted."""

    rounds = 0

    def fetch(self, p, logits, draft: Draft, verdict, words=None, removed=MappingProxyType({})) -> HostVerdict:
        N = len(draft)
        assert p.shape == (N + 1, V) and p.dtype == torch.float32
        shapes = {"path": (N,), "tested": (N,), "accept": (N,), "last": (), "closing": (), "row": (V,)}
        given = {name: getattr(verdict, name) for name in shapes}
        if verdict.block is not None:
            given |= {name: tensor for name, tensor in verdict.block._asdict().items() if tensor is not None}
            shapes |= dict.fromkeys(verdict.block._fields, (N,)) | {"residual_after": (N, V)}
        if verdict.threshold is not None:
            given, shapes = given | {"threshold": verdict.threshold}, shapes | {"threshold": (N,)}
        for name, tensor in given.items():
            assert tensor.device.type == "cuda" and tuple(tensor.shape) == shapes[name], name
        got = super().fetch(p, logits, draft, verdict, words, removed)
        limit = (N, 0, 1, N - 1)[self.rounds % 4]
        self.rounds += 1
        return replace(got, tokens=[3 + i for i in range(N)], closing=5, **self._verdict(draft, max(0, limit)))

    @staticmethod
    def _verdict(draft: Draft, limit: int) -> dict:
        parents = range(len(draft)) if draft.parents is None else draft.parents
        children = [[i for i, parent in enumerate(parents) if parent == node] for node in range(len(draft) + 1)]
        path, tested, last = np.zeros(len(draft), bool), np.zeros(len(draft), bool), 0
        while children[last]:
            tested[children[last]] = True
            if path.sum() == limit:
                break
            path[children[last][-1]] = True
            last = children[last][-1] + 1
        return {"path": path, "tested": tested, "last": last}


def policy_of(drafters: Sequence[Drafter], gamma: int | Sequence[int]):
    if not isinstance(gamma, int):
        return ReplayedGamma(gamma)
    if len(drafters) == 1:
        return FixedGamma(gamma)
    rate = Rate()
    members = {each.name: AdaptiveGamma(0.1, COSTS, each.priors, rate=rate) for each in drafters}
    return DrafterChoice(members, rate, gamma)


GREEDY = SamplingParams()


def run_together(
    cuda: FakeCuda, target: DecoderRunner, methods: Sequence[str], patch, sampling: SamplingParams = GREEDY
) -> list[list[Round]]:
    """The rounds of each of several runs that share their passes; each round has read the device once. The first has
    the target's own captured passes, as one that was alone before the others came."""
    config = RunConfig("-", sampling=sampling, max_new_tokens=10, seed=3)
    words, reads, batch = WordTokenizer([str(i) for i in range(V)]), cuda.reads, Batch()
    with cuda.loading():
        runners = [target.fork() if i else target for i in range(len(methods))]
    drafters = [drafters_of(method, cuda, runner, patch) for method, runner in zip(methods, runners, strict=True)]
    with cuda.running():
        for i, (runner, own) in enumerate(zip(runners, drafters, strict=True)):
            recorder = PlayedRecorder(config, words)
            policy = policy_of(own, 3)
            parts = (config, PROMPT, runner, own, policy, frozenset(), recorder)
            batch.add(i, SpeculativeDecoder(*parts, drafts_first=True).steps())
        found = drive(batch)
    rounds = [found[i] for i in range(len(methods))]
    assert cuda.reads - reads == sum(map(len, rounds)), "a round reads the device once"
    return rounds


def run(
    cuda: FakeCuda, target: DecoderRunner, drafters: Sequence[Drafter], sampling: SamplingParams = GREEDY,
    gamma: int | Sequence[int] = 3, tokens: int = 10, prompt: Sequence[int] = PROMPT, policy=None, trace: bool = True,
    rules: Rules = TRUE_RULES, acceptance: str = "token",
) -> list[Round]:  # fmt: skip
    """The rounds of one run; each has read the device once, and an EAGLE tree once for each of its levels."""
    config = RunConfig("-", sampling=sampling, max_new_tokens=tokens, trace=trace, seed=3, acceptance=acceptance)
    recorder, reads = PlayedRecorder(config, WordTokenizer([str(i) for i in range(V)])), cuda.reads
    with cuda.running():
        policy = policy or policy_of(drafters, gamma)
        parts = (config, list(prompt), target, drafters, policy, frozenset(), recorder)
        decoder = SpeculativeDecoder(*parts, rules=rules, drafts_first=True)
        rounds = list(decoder.rounds())
    assert decoder.text.reason == "length" and cuda.reads - reads == len(rounds), "a round reads the device once"
    return rounds
