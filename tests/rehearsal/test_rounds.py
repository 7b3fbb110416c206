"""Whole runs on fake CUDA tensors: devices, shapes and types fit, and a round reads the device once."""

from dataclasses import replace

import pytest
import torch
from rehearsal import GREEDY, TREE, TreeScript, V, drafter_of, drafters_of, model_runner, run, run_together
from tiny_models import CHECKPOINTS

from engine.config import METHODS, SamplingParams
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.none import NoDrafter
from engine.errors import Unavailable
from engine.runtime import calibration
from engine.runtime.device_choice import choose_precision
from engine.tools.bench.fixed_acceptance import accept_with_probability

pytestmark = pytest.mark.rehearse

HEADS = ["eagle-chain", "eagle", "block", "block with a bias", "medusa", "exit"]
TRANSLATED = ["intersection", "reencoding"]
DRAFTERS = ["none", "ngram", "corpus", "lookahead", "lm", *TRANSLATED, *HEADS, "auto", "tree", "one-hot tree"]
TYPES = [torch.bfloat16, torch.float16]
SAMPLING = {
    "greedy": GREEDY,
    "plain": SamplingParams(1.0),
    "top-k": SamplingParams(0.7, top_k=5),
    "top-p": SamplingParams(1.2, top_p=0.9),
    "min-p": SamplingParams(1.0, min_p=0.05),
    "all": SamplingParams(0.8, top_k=20, top_p=0.95, min_p=0.02),
}
PENALISED = replace(SAMPLING["all"], repetition_penalty=1.3)


def test_every_method_is_rehearsed_or_refused():
    assert {*METHODS} <= {*DRAFTERS, "quantised", "grammar"}  # a grammar drafts on the host
    with pytest.raises(Unavailable, match="int4"):
        choose_precision("int4", "cuda")  # so the int4 copy cannot draft there


# All settings where they meet rows of q; elsewhere the first and the last, with and without the penalty.
RUNS = [(m, s) for m in DRAFTERS for s in SAMPLING if m in ("lm", "eagle-chain", "tree") or s in ("greedy", "all")]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize(("method", "name"), RUNS)
def test_a_run_with_every_drafter_and_sampling(cuda, monkeypatch, method, name, penalty):
    target, sampling = model_runner(cuda), replace(SAMPLING[name], repetition_penalty=penalty)
    rounds = run(cuda, target, drafters_of(method, cuda, target, monkeypatch), sampling)
    assert sum(len(r.emitted) for r in rounds) == 10
    drafted = {len(r.parents) for r in rounds}
    assert drafted == {0} if method == "none" else max(drafted) >= 3


@pytest.mark.parametrize("dtype", TYPES, ids=["bf16", "fp16"])
@pytest.mark.parametrize("family", CHECKPOINTS)
def test_every_family_in_both_types(cuda, monkeypatch, family, dtype):
    """Families differ in heads, biases, norms, rotary scaling and whether the output layer is the embedding."""
    target = model_runner(cuda, family, dtype)
    method = "eagle" if dtype == torch.bfloat16 else "lm"
    run(cuda, target, drafters_of(method, cuda, target, monkeypatch), SamplingParams(1.0))


@pytest.mark.parametrize("dtype", TYPES, ids=["bf16", "fp16"])
@pytest.mark.parametrize("method", DRAFTERS)
def test_every_drafter_in_both_types(cuda, monkeypatch, method, dtype):
    target = model_runner(cuda, "llama", dtype)
    run(cuda, target, drafters_of(method, cuda, target, monkeypatch), SAMPLING["all"])


@pytest.mark.parametrize("method", ["lm", "eagle"])
def test_a_long_prompt_is_prefilled_in_chunks(cuda, monkeypatch, method):
    target = model_runner(cuda, max_position_embeddings=2048)
    prompt = [3 + i % 90 for i in range(1100)]
    run(cuda, target, drafters_of(method, cuda, target, monkeypatch), prompt=prompt, tokens=8)
    assert cuda.waits == ["cuda", "cuda"], "the target's reading of the prompt is waited for once, and the draft's"


@pytest.mark.parametrize("method", ["lm", "eagle"])
@pytest.mark.parametrize("rest", [1, 5, 7, 8])
def test_a_drafter_catches_up_after_rounds_without_drafts(cuda, monkeypatch, method, rest):
    """Up to eight tokens are fed with the first step, more are prefilled."""
    target = model_runner(cuda)
    gammas = [3, *[0] * rest, 3, 0]
    rounds = run(cuda, target, drafters_of(method, cuda, target, monkeypatch), gamma=[*gammas, 0], tokens=rest + 10)
    assert [r.gamma for r in rounds[: rest + 2]] == [3, *[0] * rest, 3]


@pytest.mark.parametrize("parents", [TREE, (0, 0, 0), (0, 1, 2), (0, 1, 1, 1, 4, 4)], ids=str)
@pytest.mark.parametrize("tapped", [False, True], ids=["", "tapped"])
def test_a_tree_moves_keys_values_and_features(cuda, parents, tapped):
    target = model_runner(cuda)
    if tapped:
        target.tap((0, 1))
    rounds = run(cuda, target, [TreeScript(parents)], SamplingParams(1.0), gamma=5, tokens=14)
    assert any("accepted" in [t.status for t in r.tokens] for r in rounds)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("name", ["greedy", "all"])
