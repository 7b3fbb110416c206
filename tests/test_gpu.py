"""On CUDA only: captured graphs give what eager passes give, and a round waits for the device once."""

import pytest
import torch
from tiny import runner_of, write

from engine.adaptive import FixedGamma
from engine.config import RunConfig, SamplingParams
from engine.decode import Decoding
from engine.drafters.base import Setup
from engine.drafters.eagle import EagleDrafter
from engine.drafters.lm import LmDrafter
from engine.eagle import EagleModel
from engine.graphs import EagerGraphs
from engine.recorder import Recorder
from engine.runner import DecoderRunner
from engine.sampling import Uniforms, draw
from engine.toy import ToyTokenizer
from engine.training import export
from engine.training.students import new_eagle
from engine.training.teacher import Teacher

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


@pytest.fixture(scope="module")
def head(folders, tmp_path_factory):
    """An EAGLE head for the first model, as it is before training: its guesses are poor and its passes are real."""
    teacher, out = Teacher.load(folders[0][0], "cpu"), tmp_path_factory.mktemp("made") / "head"
    student = new_eagle(teacher, torch.arange(0, 96, 2), 2, teacher.layer, torch.ones(2))
    export.eagle(student, teacher, (0, 1), out, "")
    return out


def decoding(folders, captured: bool, temperature: float, gamma: int = 4, head=None) -> Decoding:
    config = RunConfig("x", sampling=SamplingParams(temperature), max_new_tokens=48, seed=3)
    target = runner(folders, 0, captured)
    if head is None:
        drafter = LmDrafter(runner(folders, 1, captured))
    else:
        drafts = DecoderRunner(EagleModel(head, target.model, packed=False))
        drafts.graphs = drafts.graphs if captured else EagerGraphs()
        target.tap(drafts.model.reads)
        drafter = EagleDrafter(drafts, target)
    recorder = Recorder(config, ToyTokenizer(WORDS))
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


def test_a_draft_loop_gives_the_eager_drafts_whatever_its_output_held_before(folders):
    """Several rounds on one graph, fewer and more drafts kept, with what it returned last time overwritten."""
    drafts = {}
    for captured in (True, False):
        drafter, committed, drafts[captured] = LmDrafter(runner(folders, 1, captured)), list(PROMPT), []
        drafter.start(PROMPT, Setup(SamplingParams(1.0), 96, Uniforms(3, 80), None, 200, "cuda"))
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


@pytest.mark.parametrize("vocabulary", [7, 1000, 50_000, 151_936])
def test_no_token_without_mass_is_drawn_on_the_device(vocabulary):
    """A parallel scan adds up in another order for each element, so a token of no mass may seem to own an ulp."""
    generator = torch.Generator(device="cuda").manual_seed(vocabulary)
    for _ in range(20):
        probs = torch.rand(9, vocabulary, device="cuda", generator=generator) ** 3
        probs[torch.rand(probs.shape, device="cuda", generator=generator) < 0.7] = 0.0
        probs[:, -1] += 1e-4
        cdf = (probs / probs.sum(-1, keepdim=True)).cumsum(-1)
        for at in torch.randint(vocabulary, (50,)).tolist():  # aim at the seams between tokens
            u = cdf[:, at].clamp(0, 1 - 2.0**-24)
            ids = draw(probs, u)
            assert (probs.gather(1, ids[:, None]) > 0).all()


@pytest.mark.parametrize("method", ["lm", "eagle"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_trace_is_the_same_on_and_off_graphs(folders, head, method, temperature):
    traces = []
    for captured in (True, False):
        run = decoding(folders, captured, temperature, head=head if method == "eagle" else None)
        rounds = list(run.rounds())
        traces.append([(t.id, t.status, t.position) for r in rounds for t in r.tokens])
    assert traces[0] == traces[1]


def test_a_second_run_on_the_same_graphs_repeats_the_first(folders):
    first = decoding(folders, True, 1.0)
    ids = [t.id for r in first.rounds() for t in r.tokens]
    recorder = Recorder(first.config, ToyTokenizer(WORDS))
    again = Decoding(first.config, PROMPT, first.target, first.drafter, FixedGamma(4), frozenset(), recorder)
    assert [t.id for r in again.rounds() for t in r.tokens] == ids


@pytest.mark.parametrize("method", ["lm", "eagle"])
def test_a_round_waits_for_the_device_once(folders, head, method):
    run = decoding(folders, True, 1.0, head=head if method == "eagle" else None)
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
