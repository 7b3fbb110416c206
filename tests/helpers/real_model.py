"""Names the embedded pair and the prompts that the tests of its real weights use."""

import json

from paths import ASSETS

PAIR = "smollm2-135m"
ROWS = [json.loads(line) for line in (ASSETS / "data" / "prompts.jsonl").open(encoding="utf-8")]
PROMPTS = {row["id"]: row["prompt"] for row in ROWS if row["id"] in ("chat-3", "code-2", "maths-1", "rewrite-1")}
assert len(PROMPTS) == 4
