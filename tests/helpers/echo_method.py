"""Registers a made-up drafting method with its one line, and reports every place where it appears as JSON.

`python tests/helpers/echo_method.py PAIR FOLDER`, in a process of its own: the line is there before anything is
imported that reads the registry.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from engine.config import METHODS, Method  # noqa: E402

METHODS["echo"] = Method("echo", "repeats the last token", "echo_method:EchoDrafter")

import torch  # noqa: E402

from engine.drafters.base import Draft, Drafter, Offer  # noqa: E402


class EchoDrafter(Drafter):
    name = "echo"

    def offer(self, text) -> Offer:
        return Offer(self, (0,) * 32, lambda gamma, policy: Draft(torch.tensor([text[-1]] * gamma)))


def command(*words) -> str:
    from typer.testing import CliRunner

    from engine.cli.main import app

    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output


def commands(pair: str, folder: Path) -> dict:
    from engine.trace.trace import load

    prompts, text = folder / "prompts.jsonl", "abcabcabc"
    prompts.write_text(json.dumps({"prompt": text, "category": "chat"}), encoding="utf-8")
    short = ("--pair", pair, "--max-new-tokens", 12)
    for method in ("echo", "none"):
        command("run", text, *short, "--method", method, "--gamma", 2, "--trace", folder / method)
    traces = {method: load(folder / method) for method in ("echo", "none")}
    sweep = ("--methods", "echo", "--gammas", 2, "--csv", folder / "sweep.csv")
    command("lab", "sweep", "--prompts", prompts, *short, *sweep)
    command("bench", "--prompts", prompts, *short, "--methods", "none,echo", "--out", folder / "bench.json")
    return {
        "pairs": "echo" in command("pairs"),
        "help": "echo" in command("run", "--help"),
        "drafted": sum(len(round_.parents) for round_ in traces["echo"].rounds),
        "lossless": traces["echo"].text == traces["none"].text,
        "sweep": "echo" in (folder / "sweep.csv").read_text(encoding="utf-8"),
        "bench": [row["method"] for row in json.loads((folder / "bench.json").read_text())["rows"]],
    }


def page() -> dict:
    from app.form import settings
    from app.jobs.service import Service
    from app.page import build
    from app.server.limits import Limits
    from app.views.engine_recipes import Choice, production

    components = build(Service(limits=Limits())).config["components"]
    choices = {c["props"].get("elem_id"): c["props"].get("choices") for c in components}
    engines = json.loads(production(Choice("echo", 4, "owner/target")))["engines"]
    return {
        "form": settings({"prompt": "Hi", "method": "echo"}).method,
        "controls": sorted(name for name, offered in choices.items() if name and "echo" in json.dumps(offered)),
        "label": dict(map(reversed, choices["method"]))["echo"],
        "recipes": sorted({engine["note"] for engine in engines}),
    }


if __name__ == "__main__":
    print(json.dumps(commands(sys.argv[1], Path(sys.argv[2])) | page()))
