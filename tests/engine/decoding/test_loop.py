"""The loop: what it counts, where it ends, that it repeats, and that greedy output is transformers' own."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from tiny_models import runner_of, write
from tiny_pairs import generated

from engine.config import RunConfig, SamplingParams
from engine.decoding.draft_length import FixedGamma, ReplayedGamma
from engine.decoding.loop import SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.decoding.word_tokenizer import WordTokenizer
from engine.drafters.base import Draft, Drafter
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.errors import BadInput
from engine.exactness.toy_models import ToyLM, ToyTreeDrafter, make_drafter, toy_decoder
from engine.sampling.traversal import Order
from engine.trace.events import EMITTED
from engine.trace.metrics import expected_lengths

PROMPT = [5, 9, 13, 21, 5, 9]
GREEDY, WARM = SamplingParams(), SamplingParams(0.8)
METHODS = ["none", "ngram", "lm", "independent", "without_replacement", "top"]
TARGET = ToyLM.random(8, seed=1, spread=1.2)
DRAFT = TARGET.with_noise(0.8, seed=2)


def tokens_of(rounds):
    return [token for r in rounds for token in r.tokens]


def emitted_ids(rounds) -> list[int]:
    return [token.id for r in rounds for token in r.emitted]


def text_of(rounds) -> str:
    return "".join(token.text for r in rounds for token in r.emitted)


def timeless(rounds):
    return [replace(r, timings=None, start=0.0, end=0.0) for r in rounds]


class ForkedScript(Drafter):
    """Proposes a script: ``plan[position]`` onwards, γ of them, and beside every token, tried before it,
    a wrong one."""

    name, priors = "script", {0: 0.5}

    def __init__(self, plan):
        self.plan = list(plan)

    def confidence_classes(self, committed):
        return (0,) * 32

    def propose(self, committed, gamma, position):
        tokens, parents, node = [], [], 0
        for right in self.plan[position : position + gamma]:
            tokens += [right - 1 if right else 1, right]
            parents += [node, node]
            node = len(tokens)
        return Draft(torch.tensor(tokens), None, tuple(parents))


# ---- counts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("method", METHODS)
def test_every_emitted_token_is_accepted_resampled_bonus_or_plain(method, sampling):
    run = toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], sampling, gamma=3, max_new_tokens=60, seed=4)
    rounds = list(run.rounds())
    counts = Counter(token.status for token in tokens_of(rounds))
    assert sum(counts[status] for status in EMITTED) == 60 == run.emitted
    assert emitted_ids(rounds) == run.committed[2:]
    position = 0
    for r in rounds:
        for i, token in enumerate(r.emitted):
            assert token.position == position + i
        closing = r.tokens[-1]
        if len(r.tokens) > len(r.parents):  # the round was not cut short
            assert closing.emitted and closing.status != "accepted"
        if not r.parents:
            assert closing.status == "plain"
        refused = [t for t, parent in zip(r.tokens, r.parents, strict=False) if t.status == "rejected"]
        is_chain = r.parents == tuple(range(len(r.parents)))
        if is_chain and len(r.tokens) > len(r.parents) > 0:
            assert closing.status == ("resampled" if refused else "bonus")
        assert r.context == 1 + position
        position += len(r.emitted)


def test_in_a_tree_a_bonus_may_follow_a_refused_sibling():
    """The root's first child is refused, the second one kept: nothing is left to test, so what follows is a bonus."""
    run = toy_decoder(TARGET, ToyTreeDrafter(DRAFT, widths=(2,)), [0, 1], WARM, gamma=1, max_new_tokens=200)
    seen = Counter()
    for r in run.rounds():
        drafts, closing = r.tokens[: len(r.parents)], r.tokens[-1]
        if len(drafts) == 2 and len(r.tokens) == 3:
            statuses = tuple(t.status for t in drafts)
            seen[statuses] += 1
            assert closing.status == ("bonus" if "accepted" in statuses else "resampled")
    assert seen["rejected", "accepted"] > 0 and seen["rejected", "rejected"] > 0


