"""Records the results that the tabs of the Lab open with, on a machine that does nothing else.

`python -m app.lab [NAME]...` presses the button of each tab, with the form as the page has it, and keeps the file that
the page would save. Stopped, the same command goes on where it was: each point is kept in the cache as it is measured.
A result with noise, or of a busy machine, is not stored.
"""

import json
import sys
from typing import Annotated, Any, cast

import typer

from app.jobs.service import Service
from app.jobs.visitor import Session
from app.lab.distribution.page import QUICK
from app.lab.experiment import PageState
from app.lab.page import EXPERIMENTS
from app.lab.recorded import FOLDER
from app.lab.sweep.work import prompts
from engine.tools.exactness.results import RIGHT

KINDS, EACH = ("chat", "code", "rewrite"), 2
TEXTS = [{"prompt": text, "kind": kind} for kind in KINDS for text in prompts()[kind][:EACH]]
# Values of some controls, by their id, in place of the form's own: the answer is about three kinds of text and a load,
# and many users take a few minutes.
CHANGES = {
    "answer-own": "\n".join(map(json.dumps, TEXTS)), "answer-users": 8,
    "users-numbers": "1, 4, 8", "users-methods": ["ngram", "eagle"], "users-tokens": 16,
}  # fmt: skip

AGAIN = "Measure on a quiet machine, with SPECLENS_CACHE naming an empty folder, or store it with --despite-noise."


def record(service: Service, name: str, despite_noise: bool = False) -> None:
    """Measures one experiment and stores it. Ends the program if it did not end by itself, or if the result is doubtful
    and is not to be stored ``despite_noise``."""
    experiment, state = cast(Any, EXPERIMENTS[name](service)), PageState()
    values = [CHANGES.get(f"{experiment.NAME}-{field.name}", field.default) for field in experiment.fields]
    session = [Session()] if name == "theory" else []
    rules = (*QUICK, RIGHT) if name == "distribution" else None
    experiment.begin(None, state)
    last = {}
    for update in experiment.press(rules)(None, state, *session, *values):
        last = json.loads(update.notice) if isinstance(update.notice, str) else last
        sys.stderr.write(f"\r\x1b[K{name}: {last['text']}"[:200])
    sys.stderr.write("\n")
    if last["kind"] == "error" or last["text"].startswith("Stopped"):
        raise SystemExit(1)
    doubts = experiment.view.doubts(state.result)
    if doubts and not despite_noise:
        raise SystemExit(f"{name} is not stored.{doubts} {AGAIN}")
    files = experiment.files(state.result)
    suffix = experiment.RECORDED.rpartition(".")[2]
    saved = next(content for file, content in files.items() if file.endswith(suffix))
    FOLDER.mkdir(exist_ok=True)
    if isinstance(saved, str):
        saved = json.dumps(json.loads(saved), ensure_ascii=False, separators=(",", ":")).encode()
    (FOLDER / experiment.RECORDED).write_bytes(saved)


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Tabs; all by default.")] = None,
    despite_noise: Annotated[bool, typer.Option("--despite-noise", help="Store a doubtful result, too.")] = False,
):
    """Record the results that the Lab opens with: answer, theory, sweep, compare, distribution, users."""
    if unknown := set(names or ()) - EXPERIMENTS.keys():
        raise typer.BadParameter(f"there is no tab {min(unknown)[:40]!r}; choose from {', '.join(EXPERIMENTS)}")
    service = Service()
    for name in names or EXPERIMENTS:
        record(service, name, despite_noise)


if __name__ == "__main__":
    typer.run(main)
