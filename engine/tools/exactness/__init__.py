"""Tests whether the output is distributed as the target's own: toy models, mutants, chi-squared."""