@pytest.mark.parametrize("siblings", ["independent", "without_replacement"])
def test_a_token_after_two_rejected_siblings_shows_what_both_left_of_p(siblings):
    """Each takes its share in turn, so the residual is not max(p - q, 0) of the last one alone."""

    def row(distribution) -> dict[int, float]:
        return {candidate.id: candidate.mass for candidate in distribution.top}

    seen = 0
    drafter = ToyTreeDrafter(DRAFT, siblings, widths=(3,))
    for r in toy_decoder(TARGET, drafter, [0, 1], WARM, gamma=1, max_new_tokens=200, trace_top=50).rounds():
        rejected = [token for token in r.tokens if token.status == "rejected"]
        if len(rejected) < 2 or r.tokens[-1].status != "resampled":
            continue
        left = row(rejected[0].p_top)
        for token in rejected:
            q = row(token.q_top)
            assert token.accept == pytest.approx(min(1.0, left.get(token.id, 0.0) / q[token.id]), abs=1e-5)
            left = {word: max(mass - q.get(word, 0.0), 0.0) for word, mass in left.items()}
            left = {word: mass / sum(left.values()) for word, mass in left.items() if mass > 0}
        shown = row(r.tokens[-1].residual)
        assert shown == pytest.approx({word: left[word] for word in shown}, abs=1e-5) and r.tokens[-1].id in left
        seen += 1
    assert seen > 5


def test_the_numbers_beside_a_token_explain_its_verdict():
    for r in toy_decoder(TARGET, make_drafter("lm", DRAFT), [0, 1], WARM, gamma=4, max_new_tokens=80).rounds():
        for token in r.tokens:
            if token.status in ("accepted", "rejected"):
                assert token.accept == pytest.approx(min(1.0, token.p / token.q), rel=1e-5)
                assert (token.u < token.accept) == (token.status == "accepted")
            if token.status == "discarded":
                assert token.u is None and token.p is not None and token.q is not None
            if token.status != "resampled":
                assert (token.residual is not None) == (token.q is not None and token.p < token.q)
            for top in (token.p_top, token.q_top, token.residual):
                assert top is None or sum(c.mass for c in top.top) + top.rest == pytest.approx(1, abs=1e-5)


def test_the_numbers_of_a_block_explain_its_verdicts():
    settings = {"gamma": 4, "max_new_tokens": 300, "acceptance": "block", "seed": 1}
    seen = Counter()
    rounds = list(toy_decoder(TARGET, make_drafter("lm", DRAFT), [0, 1], WARM, **settings).rounds())
    for r in rounds:
        drafts = r.tokens[: len(r.parents)]
        last = max((i for i, t in enumerate(drafts, 1) if t.u < t.h), default=0)
        product = 1.0
        for i, token in enumerate(drafts):
            seen[token.status] += 1
            before, product = product, min(1.0, product * token.p / token.q)
            assert token.accept == pytest.approx(min(1.0, token.p / token.q), rel=1e-5)
            assert token.running == pytest.approx(product, rel=1e-3) and 0 <= token.h <= token.running + 1e-6
            if i < last:
                assert token.status == ("rescued" if token.u >= token.accept else "accepted")
            else:
                assert token.status == ("rejected" if i == last else "discarded")
            if i == last:
                (top, *_), p = token.residual.top, {c.id: c.mass for c in token.p_top.top}
                assert before * p[top.id] > {c.id: c.mass for c in token.q_top.top}.get(top.id, 0.0)
                assert r.tokens[-1].status == "resampled" and r.tokens[-1].residual == token.residual
    assert min(seen[status] for status in ("accepted", "rescued", "rejected", "discarded")) > 5
    expected = expected_lengths(rounds)
    accepted = sum(len(r.emitted) - 1 for r in rounds) / len(rounds)
    assert expected["token"] < expected["block"] == pytest.approx(accepted, abs=0.35)


@pytest.mark.parametrize("method", ["without_replacement", "top"])
def test_the_numbers_of_a_tree_decided_on_together_explain_its_verdicts(method):
    """Of the tokens alone: each weight follows from the parent's, each verdict from u and h, in post-order."""
    settings = {"gamma": 2, "max_new_tokens": 150, "acceptance": "block", "seed": 1, "trace_top": 8}
    seen = Counter()
    for r in toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, **settings).rounds():
        drafts, order = r.tokens[: len(r.parents)], Order.of(r.parents).nodes if r.parents else [0]
        last = next(node for node in order if node == 0 or drafts[node - 1].u < drafts[node - 1].h)
        path, node = set(), last
        while node:
            path.add(node - 1)
            node = r.parents[node - 1]
        refused = {i for i, parent in enumerate(r.parents) if parent == last}
        refused |= {i for i in range(len(drafts)) for k in path if r.parents[i] == r.parents[k] and i < k}
        for i, token in enumerate(drafts):
            seen[token.status] += 1
            weight = drafts[r.parents[i] - 1].running if r.parents[i] else 1.0
            if r.parents.index(r.parents[i]) == i:  # the first child
                assert token.accept == pytest.approx(min(1.0, token.p / token.q), rel=1e-5)
                assert token.running == pytest.approx(min(1.0, weight * token.p / token.q), rel=1e-3, abs=1e-6)
            assert 0 <= token.h <= token.running + 1e-6 and token.u is not None
            is_rescued = i in path and i + 1 != last and token.u >= token.accept
            if len(r.tokens) > len(drafts):
                status = "rescued" if is_rescued else "accepted" if i in path else "rejected" if i in refused else None
                assert token.status == (status or "discarded")
        if r.tokens[-1].status == "resampled" and r.parents:
            (top, *_), q = r.tokens[-1].residual.top, {c.id: c.mass for c in r.tokens[-1].q_top.top}
            assert r.tokens[-1].residual is not None and top.mass > 0 and sum(q.values()) > 0
    assert min(seen[status] for status in ("accepted", "rescued", "rejected", "discarded")) > 5


