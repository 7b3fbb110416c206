"""The whole call of a lent GPU (ZeroGPU) on fake CUDA tensors: load, calibrate, run, baseline, free."""

import os
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rehearsal import LETTERS, PlayedRecorder, V, model_runner
from tiny_pairs import model_folder, request
from unlike_tokenizers import letters

from app.jobs.baseline import with_baseline
from app.jobs.zero_gpu import run_on_zero_gpu
from engine.models.decoder.cuda_graphs import SWITCH
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.loader import DTYPES, LoadedModel
from engine.runtime import worker
from engine.runtime.engine import Engine
from engine.trace.events import Progress, Round, RunFinished, RunStarted

pytestmark = pytest.mark.rehearse


@pytest.fixture
def host_gpu(eager_cuda, monkeypatch, tmp_path):
    """The host's GPU, with a target and a draft on it: their folder pair, and every engine that a call loaded."""
    monkeypatch.setenv(SWITCH, "1")  # the call itself turns graphs off
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    for name in ("target", "draft"):
        model_folder(tmp_path / name, tokenizer=letters(*LETTERS), template=None, vocab_size=V)
    # Not is_available: torch's fake tensors would then look for a real device.
    monkeypatch.setattr("engine.runtime.device_choice.default_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "fake")
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 1 << 30)

    def load_model(folder, device, precision, progress=None):
        assert (device, precision) == ("cuda", "bf16")
        runner = model_runner(eager_cuda, "llama", DTYPES[precision], device)
        return LoadedModel(runner, load_tokenizer(folder), frozenset(), folder)

    # Without graphs a draft model's confidence is read after each token.
    monkeypatch.setattr("engine.drafters.autoregressive.to_host", lambda x: np.full(tuple(x.shape), 0.5, np.float32))
    loaded, as_in_a_run = [], ExitStack()
    load_engine, run_jobs = worker._load, worker.Worker._run

    def load_on_the_fake(*args) -> Engine:
        """Everything after the load is a run, where nothing may make the host wait."""
        loaded.append(load_engine(*args))
        as_in_a_run.enter_context(eager_cuda.running())
        return loaded[-1]

    def run_on_the_fake(*args) -> None:
        with as_in_a_run:  # on the engine's own thread, because fake tensors belong to one
            run_jobs(*args)

    monkeypatch.setattr(worker.Worker, "_run", run_on_the_fake)
    monkeypatch.setattr("engine.runtime.pair_models.load_model", load_model)
    monkeypatch.setattr(worker, "_load", load_on_the_fake)
    monkeypatch.setattr("engine.runtime.engine.TraceRecorder", PlayedRecorder)
    return SimpleNamespace(pair=f"{tmp_path / 'target'}+{tmp_path / 'draft'}", engines=loaded, cuda=eager_cuda)


def test_a_lent_gpu_loads_calibrates_runs_and_is_given_back(host_gpu):
    config = request(host_gpu.pair, "lm", prompt="".join(LETTERS[5:12]), gamma=3, max_new_tokens=12)
    entries = list(run_on_zero_gpu(with_baseline(config)))
    events = {lane: [item for name, item in entries if name == lane] for lane in ("run", "baseline")}
    for lane in events.values():
        kinds = [type(item) for item in lane if not isinstance(item, Progress)]
        assert kinds[0] is RunStarted and kinds[-1] is RunFinished and {*kinds[1:-1]} == {Round}
        assert sum(len(item.emitted) for item in lane if isinstance(item, Round)) == 12
    started = next(item for item in events["run"] if isinstance(item, RunStarted))
    assert (started.device, started.dtype) == ("fake", "bf16") and os.environ[SWITCH] == "0"
    said = " ".join(item.message for _, item in entries if isinstance(item, Progress))
    assert "Loading the target" in said and "Calibrating" in said
    assert len(host_gpu.engines) == 1 and host_gpu.engines[0].target.runner is None, "memory is given back"
