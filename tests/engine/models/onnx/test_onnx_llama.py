"""The CPU pass: a row has the same bits in every pass, rounded weights multiply as they should, and refusals.

That it gives transformers' logits on every family, in a tree and after a rollback, too, is in test_llama.py.
"""

import weakref
from math import prod
from pathlib import Path

import pytest
import torch
from closeness import tolerance
from tiny_models import onnx_runner_of, write
from tiny_pairs import model_folder
from transformers import LlamaConfig

from engine.config import ROUNDED
from engine.errors import BadInput
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner, Tokens
from engine.models.loader import load_model
from engine.models.onnx import session as onnx_session
from engine.models.onnx.graph import FLOAT, Graph, eight_bits
from engine.models.onnx.llama import ONNX_PRECISIONS, OnnxLlama
from engine.models.onnx.session import OnnxSession
from engine.models.tensors.gguf_reader import open_weights
from engine.models.tensors.grouped import GroupedWeight, RoundedReader

WIDE = {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 1024}  # 32 divides every width
IDS = [(37 * i * i + 11 * i + 5) % 96 for i in range(300)]
SPLITS = {
    "plain steps": [1] * 24, "chains": [1, 4, 2, 7, 3, 5, 2], "pairs": [2] * 12, "one pass": [24], "chunks": [9, 15],
}  # fmt: skip


@pytest.fixture(scope="module", params=ONNX_PRECISIONS)
def runner(request, tmp_path_factory) -> DecoderRunner:
    folder = tmp_path_factory.mktemp(request.param)
    return onnx_runner_of(folder, write(folder, "qwen3", **WIDE), request.param)


def needs_same_bits(runner: DecoderRunner) -> None:
    if not runner.model.same_bits:
        pytest.skip("no number of rows keeps the bits on this processor")


def after(runner: DecoderRunner, prompt: int, widths, chunks=(512,)) -> torch.Tensor:
    """Logits [24, V] of the tokens after ``prompt`` ones, scored in passes of these widths."""
    runner.reset(prompt + 40)
    at = 0
    while at < prompt:
        for chunk in chunks:
            runner.prefill(IDS[at : min(at + chunk, prompt)])
            at = min(at + chunk, prompt)
    rows = []
    for width in widths:
        rows.append(runner.forward(torch.tensor(IDS[at : at + width])))
        at += width
    return torch.cat(rows) if rows else torch.zeros(0)


@pytest.mark.parametrize("prompt", [1, 30, 270])
def test_a_row_has_the_same_bits_in_every_pass(runner, prompt):
    needs_same_bits(runner)
    right = after(runner, prompt, [8, 8, 8])
    for name, widths in SPLITS.items():
        assert torch.equal(after(runner, prompt, widths), right), name


@pytest.mark.parametrize("chunks", [(1, 64, 7), (65, 1), (129, 33)])  # one row more than its attention takes at once
def test_a_prompt_in_chunks_leaves_the_same_keys(runner, chunks):
    needs_same_bits(runner)
    after(runner, 270, [])
    keys = runner.cache.keys[:, :, :270].clone()
    after(runner, 270, [], chunks=chunks)
    assert torch.equal(runner.cache.keys[:, :, :270], keys)


def test_a_copy_of_a_single_row_changes_nothing(runner, monkeypatch):
    """On a processor where a row alone has the same bits anyway, its copy must not show in results and cache."""
    needs_same_bits(runner)

    def steps(fewest: int):
        monkeypatch.setattr(runner.model, "_fewest", fewest)
        logits = after(runner, 30, [1, 1, 3, 1], chunks=(1,))
        return logits, runner.tapped[:36].clone(), runner.cache.keys[:, :, :36].clone(), beside(runner)[0]

    runner.tap((0, 2))
    own, copied = steps(runner.model._fewest), steps(2)
    assert len(own[0]) == 6 and all(torch.equal(one, two) for one, two in zip(own, copied, strict=True))
    runner.tap(())


def beside(runner: DecoderRunner) -> list[torch.Tensor]:
    """Logits of three sequences of unlike length in shared passes; a fourth joins, reads its prompt, and leaves."""
    sequences = [(5, [1, 1, 2, 3]), (40, [3, 1, 1, 1]), (130, [1, 5, 1, 2])]
    runners, rows = [runner.fork() for _ in sequences], [[] for _ in sequences]
    for each, (prompt, _) in zip(runners, sequences, strict=True):
        each.reset(prompt + 20)
        each.prefill(IDS[:prompt])
    reader = runner.fork()
    reader.reset(60)
    for step in range(4):
        batch = [
            Tokens(each, torch.tensor(IDS[each.length : each.length + widths[step]]))
            for each, (_, widths) in zip(runners, sequences, strict=True)
        ]
        if step in (1, 2):
            batch.insert(1, Tokens(reader, IDS[20 * step : 20 * step + 20], wants_logits=False))
        logits = [part for part in runner.forward_many(batch) if part is not None]
        for own, part in zip(rows, logits, strict=True):
            own.append(part.clone())
    return [torch.cat(own) for own in rows]


