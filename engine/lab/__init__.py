"""Experiments on top of the engine: what pays here, whether it is exact, and what if α were another."""
