"""A captured step can be replayed: its operators, numbers and addresses are the same at every length of a bucket."""

import pytest
import torch
from rehearsal import PROMPT, V, drafter_of, model_runner, run

from engine.config import SamplingParams
from engine.drafters.none import NoDrafter

pytestmark = pytest.mark.rehearse


@pytest.mark.parametrize("width", [1, 2, 5, 17])
def test_a_verify_step_is_equal_at_two_lengths_of_a_bucket(cuda, width):
    target = model_runner(cuda)
    with cuda.running():
        target.reset(200)
        target.prefill(PROMPT)
        for length in (len(PROMPT), 100, 31):
            target.cache.length = length
            target.forward(torch.zeros(width, dtype=torch.long, device="cuda"))
    assert len(target.graphs.recordings) == 1 and cuda.replays == 2


def test_another_bucket_is_another_graph(cuda):
    target = model_runner(cuda, max_position_embeddings=2048)
    with cuda.running():
        target.reset(1000)
        for length in (10, 255, 256, 600):
            target.cache.length = length
            target.forward(torch.zeros(1, dtype=torch.long, device="cuda"))
    visible = [[n for n in key if n in (256, 512, 1024)] for key in target.graphs.recordings]
    assert visible == [[256], [512], [1024]]


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("method", ["lm", "eagle-chain"])
def test_later_draft_loop_reads_the_captured_addresses(cuda, monkeypatch, method, temperature, penalty):
    """A run has a history of its own, but the graphs of the run before."""
    target = model_runner(cuda)
    drafter = drafter_of(method, cuda, target, monkeypatch)
    sampling = SamplingParams(temperature, top_p=0.9 if temperature else 1.0, repetition_penalty=penalty)
    for prompt in (PROMPT, PROMPT[:4]):
        run(cuda, target, [drafter], sampling, tokens=14, prompt=prompt)
    loops = [key for key in drafter.runner.graphs.recordings if key[0] == "loop"]
    assert loops and cuda.replays > len(loops)


def test_a_larger_cache_is_captured_anew(cuda):
    """Graphs of the smaller one would write to freed memory."""
    target = model_runner(cuda, max_position_embeddings=2048)
    run(cuda, target, [NoDrafter()], tokens=4)
    first = {**target.graphs.recordings}
    run(cuda, target, [NoDrafter()], tokens=4, prompt=[3 + i % (V - 3) for i in range(1100)])
    assert all(recording is not first.get(key) for key, recording in target.graphs.recordings.items())
