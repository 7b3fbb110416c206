"""The numbers on disk, kept after every part, and as tables."""

import json
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers

import engine
from engine.errors import BadInput
from engine.folders import disk_errors, write_atomically
from engine.models import device_name

# What must be the same for two parts to stand in one table.
_SAME = ("device", "driver", "precision", "versions")


def environment(device: str, precision: str) -> dict:
    return {
        "device": device_name(device),
        "driver": _driver(device),
        "precision": precision,
        "versions": {
            "speclens": engine.__version__, "torch": torch.__version__, "transformers": transformers.__version__,
            "cuda": torch.version.cuda, "python": platform.python_version(),
        },
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def _driver(device: str) -> str | None:
    if torch.device(device).type != "cuda":
        return None
    try:
        return Path("/proc/driver/nvidia/version").read_text().split("Module")[1].split()[0]
    except (OSError, IndexError):
        return None


@dataclass
class Kept:
    """``parts``: name → numbers. A part that is there is not measured again."""

    path: Path
    environment: dict
    parts: dict[str, dict] = field(default_factory=dict)

    def __post_init__(self):
        if not self.path.exists():
            return
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            about, parts = kept["environment"], kept["parts"]
            differs = [name for name in _SAME if about.get(name) != json.loads(json.dumps(self.environment[name]))]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{self.path} holds no such numbers; name another file.") from error
        if differs:
            raise BadInput(
                f"{self.path} was measured with another {differs[0]} ({about.get(differs[0])}); name another file, or "
                "delete it to measure everything here."
            )
        self.environment, self.parts = about, parts

    def keep(self, name: str, numbers: dict) -> None:
        self.parts[name] = numbers
        with disk_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"environment": self.environment, "parts": self.parts}, indent=1, allow_nan=False)
            write_atomically(self.path, text + "\n")
            write_atomically(self.path.with_suffix(".md"), markdown(self.environment, self.parts))


# ---- tables --------------------------------------------------------------------------------------------------------


def markdown(about: dict, parts: dict[str, dict]) -> str:
    """A table of plain decoding, one of v(W), one of drafting; the real pair last."""
    shapes = {name: part for name, part in parts.items() if "none" in part}
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    driver = f", driver {about['driver']}" if about.get("driver") else ""
    text = [f"{about['device']}{driver}, {about['precision']}; {versions}; {about['time']}."]
    if shapes:
        text += [
            "Random weights of the shapes named, one text at a time. Drafts are kept with a chance α **set by hand**: "
            "the speedups say what the machine makes of an α, not what α a draft would have.",
            _plain(shapes), _scoring(shapes), _drafting(shapes),
        ]  # fmt: skip
    if "pair" in parts:
        text += [f"The real pair, {parts['pair']['pair']}:", parts["pair"]["table"]]
    return "\n\n".join(text) + "\n"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(shapes: dict) -> str:
    heads = ["shape", "context", "tokens/s", "of copy bandwidth", "transformers eager", "ours ÷ it",
             "transformers compiled", "ours ÷ it", "peak memory"]  # fmt: skip
    return _table(heads, [_plain_row(part) for part in shapes.values()])


def _plain_row(part: dict) -> list[str]:
    ours, row = part["none"]["tokens_per_second"], [part["shape"], f"{part['context']:,}"]
    row += [f"{ours:.1f}", f"{part['none']['share_of_bandwidth']:.0%}"]
    for way in ("eager", "compiled"):
        theirs = (part.get("transformers") or {}).get(way, {})
        rate = theirs.get("tokens_per_second")
        row += [f"{rate:.1f}", f"{ours / rate:.2f}"] if rate else [theirs.get("problem", "–"), "–"]
    memory = part.get("peak_memory")
    return [*row, f"{memory / 1e9:.1f} GB" if memory else "–"]


def _scoring(shapes: dict) -> str:
    widths = [2, 3, 5, 8, 16, 32]
    rows = []
    for part in shapes.values():
        v = {int(width): value for width, value in part["v"].items()}
        rows.append([part["shape"], f"{part['context']:,}", *(f"{v[w]:.2f}" if w in v else "–" for w in widths)])
    return _table(["shape", "context", *(f"v({width})" for width in widths)], rows)


def _drafting(shapes: dict) -> str:
    heads = ["shape", "context", "draft", "c", "α set", "γ", "τ", "tokens/s", "speedup", "predicted", "efficiency"]
    rows = []
    for part in shapes.values():
        for method, draft in part["drafts"].items():
            for point in draft["synthetic"]:
                numbers = ("tau", "tokens_per_second", "speedup", "predicted", "efficiency")
                rows.append([
                    part["shape"], f"{part['context']:,}", method, f"{draft['c']:.3f}", f"{point['alpha']:g}",
                    str(point["gamma"]), *(f"{point[name]:.2f}" for name in numbers),
                ])  # fmt: skip
    return _table(heads, rows)
