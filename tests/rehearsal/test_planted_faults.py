"""Faults planted on purpose turn the rehearsal red, and their lines are named."""

import inspect

import pytest
import torch
from fake_cuda import HostReached, NotRepeatable
from rehearsal import TreeScript, drafter_of, drafters_of, model_runner, run

from engine.config import SamplingParams
from engine.decoding.loop import SpeculativeDecoder
from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.none import NoDrafter
from engine.models.decoder.runner import DecoderRunner
from engine.sampling.warping import History

pytestmark = pytest.mark.rehearse


def line_of(function, marker: str) -> str:
    """Returns where ``marker`` is in this file, as the rehearsal names it."""
    lines, first = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if marker in line)
    return f"tests/rehearsal/{__name__.rpartition('.')[2]}.py:{first + offset}: {lines[offset].strip()}"


def test_a_cpu_index_into_a_cuda_tensor_is_caught(cuda, monkeypatch):
    def accept(self, p, draft, u, u_closing):
        p = p[torch.arange(len(p))]  # on the CPU
        return accepting(self, p, draft, u, u_closing)

    accepting = SpeculativeDecoder._accept
    monkeypatch.setattr(SpeculativeDecoder, "_accept", accept)
    with pytest.raises(HostReached, match="mixes a CPU tensor") as raised:
        run(cuda, model_runner(cuda), [NoDrafter()])
    assert str(raised.value).startswith(line_of(accept, "on the CPU"))


def test_an_item_in_the_draft_loop_is_caught(cuda, monkeypatch):
    def sample(self, logits, seen, u):
        token, q = sampling(self, logits, seen, u)
        self.last = token.item()  # waits for the device
        return token, q

    sampling = AutoregressiveDrafter.sample
    monkeypatch.setattr(AutoregressiveDrafter, "sample", sample)
    target = model_runner(cuda)
    with pytest.raises(HostReached, match="needs the numbers") as raised:
        run(cuda, target, drafters_of("lm", cuda, target, monkeypatch), SamplingParams(1.0))
    assert str(raised.value).startswith(line_of(sample, "waits for the device"))


@pytest.mark.parametrize("read", [torch.Tensor.cpu, float, bool, torch.Tensor.nonzero, torch.unique])
def test_other_ways_to_read_a_cuda_tensor_are_caught(cuda, monkeypatch, read):
    def accept(self, p, draft, u, u_closing):
        read(p[0, :1])  # waits as well
        return accepting(self, p, draft, u, u_closing)

    accepting = SpeculativeDecoder._accept
    monkeypatch.setattr(SpeculativeDecoder, "_accept", accept)
    with pytest.raises(HostReached) as raised:
        run(cuda, model_runner(cuda), [NoDrafter()])
    assert str(raised.value).startswith(line_of(accept, "waits as well"))


def test_a_new_size_in_a_captured_step_is_caught(cuda, monkeypatch):
    def step(self, ids, offset, *arguments, **inputs):
        torch.zeros(self.length, device=self.device)  # another size each round
        return stepping(self, ids, offset, *arguments, **inputs)

    stepping = DecoderRunner.step
    monkeypatch.setattr(DecoderRunner, "step", step)
    with pytest.raises(NotRepeatable, match="captured as") as raised:
        run(cuda, model_runner(cuda), [NoDrafter()])
    assert str(raised.value).startswith(line_of(step, "another size each round"))


def test_a_number_of_the_round_in_a_captured_step_is_caught(cuda, monkeypatch):
    def step(self, ids, offset, *arguments, **inputs):
        ids = ids + self.length - self.length  # numbers that are others each round
        return stepping(self, ids, offset, *arguments, **inputs)

    stepping = DecoderRunner.step
    monkeypatch.setattr(DecoderRunner, "step", step)
    with pytest.raises(NotRepeatable) as raised:
        run(cuda, model_runner(cuda), [NoDrafter()])
    assert str(raised.value).startswith(line_of(step, "others each round"))


def test_a_buffer_of_the_run_in_a_captured_loop_is_caught(cuda, monkeypatch):
    """The draft loop once read the history of the run it was captured in."""
    monkeypatch.setattr(AutoregressiveDrafter, "penalised_tokens", lambda self: self.setup.history.seen[None])
    target = model_runner(cuda)
    drafter, sampling = drafter_of("lm", cuda, target, monkeypatch), SamplingParams(1.0, repetition_penalty=1.3)
    run(cuda, target, [drafter], sampling)
    with pytest.raises(NotRepeatable, match=r"engine/drafters/autoregressive.py:\d+: seen = None "):
        run(cuda, target, [drafter], sampling)


def test_host_values_in_a_captured_loop_are_caught(cuda, monkeypatch):
    def draft(self, step, ids, inputs, u, *rest):
        u = u + torch.tensor([0.0]).pin_memory().to("cuda", non_blocking=True)
        return drafting(self, step, ids, inputs, u, *rest)

    drafting = DraftModelDrafter.draft
    monkeypatch.setattr(DraftModelDrafter, "draft", draft)
    target = model_runner(cuda)
    with pytest.raises(NotRepeatable, match="reads host memory"):
        run(cuda, target, drafters_of("lm", cuda, target, monkeypatch))


def test_values_that_were_not_pinned_are_caught(cuda, monkeypatch):
    monkeypatch.setattr(
        "engine.models.decoder.kv_cache.to_device", lambda values, device: torch.tensor(values, device=device)
    )
    with pytest.raises(HostReached, match=r"not pinned"):
        run(cuda, model_runner(cuda), [TreeScript()], SamplingParams(1.0), gamma=5)


def test_a_scalar_written_through_an_index_is_caught(cuda, monkeypatch):
    """Torch copies the scalar to CUDA from memory that is not pinned (seen in torch 2.13)."""

    def add(self, ids):
        self.seen[torch.zeros(len(list(ids)), dtype=torch.long, device="cuda")] = True  # a copy from the host

    monkeypatch.setattr(History, "add", add)
    with pytest.raises(HostReached, match="mixes a CPU tensor") as raised:
        run(cuda, model_runner(cuda), [NoDrafter()], SamplingParams(1.0, repetition_penalty=1.3))
    assert str(raised.value).startswith(line_of(add, "a copy from the host"))
