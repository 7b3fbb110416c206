"""Drafting methods, one file each. A new one is one file and one line in `engine.loading.DRAFTERS`."""