@pytest.mark.parametrize("method", ["lm", "eagle-chain", "ngram", "tree", "one-hot tree"])
def test_rounds_decided_by_blocks(cuda, monkeypatch, method, name, penalty):
    target, sampling = model_runner(cuda), replace(SAMPLING[name], repetition_penalty=penalty)
    rounds = run(cuda, target, drafters_of(method, cuda, target, monkeypatch), sampling, acceptance="block")
    assert any(t.running is not None for r in rounds for t in r.tokens)


@pytest.mark.parametrize("method", ["lm", "tree", "ngram"])
def test_rounds_decided_by_typical_acceptance(cuda, monkeypatch, method):
    target = model_runner(cuda)
    rounds = run(cuda, target, drafters_of(method, cuda, target, monkeypatch), SAMPLING["all"], acceptance="typical")
    assert any(t.threshold is not None for r in rounds for t in r.tokens)


@pytest.mark.parametrize("method", ["lookahead", "reencoding"])
def test_a_method_of_the_host_reads_the_device_once_more_in_a_round(cuda, monkeypatch, method):
    target = model_runner(cuda)
    rounds = run(cuda, target, drafters_of(method, cuda, target, monkeypatch))
    assert cuda.level_reads == sum(bool(r.parents) for r in rounds) > 2


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_an_eagle_tree_reads_the_device_once_more_for_each_level(cuda, monkeypatch, penalty):
    target, sampling = model_runner(cuda), replace(GREEDY, repetition_penalty=penalty)
    rounds = run(cuda, target, drafters_of("eagle", cuda, target, monkeypatch), sampling)
    assert cuda.level_reads == sum(r.draft_steps for r in rounds) > len(rounds)
    assert any(r.parents != tuple(range(len(r.parents))) for r in rounds), "no round was a tree"


@pytest.mark.parametrize("acceptance", ["token", "block"])
def test_a_tree_of_draws_whose_shape_is_fixed_is_not_waited_for(cuda, monkeypatch, acceptance):
    target = model_runner(cuda)
    drafter = drafter_of("eagle", cuda, target, monkeypatch)
    rounds = run(cuda, target, [drafter], PENALISED, gamma=5, tokens=14, acceptance=acceptance)
    assert any(r.parents != tuple(range(len(r.parents))) for r in rounds) and not cuda.level_reads


@pytest.mark.parametrize("method", ["lm", "eagle", "ngram", "tree"])
def test_an_untraced_run(cuda, monkeypatch, method):
    target = model_runner(cuda)
    run(cuda, target, drafters_of(method, cuda, target, monkeypatch), SAMPLING["all"], trace=False)


@pytest.mark.parametrize("method", ["none", "ngram", "tree", "lm", *HEADS])
def test_a_round_without_graphs_never_waits_for_the_device(eager_cuda, monkeypatch, method):
    """γ is fixed; otherwise a draft model's confidence decides after each token, which the host waits for."""
    target = model_runner(eager_cuda)
    run(eager_cuda, target, drafters_of(method, eager_cuda, target, monkeypatch), PENALISED)


def test_a_draft_with_fewer_or_more_words_than_the_target(cuda):
    """A padded draft: its further words are cut off before they can be drawn."""
    target = model_runner(cuda)
    for words in (V - 8, V + 8):
        run(cuda, target, [DraftModelDrafter(model_runner(cuda, "llama", vocab_size=words))], PENALISED)


@pytest.mark.parametrize("method", ["lm", *HEADS, "tree"])
def test_a_run_on_the_second_device(cuda, monkeypatch, method):
    target = model_runner(cuda, device="cuda:1")
    run(cuda, target, drafters_of(method, cuda, target, monkeypatch), PENALISED)
    assert {*cuda.waits, *cuda.marks} == {"cuda:1"}


@pytest.mark.parametrize("method", ["lm", *HEADS])
def test_the_measurements_of_bench_gpu(cuda, monkeypatch, method):
    """Costs, and rounds at an α set by hand."""
    target = model_runner(cuda)
    drafter = drafter_of(method, cuda, target, monkeypatch)
    with cuda.running():
        assert calibration.measure(target, None, (1, 2, 5), context=20, repeats=1).v.keys() == {1, 2, 5}
        assert calibration.measure(target, drafter, (1,), context=20, repeats=1).c > 0
    run(cuda, target, [drafter], rules=accept_with_probability(0.8), trace=False)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_runs_that_share_their_passes(cuda, monkeypatch, penalty):
    target, sampling = model_runner(cuda), replace(SAMPLING["all"], repetition_penalty=penalty)
    methods = ("none", "ngram", "lm", "medusa", "exit", "tree")
    for rounds in run_together(cuda, target, methods, monkeypatch, sampling):
        assert sum(len(r.emitted) for r in rounds) == 10


def test_a_second_run_uses_the_same_cache_and_graphs(cuda):
    target = model_runner(cuda)
    run(cuda, target, [NoDrafter()])
    cache, captured = target.cache, {*target.graphs.recordings}
    run(cuda, target, [NoDrafter()])
    assert target.cache is cache and {*target.graphs.recordings} == captured
