"""The player's sentences on tokens and rounds, and the numbers it works out, of every run in one evaluation."""

import json
import math
import re
from dataclasses import replace
from functools import cache, partial

import pytest
from fake_worker import recorded
from player_page import page_with
from player_runs import by_rule, drafted_by
from sample_traces import constrained, round_, tree
from sample_traces import token as made

from app.playground.startup_run import SENTENCE
from app.views import player_feed
from engine.sampling.traversal import Order
from engine.trace.events import STATUSES
from engine.trace.trace import Trace

pytestmark = pytest.mark.browser
MODULES = [f"player/{name}.js" for name in ("block", "draft_sentences", "probabilities", "sentences", "timeline")]
# The lines of a run → [{drafted, said, tokens: [{status, scored, verdict, part, residual, isLeft, expected}]}].
SPOKEN = """runs => Object.fromEntries(Object.entries(runs).map(([name, value]) => {
  const lines = value.trim().split('\\n').map(line => JSON.parse(line)), timeline = makeTimeline();
  const about = lines.find(line => line.type === 'about');
  for (const line of lines) if (line.type === 'round') timeline.add(line);
  const tokenOf = (token, round) => {
    const known = probabilitiesOf(token, round), { rows, total } = residualRows(known);
    return {
      status: token.status, scored: tokenSentence(token, 'scored', about.greedy),
      verdict: tokenSentence(token, token.status, about.greedy),
      part: ownPart(token, round, about), total, isLeft: known.isLeft, weight: known.weight,
      share: rows.find(row => row.id === token.id)?.share,
      expected: token.h === undefined ? undefined : chanceOf(round, token.index),
    };
  };
  return [name, timeline.rounds.map(round => ({
    drafted: draftedSentence(round, about), said: roundSentence(round),
    tokens: round.tokens.map(token => tokenOf(token, round)),
  }))];
}))"""


def of_lookahead(sizes: dict) -> Trace:
    """One n-gram of two tokens, then a window of two levels of two."""
    drafts = [made("rejected", 0), made("discarded", 1, 2), made("rejected", 0), made("discarded", 1, 2)]
    drafts += [made("discarded", 1, 2), made("discarded", 2, 3), made("resampled", 0)]
    return drafted_by("lookahead", replace(tree(), rounds=(round_(0, drafts, (0, 1, 0, 3, 3, 4)),)), lookahead=sizes)


def ended_early(trace: Trace) -> Trace:
    """Nothing is rejected in it, so its discarded drafts come after the end of the text."""

    def accepted(event):
        tokens = (replace(t, status="accepted") if t.status == "rejected" else t for t in event.tokens)
        return replace(event, tokens=tuple(tokens))

    return replace(trace, rounds=tuple(map(accepted, trace.rounds)))


@cache  # toy models run for some of them, so not while tests are collected
def traces() -> dict[str, Trace]:
    exit_run, greedy = partial(drafted_by, "exit"), recorded("ngram", 4, 60, 0.0)
    claims = ({}, {"window": "2", "ngram": 3}, {"window": 5, "ngram": 3})  # of files, on sizes that are others
    return {
        "token": by_rule("token"),
        "siblings": by_rule("token", "without_replacement", 2),
        "block": by_rule("block"),
        "block_tree": by_rule("block", "without_replacement", 2),
        "typical": by_rule("typical"),
        "greedy": greedy,
        "greedy_ended": ended_early(greedy),
        "medusa": drafted_by("medusa", recorded("ngram", 3, 30, 0.8)),
        "one_block": drafted_by("block", recorded("ngram", 3, 30, 0.8)),
        "lookahead": of_lookahead({"window": 2, "ngram": 3, "guesses": 2}),
        "constrained": constrained(),
        "exit": exit_run(tree()),
        "exit_unknown": exit_run(replace(tree(), started=replace(tree().started, exit_layers=None))),
    } | {f"lookahead_{i}": of_lookahead(sizes) for i, sizes in enumerate(claims)}


