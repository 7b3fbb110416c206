"""Measures speed: benchmarks, sweeps over settings, fixed acceptance and models with random weights."""
