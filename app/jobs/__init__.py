"""Accepts run requests: limits, queue, shared runs, cached results, and the facade over the engine."""
