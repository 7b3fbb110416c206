"""Registers a made-up drafting method with its one entry, and reports every place where it appears as JSON.

`python tests/helpers/echo_method.py PAIR FOLDER`, in a process of its own: the line is there before anything is
imported that reads the registry.
"""

import inspect
import json
import sys
from pathlib import Path

from paths import ROOT

sys.path[:0] = [str(ROOT)]

from engine.config import METHODS, Method, Setting  # noqa: E402

ECHOES = Setting("echoes", "Echoes", "How often the last token comes again.", 3, "slider", 1, 8, 1)
METHODS["echo"] = Method("echo", "repeats the last token", "echo_method:EchoDrafter", settings=(ECHOES,))

import torch  # noqa: E402

from engine.drafters.base import Draft, Drafter, DraftOffer  # noqa: E402


class EchoDrafter(Drafter):
    name = "echo"

    def start(self, prompt, setup, echoes):
        self.echoes = echoes

    def offer(self, text) -> DraftOffer:
        return DraftOffer(self, (0,) * 32, self._draft(text[-1]))

    def _draft(self, token: int):
        return lambda gamma, policy: Draft(torch.tensor([token] * min(gamma, self.echoes)))


def command(*words) -> str:
    from typer.testing import CliRunner

    from engine.tools.cli.main import app

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
        "help": command("run", "--help"),
        "drafted": sum(len(round_.parents) for round_ in traces["echo"].rounds),
        "lossless": traces["echo"].text == traces["none"].text,
        "sweep": "echo" in (folder / "sweep.csv").read_text(encoding="utf-8"),
        "bench": [row["method"] for row in json.loads((folder / "bench.json").read_text())["rows"]],
    }


def own_setting(pair: str, folder: Path) -> dict:
    """Reports where the method's own setting appears."""
    import api_table

    from app.api.endpoints import Api
    from app.form import control_values, controls_by_name
    from app.playground.links import query, read_link
    from app.server.limits import Limits
    from app.views.run_facts import facts
    from engine.trace.branch import config_of
    from engine.trace.trace import load

    short = ("--pair", pair, "--max-new-tokens", 12, "--gamma", 4)
    command("run", "abcabcabc", *short, "--method", "echo", "--echoes", 2, "--trace", folder / "own")
    run, controls = load(folder / "own"), controls_by_name(Limits())
    link = query(control_values(config_of(run)), controls)
    return {
        "longest": max(len(round_.parents) for round_ in run.rounds),
        "trace": run.started.config["echo"],
        "facts": dict(facts(run))["Echo"],
        "link": read_link(link, controls, [], 99).values["echoes"],
        "api": [*inspect.signature(Api.run).parameters][-1],
        "table": [line for line in api_table.text().splitlines() if "echoes" in line],
    }


def page() -> dict:
    from app.form import settings
    from app.jobs.service import Service
    from app.page import build
    from app.server.limits import Limits
    from app.views.engine_recipes import production
    from engine.trace.engine_recipes import Choice

    components = build(Service(limits=Limits())).config["components"]
    choices = {c["props"].get("elem_id"): c["props"].get("choices") for c in components}
    (slider,) = (c["props"] for c in components if c["props"].get("elem_id") == "echoes")
    engines = json.loads(production(Choice("echo", 4, "owner/target")))["engines"]
    return {
        "form": settings({"prompt": "Hi", "method": "echo"}).method,
        "controls": sorted(name for name, offered in choices.items() if name and "echo" in json.dumps(offered)),
        "slider": [slider[name] for name in ("label", "info", "value", "minimum", "maximum")],
        "label": dict(map(reversed, choices["method"]))["echo"],
        "recipes": sorted({engine["note"] for engine in engines}),
    }


if __name__ == "__main__":
    print(json.dumps(commands(sys.argv[1], Path(sys.argv[2])) | own_setting(sys.argv[1], Path(sys.argv[2])) | page()))
