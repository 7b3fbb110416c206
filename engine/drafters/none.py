"""Drafts nothing: the plain autoregressive baseline, through the same loop, kernels and cache as every other method."""

from engine.drafters.base import Drafter


class NoDrafter(Drafter):
    name = "none"
