"""The loop: what it counts, where it ends, that it repeats, and that greedy output is transformers' own."""

from collections import Counter
from functools import partial

import pytest
import torch
from closeness import approx, assert_close, tolerance
from tiny_models import runner_of, write
from tiny_pairs import generated
from toy_runs import DRAFT, GREEDY, METHODS, TARGET, WARM, ids_of, timeless

from engine.config import RunConfig, SamplingParams
from engine.decoding.draft_length import FixedGamma, ReplayedGamma
from engine.decoding.loop import SpeculativeDecoder
from engine.decoding.trace_recorder import TraceRecorder
from engine.drafters.base import Draft, Drafter, DraftOffer
from engine.drafters.draft_model import DraftModelDrafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.none import NoDrafter
from engine.errors import BadInput
from engine.sampling.traversal import Order
from engine.tools.exactness.toy_models import ToyLM, ToyTreeDrafter, make_drafter, toy_decoder
from engine.tools.exactness.word_tokenizer import WordTokenizer
from engine.trace.events import EMITTED
from engine.trace.metrics import expected_lengths

PROMPT = [5, 9, 13, 21, 5, 9]


def tokens_of(rounds):
    return [token for r in rounds for token in r.tokens]


class ForkedScript(Drafter):
    """Proposes ``plan[position]`` onwards, γ of them, and beside every token, tried before it, a wrong one."""

    name, priors = "script", {0: 0.5}

    def __init__(self, plan):
        self.plan = list(plan)

    def offer(self, text):
        return DraftOffer(self, (0,) * 32, partial(self._draft, len(text) - len(PROMPT)))

    def _draft(self, position, gamma, policy):
        right = self.plan[position : position + gamma]
        tokens = [token for each in right for token in (each - 1 if each else 1, each)]
        return Draft(torch.tensor(tokens), None, tuple(2 * (i // 2) for i in range(len(tokens))))


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("method", METHODS)
def test_every_emitted_token_is_accepted_resampled_bonus_or_plain(method, sampling):
    run = toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], sampling, gamma=3, max_new_tokens=60, seed=4)
    rounds, position = list(run.rounds()), 0
    assert sum(token.status in EMITTED for token in tokens_of(rounds)) == 60 == run.text.emitted
    assert ids_of(rounds) == run.text.ids[2:]
    for r in rounds:
        assert [token.position - position for token in r.emitted] == list(range(len(r.emitted)))
        assert r.context == 1 + position
        position += len(r.emitted)
        if len(r.tokens) > len(r.parents):  # the round was not cut short
            statuses, closing = [t.status for t in r.tokens[:-1]], r.tokens[-1].status
            if r.parents == tuple(range(len(r.parents))):
                assert closing == ("resampled" if "rejected" in statuses else "bonus" if statuses else "plain")
            elif "accepted" not in statuses:
                assert closing == "resampled"


@pytest.mark.parametrize("siblings", ["independent", "without_replacement"])
def test_a_token_after_two_rejected_siblings_shows_what_both_left_of_p(siblings):
    """Each takes its share in turn, so the residual is not max(p - q, 0) of the last one alone. A bonus follows where a
    later sibling is accepted."""

    def row(distribution) -> dict[int, float]:
        return {candidate.id: candidate.mass for candidate in distribution.top}

    seen, drafter = Counter(), ToyTreeDrafter(DRAFT, siblings, widths=(3,))
    for r in toy_decoder(TARGET, drafter, [0, 1], WARM, gamma=1, max_new_tokens=200, trace_top=50).rounds():
        rejected, closing = [token for token in r.tokens if token.status == "rejected"], r.tokens[-1]
        if len(rejected) < 2 or len(r.tokens) < 4:
            continue
        seen[closing.status] += 1
        assert closing.status == ("bonus" if any(t.status == "accepted" for t in r.tokens) else "resampled")
        if closing.status == "bonus":
            continue
        left = row(rejected[0].p_top)
        for token in rejected:
            q = row(token.q_top)
            assert token.accept == approx(min(1.0, left.get(token.id, 0.0) / q[token.id]))
            left = {word: max(mass - q.get(word, 0.0), 0.0) for word, mass in left.items()}
            left = {word: mass / sum(left.values()) for word, mass in left.items() if mass > 0}
        shown = row(closing.residual)
        assert shown == approx({word: left[word] for word in shown}) and closing.id in left
    assert seen["resampled"] > 5 and seen["bonus"]


@pytest.mark.parametrize("method", ["lm", "ngram"])
def test_the_numbers_beside_a_token_explain_its_verdict(method):
    settings, seen = {"gamma": 4, "max_new_tokens": 200, "trace_top": 8}, 0
    for r in toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, **settings).rounds():
        for token in r.tokens:
            if token.status in ("accepted", "rejected"):
                assert token.accept == approx(min(1.0, token.p / token.q))
                assert (token.u < token.accept) == (token.status == "accepted")
            if token.status == "discarded":
                assert token.u is None and token.p is not None and token.q is not None
            if token.status != "resampled":
                assert (token.residual is not None) == (token.q is not None and token.p < token.q)
            for top in (token.p_top, token.q_top, token.residual):
                assert top is None or sum(c.mass for c in top.top) + top.rest == approx(1)
            if token.status != "resampled" and token.residual:
                p, q, shown = ({c.id: c.mass for c in top.top} for top in (token.p_top, token.q_top, token.residual))
                left = {word: mass - q.get(word, 0) for word, mass in p.items() if mass > q.get(word, 0)}
                assert shown == approx({word: mass / sum(left.values()) for word, mass in left.items()})
                seen += 1
    assert seen > 50


