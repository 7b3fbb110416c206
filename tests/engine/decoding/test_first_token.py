"""The first token waits for no draft; the drafts that are used read the prompt after it, which is timed apart."""

import time
from collections import Counter
from functools import partial

import pytest
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value
from tiny_pairs import engine_of, read_late_at_once_and_blindly, request, run, without_clocks
from toy_runs import DRAFT, GREEDY, TARGET, ids_of

from engine.config import SamplingParams
from engine.decoding.draft_length import AdaptiveGamma, Rate
from engine.decoding.drafter_choice import DrafterChoice
from engine.decoding.loop import TRUE_RULES
from engine.drafters.base import Drafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.tools.bench.sample import Sample
from engine.tools.exactness.mutants import MUTANTS
from engine.tools.exactness.toy_models import exact_distribution, generate, make_drafter, toy_decoder, weather_pair
from engine.trace.trace import fold

PAUSE = 0.1  # seconds
PROMPT = [0, 1, 2, 3, 0, 1, 2, 3]
first_free = partial(toy_decoder, TARGET, max_new_tokens=12, drafts_first=False)


def spy(drafter: Drafter, log: list, pause: float = 0.0) -> Drafter:
    """Notes in ``log`` when the drafter makes an offer, and when it starts, which takes ``pause`` more."""
    start, offer, name = drafter.start, drafter.offer, drafter.name

    def slow(prompt, *more, **settings):
        log.append((f"{name} reads", len(prompt)))
        time.sleep(pause)
        start(prompt, *more, **settings)

    drafter.start, drafter.offer = slow, lambda text: log.append((f"{name} offers", len(text))) or offer(text)
    return drafter


def test_drafts_read_the_prompt_once_the_first_token_is_out():
    log = []
    for event in first_free(spy(make_drafter("lm", DRAFT), log), PROMPT, gamma=2).rounds():
        log.append(("round", event.gamma))
    assert log[:4] == [("round", 0), ("lm offers", 9), ("lm reads", 8), ("round", 2)]
    assert [name for name, _ in log].count("lm reads") == 1


@pytest.mark.parametrize(("c", "reads"), [(0.01, 1), (9.0, 0)])
@pytest.mark.parametrize("is_auto", [True, False])
def test_a_draft_that_is_never_used_reads_nothing(c, reads, is_auto):
    log, costs = [], {1: 1.0, 8: 1.05}
    drafter = spy(make_drafter("lm", DRAFT), log)
    policy, drafters = AdaptiveGamma(c, costs, drafter.priors), drafter
    if is_auto:
        drafters, rate = [NgramDrafter(), drafter], Rate()
        policy = DrafterChoice({each.name: AdaptiveGamma(c, costs, each.priors, rate=rate) for each in drafters}, rate)
    run = first_free(drafters, PROMPT, GREEDY, gamma="auto", gamma_policy=policy)
    assert ids_of(run.rounds()) == ids_of(first_free(NoDrafter(), PROMPT, GREEDY).rounds())
    assert sum(name == "lm reads" for name, _ in log) == reads


def test_reading_stands_beside_the_clock_of_the_rounds():
    """What a draft takes to read slows no round, is part of the whole request, and is not seen without drafts."""
    began = time.perf_counter()
    run = first_free(spy(make_drafter("lm", DRAFT), [], pause=PAUSE), PROMPT, gamma=2)  # its clock starts here
    rounds = list(run.rounds())
    took = time.perf_counter() - began
    assert [each.reading >= PAUSE for each in rounds[:3]] == [False, True, False]
    sample, timed = Sample.from_rounds(rounds), sum(each.timings.total for each in rounds)
    assert timed <= sample.decode_seconds <= sample.seconds - run.prefill_seconds - PAUSE
    assert sample.ttft <= sample.seconds - PAUSE and sample.seconds <= took


def test_the_end_of_a_run_counts_the_reading(pairs):
    engine = engine_of(pairs, draft="draft")
    spy(engine.drafts.drafter("lm"), [], pause=PAUSE)
    end = run(engine, "lm", gamma=2).finished
    assert end.prefill < end.ttft and end.prefill + end.decode_seconds + PAUSE <= end.seconds
    branch = run(engine, "lm", gamma=2, prefix=(5,))
    assert branch.rounds[0].parents and branch.finished.ttft > PAUSE, "its first round drafts: its first token is out"


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_replay_drafts_where_the_recording_did(pairs, temperature):
    """A run with drafts for its first token, as older versions made them, is repeated with them."""
    engine, settings = engine_of(pairs, draft="draft"), {"gamma": 3, "temperature": temperature}
    old = fold(engine.run(request(engine.pair.name, "lm", **settings), drafts_first=True))
    again = run(engine, "lm", gammas=[(each.gamma, each.draft_steps) for each in old.rounds], **settings)
    assert old.rounds[0].gamma == 3 and without_clocks(again) == without_clocks(old)


@pytest.mark.parametrize("mutant", [None, "q-ignored"])
def test_text_after_a_plain_first_round_keeps_the_targets_law(mutant):
    target, draft = weather_pair()
    rules = next((each.rules for each in MUTANTS if each.name == mutant), TRUE_RULES)
    settings = {"sampling": SamplingParams(1.0), "gamma": 2, "max_new_tokens": 5, "rules": rules, "drafts_first": False}
    texts = (generate(target, make_drafter("lm", draft), [0], seed=seed, **settings) for seed in range(1500))
    p_value = joint_p_value(Counter(tuple(text[:3]) for text in texts), exact_distribution(target, [0], 3))
    assert p_value < CAUGHT if mutant else p_value > FALSE_ALARM


def test_a_draft_that_reads_late_drafts_as_if_it_had_read_before(pairs):
    late, at_once, blindly = read_late_at_once_and_blindly(engine_of(pairs, draft="draft"), "lm")
    assert late == at_once != blindly
