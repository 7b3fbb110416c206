"""Whole requests are weighed beside decoding, and the length of an answer from which drafting pays is named."""

import numpy as np
import pytest

from engine.tools.bench.whole_request import weigh


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
