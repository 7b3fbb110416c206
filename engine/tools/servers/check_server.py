"""Tests whether a server with drafts writes what it writes without them. One file, no package: take it with you.

    python check_server.py http://localhost:8000/v1 http://localhost:8001/v1 --model NAME

The first address has drafts on, the second has them off; both speak OpenAI's completions, or with --chat its chats.
First greedy texts: where they differ there should be a near tie. How wide a tie may be is measured without drafts, one
request at a time and all at once. Then a sampled token, counted on both sides. Exits with 1 if a gap or the counts say
that it is not lossless. `python -m engine server check` of SpecLens looks closer, and names the likely cause.
"""

import argparse
import json
import math
import re
import sys
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

PROMPTS = ("The capital of France is", "def fibonacci(n):", "Once upon a time", "1, 2, 3, 5, 8,", "Dear Sir or Madam,")
NEAR_TIE = 0.3  # between two log-probabilities, at least; in bf16 two logits near 20 are rounded to steps of 0.125
# By both names that servers have for it: a server's own default may be another, and then greedy is not the likeliest.
NO_PENALTY = {"repetition_penalty": 1.0, "repeat_penalty": 1.0}
TOPS = 5  # candidates per token, the most that every server gives
# A file to copy imports nothing of SpecLens, where exactness/results.py has the rate of the test of our own engine, and
# servers/client.py the time limits of the other commands.
FALSE_ALARM = 1e-4  # how often the test calls a correct server wrong
QUIET = 300.0  # seconds without a byte after which a server is taken to hang


