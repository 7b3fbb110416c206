"""Integrates acceptance rules over their uniforms: the exact law of what one round and the target after it write."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch

ONE = 1 - 2.0**-24  # the largest uniform there is


def rows(count: int, vocabulary: int, seed: int, holes: float = 0.2) -> torch.Tensor:
    """Random distributions [count, V], some tokens of them without mass."""
    generator = torch.Generator().manual_seed(seed)
    mass = torch.rand(count, vocabulary, generator=generator) ** 2
    mass[torch.rand(mass.shape, generator=generator) < holes] = 0.0
    mass[:, seed % vocabulary] += 0.05
    return mass / mass.sum(-1, keepdim=True)


def threshold(holds, low: int = 0, high: int = 2**24) -> int:
    """The first value in this range for which ``holds`` does not."""
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if holds(middle) else (low, middle)
    return low


def law(rule, N: int):
    """Integrates a rule over its uniforms: {path of drafts kept: (probability, closing row)}.

    What a rule does to draft i is a threshold on u_i, found by bisection over all 2²⁴ values, so nothing the rule
    reports about itself is trusted.
    """
    found = []

    def walk(u: list[float], mass: float, settled: frozenset):
        verdict = rule(torch.tensor(u))
        tested = [i for i in range(N) if verdict.tested[i] and i not in settled]
        if not tested:
            found.append((tuple(np.flatnonzero(verdict.path)), mass, verdict.row))
            return
        i = tested[0]

        def is_kept(value: int) -> bool:
            return bool(rule(torch.tensor([*u[:i], value / 2**24, *u[i + 1 :]])).path[i])

        share = threshold(is_kept) / 2**24
        for value, part in ((0.0, share), (ONE, 1 - share)):
            if part > 0:
                walk([*u[:i], value, *u[i + 1 :]], mass * part, settled | {i})

    walk([0.0] * N, 1.0, frozenset())
    return found


def block_law(rule, N: int, order: Sequence[int] | None = None):
    """Returns the law of a rule in which each draft passes or not, and the first in ``order`` to pass decides, which is
    the last one of a chain. Every threshold is found while the other drafts fail."""
    left, found = 1.0, []

    def verdict(i: int, value: float):
        u = [ONE] * N
        u[i] = value
        return rule(torch.tensor(u))

    def passes(i: int, value: int) -> bool:
        return 0 <= value < 2**24 and int(verdict(i, value / 2**24).last) == i + 1

    for i in reversed(range(N)) if order is None else order:
        passed = verdict(i, 0.0)
        low, high = 0, 2**24
        guess = -1 if passed.block is None else int(passed.block.h[i] * 2**24)  # as it reports it, which is checked
        if guess >= 0 and (guess < 9 or passes(i, guess - 9)) and not passes(i, guess + 8):
            low, high = max(guess - 8, 0), min(guess + 8, high)
        low = threshold(lambda value, i=i: passes(i, value), low, high)
        if low and left > 0:
            found.append((tuple(np.flatnonzero(passed.path)), left * low / 2**24, passed.row))
        left *= 1 - low / 2**24
    if left > 0:
        failed = rule(torch.tensor([ONE] * N))
        found.append((tuple(np.flatnonzero(failed.path)), left, failed.row))
    return found


def output_law(rule_for, model, q_law, parents, length: int, integrate=law) -> dict:
    """The law of the next ``length`` tokens when one round is followed by the target's own.

    model(path) [V]: the target after these new tokens. q_law: [(tokens, their probability, q)].
    """
    N, outputs = len(parents), defaultdict(float)
    for tokens, chance, q in q_law:
        paths = paths_of(tokens, parents)
        p = torch.stack([model(path) for path in paths])
        for kept, mass, row in integrate(rule_for(p, q, torch.tensor(tokens)), N):
            start = paths[kept[-1] + 1] if kept else ()
            for closing, share in enumerate((row / row.sum()).tolist()):
                if share > 0:
                    _extend(outputs, (*start, closing), chance * mass * share, model, length)
    return outputs


def mean_accepted(rule_for, model, q_law, parents, integrate=law) -> float:
    """The mean number of accepted drafts, over the drafts and the uniforms."""
    mean = 0.0
    for tokens, chance, q in q_law:
        p = torch.stack([model(path) for path in paths_of(tokens, parents)])
        found = integrate(rule_for(p, q, torch.tensor(tokens)), len(parents))
        mean += chance * sum(mass * len(kept) for kept, mass, _ in found)
    return mean


def paths_of(tokens: Sequence[int], parents: Sequence[int]) -> list[tuple[int, ...]]:
    """The tokens from the root to each node."""
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, parents, strict=True):
        paths.append((*paths[parent], token))
    return paths


def _extend(outputs, tokens, mass, model, length):
    if len(tokens) >= length:
        outputs[tokens[:length]] += mass
        return
    for token, share in enumerate(model(tokens).tolist()):
        if share > 0:
            _extend(outputs, (*tokens, token), mass * share, model, length)


def table_model(vocabulary: int, seed: int, holes: float = 0.2):
    """p after a path: a row for each last token, and one for the start."""
    table = rows(vocabulary + 1, vocabulary, seed, holes)
    return lambda path: table[path[-1] if path else vocabulary]


def expected_law(model, length: int) -> dict:
    outputs = defaultdict(float)
    _extend(outputs, (), 1.0, model, length)
    return outputs


def difference(found: dict, expected: dict) -> float:
    """The largest difference between the chances that two laws give to the same tokens."""
    return max(abs(found.get(tokens, 0.0) - expected.get(tokens, 0.0)) for tokens in found.keys() | expected.keys())


def assert_target_law(rule_for, model, q_law, parents, length: int, integrate=law):
    found = output_law(rule_for, model, q_law, parents, length, integrate)
    assert difference(found, expected_law(model, length)) < 2e-6


def chain_q_law(draft, N: int):
    return tree_q_law(draft, tuple(range(N)))


def tree_q_law(draft, parents: Sequence[int], replace: bool = True):
    """Every way to draw a tree: (tokens, their probability, q). Siblings are drawn with or without replacement."""
    ways = [((), 1.0, (), ((),))]
    for i, parent in enumerate(parents):
        longer = []
        for tokens, chance, drawn, paths in ways:
            elders = [] if replace else [tokens[j] for j in range(i) if parents[j] == parent]
            q = draft(paths[parent]).double().index_fill(0, torch.tensor(elders, dtype=torch.long), 0.0)
            q = q / q.sum()
            for token in q.nonzero()[:, 0].tolist():
                path = (*paths[parent], token)
                longer.append(((*tokens, token), chance * float(q[token]), (*drawn, q.float()), (*paths, path)))
        ways = longer
    return [(tokens, chance, torch.stack(drawn)) for tokens, chance, drawn, _ in ways]


def as_rule(accept, parents=None):
    """A rule of u alone, for fixed p, q and tokens; the closing draw plays no part in a law."""

    def fixed(p, q, tokens):
        closing = torch.full((len(tokens) + 1,), 0.5)
        shape = () if parents is None else (parents,)
        return lambda u: accept(p, q, tokens, *shape, u, closing)

    return fixed
