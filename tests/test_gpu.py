"""On CUDA only: captured graphs give what eager passes give, and a round waits for the device once."""

import pytest
import torch
from tiny import runner_of, write

from engine.adaptive import FixedGamma
from engine.config import RunConfig, SamplingParams
from engine.decode import Decoding
from engine.drafters.lm import LmDrafter
from engine.graphs import EagerGraphs
from engine.recorder import Recorder
from engine.toy import ToyTokenizer

pytestmark = pytest.mark.gpu
PROMPT = [5, 9, 13, 21, 5, 9]
WORDS = [f"w{i}" for i in range(96)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = []
    for seed in (0, 1):
        folder = tmp_path_factory.mktemp(f"model{seed}")
        made.append((folder, write(folder, "qwen3", seed=seed)))
    return made


def runner(folders, index: int, captured: bool):
    made = runner_of(*folders[index], device="cuda", dtype=torch.float32)
    if not captured:
        made.graphs = EagerGraphs()
    return made


def decoding(folders, captured: bool, temperature: float, gamma: int = 4) -> Decoding:
    config = RunConfig("x", sampling=SamplingParams(temperature), max_new_tokens=48, seed=3)
    drafter = LmDrafter(runner(folders, 1, captured))
    recorder = Recorder(config, ToyTokenizer(WORDS))
    target = runner(folders, 0, captured)
    return Decoding(config, PROMPT, target, drafter, FixedGamma(gamma), frozenset(), recorder)


@pytest.mark.parametrize("width", [1, 2, 5, 9])
def test_a_replay_gives_the_eager_logits_whatever_its_output_held_before(folders, width):
    graphed, eager = runner(folders, 0, True), runner(folders, 0, False)
    for made in (graphed, eager):
        made.reset(200)
        made.prefill(PROMPT)
    for step in range(3):
        tokens = torch.arange(step, step + width, device="cuda") + 3
        got, want = graphed.forward(tokens), eager.forward(tokens)
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)
        got.fill_(float("nan"))  # the next replay must write every element anew


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_is_the_same_on_and_off_graphs(folders, temperature):
    traces = []
    for captured in (True, False):
        rounds = list(decoding(folders, captured, temperature).rounds())
        traces.append([(t.id, t.status, t.position) for r in rounds for t in r.tokens])
    assert traces[0] == traces[1]


def test_a_second_run_on_the_same_graphs_repeats_the_first(folders):
    first = decoding(folders, True, 1.0)
    ids = [t.id for r in first.rounds() for t in r.tokens]
    again = Decoding(
        first.config, PROMPT, first.target, first.drafter, FixedGamma(4), frozenset(), Recorder(first.config, ToyTokenizer(WORDS))
    )  # fmt: skip
    assert [t.id for r in again.rounds() for t in r.tokens] == ids


def test_a_round_waits_for_the_device_once(folders):
    run = decoding(folders, True, 1.0)
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
