"""Stores the keys and values of one sequence in place. Knows slots, not tokens.

keys, values [layers, K, L, D]: K key/value heads, L slots, D head size. Slot i holds the i-th token of the sequence;
the first `length` slots are valid, and the ones after them are never read.
"""

import torch

from engine.device import to_device


class KVCache:
    def __init__(
        self, layers: int, kv_heads: int, slots: int, head_dim: int, dtype: torch.dtype, device: str, spare: int = 0
    ):
        """Makes an empty cache. ``spare``: further slots, for rows whose keys are never read."""
        shape = (layers, kv_heads, slots + spare, head_dim)
        # Zeros, not empty: a fixed-width CUDA graph multiplies masked slots by 0, and 0 · NaN is NaN.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)
        self.length, self._spare = 0, spare

    @property
    def slots(self) -> int:
        return self.keys.shape[2] - self._spare

    def rollback(self, length: int) -> None:
        """Discards all slots from ``length`` on."""
        assert 0 <= length <= self.length, f"cannot roll back from {self.length} to {length}"
        self.length = length

    def keep(self, base: int, nodes: list[int]) -> None:
        """Keeps the path ``nodes`` (increasing, node 0 first) of the tree that was scored at slots base, base+1, …

        A chain's accepted path is a prefix, so nothing moves; only a tree pays for the copy.
        """
        if nodes != list(range(len(nodes))):
            source = to_device([base + n for n in nodes], self.keys.device)
            for side in (self.keys, self.values):
                side[:, :, base : base + len(nodes)] = side.index_select(2, source)
        self.length = base + len(nodes)
