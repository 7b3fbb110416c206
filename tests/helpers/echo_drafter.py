"""Drafts the last token again and again: the smallest drafting method that a test can register."""

import torch

from engine.drafters.base import Draft, Drafter


class EchoDrafter(Drafter):
    name = "echo"

    def confidence_classes(self, committed):
        return (0,) * 32

    def propose(self, committed, gamma, position) -> Draft:
        return Draft(torch.tensor([committed[-1]] * gamma))
