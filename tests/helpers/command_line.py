"""Calls the command line: ``call("run", "Hi", "--gamma", 3)`` is `python -m engine run Hi --gamma 3`."""

from typer.testing import CliRunner

from engine.tools.cli.main import app


def call(*args, **settings):
    """``settings``: of `CliRunner.invoke`, as its ``input``."""
    return CliRunner().invoke(app, [str(arg) for arg in args], **settings)
