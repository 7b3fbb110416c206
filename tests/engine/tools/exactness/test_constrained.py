"""Answers have the target's distribution under a constraint, too: that of its tokens under the mask of each prefix.

Whole answers are counted, and their law is known by enumeration, without the loop. Every path is tested: chains, drafts
that only a device would draw (the grammar cuts them off afterwards), trees, blocks, lookup, other tokenizers, passes
that several share. Each mutant is caught by the same test.
"""

from collections import Counter

import numpy as np
import pytest
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value
from shared_passes import drive
from toy_laws import slow
from unlike_tokenizers import toy_translation

from engine.config import ACCEPTANCE, Constraint, SamplingParams
from engine.decoding.batch import Batch
from engine.decoding.draft_length import AdaptiveGamma, Rate
from engine.decoding.drafter_choice import DrafterChoice
from engine.drafters.base import Drafter
from engine.drafters.context_index import ContextIndex
from engine.drafters.corpus import CorpusDrafter
from engine.drafters.grammar import GrammarDrafter
from engine.drafters.intersection import IntersectionDrafter
from engine.drafters.reencoding import ReencodingDrafter
from engine.errors import BadInput
from engine.tools.exactness.constraint_mutants import CONSTRAINT_MUTANTS
from engine.tools.exactness.distribution_test import count_outcomes, judge, toy_test
from engine.tools.exactness.results import JSON_TOY, RIGHT
from engine.tools.exactness.toy_grammar import constrained_distribution, text_reader
from engine.tools.exactness.toy_json import DrawnBlindly
from engine.tools.exactness.toy_models import PLAIN, ToyLM, ToyRunner, make_drafter, record_trace, toy_decoder
from engine.trace.trace import from_json, to_json

WORDS, END, MOST = ("a", "b", "ab", "ba", "c", "."), 5, 12
PROMPT = [0, 1, 0, 1, 5, 1, 0, 4, 5, 4, 0, 1, 5]  # three answers, which lookup finds again
TEXTS = ("abab", "abca", "abc", "babb", "bac", "cab")
TARGET = ToyLM(ToyLM.random(6, seed=3, spread=0.5).table, WORDS)
DRAFT = TARGET.with_noise(1.0, seed=4)
SAMPLINGS = {"plain": PLAIN, "all": SamplingParams(0.7, top_k=4, top_p=0.95, min_p=0.02, repetition_penalty=1.3)}
COSTS = {1: 1.0, 2: 1.05, 4: 1.15, 8: 1.3}


def corpus() -> CorpusDrafter:
    return CorpusDrafter(ContextIndex(np.array([0, 1, 4, 0, 5, 6, 0, 2, 1, 3, 4, 5, 6, 4, 2, 5, 0, 1, 0, 1, 5])))


def auto() -> list[Drafter]:
    return [GrammarDrafter(), make_drafter("lm", DRAFT)]


def auto_policy() -> DrafterChoice:
    rate = Rate()
    return DrafterChoice({each.name: AdaptiveGamma(0.02, COSTS, each.priors, rate=rate) for each in auto()}, rate)


PATHS = {
    "lm": lambda: make_drafter("lm", DRAFT),
    "blind": lambda: DrawnBlindly(ToyRunner(DRAFT)),
    "independent": lambda: make_drafter("independent", DRAFT),
    "without_replacement": lambda: make_drafter("without_replacement", DRAFT),
    "top": lambda: make_drafter("top", DRAFT),
    "ngram": lambda: make_drafter("ngram", DRAFT),
    "lookahead": lambda: make_drafter("lookahead", DRAFT),
    "corpus": corpus,
    "grammar": GrammarDrafter,
}
FAST_MUTANT = "requests-mask"
DRAWN = ("lm", "blind", "independent", "without_replacement")  # those whose q is not one-hot


def reader():
    return text_reader(TEXTS, WORDS, END)


def decoder(drafter, seed: int, sampling=PLAIN, gamma: int = 3, target: ToyLM = TARGET, prompt=PROMPT, **settings):
    settings = {"trace": False, "max_new_tokens": MOST, "reader": reader()} | settings
    constraint = Constraint("choice", "\n".join(TEXTS))
    return toy_decoder(
        target, drafter, prompt, sampling, gamma, eos=[END], seed=seed, constraint=constraint, **settings
    )


def drafts_of(run) -> int:
    """Runs to the end of an answer, or to where it left the grammar, so that nothing can follow. Returns how many
    drafts were scored."""
    drafts = 0
    try:
        for event in run.rounds():
            drafts += len(event.parents)
    except BadInput:
        pass
    return drafts


def output(run) -> tuple[int, ...]:
    return tuple(run.text.ids[len(run.prompt) :])


def answer(run) -> tuple[int, ...]:
    drafts_of(run)
    return output(run)


def count_answers(make, runs: int, sampling=PLAIN, **settings) -> Counter:
    decoders = [decoder(make(), seed, sampling, **settings) for seed in range(runs)]
    assert sum(map(drafts_of, decoders)) > runs / 2, "what is not drafted is not tested"
    return Counter(map(output, decoders))


def p_value(answers: Counter, sampling=PLAIN) -> float:
    return joint_p_value(answers, constrained_distribution(TARGET, PROMPT, reader(), sampling))


WAYS = [*((path, "token") for path in PATHS), *((path, "block") for path in DRAWN)]
QUICK = [("blind", "token"), ("lm", "block"), ("without_replacement", "token"), ("ngram", "token")]