def apart(runner: DecoderRunner) -> list[torch.Tensor]:
    return [after(runner, prompt, [width])[:width] for prompt, width in ((5, 7), (40, 6), (130, 9))]


def test_neighbours_change_no_bit(runner):
    needs_same_bits(runner)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(beside(runner), apart(runner), strict=True))


def test_more_sequences_than_a_pass_holds_take_turns(tmp_path):
    shared = onnx_runner_of(tmp_path, write(tmp_path, "llama", **WIDE), "int8")
    runners = [shared.fork() for _ in range(19)]
    for i, each in enumerate(runners):
        each.reset(60)
        each.prefill(IDS[: 1 + 2 * i])
    batch = [Tokens(each, torch.tensor(IDS[each.length :][: 1 + i % 3])) for i, each in enumerate(runners)]
    for i, logits in enumerate(shared.forward_many(batch)):
        assert torch.equal(logits, after(shared, 1 + 2 * i, [1 + i % 3]))


def product(precision: str, weight, x: torch.Tensor) -> torch.Tensor:
    graph = Graph(precision)
    graph.linear(graph.input("x", FLOAT, ["T", x.shape[1]]), "y", weight)
    N = len(weight.n) if isinstance(weight, GroupedWeight) else len(weight)
    graph.output("y", ["T", N])
    return OnnxSession(graph).run({"x": x}, {"y": (len(x), N)})["y"]


def in_eight_bits(x: torch.Tensor) -> torch.Tensor:
    """x as the kernels round it: 8 bits for each row and each 32 inputs."""
    groups = x.view(len(x), -1, 32)
    scale = groups.abs().amax(-1, keepdim=True) / 127
    return ((groups / scale).round() * scale).view(x.shape)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_product_is_that_of_the_rounded_weights_and_inputs(precision, bits):
    weight, x = GroupedWeight.round(torch.randn(48, 96), bits), torch.randn(5, 96)
    rest = torch.zeros_like(weight.scale)  # multiplied by the sums of whole inputs
    if (precision, bits) == ("int4", 4):
        rest = weight.offset + 8 * weight.scale
    steps = weight.dense() - rest.repeat_interleave(32, 1)
    right = in_eight_bits(x) @ steps.T + x.view(5, -1, 32).sum(-1) @ rest.T
    off = product(precision, weight, x) - right
    step = weight.scale.max() / 32 * 96**0.5 if (precision, bits) == ("int8", 4) else 0  # of a zero point in sixteenths
    assert off.abs().max() < tolerance(right) + 4 * step


@pytest.mark.parametrize("shift", [-9.0, 0.0, 9.0])
def test_groups_far_from_zero_keep_their_values_in_eight_bits(shift):
    """The zero point of such a group would not fit 8 bits, so it is rounded again."""
    weight = GroupedWeight.round(torch.randn(4, 64) + shift, 4)
    n, scale, zero = (torch.from_numpy(part).float() for part in eight_bits(weight))
    found = (scale[..., None] * (n - zero[..., None])).view(4, 64)
    step = scale.max() if shift else weight.scale.max() / 16
    assert (found - weight.dense()).abs().max() < step / 2 + tolerance(found, step)


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3-tied", "llama-biased"])
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_rounded_model_is_that_of_the_rounded_weights(tmp_path, precision, name):
    """Torch computes it in fp32; only the rounding of inputs remains. The embedded model's KL is in
    test_real_model.py."""
    model = write(tmp_path, name, **WIDE)
    rounded = RoundedReader(open_weights(tmp_path, torch.float32, "cpu"), ROUNDED[precision])
    plain = DecoderRunner(LlamaModel(tmp_path, model.config, torch.float32, "cpu", weights=rounded))
    logits, right = (after(each, 9, [24]) for each in (onnx_runner_of(tmp_path, model, precision), plain))
    assert 0 < (logits - right).std() < 0.1 * right.std()


