"""Drafts with Medusa-1 heads: all places of a round at once, from one state of the target (Cai et al. 2024).

Head k guesses the token k + 1 places after the pending one and sees none of those between. The cost is one pass of the
heads a round, however many drafts it gives. Each is drawn from its own head's q: above temperature 0 that keeps more
than its likeliest word (of the first guesses 0.25 against 0.18 at temperature 1, on 25 held-out replies).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.base import PER_TOKEN, Draft, DrafterSetup, DraftPolicy, Keys
from engine.models.decoder.runner import DecoderRunner
from engine.models.heads.medusa import MedusaModel


class MedusaDrafter(AutoregressiveDrafter):
    """``runner``: the heads; ``target`` stores the last state of every token it has scored."""

    name, is_parallel, reads_prompt = "medusa", True, False
    shortest = 2  # before that the target has read nothing
    runner: Any  # the heads, which have no cache
    # Shares of guesses that were right where those before were: counted with the shipped heads on 25 held-out replies.
    priors: ClassVar = {
        PER_TOKEN: 0.24,
        **{("head", k): a for k, a in enumerate((0.24, 0.2, 0.32))},
        **dict(enumerate((0.07, 0.16, 0.22, 0.27, 0.3, 0.39, 0.49, 0.5, 0.56, 0.38))),
    }

    def __init__(self, runner: MedusaModel, target: DecoderRunner):
        super().__init__(runner)
        self.target, self.target_ids = target, runner.target_ids

    def start(self, prompt: Sequence[int], setup: DrafterSetup) -> None:
        self.setup = setup

    def keys(self) -> Keys:
        return tuple(("head", k) for k in range(self.runner.count)) if self.runner.is_on_cuda else PER_TOKEN

    def propose(self, text: Sequence[int], gamma: int, policy: DraftPolicy | None = None) -> Draft:
        gamma, known = min(gamma, self.runner.count), len(text) - 1
        rows = self.runner.forward(self.target.features(self.runner.reads, known - 1, known)).split(1)
        # A decision after each token would wait for the device.
        policy, u = None if self.runner.is_on_cuda else policy, self.uniforms(text, gamma)
        return self.draft(lambda _, at: (rows[at], None), text[-1:], {}, u, self.penalised_tokens(), policy)

    def memory(self, capacity: int) -> int:
        return 0

    def release(self) -> None:
        pass
