"""Integrates acceptance rules over their uniforms: the exact law of what one round and the target after it write."""

from collections import defaultdict
from itertools import product

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

        def kept(value: int) -> bool:
            return bool(rule(torch.tensor([*u[:i], value / 2**24, *u[i + 1 :]])).path[i])

        low, high = 0, 2**24  # kept below ``low``, refused from ``high`` on
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if kept(middle) else (low, middle)
        share = low / 2**24
        for value, part in ((0.0, share), (ONE, 1 - share)):
            if part > 0:
                walk([*u[:i], value, *u[i + 1 :]], mass * part, settled | {i})

    walk([0.0] * N, 1.0, frozenset())
    return found


def block_law(rule, N: int):
    """The same of a rule in which each draft passes or not, and the last one to pass decides. From the back, every
    threshold is found while the drafts after it fail."""
    left, found = 1.0, []

    def last(i: int, value: float) -> int:
        u = [ONE] * N
        u[i] = value
        return int(rule(torch.tensor(u)).last)

    for i in reversed(range(N)):
        low, high = 0, 2**24
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if last(i, middle / 2**24) > i else (low, middle)
        if low:
            verdict = rule(torch.tensor([*[ONE] * i, 0.0, *[ONE] * (N - i - 1)]))
            found.append((tuple(np.flatnonzero(verdict.path)), left * low / 2**24, verdict.row))
        left *= 1 - low / 2**24
    if left > 0:
        verdict = rule(torch.tensor([ONE] * N))
        found.append((tuple(np.flatnonzero(verdict.path)), left, verdict.row))
    return found


def output_law(rule_for, model, q_law, parents, length: int, integrate=law) -> dict:
    """The law of the next ``length`` tokens when one round is followed by the target's own.

    model(path) [V]: the target after these new tokens. q_law: [(tokens, their probability, q)].
    """
    N, outputs = len(parents), defaultdict(float)
    for tokens, chance, q in q_law:
        paths = [()]
        for token, parent in zip(tokens, parents, strict=True):
            paths.append((*paths[parent], token))
        p = torch.stack([model(path) for path in paths])
        for kept, mass, row in integrate(rule_for(p, q, torch.tensor(tokens)), N):
            start = paths[kept[-1] + 1] if kept else ()
            for closing, share in enumerate((row / row.sum()).tolist()):
                if share > 0:
                    _extend(outputs, (*start, closing), chance * mass * share, model, length)
    return outputs


def _extend(outputs, tokens, mass, model, length):
    if len(tokens) >= length:
        outputs[tokens[:length]] += mass
        return
    for token, share in enumerate(model(tokens).tolist()):
        if share > 0:
            _extend(outputs, (*tokens, token), mass * share, model, length)


def table_model(vocabulary: int, seed: int):
    """p after a path: a row for each last token, and one for the start."""
    table = rows(vocabulary + 1, vocabulary, seed)
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


def chain_q_law(draft, vocabulary: int, N: int):
    for tokens in product(range(vocabulary), repeat=N):
        q = torch.stack([draft(tokens[:i]) for i in range(N)])
        chance = float(np.prod([q[i, t].double() for i, t in enumerate(tokens)]))
        if chance > 0:
            yield tokens, chance, q


def as_rule(accept, parents=None):
    """A rule of u alone, for fixed p, q and tokens; the closing draw plays no part in a law."""

    def fixed(p, q, tokens):
        closing = torch.full((len(tokens) + 1,), 0.5)
        shape = () if parents is None else (parents,)
        return lambda u: accept(p, q, tokens, *shape, u, closing)

    return fixed