@pytest.mark.parametrize("precision", ONNX_PRECISIONS)
def test_a_session_runs_after_its_weight_file_was_removed(precision, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path))
    weight = torch.randn(40_000, 64) if precision == "fp32" else GroupedWeight.round(torch.randn(40_000, 64), 4)
    graph, x = Graph(precision), torch.randn(3, 64)
    graph.linear(graph.input("x", FLOAT, ["T", 64]), "y", weight, torch.randn(40_000).numpy())
    graph.output("y", ["T", 40_000])
    assert graph.weights.bytes > 40_000 * 32 and [*tmp_path.rglob("weights")]
    session = OnnxSession(graph)
    assert not [*tmp_path.rglob("weights")]
    before = session.run({"x": x}, {"y": (3, 40_000)})["y"]
    assert torch.equal(session.run({"x": x}, {"y": (3, 40_000)})["y"], before)


def test_a_cache_is_freed_with_its_run(tmp_path):
    runner = onnx_runner_of(tmp_path, write(tmp_path, "llama", **WIDE), "int8")
    beside(runner)
    after(runner, 20, [3])
    freed = weakref.ref(runner.cache.keys.untyped_storage())
    runner.release()
    assert freed() is None


def test_without_memory_for_another_graph_sequences_take_turns(tmp_path, monkeypatch):
    runner = onnx_runner_of(tmp_path, write(tmp_path, "llama", **WIDE), "int8")
    monkeypatch.setattr("engine.models.onnx.llama.available_memory", lambda device: -1)
    right = beside(runner)
    assert runner.model._several is None
    monkeypatch.setattr("engine.models.onnx.llama.available_memory", lambda device: None)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(beside(runner), right, strict=True))
    assert runner.model._several


class RandomWeights:
    """Gives each tensor the same million numbers, again and again, with norms of 1 and without biases."""

    folder = Path("random weights")

    def __init__(self):
        self.numbers = torch.empty(1_000_003).normal_(0.0, 0.02, generator=torch.Generator().manual_seed(0))

    def __contains__(self, name: str) -> bool:
        return not name.endswith((".bias", "q_norm.weight", "k_norm.weight")) and name != "lm_head.weight"

    def __call__(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        size = prod(shape)
        return torch.ones(shape) if "norm" in name else self.numbers.repeat(1 + size // 1_000_003)[:size].view(shape)


@pytest.mark.slow
def test_weights_above_two_gigabytes_need_no_file():
    """600 million weights of four bytes are handed over in memory; a graph holds 2 GB."""
    config = LlamaConfig(
        vocab_size=151_936, hidden_size=1_024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
        head_dim=128, intermediate_size=3_072, tie_word_embeddings=True,
    )  # fmt: skip
    runner = DecoderRunner(OnnxLlama(RandomWeights.folder, config, "fp32", weights=RandomWeights()))
    runner.reset(30)
    runner.prefill(IDS[:9])
    block = runner.forward(torch.tensor(IDS[9:13]))
    runner.rollback(9)
    steps = torch.cat([runner.forward(torch.tensor([token])) for token in IDS[9:13]])
    assert torch.isfinite(block).all() and block.std() > 0
    assert torch.equal(block, steps) or not runner.model.same_bits


@pytest.mark.parametrize("text", ["0", "1000", "two"])
def test_threads_follow_the_setting_and_a_wrong_number_is_a_sentence(monkeypatch, text):
    monkeypatch.setenv(onnx_session.THREADS, "1")
    assert onnx_session.threads() == 1
    monkeypatch.setenv(onnx_session.THREADS, text)
    with pytest.raises(BadInput, match=r"set it to a number from 1 to \d+, or not at all"):
        onnx_session.threads()


def _missing(name, *rest, _import=__import__):
    if name.split(".")[0] == "onnxruntime":
        raise ImportError("No module named 'onnxruntime'")
    return _import(name, *rest)


def test_a_package_that_cannot_serve_is_a_sentence(monkeypatch):
    for change, sentence in (
        (("builtins.__import__", _missing), "pip install onnxruntime"),
        (("onnxruntime.__version__", "1.19.2"), "1.19.2 is too old"),
        (("engine.models.onnx.graph.MS", "no.such.domain"), "lacks an operator"),
        (("engine.models.onnx.session._TOLERANCE", 0.0), "multiplies wrongly on this processor"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            found = onnx_session._problem.__wrapped__()
        assert sentence in found and "\n" not in found


@pytest.mark.parametrize("precision", ONNX_PRECISIONS)
def test_without_the_package_torch_runs_the_same_weights(tmp_path, monkeypatch, precision):
    model_folder(tmp_path, **WIDE)
    ours = load_model(tmp_path, "cpu", precision).runner
    monkeypatch.setattr("engine.models.onnx.session.problem", lambda: "It is not here.")
    plain = load_model(tmp_path, "cpu", precision).runner
    assert not plain.model.on_host
    rows = [after(each, 9, [24]) for each in (ours, plain)]
    assert (rows[0] - rows[1]).std() < 0.1 * rows[1].std()
