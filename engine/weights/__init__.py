"""Checkpoints on disk: the catalogue of pairs, downloads, conversion and checks. Imports no torch."""
