"""Captured graphs give what eager passes give, and a round waits for the device once.

Everything that is not about CUDA itself also runs on a CPU, with graphs that are played (fake_graphs.py).
"""

import gc

import pytest
import torch
from fake_graphs import FakeGraphs
from tiny_models import runner_of, write
from tiny_pairs import model_folder

from engine.config import RunConfig, SamplingParams
from engine.decoding.draft_length import FixedGamma
from engine.decoding.loop import SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.drafters.base import DrafterSetup
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.eagle3 import Eagle3Drafter
from engine.exactness.distribution_test import judge, sample_engine
from engine.exactness.toy_models import ToyTokenizer
from engine.models.cuda_graphs import EagerGraphs
from engine.models.eagle3_head import EagleModel
from engine.models.runner import DecoderRunner
from engine.runtime.engine import load_engine
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import draw
from engine.training import export
from engine.training.students import new_eagle
from engine.training.teacher import Teacher

GPU = pytest.mark.gpu
PROMPT = [5, 9, 13, 21, 5, 9]
WORDS = [f"w{i}" for i in range(96)]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=GPU)])
def device(request):
    return request.param


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp(f"model{seed}")
        made.append((folder, write(folder, "qwen3", seed=seed)))
    return made


def graphs(device: str, captured: bool):
    """None for CUDA's own, which a runner has already."""
    if not captured:
        return EagerGraphs()
    return FakeGraphs() if device == "cpu" else None


def runner(folders, index: int, captured: bool, device: str):
    made = runner_of(*folders[index], device=device, dtype=torch.float32)
    made.graphs = graphs(device, captured) or made.graphs
    return made


@pytest.fixture(scope="module")
def head(folders, tmp_path_factory):
    """An EAGLE head for the first model, as it is before training: its guesses are poor and its passes are real."""
    teacher, out = Teacher.load(folders[0][0], "cpu"), tmp_path_factory.mktemp("made") / "head"
    student = new_eagle(teacher, torch.arange(0, 96, 2), 2, teacher.layer, torch.ones(2))
    export.eagle(student, teacher, (0, 1), out, "")
    return out


def decoder(folders, device: str, captured: bool, temperature: float, gamma: int = 4, head=None) -> SpeculativeDecoder:
    config = RunConfig("x", sampling=SamplingParams(temperature), max_new_tokens=48, seed=3)
    target = runner(folders, 0, captured, device)
    if head is None:
        drafter = DraftModelDrafter(runner(folders, 1, captured, device))
    else:
        drafts = DecoderRunner(EagleModel(head, target.model, packed=False))
        drafts.graphs = graphs(device, captured) or drafts.graphs
        target.tap(drafts.model.reads)
        drafter = Eagle3Drafter(drafts, target)
    recorder = TraceRecorder(config, ToyTokenizer(WORDS))
    return SpeculativeDecoder(config, PROMPT, target, drafter, FixedGamma(gamma), frozenset(), recorder)


@pytest.mark.parametrize("width", [1, 2, 5, 9])
@torch.inference_mode()
def test_a_replay_gives_the_eager_logits_whatever_its_output_held_before(folders, device, width):
    graphed, eager = runner(folders, 0, True, device), runner(folders, 0, False, device)
    for made in (graphed, eager):
        made.reset(200)
        made.prefill(PROMPT)
    for step in range(3):
        tokens = torch.arange(step, step + width, device=device) + 3
        got, want = graphed.forward(tokens), eager.forward(tokens)
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        got.fill_(float("nan"))  # the next replay must write every element anew


