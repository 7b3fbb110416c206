"""One shape at one context: bandwidth, plain decoding, v(W), c, and speedups for an α set by hand."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine import calibrate
from engine.adaptive import FixedGamma
from engine.config import RunConfig
from engine.decode import TRUE_RULES, Decoding, Rules
from engine.drafters.eagle import EagleDrafter
from engine.drafters.lm import LmDrafter
from engine.drafters.none import NoDrafter
from engine.events import CostModel
from engine.lab.synthetic import keeping
from engine.memory import peak_memory, reset_peak
from engine.recorder import Recorder
from engine.runner import DecoderRunner
from engine.shapes.models import SHAPES, Shape, bytes_a_step, random_head, random_model
from engine.theory import best_gamma, predicted_speedup

WIDTHS = (*range(1, 17), 32)
ALPHAS = (0.5, 0.7, 0.8, 0.9)
MOST = 16  # drafts a round
Say = Callable[[str], None]


class Numbers:
    """A tokenizer that names every token by its number: nobody reads what random weights write."""

    all_special_ids: Sequence[int] = ()
    chat_template = None

    def decode(self, ids, **_) -> str:
        return "".join(f" {i}" for i in ids)

    def convert_ids_to_tokens(self, token: int) -> str:
        return str(token)


@dataclass(frozen=True)
class Pace:
    """Decoding alone, without the prompt. ``rounds``: (emitted, draft steps, drafted) of each."""

    tokens: int
    seconds: float
    rounds: tuple[tuple[int, int, int], ...]
    accepted: int
    tested: int

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def copy_bandwidth(device: str, megabytes: int) -> float:
    """Bytes a second that a plain copy moves on this device, reads and writes both counted; the best of ten."""
    source = torch.empty(megabytes * 2**20, dtype=torch.uint8, device=device)
    target, best = torch.empty_like(source), float("inf")
    for _ in range(11):
        _wait(device)
        start = time.perf_counter()
        target.copy_(source)
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return 2 * source.numel() / best


def _wait(device: str) -> None:
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def decode(target: DecoderRunner, drafter, prompt, tokens: int, gamma: int, rules: Rules = TRUE_RULES) -> Pace:
    config = RunConfig("-", max_new_tokens=tokens, trace=False)
    run = Decoding(
        config, prompt, target, drafter, FixedGamma(gamma), frozenset(), Recorder(config, Numbers()), rules=rules
    )  # fmt: skip
    rounds = list(run.rounds())
    statuses = [token.status for event in rounds for token in event.tokens]
    accepted = statuses.count("accepted")
    return Pace(
        sum(len(event.emitted) for event in rounds),
        rounds[-1].end - rounds[0].start,
        tuple((len(event.emitted), event.draft_steps, len(event.parents)) for event in rounds),
        accepted,
        accepted + statuses.count("rejected"),
    )


def measure(
    shape: Shape, context: int, dtype: torch.dtype, device: str, say: Say = lambda text: None, tokens: int = 128,
    repeats: int = 3, alphas: Sequence[float] = ALPHAS, copy_megabytes: int = 2_048,
) -> dict:  # fmt: skip
    """Everything of ours on a shape, as plain numbers; see `report` for what they are called in the table."""
    reset_peak(device)
    bandwidth = copy_bandwidth(device, copy_megabytes)
    say("making the target")
    target = random_model(shape, dtype, device)
    prompt = [(7_919 * i + 13) % target.vocab_size for i in range(context)]
    try:
        say("plain decoding")
        plain = _best([decode(target, NoDrafter(), prompt, tokens, 0) for _ in range(repeats + 1)][1:])
        say("the cost of scoring W tokens")
        costs = calibrate.measure(target, None, WIDTHS, context)
        read = bytes_a_step(target, context + tokens // 2)
        found = {
            "context": context,
            "none": {
                "tokens_per_second": plain.rate,
                "bytes_a_step": read,
                "copy_bandwidth": bandwidth,
                "share_of_bandwidth": read * plain.rate / bandwidth,
            },
            "v": costs.v,
            "step": costs.step,
            "drafts": {},
        }
        for method in ("lm", "eagle"):
            if method == "eagle" or shape.draft:
                say(f"drafting: {method}")
                drafter = _drafter(method, shape, target, dtype, device)
                found["drafts"][method] = _drafted(target, drafter, costs, prompt, tokens, repeats, alphas, say)
                drafter.runner.close()
        return found | {"peak_memory": peak_memory(device)}
    finally:
        target.close()


def _drafter(method: str, shape: Shape, target: DecoderRunner, dtype, device):
    if method == "eagle":
        return EagleDrafter(random_head(target), target)
    return LmDrafter(random_model(SHAPES[shape.draft], dtype, device, seed=2))


def _drafted(target, drafter, costs: CostModel, prompt, tokens: int, repeats: int, alphas, say: Say) -> dict:
    """c, and for each α the draft length that should be best there: measured beside predicted."""
    c = calibrate.measure(target, drafter, (1,), len(prompt)).c
    rows = []
    for alpha in alphas:
        gamma = max(1, best_gamma(alpha, c, costs.v, MOST))
        say(f"drafting: {drafter.name}, α = {alpha:g}, γ = {gamma}")
        pairs = [_pair(target, drafter, prompt, tokens, gamma, alpha) for _ in range(repeats + 1)][1:]
        plain, ours = _best([a for a, _ in pairs]), _best([b for _, b in pairs])
        speedup, predicted = ours.rate / plain.rate, predicted_speedup(ours.rounds, c, costs.v)
        rows.append({
            "alpha": alpha, "gamma": gamma, "alpha_seen": ours.accepted / ours.tested if ours.tested else None,
            "tau": ours.tokens / len(ours.rounds), "tokens_per_second": ours.rate, "speedup": speedup,
            "predicted": predicted, "efficiency": speedup / predicted,
        })  # fmt: skip
    return {"c": c, "synthetic": rows}


def _pair(target, drafter, prompt, tokens: int, gamma: int, alpha: float) -> tuple[Pace, Pace]:
    """One after the other, so that both meet the device in the same state."""
    plain = decode(target, NoDrafter(), prompt, tokens, 0)
    return plain, decode(target, drafter, prompt, tokens, gamma, keeping(alpha))


def _best(paces: Sequence[Pace]) -> Pace:
    """The median run: on a device of one's own the fastest may be a lucky clock."""
    middle = statistics.median_low([pace.rate for pace in paces])
    return next(pace for pace in paces if pace.rate == middle)
