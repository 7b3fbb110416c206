"""Runs `python -m engine exercise`: grades what a learner has written. It needs no model."""

from pathlib import Path
from typing import Annotated

import typer

from engine.errors import BadInput
from engine.tools.cli import options
from engine.tools.cli.console import say, screen
from engine.tools.cli.progress import progress

WRONG = 3  # exit code: the rule is not lossless
app = options.Commands("exercise", "Write a part of the algorithm yourself, and have it graded.")


@app.callback()
def _exercises():
    """Keeps `rule` a command of its own while it is the only one."""


@app.command()
def rule(
    file: Annotated[Path, typer.Argument(help="Your rule, in Python. Its code runs on this machine.")],
    start: Annotated[
        bool, typer.Option("--start", help="Write the file that you begin with: three lines are missing.")
    ] = False,
):
    """Grade your own acceptance rule: token by token on a recorded round, then by the law of 10,000 rounds.

    A wrong rule is named, where it has the law of a known mistake, and the command exits with 3.
    """
    from engine.tools.exactness import rule_exercise as exercise

    if start:
        from engine.files import write_file

        if file.exists():
            raise BadInput(f"{file} exists already; name another file.")
        options.check_writable(file)
        write_file(file, exercise.TEMPLATE.read_text(encoding="utf-8").replace("my_rule.py", file.name))
        say(f"Write the three missing lines of {file}. Then: python -m engine exercise rule {file}")
        return
    with progress() as show:
        grade = exercise.grade(exercise.OwnRule(file), lambda share: show(share, "drawing"))
    out = screen()
    out.print("On a recorded run:")
    for is_right, words in grade.tokens:  # in words, because some terminals have no marks
        out.print(f"  {'right' if is_right else 'WRONG'}  {words}", soft_wrap=True)
    out.print(exercise.verdict(grade), soft_wrap=True)
    if not grade.result.lossless:
        raise typer.Exit(WRONG)