@pytest.fixture(scope="module")
def spoken(browser) -> dict[str, list[dict]]:
    with page_with(browser, *MODULES) as page:
        return page.evaluate(SPOKEN, {name: player_feed.complete(name, trace) for name, trace in traces().items()})


def pairs(name: str, spoken: dict, *statuses: str):
    """(round, token, what the page says of it) of the run, for tokens of these statuses; at least one of each."""
    rows = [
        (event, token, words)
        for event, row in zip(traces()[name].rounds, spoken[name], strict=True)
        for token, words in zip(event.tokens, row["tokens"], strict=True)
        if token.status in statuses
    ]
    assert {token.status for _, token, _ in rows} == set(statuses)
    return rows


def test_a_verdict_names_the_draw_the_chance_and_the_status(spoken):
    for _, token, words in pairs("token", spoken, "accepted", "rejected"):
        often, shares = token.accept < 1, f"draft {100 * token.q:.1f}\u00a0%, target {100 * token.p:.1f}\u00a0%"
        begin = f"Guessed {'too often' if often else 'no more often than the target would write it'}: {shares}."
        assert words["verdict"].startswith(begin) and words["scored"].startswith(begin), "the reason comes first"
        assert (f"{token.u:.3f}" in words["verdict"]) == (f"{token.accept:.3f}" in words["verdict"]) == often
        assert ("fell above" in words["verdict"]) == (token.status == "rejected")
        assert f"{token.accept:.3f}" in words["scored"] and f"{token.u:.3f}" not in words["scored"], "not known yet"
    for _, token, words in pairs("token", spoken, "discarded"):
        assert "Never tested" in words["verdict"] and f"{token.accept:.3f}" in words["verdict"]
    kinds = {(w["status"], re.sub(r"[\d.·⁻%]+", "#", w["verdict"])) for row in spoken["token"] for w in row["tokens"]}
    assert len({sentence for _, sentence in kinds}) == len(kinds) >= 5, "no two statuses are said in the same words"


def test_a_guess_that_nearly_every_draw_accepts_is_not_called_too_often(browser):
    token = {"status": "accepted", "p": 0.9998, "q": 1.0, "u": 0.7, "accept": 0.9998}
    with page_with(browser, "player/sentences.js") as page:
        words = page.evaluate("token => tokenSentence(token, token.status)", token)
    assert words.startswith("Guessed about right: draft") and words.endswith("Nearly every u accepts it.")


def test_at_temperature_zero_no_u_is_spoken_of(spoken):
    for name, why in (("greedy", "after a rejection"), ("greedy_ended", "had ended")):
        tokens = [words for row in spoken[name] for words in row["tokens"]]
        assert len(tokens) > 60 and not any(re.search(r"\bu\b", words["verdict"] + words["scored"]) for words in tokens)
        untested = [words["verdict"] for _, _, words in pairs(name, spoken, "discarded")]
        assert all("Never tested" in words and why in words for words in untested)


@pytest.mark.parametrize("name", ["block", "block_tree"])
def test_rescued_draft_names_the_deciding_draft_and_its_chance(spoken, name):
    """The drafts are tried from the leaves, so the first one to pass decides, and only for its own path."""
    for event, token, words in pairs(name, spoken, "rescued"):
        drafts = event.tokens[: len(event.parents)]
        order = [node for node in Order.from_parents(event.parents).nodes if node]
        last = next(node for node in order if drafts[node - 1].u < drafts[node - 1].h)
        assert f"draft {last} passed" in words["verdict"] and f"{token.accept:.3f}" in words["verdict"]
        chance, fails, here = 0.0, 1.0, event.tokens.index(token) + 1
        for node in order:
            path = node
            while path > here:
                path = event.parents[path - 1]
            chance, fails = chance + fails * drafts[node - 1].h * (path == here), fails * (1 - drafts[node - 1].h)
        assert words["expected"] == pytest.approx(chance, abs=1e-3)
        if name == "block":
            assert chance == pytest.approx(1 - math.prod(1 - draft.h for draft in drafts[here - 1 :]))
    assert any(" rescued, " in row["said"] for row in spoken[name])


