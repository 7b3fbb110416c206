"""Keeps how far rounded targets are from whole ones, as `python -m engine lab precisions` measured it. No torch."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.files import ASSETS, cache_root, read_json, write_file

_SHIPPED = ASSETS / "data" / "precisions"


@dataclass(frozen=True)
class Distance:
    """``kl``: mean KL divergence of the next-token distribution from fp32's, in nats; ``equal``: share of tokens whose
    likeliest word is the same; ``tokens``: how many were compared."""

    kl: float
    equal: float
    tokens: int


def store_distances(target: str, distances: dict[str, Distance], file: Path | None = None) -> None:
    """Writes the distances of the target of this hash where `stored_distances` finds them, or to ``file``."""
    content = json.dumps({name: asdict(each) for name, each in distances.items()}, indent=1) + "\n"
    write_file(file or cache_root() / "precisions" / f"{target}.json", content)


def stored_distances(target: str) -> dict[str, Distance]:
    """Returns the distances measured here for the target of this hash, else the shipped ones, or none."""
    for folder in (cache_root() / "precisions", _SHIPPED):
        try:
            if stored := read_json(folder / f"{target}.json"):
                return {name: Distance(**numbers) for name, numbers in stored.items()}
        except TypeError:  # damaged
            continue
    return {}
