"""Requests that share passes: each is as it would be alone, though others join, end, stop and are cancelled."""

import random
from itertools import pairwise

import pytest
from chi_squared import FALSE_ALARM, markov_p_value
from closeness import approx
from shared_passes import drive
from tiny_models import runner_of, write
from toy_runs import DRAFT, GREEDY, METHODS, TARGET, WARM, ids_of, timeless

from engine.config import RunConfig, SamplingParams
from engine.decoding import batch as batching
from engine.decoding.batch import Batch
from engine.decoding.draft_length import FixedGamma
from engine.decoding.loop import SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.sampling.random_streams import Uniforms
from engine.tools.exactness.toy_models import ToyRunner, make_drafter, toy_decoder
from engine.tools.exactness.word_tokenizer import WordTokenizer
from engine.trace.metrics import NEAR_TIE


def together(decoders) -> list:
    found = drive(Batch(), {0: list(enumerate(decoders))})
    return [found.get(i, []) for i in range(len(decoders))]


def toy(number: int) -> SpeculativeDecoder:
    """Makes one of many unlike requests, the same for the same number."""
    draw = random.Random(number)
    method = draw.choice(METHODS)
    prompt = [draw.randrange(8) for _ in range(draw.choice([1, 2, 7, 90]))]
    sampling = draw.choice([GREEDY, WARM, SamplingParams(1.0, top_k=4), SamplingParams(0.9, repetition_penalty=1.3)])
    eos = [draw.randrange(8)] if draw.random() < 0.3 else []
    settings = {"gamma": draw.randint(1, 5), "max_new_tokens": draw.randint(1, 30), "seed": draw.randrange(9)}
    if draw.random() < 0.3:
        settings["stop"] = (f"{TARGET.words[draw.randrange(8)]} {TARGET.words[draw.randrange(8)]}",)
    if method == "lm" and draw.random() < 0.5:
        settings["acceptance"] = "block"
    decoder = toy_decoder(TARGET, make_drafter(method, DRAFT), prompt, sampling, eos=eos, **settings)
    if draw.random() < 0.2:
        limit = draw.randint(0, 20)
        decoder.cancelled = lambda: decoder.text.emitted >= limit
    return decoder


def shared(count: int) -> tuple[dict, set[int]]:
    """The rounds of ``count`` requests that join at random, and those of them that were taken out early."""
    draw, arrivals, leaves = random.Random(count), {}, {}
    for number in range(count):
        at = draw.randrange(count)
        arrivals.setdefault(at, []).append((number, toy(number)))
        if draw.random() < 0.1:
            leaves.setdefault(at + draw.randint(1, 6), []).append(number)
    return drive(Batch(), arrivals, leaves), {number for names in leaves.values() for number in names}


def differing(alone: list, found: dict, left: set[int]) -> int:
    pairs = [(rounds, timeless(found.get(number, []))) for number, rounds in enumerate(alone)]
    return sum(ours != (theirs[: len(ours)] if i in left else theirs) for i, (theirs, ours) in enumerate(pairs))


@pytest.fixture(scope="module")
def alone() -> list:
    """The rounds of 100 requests, each run alone."""
    return [timeless(toy(number).rounds()) for number in range(100)]


@pytest.mark.slow
def test_a_hundred_requests_that_join_and_leave_at_random_are_as_alone(alone):
    assert sum(len(rounds) for rounds in alone) > 500
    assert differing(alone, *shared(100)) == 0


@pytest.mark.parametrize("mutant", ["draws", "logits"])
def test_a_request_that_uses_its_neighbours_numbers_is_noticed(alone, monkeypatch, mutant):
    assert differing(alone[:40], *shared(40)) == 0
    if mutant == "draws":
        monkeypatch.setattr("engine.decoding.loop.Uniforms", lambda seed, positions: Uniforms(3, positions))
    else:

        def crossed(self, batch):
            results = [tokens.alone() for tokens in batch]
            scored = [i for i, tokens in enumerate(batch) if tokens.wants_logits]
            for i, j in pairwise(scored):
                if results[i].shape == results[j].shape:
                    results[i] = results[j]
            return results

        monkeypatch.setattr(ToyRunner, "forward_many", crossed)
    assert differing(alone[:40], *shared(40)) > 5


def test_beside_others_each_keeps_the_targets_law():
    """Each method has one long run; the false alarm is that of chi_squared.py."""
    settings = {"max_new_tokens": 400, "trace": False}
    drafters = [make_drafter(method, DRAFT) for method in METHODS]
    decoders = [toy_decoder(TARGET, d, [0], WARM, gamma=1 + i, seed=i, **settings) for i, d in enumerate(drafters)]
    together(decoders)
    for decoder in decoders:
        assert decoder.text.emitted == 400 and markov_p_value(TARGET, decoder.text.ids[1:], WARM) > FALSE_ALARM


