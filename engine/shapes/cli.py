"""`python -m engine.shapes`: every shape at every context, and the real pair; resumed where it was stopped."""

from pathlib import Path
from typing import Annotated

import typer

from engine.cli import Device, Precision, friendly
from engine.console import say
from engine.errors import BadInput

app = typer.Typer(
    name="engine.shapes", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
USUAL = "135M,1.5B,8B,32B"
PAIR = "smollm2-135m"


@app.command()
@friendly
def shapes(
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Kept part by part; a table goes beside it.")],
    names: Annotated[str, typer.Option("--shapes", help="Commas between; none is empty.")] = USUAL,
    contexts: Annotated[str, typer.Option(help="Tokens before the first timed one; commas between.")] = "256,4096",
    pair: Annotated[str, typer.Option(help="A real pair to race as well; none is empty.")] = PAIR,
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl")] = Path("assets/prompts.jsonl"),
    limit: Annotated[int, typer.Option(min=1, help="Prompts for the real pair.")] = 12,
    tokens: Annotated[int, typer.Option(min=8, max=4_096)] = 128,
    repeats: Annotated[int, typer.Option(min=1, max=20)] = 3,
    theirs: Annotated[bool, typer.Option("--transformers/--no-transformers", help="Time transformers, too.")] = True,
    device: Device = "auto", precision: Precision = "auto",
):  # fmt: skip
    """What a pass costs at the sizes that people serve, and what drafting would save at an α set by hand."""
    from engine.models import choose_device, choose_precision
    from engine.shapes.models import SHAPES
    from engine.shapes.report import Kept, environment, markdown

    device = choose_device(device)
    precision = choose_precision(precision, device)
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    lengths = _lengths(contexts)
    if unknown := [name for name in chosen if name not in SHAPES]:
        raise BadInput(f"{unknown[0][:40]!r} is no shape; choose from {', '.join(SHAPES)}.")
    kept = Kept(out, environment(device, precision))
    for name in chosen:
        for context in lengths:
            _part(kept, SHAPES[name], context, device, precision, tokens, repeats, theirs)
    if pair and "pair" not in kept.parts:
        kept.keep("pair", _race(pair, prompts, limit, tokens, device, precision))
    print(markdown(kept.environment, kept.parts))


def _lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part.strip()]
        if not found or min(found) < 16:
            raise ValueError
    except ValueError:
        raise BadInput(f"contexts is {text[:40]!r}, but must be numbers from 16 up, with commas between.") from None
    return found


def _part(kept, shape, context: int, device, precision, tokens: int, repeats: int, theirs: bool) -> None:
    """Ours first, then theirs, each kept as soon as it is there: neither needs the other's memory."""
    from engine.models import PRECISIONS, memory_in_words
    from engine.shapes import measure
    from engine.shapes import theirs as contestants

    name, dtype = f"{shape.name} at {context}", PRECISIONS[precision]

    def told(text: str) -> None:
        say(f"{name}: {text}")

    with memory_in_words(f"{name} does not fit into the memory of {device}"):
        if name not in kept.parts:
            numbers = measure.measure(shape, context, dtype, device, told, tokens, repeats)
            kept.keep(name, {"shape": shape.name} | numbers)
        if theirs and "transformers" not in kept.parts[name]:
            found = contestants.measure(shape, context, dtype, device, told, tokens, repeats)
            kept.keep(name, kept.parts[name] | {"transformers": found})


def _race(pair: str, prompts: Path, limit: int, tokens: int, device: str, precision: str) -> dict:
    """The shipped drafts on real prompts, beside transformers, with tracing on and off."""
    from engine.bench import Race, Settings, read_prompts
    from engine.catalogue import methods
    from engine.cli import load
    from engine.scores import markdown as table

    engine = load(pair, device, precision)
    try:
        assisted = ("hf-assisted",) if "lm" in engine.pair.drafts else ()
        settings = Settings((*methods(engine.pair), "hf", *assisted), tokens, untraced=True)
        race = Race(engine, settings, read_prompts(prompts, limit))
        race.run(lambda count, note: say(f"{pair}: prompt {count}: {note}"))
        if race.interrupted:
            raise KeyboardInterrupt
        report = race.report(prompts)
        return {"pair": pair, "table": table(report["rows"]), "report": report}
    finally:
        engine.close()


def main() -> None:
    app()