def test_a_trace_costs_no_token():
    for method, rule in [*((method, "token") for method in METHODS), ("lm", "block"), ("top", "block")]:
        runs = [
            toy_decoder(
                TARGET, make_drafter(method, DRAFT), [0, 1], WARM, gamma=3, max_new_tokens=40, trace=trace,
                acceptance=rule,
            )
            for trace in (True, False)
        ]  # fmt: skip
        (with_numbers, without) = [[(t.id, t.status, t.text) for t in tokens_of(run.rounds())] for run in runs]
        assert with_numbers == without


# ---- repeating -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_trace(method):
    def trace(seed):
        settings = {"gamma": 3, "max_new_tokens": 50, "seed": seed}
        return timeless(toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, **settings).rounds())

    assert trace(6) == trace(6) != trace(7)


def test_shorter_runs_are_prefixes_of_longer_ones_without_drafts():
    """Uniforms belong to positions, not to the length of the run."""
    long, short = (
        emitted_ids(toy_decoder(TARGET, NoDrafter(), [0, 1], WARM, max_new_tokens=n).rounds()) for n in (40, 9)
    )
    assert long[:9] == short


# ---- ends ----------------------------------------------------------------------------------------------------------

GAMMA = 4
RIGHT = emitted_ids(toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, max_new_tokens=30).rounds())


@pytest.mark.parametrize("most", range(1, 2 * GAMMA + 3))
@pytest.mark.parametrize("method", METHODS)
def test_exactly_as_many_tokens_as_asked(method, most):
    drafter = make_drafter(method, TARGET)
    run = toy_decoder(TARGET, drafter, [0, 1], GREEDY, gamma=GAMMA, max_new_tokens=most)
    rounds = list(run.rounds())
    assert run.reason == "length" and emitted_ids(rounds) == RIGHT[:most]


def counting(size: int = 24) -> ToyLM:
    """Greedy output 1, 2, 3, …: ends can be put anywhere."""
    table = torch.zeros(size, size)
    table[torch.arange(size), (torch.arange(size) + 1) % size] = 9.0
    return ToyLM(table.expand(size + 1, -1, -1))


@pytest.mark.parametrize("at", range(1, 2 * GAMMA + 3))
@pytest.mark.parametrize("method, room", [("none", 0), ("none", 20), ("lm", 20), ("top", 20)])
def test_an_end_token_inside_a_block(method, room, at):
    """Nothing is emitted past the end, and the drafts after it count as discarded, accepted by the rule or not.

    It is the reason to end even where the run has no room for another token.
    """
    model = counting()
    settings = {"gamma": GAMMA, "max_new_tokens": room or at, "eos": (at,)}
    run = toy_decoder(model, make_drafter(method, model), [0], GREEDY, **settings)
    rounds = list(run.rounds())
    assert run.reason == "eos" and emitted_ids(rounds) == list(range(1, at + 1)) == run.committed[1:]
    late = [t for t in rounds[-1].tokens if t.depth > len(rounds[-1].emitted)]
    assert {t.status for t in late} <= {"discarded"} and all(t.u is None for t in late)
    assert run.text == " ".join("abcdefghijklm"[1:at]), "the end token has no text"


@pytest.mark.parametrize("words", ["c", "c d", "e f g", "k l"])
def test_stop_strings_end_the_run_in_the_block_that_completes_them(words):
    model = counting()
    run = toy_decoder(model, make_drafter("lm", model), [0], GREEDY, gamma=GAMMA, max_new_tokens=20, stop=("zz", words))
    rounds = list(run.rounds())
    assert run.reason == "stop" and run.text == "b c d e f g h i j k l"[: run.text.index(words) + len(words)]
    assert text_of(rounds) == run.text