@pytest.mark.parametrize("name", ["siblings", "block_tree"])
def test_the_residual_after_two_siblings_is_what_both_left_of_p(spoken, name):
    seen = 0
    for event, token, words in pairs(name, spoken, "resampled"):
        places = [i for i, each in enumerate(event.tokens) if each.status == "rejected"]
        parents = {event.parents[i] for i in places}
        if len(places) != 2 or len(parents) != 1:
            continue
        (parent,) = parents
        pair = [event.tokens[i] for i in places]
        weight = (event.tokens[parent - 1].running if parent else None) or 1.0
        left = dict.fromkeys(range(8), 0.0) | {c.id: c.mass for c in pair[0].p_top.top}
        for draft in pair:
            q, before = {c.id: c.mass for c in draft.q_top.top}, weight
            over = {id_: max(0.0, before * p - q.get(id_, 0.0)) for id_, p in left.items()}
            total = sum(over.values())
            left, weight = {id_: share / total for id_, share in over.items()}, total / (total + 1 - before)
        assert words["isLeft"] and words["weight"] == pytest.approx(before, abs=2e-3)
        assert words["total"] == pytest.approx(total, abs=2e-3)
        assert words["share"] == pytest.approx(left[token.id], abs=2e-3)  # sent in four digits
        seen += 1
    assert seen > 0


def test_typical_acceptance_speaks_of_its_threshold(spoken):
    for status, words in (("accepted", "is above"), ("rejected", "is not above"), ("discarded", "Never tested")):
        for _, token, said in pairs("typical", spoken, status):
            assert words in said["verdict"] and f"threshold {token.threshold:.3f}" in said["verdict"]
    assert all("no residual" in said["verdict"] for _, _, said in pairs("typical", spoken, "resampled"))


def test_a_round_says_how_its_drafts_came_about(spoken):
    numbers = partial(re.findall, r"\d+")
    for method in ("medusa", "one_block"):
        drafted = [row for row in spoken[method] if row["drafted"]]
        parts = [numbers(token["part"]) for token in drafted[0]["tokens"][:3]]
        assert len(drafted) > 3 and parts == [["1"], ["2"], ["3"]]
    assert numbers(spoken["lookahead"][0]["drafted"]) == ["6", "2", "4"], "rows, those of the pool, those of the window"
    parts = [token["part"] for token in spoken["lookahead"][0]["tokens"][:6]]
    assert parts[0] == parts[1] != parts[2] == parts[3] == parts[4] == parts[5]
    assert all(spoken[f"lookahead_{i}"][0]["drafted"] == "" for i in range(3))
    assert numbers(spoken["exit"][0]["drafted"]) == ["2", "30"] and spoken["exit_unknown"][0]["drafted"]
    assert numbers(spoken["exit_unknown"][0]["drafted"]) == []


def test_a_round_names_the_drafts_that_the_grammar_forbids(spoken):
    first, second = (re.sub("[\u2068\u2069]", "", row["said"]) for row in spoken["constrained"])
    assert first == "Round 1: 1 of 3 drafts accepted, “x” rejected, “<i>” forbidden, then resampled “x”."
    assert second == "Round 2: plain “x”, “no” forbidden."


def test_the_page_has_one_word_for_each_verdict(spoken):
    """The words are accepted, rejected, discarded, resampled, as in the lessons and their glossary."""
    texts = re.findall(r'"([^"]+)"', json.dumps(spoken, ensure_ascii=False))
    texts += [SENTENCE, *(row.meaning for row in STATUSES.values())]
    assert len(set(texts)) > 300
    others = re.compile(r"\b(refus\w+|stay(s|ed)?\b(?! as)|goes|gone|redrawn|drafts? (is |was )?kept)", re.I)
    assert [text for text in texts if others.search(text)] == []
