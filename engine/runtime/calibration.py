"""Measures the costs of this device: v(W), scoring W tokens ÷ scoring one, and c, one draft step ÷ one plain step.

All widths are timed in turn, repeatedly, and the minimum of each counts, because other programs only ever slow a pass
down. The order rotates, because the progress callback makes the first measurement after it slower. Where a width comes
out cheaper than a narrower one, all are timed once more in turn, and `monotone_costs` decides what of it is noise.
Unsteady costs serve this session and are not cached.
"""

import hashlib
import json
import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from engine.config import PRECISIONS, method_of
from engine.decoding.draft_length import RecordedRound, ReplayedGamma
from engine.device import now, to_device
from engine.drafters.autoregressive import AutoregressiveDrafter
from engine.drafters.base import Draft, DrafterSetup
from engine.errors import Unavailable
from engine.files import read_json, write_file
from engine.models.decoder.runner import Runner
from engine.trace.costs import CostModel
from engine.trace.noise import has_dips, monotone_costs
from engine.weights.specs import ModelSpec

WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
CONTEXT = 256
_DRAFT_STEPS = 4


def _seconds(step: Callable[[], object], device: str) -> float:
    start = now(device)
    step()
    return now(device) - start


@torch.inference_mode()  # as the loop is, because a drafter's buffers serve both
def measure(
    target: Runner,
    drafter: Any = None,
    widths: Sequence[int] = (),
    context: int = CONTEXT,
    repeats: int = 7,
    progress: Callable[[float], None] | None = None,
) -> CostModel:
    """Returns v for each width, and c for ``drafter`` (0 without one), at ``context`` tokens or fewer if a model's own
    context is shorter. Without ``widths`` they are WIDTHS; beside a drafter 1, because methods share v (`with_draft`).
    ``progress`` may raise to cancel."""
    widths = widths or (WIDTHS if drafter is None else (1,))
    longest = min([target.max_length] + ([drafter.runner.max_length] if drafter else []))
    widths = [w for w in widths if w <= longest // 3] or [1]
    context = max(1, min(context, longest - max(*widths, _DRAFT_STEPS + 2)))
    prompt = [(7 * i + 1) % target.vocab_size for i in range(context)]
    passes: dict[Any, Callable[[], object]] = {w: _scoring(target, prompt[:w], context) for w in widths}
    steps = 1
    try:
        target.reset(context + max(*widths, _DRAFT_STEPS + 2))
        target.prefill(prompt)
        if drafter is not None:
            passes["draft"], steps = _drafting(drafter, target, prompt)
        times = timings(passes, target.device, repeats, progress)
        if has_dips({w: min(times[w]) for w in widths}):
            # The share stays at 1, because it must not go back, and is still reported, because its reader may cancel.
            again = timings(passes, target.device, repeats, progress and (lambda share: progress(1.0)))
            times = {key: seconds + again[key] for key, seconds in times.items()}
    finally:
        target.release()
        if drafter is not None:
            drafter.release()
    best = {key: min(seconds) for key, seconds in times.items()}
    spread = statistics.median(times[1]) / best[1] - 1
    c = best.get("draft", 0.0) / steps / best[1]
    return monotone_costs(CostModel(c, {w: best[w] / best[1] for w in widths}, context, best[1], spread))


def timings(
    passes: Mapping[Any, Callable[[], object]], device: str, repeats: int,
    progress: Callable[[float], None] | None = None,
) -> dict[Any, list[float]]:  # fmt: skip
    """Runs all ``passes`` in turn, in an order that rotates, and once more before to warm up. Returns the seconds of
    each; their minimum is its cost."""
    times, order = {key: [] for key in passes}, deque(passes)
    for repeat in range(repeats + 1):
        for key in order:
            times[key].append(_seconds(passes[key], device))
        order.rotate(-1)
        if progress:
            progress((repeat + 1) / (repeats + 1))
    return {key: seconds[1:] for key, seconds in times.items()}


def with_draft(scoring: CostModel, drafting: CostModel) -> CostModel:
    """Combines a method's costs: v as measured without a draft, c as measured with it."""
    return replace(scoring, c=drafting.c, spread=max(scoring.spread, drafting.spread))


def _scoring(target: Runner, ids: Sequence[int], context: int):
    tokens = to_device(ids, target.device)

    def score():
        target.forward(tokens)
        target.rollback(context)

    return score


def _drafting(drafter: AutoregressiveDrafter, target: Runner, prompt: list[int]) -> tuple[Callable[[], Draft], int]:
    """Returns a function that drafts, and the steps that it takes: fewer where one gives several drafts."""
    chain = ReplayedGamma([RecordedRound(_DRAFT_STEPS, _DRAFT_STEPS, parents=tuple(range(_DRAFT_STEPS)))])  # a tree too
    setup = DrafterSetup.greedy(target.vocab_size, len(prompt) + _DRAFT_STEPS + 2, target.device)
    if target.captured:  # there a tree's levels cost more than a chain's steps, which are one graph
        setup = replace(setup, trees=target.trees)
    drafter.start(prompt, setup, **method_of(drafter.name).defaults)

    def draft():
        # Without an offer, because a draft in other tokens makes none where a text ends inside a character.
        proposal = drafter.propose(prompt, _DRAFT_STEPS, chain)
        drafter.commit(0)
        return proposal

    return draft, draft().passes


def cached_costs(folder: Path, key: dict, measure_now: Callable[[], CostModel], again: bool = False) -> CostModel:
    """Returns the cached costs of the same ``key`` (device, models, precision, versions), else measures and caches
    them.

    A damaged or unwritable cache is ignored.
    """
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{name}.json"
    if not again and (saved := _costs(read_json(path))):
        return saved
    costs = measure_now()
    if not costs.steady:
        return costs
    with suppress(OSError, Unavailable):
        write_file(path, json.dumps({**asdict(costs), "key": key}))
    return costs


def known_steps(folder: Path, device: str, target: str) -> dict[str, float]:
    """Returns the seconds of a plain step by precision, as far as they are cached for the target of this hash."""
    known = _read_costs(folder, device, target)
    return {precision: costs.step for drafter, precision, costs, _ in known if not drafter}


def seconds_per_byte(folder: Path, device: str, target: str, model: ModelSpec) -> dict[str, float]:
    """Returns, by precision, the seconds of a plain step ÷ the bytes of the weights that it reads, as far as they are
    cached for ``model``, the target of this hash. A larger model's step is estimated from it."""
    return {name: step / model.weight_bytes(name) for name, step in known_steps(folder, device, target).items()}


def known_draft_costs(
    folder: Path, device: str, target: str, precision: str, drafts: Mapping[str, str] = MappingProxyType({})
) -> dict[str, float]:
    """Returns c by drafter, as far as it is cached for the target of this hash in this precision. ``drafts``: the hash
    of each drafter's weights; costs that were measured with others are left out."""
    known = _read_costs(folder, device, target)
    return {
        drafter: costs.c
        for drafter, measured_in, costs, draft in known
        if drafter and measured_in == precision and (not draft or drafts.get(drafter, draft) == draft)
    }


def known_plain_costs(folder: Path, device: str, target: str, precision: str) -> CostModel | None:
    """Returns the newest cached costs of passes of the target of this hash, in this precision; None without any."""
    each = _read_costs(folder, device, target)
    known = [costs for drafter, name, costs, _ in each if not drafter and name == precision]
    return known[-1] if known else None


def _read_costs(folder: Path, device: str, target: str) -> Iterator[tuple[str, str, CostModel, str]]:
    """Yields the cached drafter ("" for none), precision, costs, and hash of the draft's weights, the oldest first.
    Damaged files are left out."""
    for path in sorted(folder.glob("*.json"), key=_modification_time):
        saved = read_json(path)
        key, costs = saved.get("key"), _costs(saved)
        if not costs or not isinstance(key, dict) or key.get("device") != device:
            continue
        drafter, precision, weights = key.get("drafter", ""), key.get("precision"), key.get("weights")
        if not isinstance(drafter, str) or precision not in PRECISIONS or not isinstance(weights, dict):
            continue
        if str(weights.get("target", "")).split("-")[0] == target:
            yield drafter, precision, costs, str(weights.get("draft", "")).split("-")[0]


def _modification_time(path: Path) -> float:
    """Returns when a file was last written; 0 for one that another process has deleted since."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _costs(saved: dict) -> CostModel | None:
    """Reads the costs that a cache file holds; None if they are not plausible or not steady."""
    try:
        v = {int(w): float(x) for w, x in saved["v"].items()}
        costs = CostModel(float(saved["c"]), v, int(saved["context"]), float(saved["step"]), float(saved["spread"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    numbers = (costs.c, costs.step, costs.spread, *v.values())
    sane = all(0 <= x < math.inf for x in numbers) and costs.step > 0 and 0 not in v.values()
    return costs if sane and min(v, default=0) == 1 and costs.steady else None
