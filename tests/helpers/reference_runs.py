"""Runs engine/reference.py on the random numbers of a run, and names its verdicts as a trace does."""

import numpy as np
import torch

from engine.reference import RandomNumbers, Round
from engine.sampling.random_streams import ACCEPTING, CLOSING, DRAFTING, Uniforms


def random_numbers(seed: int, gamma: int, max_new_tokens: int) -> RandomNumbers:
    """Returns the numbers of a run of the engine with this seed."""
    table = Uniforms(seed, max_new_tokens).table
    drafting = np.stack([table(DRAFTING, step) for step in range(gamma)])
    return RandomNumbers(*map(torch.from_numpy, (drafting, table(ACCEPTING), table(CLOSING))))


def verdicts(r: Round) -> list[tuple[int, str]]:
    """Returns (id, status) of each draft, then of the closing token if the text reaches it."""
    N, kept = len(r.drafts), min(r.accepted, len(r.written))
    is_closed = len(r.written) > r.accepted
    statuses = ["accepted"] * kept + (["rejected"] if is_closed and kept < N else [])
    statuses += ["discarded"] * (N - len(statuses))
    tokens = list(zip(r.drafts, statuses, strict=True))
    return [*tokens, (r.written[-1], "plain" if N == 0 else "bonus" if kept == N else "resampled")][: N + is_closed]
