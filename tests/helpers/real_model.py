"""Names the embedded pair and the prompts that the tests of its real weights use, and compares greedy runs on it."""

import json
from itertools import zip_longest

from paths import ASSETS

from engine.trace.metrics import NEAR_TIE
from engine.trace.trace import Trace

PAIR = "smollm2-135m"
ROWS = [json.loads(line) for line in (ASSETS / "data" / "prompts.jsonl").open(encoding="utf-8")]
PROMPTS = {row["id"]: row["prompt"] for row in ROWS if row["id"] in ("chat-3", "code-2", "maths-1", "rewrite-1")}
assert len(PROMPTS) == 4


def differs_at_near_tie(run: Trace, plain: Trace) -> bool:
    """Returns whether the tokens differ. The first difference must be at a near tie of the plain run, because the rows
    of a pass are summed in another order."""
    ours, theirs = ([token.id for token in one.emitted] for one in (run, plain))
    if ours == theirs:
        return False
    at = next(i for i, (a, b) in enumerate(zip_longest(ours, theirs)) if a != b)
    gap = plain.emitted[at].gap if at < len(theirs) else None
    assert gap is not None and gap < NEAR_TIE, f"{plain.text[:40]!r} …: token {at}, gap {gap}"
    return True