@pytest.mark.parametrize("method", ["lm", "without_replacement", "top"])
def test_the_numbers_of_drafts_decided_on_together_explain_their_verdicts(method):
    """Tokens alone explain them: each weight follows from the parent's, each verdict from u and h, in post-order."""
    settings = {"gamma": 4 if method == "lm" else 2, "max_new_tokens": 200, "acceptance": "block", "seed": 1}
    rounds = list(toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, trace_top=8, **settings).rounds())
    seen = Counter()
    for r in rounds:
        drafts, order = r.tokens[: len(r.parents)], Order.from_parents(r.parents).nodes if r.parents else [0]
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
                assert token.accept == approx(min(1.0, token.p / token.q))
                assert token.running == approx(min(1.0, weight * token.p / token.q))
            assert 0 <= token.h <= token.running + tolerance(1.0) and token.u is not None
            is_rescued = i in path and i + 1 != last and token.u >= token.accept
            if len(r.tokens) > len(drafts):
                status = "rescued" if is_rescued else "accepted" if i in path else "rejected" if i in refused else None
                assert token.status == (status or "discarded")
            if method == "lm" and token.status == "rejected":
                assert r.tokens[-1].status == "resampled" and r.tokens[-1].residual == token.residual
    assert min(seen[status] for status in ("accepted", "rescued", "rejected", "discarded")) > 5
    if method == "lm":
        expected, accepted = expected_lengths(rounds), sum(len(r.emitted) - 1 for r in rounds) / len(rounds)
        assert expected["token"] < expected["block"] == pytest.approx(accepted, abs=0.35)


@pytest.mark.parametrize(("method", "rule"), [*((m, "token") for m in METHODS), ("lm", "block"), ("top", "block")])
def test_a_trace_costs_no_token(method, rule):
    def tokens(trace):
        settings = {"gamma": 3, "max_new_tokens": 40, "trace": trace, "acceptance": rule}
        run = toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, **settings)
        return [(t.id, t.status, t.text) for t in tokens_of(run.rounds())]

    assert tokens(True) == tokens(False)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_trace(method):
    def rounds(seed, limit=50):
        settings = {"gamma": 3, "max_new_tokens": limit, "seed": seed}
        return toy_decoder(TARGET, make_drafter(method, DRAFT), [0, 1], WARM, **settings).rounds()

    assert timeless(rounds(6)) == timeless(rounds(6)) != timeless(rounds(7))
    if method == "none":
        assert ids_of(rounds(6, limit=9)) == ids_of(rounds(6))[:9], "uniforms belong to positions"


GAMMA = 4
RIGHT = ids_of(toy_decoder(TARGET, NoDrafter(), [0, 1], GREEDY, max_new_tokens=30).rounds())


@pytest.mark.parametrize("limit", range(1, 2 * GAMMA + 3))
@pytest.mark.parametrize("method", METHODS)
def test_exactly_as_many_tokens_as_asked(method, limit):
    drafter = make_drafter(method, TARGET)
    run = toy_decoder(TARGET, drafter, [0, 1], GREEDY, gamma=GAMMA, max_new_tokens=limit)
    rounds = list(run.rounds())
    assert run.text.reason == "length" and ids_of(rounds) == RIGHT[:limit]


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
    assert run.text.reason == "eos" and ids_of(rounds) == list(range(1, at + 1)) == run.text.ids[1:]
    late = [t for t in rounds[-1].tokens if t.depth > len(rounds[-1].emitted)]
    assert {t.status for t in late} <= {"discarded"} and all(t.u is None for t in late)
    assert run.text.output == " ".join("abcdefghijklm"[1:at]), "the end token has no text"


