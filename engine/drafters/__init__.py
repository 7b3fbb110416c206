"""Drafting methods, one file each. A new method is one file here and one line in `engine.config.METHODS`."""

from importlib import import_module

from engine.config import METHODS


def drafter_class(method: str) -> type:
    """Returns the `Drafter` subclass of a registered method; imports torch."""
    module, name = METHODS[method].drafter.split(":")
    return getattr(import_module(module), name)
