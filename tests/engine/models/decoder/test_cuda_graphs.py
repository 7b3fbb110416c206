"""Captured graphs give what eager passes give, and a round waits for the device once.

Everything that is not about CUDA itself also runs on a CPU, with graphs that are played (fake_graphs.py).
"""

import gc
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from closeness import assert_close
from fake_graphs import FakeGraphs
from tiny_models import seeded
from tiny_pairs import VOCABULARY, generated, ids_of, pair_with_draft, request, run
from transformers import AutoModelForCausalLM

from engine.config import RunConfig, SamplingParams
from engine.drafters.base import DrafterSetup
from engine.models.decoder.cuda_graphs import MOST_GRAPHS, CudaGraphs, EagerGraphs
from engine.runtime.engine import load_engine
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import draw
from engine.tools.training import export
from engine.tools.training.students import EagleStudent, ExitStudent
from engine.tools.training.teacher import Teacher
from engine.trace.costs import CostModel
from engine.trace.trace import fold

GPU = pytest.mark.gpu
PROMPT_IDS = [5, 9, 13, 21, 5, 9]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=GPU)])
def device(request):
    return request.param


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A target, a draft that is nearly the same, and heads before training: poor guesses, real passes."""
    root = tmp_path_factory.mktemp("pair")
    pair_with_draft(root, "qwen3", max_position_embeddings=1024)
    teacher = Teacher.load(root / "target", "cpu")
    words = torch.arange(0, VOCABULARY, 2)
    with seeded(0):
        export.eagle(EagleStudent.new(teacher, words, torch.ones(2)), teacher, (0, 1), None, root / "eagle", "")
        export.exit_head(ExitStudent(teacher, words), teacher, (1,), None, root / "exit", "")
    return root


@pytest.fixture
def engine_on(root, device, monkeypatch):
    """``engine_on(precision, method, captured)``: an engine whose passes are graphs, real or played, or eager ones."""
    monkeypatch.setattr("engine.runtime.engine.cache_root", lambda: root / "cache")
    made = []

    def load(precision: str = "fp32", method: str = "lm", captured: bool = True):
        draft = root / (method if method in ("eagle", "exit") else "draft")
        with monkeypatch.context() as patch:
            if device == "cpu" or not captured:
                kind = FakeGraphs if captured else EagerGraphs
                patch.setattr("engine.models.decoder.runner.graphs_for", lambda _: kind())
                patch.setattr("engine.models.onnx.session.works", lambda: False)  # the models that CUDA has
            engine = load_engine(f"{root / 'target'}+{draft}", device, precision)
            engine.drafts.drafter(method)
        assert engine.target.runner.captured == captured
        engine._costs[method] = CostModel(0.3, {1: 1.0}, 200, 0.001)
        made.append(engine)
        return engine

    yield load
    for engine in made:
        if engine.target.runner is not None:
            engine.close()


def ids(engine, method: str, **settings) -> tuple[list[int], list[int]]:
    """The prompt and 40 tokens, whether the text has come to its end or not."""
    return ids_of(fold(engine.run(config_of(engine, method, **settings), stop_at_eos=False)))


def config_of(engine, method: str, **settings) -> RunConfig:
    return request(engine.pair.name, method, **{"gamma": 3, "max_new_tokens": 40} | settings)


@torch.inference_mode()
@pytest.mark.parametrize("parents", [None, (0, 0, 1, 1, 3, 2)], ids=["chain", "tree"])
def test_a_replay_gives_the_eager_logits_whatever_its_output_held_before(engine_on, device, parents):
    graphed, eager = (engine_on(captured=captured).target.runner for captured in (True, False))
    for width in (1, 2, 5, 9) if parents is None else (4, 5, 7):
        for made in (graphed, eager):
            made.reset(200)
            made.prefill(PROMPT_IDS)
        shape = None if parents is None else parents[: width - 1]
        for step in range(3):
            tokens = torch.arange(step, step + width, device=device) + 3
            got, want = graphed.forward(tokens, shape), eager.forward(tokens, shape)
            assert_close(got, want)
            got.fill_(float("nan"))  # the next replay must write every element again
            if shape is not None:
                for made in (graphed, eager):
                    made.keep(made.length - width, [0, 2])


def test_a_pass_that_was_not_finite_reaches_no_later_run(engine_on, device):
    runner = engine_on(captured=True).target.runner
    logits = []
    for _ in range(2):
        runner.reset(200)
        runner.prefill(PROMPT_IDS)
        logits.append(runner.forward(torch.tensor([3], device=device)).clone())
        with torch.inference_mode():
            runner.cache.values.fill_(float("nan"))
    assert logits[0].isfinite().all() and torch.equal(*logits)


@torch.inference_mode()
def test_draft_loop_gives_the_eager_drafts_over_any_earlier_output(engine_on, device):
    drafts = {}
    for captured in (True, False):
        drafter, committed, drafts[captured] = engine_on(captured=captured).drafts.drafter("lm"), list(PROMPT_IDS), []
        setup = DrafterSetup(SamplingParams(1.0), VOCABULARY, Uniforms(3, 80), None, 200, device, len(PROMPT_IDS))
        drafter.start(committed, setup)
        for kept in (4, 0, 2, 4, 1, 3):
            draft = drafter.propose(committed, 4)
            drafts[captured].append((draft.tokens.clone(), draft.q.clone()))
            committed += [*draft.tokens[:kept].tolist(), 7]
            drafter.commit(kept)
            draft.q.fill_(float("nan"))
            draft.tokens.fill_(0)
    for (tokens, q), (eager_tokens, eager_q) in zip(drafts[True], drafts[False], strict=True):
        assert torch.equal(tokens, eager_tokens)
        assert_close(q, eager_q)


@pytest.mark.parametrize("vocabulary", [50_000, pytest.param(151_936, marks=pytest.mark.slow)])
def test_no_token_without_mass_is_drawn_on_the_device(device, vocabulary):
    """A parallel scan adds up in another order for each element, so a token of no mass may seem to own an ulp."""
    generator = torch.Generator(device=device).manual_seed(vocabulary)
    for _ in range(8):
        probs = torch.rand(9, vocabulary, device=device, generator=generator) ** 3
        probs[torch.rand(probs.shape, device=device, generator=generator) < 0.7] = 0.0
        probs[:, -1] += 1e-4
        cdf = (probs / probs.sum(-1, keepdim=True)).cumsum(-1)
        for at in torch.randint(vocabulary, (50,)).tolist():  # aim at the seams between tokens
            u = cdf[:, at].clamp(0, 1 - 2.0**-24)
            ids = draw(probs, u)
            assert (probs.gather(1, ids[:, None]) > 0).all()


@pytest.mark.parametrize("method", ["lm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("exit", "eagle"))])
def test_trace_is_the_same_on_and_off_graphs_and_on_reused_ones(engine_on, device, method):
    before = FakeGraphs.made
    graphed, eager = (engine_on(method=method, captured=captured) for captured in (True, False))
    for temperature in (0.0, 1.0):
        settings = {"temperature": temperature, "max_new_tokens": 32, "seed": 4}
        traces = [
            [(t.id, t.status, t.position) for r in run(engine, method, **settings).rounds for t in r.tokens]
            for engine in (graphed, eager, graphed)
        ]
        assert traces[0] == traces[1] == traces[2]
    assert device != "cpu" or FakeGraphs.made > before, "no graph was captured"


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=GPU)], indirect=True)
@pytest.mark.parametrize("method", ["lm", "eagle", "exit"])
def test_a_round_waits_for_the_device_once(engine_on, method):
    engine = engine_on(method=method)
    rounds = engine.run(config_of(engine, method, temperature=1.0), stop_at_eos=False)
    for _ in range(7):  # the start, then every width that comes up has been captured
        next(rounds)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchroniz") as caught:
            next(rounds)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(caught) == 1


def test_a_step_is_captured_once_and_all_graphs_go_together(monkeypatch):
    """Every sampling setting brings graphs of its own, and visitors choose those."""
    calls, stream = [], SimpleNamespace(wait_stream=lambda other: None)

    @contextmanager
    def noted(*names):
        calls.append(str(names[0]))
        yield

    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: stream)
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, noted)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **_: noted("capture"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: calls.append("replay")))
    graphs = CudaGraphs("cuda:1")

    def captures(key) -> bool:
        calls.clear()
        assert graphs.run(key, lambda: f"result {key}") == f"result {key}"
        assert calls[0] == "cuda:1" and calls[-1] == "replay"
        return "capture" in calls

    assert all(captures(key) for key in range(MOST_GRAPHS)) and not captures(0)
    assert captures("one more") and not captures("one more") and captures(0)


@pytest.mark.slow
def test_a_longer_request_gets_a_larger_cache_and_new_graphs(engine_on, device):
    """The exit head runs on the target's cache, so its graphs must not outlive it."""
    graphed, eager = (engine_on(method="exit", captured=captured) for captured in (True, False))
    for prompt in ("the cat", 40 * "the hat ", "the cat"):
        ours, theirs = (ids(engine, "exit", prompt=prompt, max_new_tokens=20) for engine in (graphed, eager))
        assert ours == theirs
        assert graphed.drafts.drafter("exit").runner.cache is None, "otherwise two caches would need memory"