class Failed(Exception):
    """A sentence on what a server answered."""


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because urllib would send the key along, to any host."""

    def redirect_request(self, *_):
        return None


OPENER = urllib.request.build_opener(Stay)


def complete(options, address, prompt, tokens, temperature, seed=0):
    """Returns (token, log-probability, log-probabilities by candidate) of each token."""
    body = {"model": options.model, "max_tokens": tokens, "temperature": temperature, "seed": seed} | NO_PENALTY
    if options.chat:
        body |= {"messages": [{"role": "user", "content": prompt}], "logprobs": True, "top_logprobs": TOPS}
    else:
        body |= {"prompt": prompt, "logprobs": TOPS}
    body = {name: value for name, value in (body | options.extra).items() if value is not None}
    url = f"{base(address)}/{'chat/' if options.chat else ''}completions"
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    try:
        with OPENER.open(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=QUIET) as got:
            return list(by_token(json.load(got)["choices"][0]["logprobs"]))
    except urllib.error.HTTPError as error:
        raise Failed(f"{url} answered {error.code}: {error.read(300).decode(errors='replace')}") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise Failed(f"{url} did not answer as expected, with log-probabilities: {error!r}") from error


def base(address):
    """Returns the address up to /v1, however it was written."""
    address = re.sub(r"/((chat/)?completions|models)$", "", address.strip().rstrip("/"))
    return address if address.endswith("/v1") else f"{address}/v1"


def by_token(numbers):
    """Yields the tokens of an answer, in either form that servers answer in."""
    if "content" in numbers:  # chats, and all of llama.cpp
        for each in numbers["content"]:
            yield each["token"], each["logprob"], {top["token"]: top["logprob"] for top in each["top_logprobs"]}
        return
    for token, own, tops in zip(numbers["tokens"], numbers["token_logprobs"], numbers["top_logprobs"], strict=True):
        yield token, own, tops or {}


def many(ask, jobs, at_once):
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda job: ask(*job), jobs))


def differences(plain, others):
    """Yields (place, gap) of the first difference of each pair of texts that differ. The gap is between the two tokens
    that were written there, in the numbers of the server without drafts, because with drafts some servers give
    others."""
    for one, other in zip(plain, others, strict=True):
        for place, (ours, theirs) in enumerate(zip(one, other, strict=False)):
            if ours[0] != theirs[0]:
                _, own, tops = ours
                # A token that is not even among the candidates is at least as far off as the last of them.
                yield place, abs(own - tops.get(theirs[0], min(tops.values(), default=-math.inf)))
                break


def movement(plain, others):
    """Returns how far the log-probability of a token moved between two runs at most, while both texts are the same.
    A log-probability may be None: unknown."""
    moved = [0.0]
    for one, other in zip(plain, others, strict=True):
        for (ours, before, *_), (theirs, after, *_) in zip(one, other, strict=False):
            if ours != theirs:
                break
            if before is not None and after is not None:
                moved.append(abs(before - after))
    return max(moved)


def widest_tie(plain, others):
    """Returns (largest change, widest gap that may be a tie) of two runs without drafts. Both candidates may move by
    the change, in opposite directions."""
    change = movement(plain, others)
    gaps = [gap for _, gap in differences(plain, others) if math.isfinite(gap)]
    return change, max(NEAR_TIE, 2 * change, *gaps)


def chi_squared(ones, others):
    """Computes statistic, degrees of freedom and p-value of two rows of words; rare ones (below ten) are one class."""
    words = Counter(ones) + Counter(others)
    rare = {word for word, seen in words.items() if seen < 10}
    table = [Counter(None if word in rare else word for word in row) for row in (ones, others)]
    classes = sorted(table[0] | table[1], key=str)
    total = [len(ones), len(others)]
    freedom = len(classes) - 1
    if freedom < 1 or not all(total):
        return 0.0, 0, 1.0
    statistic = 0.0
    for word in classes:
        both = table[0][word] + table[1][word]
        statistic += sum(
            (row[word] - both * n / sum(total)) ** 2 / (both * n / sum(total))
            for row, n in zip(table, total, strict=True)
        )
    return statistic, freedom, p_value(statistic, freedom)


def p_value(statistic, freedom):
    """Approximates the p-value by Wilson and Hilferty, 1931. Far out it is too large: 3.5e-9 where 1.0e-9 is true."""
    spread = 2 / (9 * freedom)
    normal = ((statistic / freedom) ** (1 / 3) - 1 + spread) / math.sqrt(spread)
    return math.erfc(normal / math.sqrt(2)) / 2


def prompts_of(path):
    """Reads the prompts of a file: of JSON lines with `prompt`, else its lines."""
    content = Path(path).read_bytes()
    text = content.decode(json.detect_encoding(content)).removeprefix("\ufeff")  # PowerShell writes UTF-16
    lines = [line for line in text.splitlines() if line.strip()]
    rows = [json.loads(line) if line.lstrip().startswith("{") else {"prompt": line} for line in lines]
    if any("json_schema" in row for row in rows):
        raise argparse.ArgumentTypeError(f"{path} has a JSON schema, which is not followed here; leave it out.")
    return [row["prompt"] for row in rows]


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("drafts", help="address with drafts on, up to /v1")
    parser.add_argument("plain", help="address with drafts off")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--draws", type=int, default=400, help="sampled requests on each side")
    parser.add_argument(
        "--prompts", type=prompts_of, default=PROMPTS, metavar="FILE", help="a line each, or JSON lines"
    )
    parser.add_argument("--chat", action="store_true", help="chats instead of completions")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--extra", type=json.loads, default={}, metavar="JSON",
                        help="more fields of each request; null takes one away")  # fmt: skip
    return parser.parse_args()


def main():
    options, done = read_options(), count(1)
    greedy = [(prompt, options.tokens, 0) for prompt in options.prompts]
    # The second token: a round's first comes from the prompt's own pass. Other seeds on the other side.
    sampled = options.prompts[min(2, len(options.prompts) - 1)]
    draws = [[(sampled, 2, 1, first + i) for i in range(options.draws)] for first in (0, options.draws)]
    total = 3 * len(greedy) + 2 * options.draws

    def ask(address, *job):
        rows = complete(options, address, *job)
        print(f"\r{next(done)} of {total} requests", end="", file=sys.stderr, flush=True)
        return rows

    drafts, plain = partial(ask, options.drafts), partial(ask, options.plain)
    try:
        alone, together = many(plain, greedy, 1), many(plain, greedy, len(greedy))
        drafted = many(drafts, greedy, 1)
        words = [[row[-1][0] for row in many(side, jobs, 8)] for side, jobs in zip((drafts, plain), draws, strict=True)]
    except Failed as problem:
        sys.exit(f"A server did not answer as expected: {problem}")
    print(file=sys.stderr)
    change, tie = widest_tie(alone, together)
    for name, parting in (
        ("yardstick, no drafts", differences(alone, together)),
        ("with drafts", differences(alone, drafted)),
    ):
        rows = list(parting)
        gaps = ", ".join(f"token {place}: gap {gap:.3f}" for place, gap in rows) or "none"
        print(f"Greedy, {name}: {len(rows)} of {len(greedy)} texts differ; {gaps}.")
    print(f"Without drafts a log-probability changed by up to {change:.3f}, so a gap up to {tie:.3f} may be a tie.")
    wide = sum(gap > tie for _, gap in differences(alone, drafted))
    statistic, freedom, p = chi_squared(*words)
    degrees = "1 degree" if freedom == 1 else f"{freedom} degrees"
    print(f"Sampled, {options.draws} a side: chi-squared {statistic:.1f}, {degrees} of freedom, p = {p:.2g}.")
    bad = wide or p < FALSE_ALARM
    print("Not lossless." if bad else "No difference found. A smaller one than these draws can show may remain.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
