"""Measures speed: benchmarks, sweeps, many users, servers, fixed acceptance and models with random weights."""
