"""Tests whether a server with drafts writes what it writes without them. One file, no package: take it with you.

    python check_server.py http://localhost:8000/v1 http://localhost:8001/v1 --model NAME

The first address has drafts on, the second has them off; both speak OpenAI's completions. First greedy texts: where
they differ there should be a near tie. As a yardstick the same without drafts, one request at a time and all at once.
Then a sampled token, counted on both sides. Exits with 1 if a gap or the counts say that it is not lossless.
"""

import argparse
import json
import math
import sys
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

PROMPTS = ("The capital of France is", "def fibonacci(n):", "Once upon a time", "1, 2, 3, 5, 8,", "Dear Sir or Madam,")
NEAR_TIE = 0.3  # between the best two log-probabilities; in bf16 two logits near 20 are rounded to steps of 0.125


def complete(url, model, prompt, tokens, temperature, seed=0):
    """[token, log-probability, gap to the second choice] of each token."""
    body = {
        "model": model,
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": temperature,
        "seed": seed,
        "logprobs": 2,
    }
    request = urllib.request.Request(
        f"{url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        numbers = json.load(answer)["choices"][0]["logprobs"]
    rows = []
    for token, own, tops in by_token(numbers):
        best = sorted(tops, reverse=True)
        rows.append((token, own, best[0] - best[1] if len(best) > 1 else math.inf))
    return rows


def by_token(numbers):
    """(token, log-probability, the highest log-probabilities) of each token, in either form that servers answer in."""
    if "content" in numbers:  # llama.cpp, as chats have it
        for each in numbers["content"]:
            yield each["token"], each["logprob"], [top["logprob"] for top in each["top_logprobs"]]
        return
    for token, own, top in zip(numbers["tokens"], numbers["token_logprobs"], numbers["top_logprobs"], strict=True):
        yield token, own, (top or {}).values()


def many(url, model, jobs, at_once):
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda job: complete(url, model, *job), jobs))


def differences(ones, others):
    """(place, gap) of the first difference of each pair of texts that differ."""
    for one, other in zip(ones, others, strict=True):
        for place, (a, b) in enumerate(zip(one, other, strict=False)):
            if a[0] != b[0]:
                yield place, min(a[2], b[2])
                break


def chi_squared(ones, others):
    """Statistic, degrees of freedom and p-value of two rows of words; those seen fewer than ten times are one class."""
    words = Counter(ones) + Counter(others)
    rare = {word for word, seen in words.items() if seen < 10}
    table = [Counter("rare" if word in rare else word for word in row) for row in (ones, others)]
    classes = sorted(table[0] | table[1], key=str)
    total = [len(ones), len(others)]
    statistic = 0.0
    for word in classes:
        both = table[0][word] + table[1][word]
        statistic += sum(
            (row[word] - both * n / sum(total)) ** 2 / (both * n / sum(total))
            for row, n in zip(table, total, strict=True)
        )
    freedom = len(classes) - 1
    if not freedom:
        return 0.0, 0, 1.0
    return statistic, freedom, p_value(statistic, freedom)


def p_value(statistic, freedom):
    """Approximates the p-value by Wilson and Hilferty, 1931. Far out it is too large: 3.5e-9 where 1.0e-9 is true."""
    spread = 2 / (9 * freedom)
    normal = ((statistic / freedom) ** (1 / 3) - 1 + spread) / math.sqrt(spread)
    return math.erfc(normal / math.sqrt(2)) / 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("drafts", help="address with drafts on, up to /v1")
    parser.add_argument("plain", help="address with drafts off")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--draws", type=int, default=400, help="sampled requests on each side")
    options = parser.parse_args()
    greedy = [(prompt, options.tokens, 0) for prompt in PROMPTS]
    # The second token: a round's first comes from the prompt's own pass. Other seeds on the other side.
    sampled = [[(PROMPTS[2], 2, 1, first + i) for i in range(options.draws)] for first in (0, options.draws)]
    sides = zip((options.drafts, options.plain), sampled, strict=True)
    try:
        alone, together = (many(options.plain, options.model, greedy, n) for n in (1, len(greedy)))
        drafted = many(options.drafts, options.model, greedy, 1)
        words = [[row[-1][0] for row in many(url, options.model, jobs, 8)] for url, jobs in sides]
    except (urllib.error.URLError, OSError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"A server did not answer as expected: {error!r}. Both must offer /completions with logprobs.")
    wide = 0
    for name, parting in (
        ("yardstick, no drafts", differences(alone, together)),
        ("with drafts", differences(alone, drafted)),
    ):
        rows = list(parting)
        gaps = ", ".join(f"token {place}: gap {gap:.3f}" for place, gap in rows) or "none"
        print(f"Greedy, {name}: {len(rows)} of {len(greedy)} texts differ; {gaps}.")
        wide = sum(gap > NEAR_TIE for _, gap in rows)
    statistic, freedom, p = chi_squared(*words)
    print(f"Sampled, {options.draws} a side: chi-squared {statistic:.1f}, {freedom} degrees of freedom, p = {p:.2g}.")
    bad = wide or p < 1e-4
    print("Not lossless." if bad else "No difference found. A smaller one than these draws can show may remain.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