def test_a_long_prompt_beside_others_takes_turns_with_them(monkeypatch):
    """The passes of the short request go on while the long prompt is read, and none holds more of it than a chunk."""
    found, widths, forward, batch = [], [], ToyRunner.forward_many, Batch()
    batch.add("short", toy_decoder(TARGET, NoDrafter(), [0], max_new_tokens=40).steps())
    list(batch.step())
    batch.add("long", toy_decoder(TARGET, NoDrafter(), [i % 8 for i in range(1000)], max_new_tokens=3).steps())
    noted = lambda self, batch: widths.append(len(batch[-1].ids)) or forward(self, batch)  # noqa: E731
    monkeypatch.setattr(ToyRunner, "forward_many", noted)
    while len(batch):
        found += [name for name, _ in batch.step()]
    assert max(widths) == batching._CHUNK_BESIDE and found[:16] == ["short"] * 16 and found.count("long") == 3


def test_with_prompts_first_all_begin_to_write_together_and_write_the_same():
    """Three of unlike prompts: no token before the longest is read; a fourth, later, makes all others wait."""

    def decoders():
        sizes = (1, 700, 90, 600)
        return [toy_decoder(TARGET, NoDrafter(), [i % 8 for i in range(n)], max_new_tokens=9, seed=n) for n in sizes]

    batch, wrote, waited = Batch(prompts_first=True), {}, 0
    *early, late = decoders()
    for name, decoder in enumerate(early):
        batch.add(name, decoder.steps())
    while len(batch):
        rounds = list(batch.step())
        for name, event in rounds:
            wrote.setdefault(name, []).append(event)
        assert 3 in wrote or len(rounds) in (0, len(early)), "some wrote while another was reading"
        waited += 3 in batch and not rounds
        if len(wrote.get(0, ())) == 4 and late:
            batch.add(3, late.steps())
            late = None
    assert waited == 2, "the fourth prompt is 600 tokens, read 512 at a time"
    alone_ = [timeless(decoder.rounds()) for decoder in decoders()]
    assert [timeless(wrote[name]) for name in range(4)] == alone_


@pytest.fixture(scope="module")
def runners(tmp_path_factory):
    """Returns the runners of a target and of a draft with nearly its weights."""
    folders = [tmp_path_factory.mktemp("qwen3") for _ in range(2)]
    return [runner_of(folder, write(folder, "qwen3", num_hidden_layers=2 - i)) for i, folder in enumerate(folders)]


LONG = [(37 * i * i + 11 * i + 5) % 96 for i in range(200)]


def decoder_of(runners, prompt, method="none", gamma=0, limit=60, sampling=GREEDY, eos=(), stop=(), cancelled_after=99):
    """A request on forks of a target's and a draft's runner."""
    target, draft = (runner.fork() for runner in runners)
    drafter = {"none": NoDrafter, "ngram": NgramDrafter, "lm": lambda: DraftModelDrafter(draft)}[method]()
    config = RunConfig("x", sampling=sampling, max_new_tokens=limit, stop=stop, seed=len(prompt))
    recorder = TraceRecorder(config, WordTokenizer([f"w{i}" for i in range(96)]))
    decoder = SpeculativeDecoder(config, prompt, target, [drafter], FixedGamma(gamma), frozenset(eos), recorder)
    decoder.cancelled = lambda: decoder.text.emitted >= cancelled_after
    return decoder


@pytest.fixture(scope="module")
def settings(runners):
    """Returns the settings of unlike requests."""
    plain = ids_of(decoder_of(runners, LONG[:12]).rounds())
    return [
        {"prompt": LONG[:1]},
        {"prompt": LONG, "method": "lm", "gamma": 4, "limit": 56},  # to the last token of the context
        {"prompt": LONG[:150], "cancelled_after": 7},
        {"prompt": LONG[:30], "method": "ngram", "gamma": 6},
        {"prompt": LONG[:12], "method": "lm", "gamma": 5, "eos": plain[20:21]},
        {"prompt": LONG[:12], "method": "lm", "gamma": 3, "stop": (f"w{plain[30]}",)},
    ]


def same_or_near_tie(ours: list, theirs: list) -> None:
    """Asserts that the tokens are the same, or that the target could hardly choose where they part."""
    at = next((i for i, (a, b) in enumerate(zip(ids_of(ours), ids_of(theirs), strict=False)) if a != b), None)
    if at is None:
        assert len(ids_of(ours)) == len(ids_of(theirs))
    else:
        assert [token for r in theirs for token in r.emitted][at].gap < NEAR_TIE


def test_greedy_rows_that_end_stop_or_are_cancelled_are_as_alone(runners, settings):
    decoders = [decoder_of(runners, **each) for each in settings]
    for each, decoder, ours in zip(settings, decoders, together(decoders), strict=True):
        alone = decoder_of(runners, **each)
        same_or_near_tie(ours, list(alone.rounds()))
        assert decoder.text.reason == alone.text.reason and decoder.target.cache is None
    assert [d.text.reason for d in decoders] == ["length", "length", "cancelled", "length", "eos", "stop"]


def test_sampled_rows_have_the_numbers_of_the_run_alone(runners, settings):
    """p of every token agrees up to rounding, so that of the drafts does, too."""
    warm = [each | {"sampling": WARM} for each in settings]
    for each, ours in zip(warm, together([decoder_of(runners, **each) for each in warm]), strict=True):
        theirs = decoder_of(runners, **each).rounds()
        a, b = ([token for r in rounds for token in r.tokens] for rounds in (ours, theirs))
        assert [(t.id, t.status, t.u) for t in a] == [(t.id, t.status, t.u) for t in b]
        assert [t.p for t in a] == approx([t.p for t in b])
