"""Gives the tests of this folder a hub on this machine."""

from model_hub import hub

__all__ = ["hub"]