@pytest.mark.parametrize(("path", "acceptance", "sampling", "runs"), [
    *((*way, "plain", 300) for way in QUICK),
    *slow(*((*way, "plain", 300) for way in WAYS if way not in QUICK)),
    *slow(("blind", "token", "all", 300), ("ngram", "token", "all", 300)),  # drafts that were drawn, and that were not
    *slow(("blind", "token", "plain", 900)),  # as many as its mutants get
])  # fmt: skip
def test_answers_have_the_constrained_targets_law(path, acceptance, sampling, runs):
    answers = count_answers(PATHS[path], runs, SAMPLINGS[sampling], acceptance=acceptance)
    assert p_value(answers, SAMPLINGS[sampling]) > FALSE_ALARM


def test_the_choice_of_auto_keeps_the_law():
    decoders = [decoder(auto(), i, method="auto", gamma="auto", gamma_policy=auto_policy()) for i in range(300)]
    assert sum(map(drafts_of, decoders)) > 150 and p_value(Counter(map(output, decoders))) > FALSE_ALARM


@pytest.mark.parametrize("kind", [*slow(IntersectionDrafter), ReencodingDrafter])
def test_a_draft_with_other_tokens_keeps_the_law(kind):
    target = ToyLM(ToyLM.random(6, 0, spread=0.8).table, "abcdef")
    texts, draft = ("abc", "abd", "bad", "bcc", "e"), ToyLM.random(7, seed=2).table
    counts = Counter()
    for seed in range(300):
        drafter = kind(ToyRunner(ToyLM(draft, "fcabdgh")), toy_translation())
        run = decoder(drafter, seed, target=target, prompt=[0, 1], reader=text_reader(texts, "abcdef", 5))
        counts[answer(run)] += 1
    law = constrained_distribution(target, [0, 1], text_reader(texts, "abcdef", 5))
    assert joint_p_value(counts, law) > FALSE_ALARM


@pytest.mark.parametrize("path", ["lm", "blind", "without_replacement", "grammar"])
def test_shared_passes_write_what_each_run_writes_alone(path):
    alone = [answer(decoder(PATHS[path](), seed)) for seed in range(8)]
    runs = [decoder(PATHS[path](), seed) for seed in range(8)]
    drive(Batch(), {0: enumerate(runs)})
    assert [*map(output, runs)] == alone and len({*alone}) > 2


@pytest.mark.parametrize("acceptance", ACCEPTANCE)
@pytest.mark.parametrize("path", PATHS)
def test_a_greedy_answer_is_that_of_plain_constrained_decoding(path, acceptance):
    greedy = SamplingParams()
    for seed in range(3):
        target = ToyLM(ToyLM.random(6, seed=seed).table, WORDS)
        plain = answer(decoder(make_drafter("ngram", DRAFT), 0, greedy, gamma=0, target=target))
        assert answer(decoder(PATHS[path](), 0, greedy, target=target, acceptance=acceptance)) == plain


@pytest.mark.parametrize("acceptance", ACCEPTANCE)
@pytest.mark.parametrize("path", PATHS)
def test_a_trace_of_every_path_is_read_again_and_says_how_much_was_removed(path, acceptance):
    constraint = Constraint("choice", "\n".join(TEXTS))
    settings = {"eos": [END], "constraint": constraint, "max_new_tokens": MOST, "acceptance": acceptance, "gamma": 3}
    for sampling in (SamplingParams(), SAMPLINGS["all"]):
        trace = record_trace(TARGET, PATHS[path](), PROMPT, sampling=sampling, reader=reader(), **settings)
        assert from_json(to_json(trace)) == trace and trace.text.replace(" ", "") in TEXTS
        removed = [sum(word.mass for word in token.removed.top) + token.removed.rest for token in trace.emitted]
        assert all(-1e-6 <= share <= 1 + 1e-5 for share in removed) and max(removed) > 0.01


@pytest.mark.parametrize("mutant", [
    pytest.param(each, id=each.name, marks=() if each.name == FAST_MUTANT else pytest.mark.slow)
    for each in CONSTRAINT_MUTANTS
])  # fmt: skip
def test_every_mutant_of_a_constraint_is_caught(mutant):
    answers = count_answers(PATHS["blind"], 300 if breaks(mutant) else 900, rules=mutant.rules)
    assert p_value(answers) < CAUGHT
    texts = ["".join(WORDS[token] for token in tokens) for tokens in answers]
    assert any(text.removesuffix(".") not in TEXTS for text in texts) == breaks(mutant)


def breaks(mutant) -> bool:
    """Returns whether answers may leave the grammar."""
    return mutant.name != "cut-unscaled"


@pytest.mark.slow
@pytest.mark.parametrize("rule", [RIGHT, *CONSTRAINT_MUTANTS], ids=lambda rule: getattr(rule, "name", rule))
def test_the_json_toy_shows_every_mutant_and_passes_the_right_rule(rule):
    """The settings are those that the page offers for it."""
    toy = toy_test(JSON_TOY, 0, PLAIN, 2, "lm", getattr(rule, "name", rule))
    runs = 200 if rule != RIGHT and breaks(rule) else 1000
    test = judge(toy.law, count_outcomes(toy.runs, range(runs), toy.length))
    assert test.lossless == (rule == RIGHT) and test.draws.tested > runs
    if rule != RIGHT:
        assert any(answer not in toy.law for answer in test.draws.counts) == breaks(rule)
