"""Whole requests are weighed beside decoding, and the length of an answer from which drafting pays is named."""

import numpy as np
import pytest

from engine.tools.bench.prompts import Prompt
from engine.tools.bench.whole_request import weigh
from engine.tools.servers.comparison import ServerLoad, verdict
from engine.trace.noise import ceiling


def side(first: float, tokens: int, pace: float, prompts: int = 4) -> np.ndarray:
    """Seconds to the first token, tokens after it, and their seconds; every prompt a little slower than the last."""
    return np.array([(first, tokens, tokens * pace)] * prompts) * np.linspace(1, 1.02, prompts)[:, None] ** [1, 0, 1]


# Seconds to the first token and a token, with drafts and without; tokens after the first; then the tone of decoding and
# of a whole request, and the length from which drafting pays.
CASES = {
    "a lost prompt cache, short answers": ((2.0, 0.01), (1.0, 0.02), 20, "faster", "slower", 100),
    "a lost prompt cache, long answers": ((2.0, 0.01), (1.0, 0.02), 500, "faster", "faster", 100),
    "drafts that delay nothing": ((1.0, 0.01), (1.0, 0.02), 20, "faster", "faster", None),
    "a first token that comes sooner": ((0.5, 0.01), (1.0, 0.02), 200, "faster", "faster", None),
    "slow drafts": ((1.0, 0.04), (1.0, 0.02), 100, "slower", "slower", None),
    "slow drafts that come late": ((2.0, 0.04), (1.0, 0.02), 100, "slower", "slower", None),
    "an answer of one token": ((2.0, 0.01), (1.0, 0.02), 0, None, "slower", None),
}


@pytest.mark.parametrize("case", CASES)
def test_a_request_is_weighed_beside_decoding(case):
    (first, pace), (plain_first, plain_pace), tokens, decoding, request, pays = CASES[case]
    whole = weigh(side(first, tokens, pace), side(plain_first, tokens, plain_pace))
    assert (whole.decoding.tone if whole.decoding else None) == decoding
    assert whole.request.tone == request
    assert whole.pays_from == (pytest.approx(pays, abs=1) if pays else None) and whole.length == tokens + 1
    assert ("pays for answers from" in whole.sentence) == bool(pays)
    expected = plain_first + tokens * plain_pace, first + tokens * pace
    assert whole.request.value == pytest.approx(expected[0] / expected[1], rel=0.02)


def test_a_longer_answer_is_no_faster_request():
    """Drafts that write twice as many tokens at the same pace, as sampled texts may, gain nothing."""
    whole = weigh(side(1.0, 200, 0.02), side(1.0, 100, 0.02))
    assert whole.request.value == pytest.approx(1) and whole.seconds[0] == pytest.approx(whole.seconds[1])


def test_a_single_prompt_is_weighed_with_the_error_of_one_run():
    whole = weigh(side(1.02, 100, 0.01, 1), side(1.0, 100, 0.02, 1))
    assert whole.first.tone == "level" and whole.pays_from is None and whole.request.tone == "faster"


class Weighed(ServerLoad):
    """A load of two kinds of text: seconds to the first token and a token, with drafts and without, and tokens."""

    def __init__(self, *kinds):
        super().__init__(1, [Prompt("x", "short"), Prompt("x", "long")])
        pairs = zip(("short", "long"), kinds, strict=True)
        self.sides = {name: [side(first, tokens, pace) for first, pace in kind] for name, (*kind, tokens) in pairs}

    def tau(self, category=""):
        return 2.2

    def request_of(self, category=""):
        chosen = [self.sides[category]] if category else self.sides.values()
        return weigh(*map(np.vstack, zip(*chosen, strict=True)), ceiling=ceiling(2.2))


FAST, LEVEL, SLOW, PLAIN = (0.1, 0.01), (0.1, 0.0201), (0.1, 0.04), (0.1, 0.02)
LATE, STALLED, NOISE = (2.1, 0.01), (2.1, 0.02), (0.1, 0.001)
VERDICTS = {  # how each kind is served with drafts, its tokens; then the verdict's beginning, and more of it
    "faster": ((FAST, 50), (FAST, 500), "Drafting pays: decoding 2.00×", ""),
    "late for short answers": ((LATE, 20), (FAST, 500), "although decoding is 2.00×", "It pays for long (1.9"),
    "late": ((LATE, 20), (LATE, 20), "Drafting loses for one user, although", "for answers from 201 tokens on"),
    "late and no faster": ((STALLED, 20), (STALLED, 20), "Drafting loses for one user, and decoding alone is not", ""),
    "no difference": ((LEVEL, 50), (LEVEL, 50), "For one user no certain difference", "measure longer"),
    "slower": ((SLOW, 50), (SLOW, 50), "For one user drafting is slower", "server explain"),
    "noise": ((NOISE, 50), (NOISE, 50), "For one user the measurements are noise", "faster than 2.20"),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_is_about_whole_requests(case):
    *kinds, first, words = VERDICTS[case]
    said = verdict([Weighed(*((drafting, PLAIN, tokens) for drafting, tokens in kinds))])
    assert first in said and words in said, said
    assert (" It " in said) == (case == "late for short answers"), said
