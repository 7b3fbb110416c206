"""Says which tokens of a tree each of its tokens attends to, on the host and on a device.

A shape on the host is a pair of arrays, of tokens that are the last W of a tree's M nodes: depth [W] below the root,
and ancestors [W, M] bool, where a node counts as its own ancestor.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from engine.config import MAX_NODES
from engine.device import to_device

HostShape = tuple[np.ndarray, np.ndarray]


class TreeShape(NamedTuple):
    """A shape on a device; ``root``: the slot of the tree's root. The M nodes lie in the slots from there on."""

    root: torch.Tensor
    depth: torch.Tensor
    ancestors: torch.Tensor


def tree_shape(parents: Sequence[int]) -> HostShape:
    """Returns depth [N+1] and ancestors [N+1, N+1] bool of parents [N], on the host.

    >>> tree_shape([0, 0, 1])[0].tolist()      # two siblings, and a child of the first
    [0, 1, 1, 2]
    """
    W = len(parents) + 1
    depth, ancestors = np.zeros(W, dtype=np.int64), np.eye(W, dtype=bool)
    for node, parent in enumerate(parents, start=1):
        assert 0 <= parent < node, f"node {node} must come after its parent {parent}"
        depth[node] = depth[parent] + 1
        ancestors[node] |= ancestors[parent]
    return depth, ancestors


def pad(shape: HostShape, width: int) -> HostShape:
    """Adds rows that see the root alone, up to ``width``, and columns that none sees, so that trees of several sizes
    have one size."""
    depth, ancestors = shape
    W, M = ancestors.shape
    wide = np.zeros((width, -(-M // MAX_NODES) * MAX_NODES), dtype=bool)
    wide[:W, :M], wide[W:, 0] = ancestors, True
    return np.pad(depth, (0, width - W)), wide


def on_device(shape: HostShape, root: int, window: int | None, device: str) -> TreeShape:
    """Returns the shape of a tree whose root lies in this slot. A model with a ``window`` sees no ancestor beyond."""
    depth, ancestors = shape[0], within(shape[1], window)
    return TreeShape(to_device(root, device), to_device(depth, device), to_device(ancestors, device, torch.bool))


def within(ancestors: np.ndarray, window: int | None) -> np.ndarray:
    """Limits ancestors [W, M] to those fewer than ``window`` steps up."""
    if window is None:
        return ancestors
    steps = ancestors[:, ::-1].cumsum(1)[:, ::-1] - 1  # how many of its ancestors come after each
    return ancestors & (steps < window)