@pytest.mark.parametrize("after, leaves", [(0, False), (1, False), (3, False), (1, True)])
def test_a_run_cancelled_or_left_ends_within_a_round_and_gives_its_memory_back(after, leaves):
    """The flag goes up, or the reader goes away, with round ``after`` in hand; after a flag one more may follow."""
    rounds, drafter = [], make_drafter("lm", DRAFT)
    run = toy_decoder(TARGET, drafter, [0, 1], WARM, gamma=2, max_new_tokens=500)
    run.cancelled = lambda: not leaves and len(rounds) >= after
    stream = run.rounds()
    for r in stream:
        rounds.append(r)
        if leaves and len(rounds) >= after:
            stream.close()
    assert run.reason == (None if leaves else "cancelled") and len(rounds) <= (after + 1 if after else 0)
    assert text_of(rounds) == run.text
    assert run.target.ids == [] and drafter.runner.ids == []


# ---- on real architectures -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A target and a draft of other weights: (folder, transformers model)."""
    made = []
    for seed, name in ((0, "qwen3"), (1, "llama-tied")):
        folder = tmp_path_factory.mktemp(name)
        made.append((folder, write(folder, name, seed=seed)))
    return made


def on_models(models, drafter, gamma=4, sampling=GREEDY, most=24, eos=(), policy=None) -> SpeculativeDecoder:
    config = RunConfig("x", sampling=sampling, max_new_tokens=most)
    recorder, target = TraceRecorder(config, WordTokenizer([f"w{i}" for i in range(96)], eos)), runner_of(*models[0])
    return SpeculativeDecoder(config, PROMPT, target, drafter, policy or FixedGamma(gamma), frozenset(eos), recorder)


def draft_for(method: str, models):
    makers = {
        "none": NoDrafter,
        "ngram": NgramDrafter,
        "lm": lambda: DraftModelDrafter(runner_of(*models[1])),
        "self": lambda: DraftModelDrafter(runner_of(*models[0])),
        "tree": lambda: ForkedScript(generated(models[0][1], PROMPT, 40, eos=())),
    }
    return makers[method]()


@pytest.mark.parametrize("gamma", [1, 4, 7])
@pytest.mark.parametrize("method", ["none", "ngram", "lm", "self", "tree"])
def test_greedy_output_is_transformers_own(models, method, gamma):
    rounds = list(on_models(models, draft_for(method, models), gamma).rounds())
    assert emitted_ids(rounds) == generated(models[0][1], PROMPT, 24, eos=())
    if method in ("self", "tree"):  # the right path follows wrong siblings, and its keys move up in the cache
        assert len(rounds) == -(-24 // (gamma + 1))


def test_drafts_after_idle_rounds_equal_a_fresh_prefill(models):
    """γ 0 and 4 in turn: q of every draft is what the draft model says with nothing cached."""
    drafter = draft_for("lm", models)
    run = on_models(models, drafter, sampling=WARM, most=60, policy=ReplayedGamma([0, 4] * 30))
    drafts, checked = [], 0
    propose = drafter.propose

    def remembered(committed, *rest):
        drafts.append((list(committed), propose(committed, *rest)))
        return drafts[-1][1]

    drafter.propose = remembered
    gammas = [r.gamma for r in run.rounds()]
    assert gammas[:6] == [0, 4, 0, 4, 0, 4]
    for committed, draft in drafts:
        ids = torch.tensor([committed + draft.tokens.tolist()[:-1]])
        with torch.no_grad():
            logits = models[1][1](ids).logits[0, len(committed) - 1 :]
        torch.testing.assert_close(draft.q, (logits / WARM.temperature).softmax(-1), atol=1e-5, rtol=1e-4)
        checked += len(draft)
    assert checked > 30


def test_penalised_greedy_equals_generate(models):
    """The penalty counts the drafts before each position; transformers applies it one token at a time."""
    theirs = generated(models[0][1], PROMPT, 24, eos=(), repetition_penalty=1.4)
    for method in ("none", "ngram", "lm"):
        run = on_models(models, draft_for(method, models), sampling=SamplingParams(repetition_penalty=1.4))
        assert emitted_ids(run.rounds()) == theirs


def test_a_tree_of_too_many_drafts_is_refused_in_a_sentence():
    drafter = ToyTreeDrafter(DRAFT, "top", widths=(4, 4, 4))
    with pytest.raises(BadInput, match="'toy-tree' drafted 84 tokens in one round; at most 64 are scored"):
        list(toy_decoder(TARGET, drafter, [0, 1], gamma=3).rounds())
