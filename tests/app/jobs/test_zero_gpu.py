"""ZeroGPU: runs in a process of their own; events, errors and Stop must survive the way there and back."""

import json
import os
import subprocess
import sys

import pytest
from paths import ROOT
from tiny_pairs import model_folder

from app.jobs.zero_gpu import _SECONDS_FOR_RUNS, ZeroGpuWorker
from engine.config import RunConfig
from engine.models.decoder.cuda_graphs import SWITCH, CudaGraphs, EagerGraphs, graphs_for
from engine.runtime.engine import load_engine
from engine.trace.events import Round

# One process that imports torch, and one for every call of it.
pytestmark = pytest.mark.xdist_group("zero-gpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("lent") / "model"
    model_folder(path)
    return path


@pytest.fixture(scope="module")
def visit(folder):
    env = os.environ | {
        "SPACES_ZERO_GPU": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "helpers" / "zero_gpu"), str(ROOT)]),
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "helpers" / "zero_gpu" / "visit.py"), str(folder)],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_run_and_its_baseline_come_back_whole(visit, folder):
    whole = visit["whole"]
    assert whole["error"] is None
    engine = load_engine(str(folder), "cpu")
    config = RunConfig("the cat, the hat, the cat", pair=str(folder), method="none", max_new_tokens=24)
    own = [token.id for event in engine.run(config) if isinstance(event, Round) for token in event.emitted]
    assert whole["run"] == whole["baseline"] == own and len(own) == 24


@pytest.mark.slow
def test_refusals_there_are_sentences_and_the_next_run_works(visit):
    assert "BadInput" in visit["long"]["error"] and "attends to 256" in visit["long"]["error"]
    assert visit["long"]["run"] == []
    assert visit["refused"]["error"].startswith("Unavailable: ")
    assert visit["refused"]["error"].endswith("You have no GPU time left today.")
    assert len(visit["after"]["run"]) == 8 and visit["after"]["error"] is None


@pytest.mark.slow
def test_the_page_says_when_a_gpu_is_asked_for_and_how_long_it_has_it(visit):
    steps = visit["whole"]["steps"]
    asked = steps.index("Asking the host for its GPU, for up to 120 s")
    assert all(step.endswith(", on the host's GPU for up to 120 s") for step in steps[asked + 1 :])
    assert "GPU" not in "".join(steps[:asked])
    assert visit["seconds"] == 120 > _SECONDS_FOR_RUNS + 20, "a model has to be loaded and measured in the same call"


@pytest.mark.slow
def test_a_stop_reaches_the_process_over_there(visit):
    assert 0 < len(visit["stopped"]["run"]) < 200 and visit["stopped"]["baseline"] == []
    assert visit["processes left"] == 0
    assert "offers no experiments that need a model: on your own machine" in visit["lab"], "it cannot be sent there"


@pytest.mark.slow
def test_the_page_knows_the_engine_of_its_runs_and_starts_no_other(visit):
    """Its facade once had a second worker, which never ran: the status stayed asleep and no costs were known."""
    assert visit["states"] == ["asleep", "ready"] and visit["device"].startswith("cpu")
    assert "ngram" in visit["costs"] and visit["engine threads"] == 1


def test_work_without_a_model_keeps_its_own_limit_of_time():
    worker = ZeroGpuWorker()
    try:
        job = worker.submit([("lab", None)], lambda engine, should_stop: (n for n in range(2)), seconds=1_800)
        assert job.wait(10) and job.error is None and job.seconds == 1_800 and len(job.log) == 2
    finally:
        worker.close()


def test_graphs_can_be_switched_off(monkeypatch):
    assert isinstance(graphs_for("cuda"), CudaGraphs)
    monkeypatch.setenv(SWITCH, "0")
    assert isinstance(graphs_for("cuda"), EagerGraphs)
