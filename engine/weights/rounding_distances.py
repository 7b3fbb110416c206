"""Keeps how far rounded targets are from whole ones, as `python -m engine lab precisions` measured it. No torch."""

from dataclasses import dataclass

from engine.files import ASSETS, cache_root, read_json

_SHIPPED = ASSETS / "data" / "precisions"


@dataclass(frozen=True)
class Distance:
    """``kl``: mean KL divergence of the next-token distribution from fp32's, in nats; ``equal``: share of tokens whose
    likeliest word is the same; ``tokens``: how many were compared."""

    kl: float
    equal: float
    tokens: int


def stored_distances(target: str) -> dict[str, Distance]:
    """Returns the distances measured here for the target of this hash, else the shipped ones, or none."""
    for folder in (cache_root() / "precisions", _SHIPPED):
        try:
            if stored := read_json(folder / f"{target}.json"):
                return {name: Distance(**numbers) for name, numbers in stored.items()}
        except TypeError:  # damaged
            continue
    return {}
