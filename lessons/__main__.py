"""Runs the commands of `python -m lessons`."""

from pathlib import Path
from typing import Annotated

import typer

from engine.errors import EngineError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Makes files of the lessons."""


@app.command()
def site(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write; files of that name are replaced.")],
):
    """Write the lessons, their runs, the theory and the printed pages as a site that needs no server."""
    from app import static_site

    try:
        size = static_site.write(out)
    except EngineError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{size / 1e6:.1f} MB in {out}. Open {out / 'index.html'}.")


if __name__ == "__main__":
    app(prog_name="python -m lessons")