@pytest.mark.parametrize("words", ["c", "c d", "e f g", "k l"])
def test_stop_strings_end_the_run_in_the_block_that_completes_them(words):
    model = counting()
    run = toy_decoder(model, make_drafter("lm", model), [0], GREEDY, gamma=GAMMA, max_new_tokens=20, stop=("zz", words))
    rounds = list(run.rounds())
    assert (
        run.text.reason == "stop"
        and run.text.output == "b c d e f g h i j k l"[: run.text.output.index(words) + len(words)]
    )
    assert "".join(token.text for r in rounds for token in r.emitted) == run.text.output


@pytest.mark.parametrize("after, leaves", [(0, False), (1, False), (3, False), (1, True)])
def test_run_cancelled_or_left_ends_within_a_round_and_frees_memory(after, leaves):
    """The flag goes up, or the reader goes away, with round ``after`` in hand; after a flag one more may follow."""
    rounds, drafter = [], make_drafter("lm", DRAFT)
    run = toy_decoder(TARGET, drafter, [0, 1], WARM, gamma=2, max_new_tokens=500)
    run.cancelled = lambda: not leaves and len(rounds) >= after
    stream = run.rounds()
    for r in stream:
        rounds.append(r)
        if leaves and len(rounds) >= after:
            stream.close()
    assert run.text.reason == (None if leaves else "cancelled") and len(rounds) <= (after + 1 if after else 0)
    assert "".join(token.text for r in rounds for token in r.emitted) == run.text.output
    assert run.target.ids == [] and drafter.runner.ids == []


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A target and a draft of other weights: (folder, transformers model)."""
    folders = [(tmp_path_factory.mktemp(name), name) for name in ("qwen3", "llama-tied")]
    return [(folder, write(folder, name, seed=seed)) for seed, (folder, name) in enumerate(folders)]


def on_models(models, drafter, gamma=4, sampling=GREEDY, limit=24, policy=None) -> SpeculativeDecoder:
    config = RunConfig("x", sampling=sampling, max_new_tokens=limit)
    recorder, target = TraceRecorder(config, WordTokenizer([f"w{i}" for i in range(96)])), runner_of(*models[0])
    return SpeculativeDecoder(config, PROMPT, target, [drafter], policy or FixedGamma(gamma), frozenset(), recorder)


def draft_for(method: str, models):
    return {
        "none": NoDrafter,
        "ngram": NgramDrafter,
        "lm": lambda: DraftModelDrafter(runner_of(*models[1])),
        "self": lambda: DraftModelDrafter(runner_of(*models[0])),
        "tree": lambda: ForkedScript(generated(models[0][1], PROMPT, 40, eos=())),
    }[method]()


@pytest.mark.parametrize(
    ("method", "gamma", "penalty"),
    [
        *((method, gamma, 1.0) for method in ("none", "ngram", "lm", "self", "tree") for gamma in (1, 7)),
        *((method, 4, 1.4) for method in ("none", "ngram", "lm")),  # each draft counts those before it
    ],
)
def test_greedy_output_is_transformers_own(models, method, gamma, penalty):
    sampling = SamplingParams(repetition_penalty=penalty)
    rounds = list(on_models(models, draft_for(method, models), gamma, sampling).rounds())
    assert ids_of(rounds) == generated(models[0][1], PROMPT, 24, eos=(), repetition_penalty=penalty)
    if method in ("self", "tree"):  # the right path follows wrong siblings, and its keys move up in the cache
        assert len(rounds) == 1 + -(-23 // (gamma + 1)), "the first round drafts nothing"


def test_drafts_after_idle_rounds_equal_a_fresh_prefill(models):
    """γ 0 and 4 in turn: q of every draft is what the draft model says with nothing cached."""
    drafter, drafts = draft_for("lm", models), []
    run = on_models(models, drafter, sampling=WARM, limit=60, policy=ReplayedGamma([0, 4] * 30))
    propose = drafter.propose

    def remembered(committed, *rest):
        drafts.append((list(committed), propose(committed, *rest)))
        return drafts[-1][1]

    drafter.propose = remembered
    assert [r.gamma for r in run.rounds()][:6] == [0, 4, 0, 4, 0, 4]
    for committed, draft in drafts:
        ids = torch.tensor([committed + draft.tokens.tolist()[:-1]])
        with torch.no_grad():
            logits = models[1][1](ids).logits[0, len(committed) - 1 :]
        assert_close(draft.q, (logits / WARM.temperature).softmax(-1), logits)
    assert sum(len(draft) for _, draft in drafts) > 30


def test_a_tree_of_too_many_drafts_is_refused_in_a_sentence():
    drafter = ToyTreeDrafter(DRAFT, "top", widths=(4, 4, 4))
    with pytest.raises(BadInput, match="'toy-tree' drafted 84 tokens in one round; at most 64 are scored"):
        list(toy_decoder(TARGET, drafter, [0, 1], gamma=3).rounds())
