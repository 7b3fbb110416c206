"""Measures speed: benchmarks, sweeps, fixed acceptance and models with random weights. Each instrument has a `measure`,
and a `markdown` that writes its table."""
