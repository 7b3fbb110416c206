"""Gives the tests of this folder a hub on this machine."""

from hubs import hub

__all__ = ["hub"]