@torch.inference_mode()
def test_a_draft_loop_gives_the_eager_drafts_whatever_its_output_held_before(folders, device):
    """Several rounds on one graph, fewer and more drafts kept, with what it returned last time overwritten."""
    drafts = {}
    for captured in (True, False):
        drafter, committed, drafts[captured] = DraftModelDrafter(runner(folders, 1, captured, device)), list(PROMPT), []
        drafter.start(PROMPT, DrafterSetup(SamplingParams(1.0), 96, Uniforms(3, 80), None, 200, device))
        for kept in (4, 0, 2, 4, 1, 3):
            draft = drafter.propose(committed, 4, len(committed) - len(PROMPT))
            drafts[captured].append((draft.tokens.clone(), draft.q.clone()))
            committed += [*draft.tokens[:kept].tolist(), 7]
            drafter.commit(kept)
            draft.q.fill_(float("nan"))
            draft.tokens.fill_(0)
    for (tokens, q), (eager_tokens, eager_q) in zip(drafts[True], drafts[False], strict=True):
        assert torch.equal(tokens, eager_tokens)
        torch.testing.assert_close(q, eager_q, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("vocabulary", [7, 1000, 50_000, pytest.param(151_936, marks=pytest.mark.slow)])
def test_no_token_without_mass_is_drawn_on_the_device(device, vocabulary):
    """A parallel scan adds up in another order for each element, so a token of no mass may seem to own an ulp."""
    generator = torch.Generator(device=device).manual_seed(vocabulary)
    for _ in range(20):
        probs = torch.rand(9, vocabulary, device=device, generator=generator) ** 3
        probs[torch.rand(probs.shape, device=device, generator=generator) < 0.7] = 0.0
        probs[:, -1] += 1e-4
        cdf = (probs / probs.sum(-1, keepdim=True)).cumsum(-1)
        for at in torch.randint(vocabulary, (50,)).tolist():  # aim at the seams between tokens
            u = cdf[:, at].clamp(0, 1 - 2.0**-24)
            ids = draw(probs, u)
            assert (probs.gather(1, ids[:, None]) > 0).all()


@pytest.mark.parametrize("method", ["lm", "eagle"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_is_the_same_on_and_off_graphs(folders, device, head, method, temperature):
    traces, before = [], FakeGraphs.made
    for captured in (True, False):
        run = decoder(folders, device, captured, temperature, head=head if method == "eagle" else None)
        rounds = list(run.rounds())
        traces.append([(t.id, t.status, t.position) for r in rounds for t in r.tokens])
    assert traces[0] == traces[1]
    assert device != "cpu" or FakeGraphs.made > before, "no graph was captured"


def test_a_second_run_on_the_same_graphs_repeats_the_first(folders, device):
    first = decoder(folders, device, True, 1.0)
    ids = [t.id for r in first.rounds() for t in r.tokens]
    recorder = TraceRecorder(first.config, ToyTokenizer(WORDS))
    again = SpeculativeDecoder(first.config, PROMPT, first.target, first.drafter, FixedGamma(4), frozenset(), recorder)
    assert [t.id for r in again.rounds() for t in r.tokens] == ids


@GPU
@pytest.mark.parametrize("method", ["lm", "eagle"])
def test_a_round_waits_for_the_device_once(folders, head, method):
    run = decoder(folders, "cuda", True, 1.0, head=head if method == "eagle" else None)
    rounds = run.rounds()
    for _ in range(6):  # every width that comes up has been captured by then
        next(rounds)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroniz") as caught:
            next(rounds)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(caught) == 1


# ---- whole engines, in the precision that a GPU runs in ------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A target and a draft that is nearly the same, as folders."""
    root = tmp_path_factory.mktemp("pair")
    model_folder(root / "target", max_position_embeddings=1024)
    model_folder(root / "draft", noise=0.3, max_position_embeddings=1024)
    return f"{root / 'target'}+{root / 'draft'}", root


@pytest.fixture
def engine_on(pair, device, monkeypatch):
    """``engine_on(precision)``: an engine whose passes are graphs, real or played."""
    if device == "cpu":
        monkeypatch.setattr("engine.models.runner.graphs_for", lambda _: FakeGraphs())
    monkeypatch.setattr("engine.runtime.engine.cache_root", lambda: pair[1] / "cache")
    made = []

    def load(precision: str):
        made.append(load_engine(pair[0], device, precision))
        assert made[-1].target.runner.captured
        return made[-1]

    yield load
    for engine in made:
        engine.close()


def asked(pair, method: str, **more) -> RunConfig:
    settings = {"gamma": 3, "max_new_tokens": 40, "chat": False} | more
    return RunConfig("the cat, the hat, the cat", pair[0], method, **settings)


def ids(engine, config) -> list[int]:
    return [t.id for event in engine.run(config, ends=False) for t in getattr(event, "tokens", ()) if t.emitted]


@pytest.mark.parametrize("method", ["none", "ngram", "lm"])
def test_greedy_in_fp32_through_graphs_is_what_transformers_writes(pair, engine_on, method):
    from transformers import AutoModelForCausalLM

    engine = engine_on("fp32")
    gamma = 0 if method == "none" else 3
    mine = ids(engine, asked(pair, method, gamma=gamma))
    model = AutoModelForCausalLM.from_pretrained(pair[1] / "target", dtype=torch.float32).to(engine.device)
    prompt = engine.target.tokenizer(asked(pair, method).prompt, add_special_tokens=False)["input_ids"]
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([prompt], device=engine.device), do_sample=False, min_new_tokens=40, max_new_tokens=40,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
    theirs = out[0, len(prompt) :].tolist()
    assert mine == theirs


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ngram", "lm"])
def test_sampling_in_bf16_through_graphs_keeps_the_targets_distribution(pair, engine_on, method):
    """False-alarm rate 1e-3, had the seeds not been fixed."""
    config = asked(pair, method, sampling=SamplingParams(1.0, top_k=3))
    test = judge(*sample_engine(engine_on("bf16"), config, 500, length=2))
    assert test.lossless, f"p = {test.p_value:.2g}, distance {test.distance:.3f} beside {test.band}"


def test_what_bf16_writes_greedily_is_at_worst_a_near_tie_in_fp32(pair, engine_on):
    """Teacher-forced regret: how far each token's exact logit is below the best, next to what bf16 can resolve."""
    written = ids(engine_on("bf16"), asked(pair, "lm"))
    exact = engine_on("fp32").target
    prompt = exact.tokenizer(asked(pair, "lm").prompt, add_special_tokens=False)["input_ids"]
    exact.runner.reset(len(prompt) + len(written) + 1)
    exact.runner.prefill(prompt[:-1])
    with torch.inference_mode():
        rows = [exact.runner.forward(torch.tensor([t], device=exact.runner.device))[0].clone()
                for t in [prompt[-1], *written[:-1]]]  # fmt: skip
    regrets = [float((row.max() - row[token]) / row.abs().max()) for row, token in zip(rows, written, strict=True)]
    assert max(regrets) < 2**-5, f"the worst is {max(regrets):.3f} of the largest logit"  # some roundings of 2^-8


@GPU
def test_a_round_has_one_wait_by_the_profilers_count(pair, monkeypatch):
    from torch.profiler import ProfilerActivity, profile

    engine = load_engine(pair[0], "cuda", "bf16")
    ids(engine, asked(pair, "lm"))  # every width is captured
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        rounds = sum(hasattr(event, "tokens") for event in engine.run(asked(pair, "lm"), ends=False))
    waits = sum(e.count for e in seen.key_averages() if "Synchronize" in e.key)
    engine.close()
    assert rounds <= waits <= rounds + 8, f"{waits} waits in {rounds} rounds"  # a few before the first and at the end


@GPU
def test_all_memory_is_given_back(pair):
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    engine = load_engine(pair[0], "cuda", "bf16")
    ids(engine, asked(pair, "lm"))
    assert torch.cuda.memory_allocated() > before
    engine.close()
    assert torch.cuda.memory_allocated() <= before + 2**20
