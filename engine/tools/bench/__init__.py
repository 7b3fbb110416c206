"""Measures speed: benchmarks, sweeps, answers, many users, single passes and an acceptance that is set by hand."""
