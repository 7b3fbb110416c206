"""SpecLens' engine: exact, traced speculative decoding. Light on purpose: importing it brings no torch."""

__version__ = "0.1.0"