@pytest.mark.parametrize(
    "loaded, methods", [("lm", ("none", "ngram", "lm")), pytest.param("exit", ("exit",), marks=pytest.mark.slow)]
)
def test_greedy_in_fp32_through_graphs_is_what_transformers_writes(root, engine_on, loaded, methods):
    engine = engine_on(method=loaded)
    model = AutoModelForCausalLM.from_pretrained(root / "target", dtype=torch.float32).to(engine.device)
    for method in methods:
        prompt, mine = ids(engine, method)
        assert mine == generated(model, prompt, 40, eos=(), min_new_tokens=40), method


@pytest.mark.slow
def test_what_bf16_writes_greedily_is_at_worst_a_near_tie_in_fp32(engine_on):
    """The regret is teacher-forced: how far each token's exact logit is below the best, next to bf16's resolution."""
    prompt, written = ids(engine_on("bf16"), "lm")
    exact = engine_on("fp32").target
    exact.runner.reset(len(prompt) + len(written) + 1)
    exact.runner.prefill(prompt[:-1])
    with torch.inference_mode():
        rows = [exact.runner.forward(torch.tensor([t], device=exact.runner.device))[0].clone()
                for t in [prompt[-1], *written[:-1]]]  # fmt: skip
    regrets = [float((row.max() - row[token]) / row.abs().max()) for row, token in zip(rows, written, strict=True)]
    assert max(regrets) < 2**-5, f"the worst is {max(regrets):.3f} of the largest logit"  # some roundings of 2^-8


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=GPU)], indirect=True)
def test_all_memory_is_given_back(engine_on):
    first = engine_on("bf16")
    ids(first, "lm")  # cuBLAS keeps a workspace for each stream
    first.close()
    gc.collect()
    before = torch.cuda.memory_allocated()
    engine = engine_on("bf16")
    ids(engine, "lm")
    assert torch.cuda.memory_allocated() > before
    engine.close()
    assert torch.cuda.memory_allocated() <= before + 2**20
