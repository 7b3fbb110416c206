"""Runs `python -m engine prove`: whether a method leaves the target's output as it is, for people or for CI."""

import json
from typing import Annotated

import typer

from engine.config import ACCEPTANCE, AUTO, RunConfig
from engine.tools.cli import options
from engine.tools.cli.console import say
from engine.tools.cli.progress import progress
from engine.tools.exactness.results import TOY_PROOFS

NOT_PROVED = 3  # exit code: a check failed, or tested nothing


def prove(
    method: Annotated[
        str, typer.Argument(help=f"On the toy {', '.join(TOY_PROOFS)}; with --pair any of its methods that drafts.")
    ],
    pair: Annotated[str, typer.Option(help="A pair of `pairs` or folders; without one the three-word toy.")] = "",
    gamma: Annotated[int, typer.Option(min=1, max=16)] = 3,
    runs: Annotated[int | None, typer.Option(min=20, help="Runs of a test; 2,000 on the toy, 400 on a pair.")] = None,
    acceptance: Annotated[
        str, typer.Option(help=f"Test the law by this rule instead: {', '.join(ACCEPTANCE)}, or one of your own.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Every check with its numbers, as JSON on stdout.")] = False,
    device: options.Device = AUTO, precision: options.Precision = AUTO,
):  # fmt: skip
    """Test the law by token and block, with a penalty, under a constraint, in shared passes; then the greedy text.

    Exits with 0 if every check that the method offers passes, 3 if one fails or nothing was drafted in it, and 130
    after Ctrl-C, with the checks so far.
    """
    from engine.runtime.run_batch import RunBatch
    from engine.tools.exactness import proof

    engine = None
    if acceptance:
        RunConfig("-", acceptance=acceptance)  # refuses an unknown one
    if pair:
        options.check_method(pair, method)
        engine = options.load(pair, device, precision)
    subject = proof.subject_of(method, gamma, engine, lambda limit: RunBatch(engine, limit))
    checks, interrupted = [], False
    with progress() as show:
        try:
            for check in proof.prove(subject, runs or (400 if pair else 2000), show, acceptance):
                checks.append(check)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted and not checks:
        raise KeyboardInterrupt
    report = proof.to_dict(subject, method, checks)
    report["proved"] = report["proved"] and not interrupted
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print("\n".join(f"{check.name}: {check.state}. {check.words}" for check in checks))
    if interrupted:
        say("Stopped early: these are the checks so far.")
        raise typer.Exit(options.INTERRUPTED)
    if not report["proved"]:
        raise typer.Exit(NOT_PROVED)
