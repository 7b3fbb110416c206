"""`python -m engine.training`: one command a stage. Each can be interrupted and started again."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.cli import friendly
from engine.config import AUTO
from engine.console import progress, say
from engine.errors import BadInput

app = typer.Typer(
    name="engine.training", help="Make a draft for a target: prompts → sample → distil → export → evaluate.",
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

Pair = Annotated[str, typer.Option(help="A pair of `python -m engine pairs`, or a target's own folder.")]
Work = Annotated[Path | None, typer.Option(metavar="DIR", help="Where everything is kept (default: the cache).")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda.")]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random draw.")]
Slots = Annotated[int, typer.Option(min=1, help="Texts sampled side by side.")]
Files = Annotated[list[Path] | None, typer.Option(metavar="FILE.npz", help="Sample files; may be given again.")]
Student = Annotated[str, typer.Argument(metavar="lm|eagle", help="Which kind of draft.")]


def _shop(pair: str, work: Path | None, device: str, files=()):
    from engine.models import choose_device
    from engine.training.workshop import Workshop

    return Workshop(pair, work, choose_device(device), files or ())


def _known(student: str) -> str:
    from engine.training.workshop import STUDENTS

    if student not in STUDENTS:
        raise BadInput(f"{student[:40]!r} is no kind of draft; choose from {', '.join(STUDENTS)}.")
    return student


@app.command()
@friendly
def prompts(
    count: Annotated[int, typer.Option(min=1, help="Attempts; a tenth or so is unusable.")] = 2000,
    pair: Pair = "smollm2-135m", work: Work = None, device: Device = AUTO, seed: Seed = 0, slots: Slots = 16,
):  # fmt: skip
    """Let the target write questions, each on a line of WORK/prompts.jsonl."""
    from engine.training.begun import same_or_new
    from engine.training.prompts import LONGEST, Attempts, opening, written
    from engine.training.slots import Slots as Beside

    shop = _shop(pair, work, device)
    model = shop.model()
    room = len(opening(model.tokenizer)) + LONGEST
    book = Attempts(shop.folder / "prompts" / "attempts.jsonl")
    same_or_new(shop.folder / "prompts" / "begun.json", {"seed": seed, "target": model.hash}, bool(book.texts))
    left = [i for i in range(count) if i not in book.texts]
    with progress() as show:
        beside = Beside(model.runner, slots, room)
        for done, (index, text) in enumerate(written(beside, model.tokenizer, model.eos, left, seed), 1):
            book.add(index, text)
            show((count - len(left) + done) / count, f"attempt {count - len(left) + done} of {count}")
    found = book.questions(count)
    if not found:
        raise BadInput(
            f"The target wrote no usable question in {count} attempts; ask for more, or pass a file to sample."
        )
    _write_prompts(shop.folder / "prompts.jsonl", found)


@app.command()
@friendly
def tasks(
    count: Annotated[int, typer.Option(min=1)] = 2000,
    samples: Files = None, pair: Pair = "smollm2-135m", work: Work = None, seed: Seed = 0,
):  # fmt: skip
    """Make requests about texts (summarise, rewrite, quote …) of the target's own replies, into WORK/tasks.jsonl."""
    from engine.pretrained import load_tokenizer
    from engine.training.prompts import tasks as made

    shop = _shop(pair, work, "cpu", samples)
    _write_prompts(shop.folder / "tasks.jsonl", list(made(shop.samples(), load_tokenizer(shop.target), count, seed)))


def _write_prompts(path: Path, found: list[str]) -> None:
    from engine.folders import disk_errors, write_atomically

    with disk_errors(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps({"prompt": text}, ensure_ascii=False) for text in found)
        write_atomically(path, "".join(f"{line}\n" for line in lines))
    say(f"{len(found)} prompts are in {path}.")


@app.command()
@friendly
def sample(
    prompts: Annotated[list[Path] | None, typer.Option(metavar="FILE.jsonl", help="May be given again.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Replies; one for each prompt unless told.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 256,
    pair: Pair = "smollm2-135m", work: Work = None, device: Device = AUTO, seed: Seed = 0, slots: Slots = 16,
):  # fmt: skip
    """Let the target answer at temperatures 0, 0.7 and 1, into WORK/samples/samples.npz."""
    from engine.training import sample as stage
    from engine.training.begun import same_or_new
    from engine.training.prompts import read
    from engine.training.slots import Slots as Beside

    shop = _shop(pair, work, device)
    asked = [text for path in prompts or [shop.folder / "prompts.jsonl"] for text in read(path)]
    model, count = shop.model(), count or len(asked)
    longest = min(1024, model.runner.max_length)
    begun = {"seed": seed, "prompts": stage.fingerprint(asked), "max_new_tokens": max_new_tokens, "target": model.hash}
    folder = shop.folder / "samples"
    same_or_new(folder / "begun.json", begun, any(folder.glob("*.npz")))
    with progress() as show:
        rows = stage.requests(model.tokenizer, asked, count, seed, longest - max_new_tokens)
        beside = Beside(model.runner, slots, longest)
        whole = stage.collect(beside, rows, count, model.eos, max_new_tokens, folder, show)
    say(f"{len(whole)} replies, {int(whole.reply_len.sum()):,} tokens, in {folder / 'samples.npz'}.")


@app.command()
@friendly
def distil(
    student: Student,
    updates: Annotated[int, typer.Option(min=1, help="Optimiser steps; resuming needs the same number.")] = 2000,
    rows: Annotated[int, typer.Option(min=1, help="Rows an update.")] = 8,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=1.0)] = 2e-3,
    words: Annotated[int, typer.Option(min=16, help="Draft vocabulary: the words the target writes most.")] = 6144,
    taps: Annotated[str, typer.Option(help="Target layers a head reads, commas between.")] = AUTO,
    tv: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of total variation in the loss.")] = 0.0,
    start: Annotated[Path | None, typer.Option(metavar="DIR", help="An older WORK/lm or /eagle to go on from.")] = None,
    samples: Files = None, pair: Pair = "smollm2-135m", work: Work = None, device: Device = AUTO, seed: Seed = 0,
):  # fmt: skip
    """Train a draft on the samples, resuming from its last checkpoint; logs α on held-out prompts as it goes."""
    from engine.training.distil import Recipe, train
    from engine.training.features import high_taps
    from engine.training.workshop import rollout_for

    shop = _shop(pair, work, device, samples)
    _known(student)
    whole = shop.samples()
    chosen = high_taps(shop.pair.target.layers) if taps == AUTO else _layers(taps)
    setup = shop.prepare(student, chosen, words, seed, whole, start)
    recipe = rollout_for(setup, Recipe(updates, rows, learning_rate, tv=tv, seed=seed))
    with progress() as show:
        features, teacher = shop.features(whole, chosen, show), shop.teacher()
        draft = shop.student(setup, teacher, whole, features)

        def report(fraction: float, message: str) -> None:
            (say if message.startswith("{") else lambda m: show(fraction, m))(message)

        data, before = shop.data(setup, whole, features), shop.seen(setup, teacher)
        log = train(draft, teacher, data, recipe, shop.folder / student, report, before)
    say(f"Trained: α on held-out prompts {json.dumps({k: log[-1][k] for k in ('greedy', 'sampled')})}.")


def _layers(text: str) -> tuple[int, ...]:
    try:
        layers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"taps is {text[:40]!r}, but must be layer numbers with commas between, or auto.") from None
    if list(layers) != sorted({*layers}):
        raise BadInput("Name each tapped layer once, from low to high.")
    return layers


@app.command()
@friendly
def export(
    student: Student,
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder, or an older draft to replace.")],
    samples: Files = None, pair: Pair = "smollm2-135m", work: Work = None, device: Device = AUTO,
):  # fmt: skip
    """Write a trained draft as safetensors in bf16 with its config and model card."""
    from engine.training import card
    from engine.training import export as stage
    from engine.training.workshop import Setup

    shop = _shop(pair, work, device, samples)
    setup = Setup.read(shop.folder / _known(student) / "setup.json")
    whole, teacher = shop.samples(), shop.teacher()
    if whole.fingerprint() != setup.samples:
        raise BadInput("This draft was trained on other samples; name the same files with --samples.")
    draft, state = shop.trained(setup, teacher)
    text = card.write(shop, setup, state, whole)
    if student == "eagle":
        stage.eagle(draft, teacher, setup.taps, out, text)
    else:
        stage.lm(draft, shop.target, out, text)
    say(f"The draft is in {out}.")


@app.command()
@friendly
def evaluate(
    student: Student,
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Prompts it was never trained on.")],
    gamma: Annotated[int, typer.Option(min=1, max=16, help="Fixed, so that every position is tried.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 128,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    pair: Pair = "smollm2-135m", work: Work = None, device: Device = AUTO,
):  # fmt: skip
    """Count α by draft position, τ and speedup in the real loop at temperatures 0 and 1."""
    from engine.bench import read_prompts
    from engine.folders import disk_errors, write_atomically
    from engine.loading import load_engine
    from engine.training.evaluate import evaluate as count

    shop, chosen = _shop(pair, work, device), read_prompts(prompts, limit)
    engine = load_engine(pair, device)
    with progress() as show:
        found = [count(engine, student, chosen, t, gamma, max_new_tokens, show) for t in (0.0, 1.0)]
    for one in found:
        print(f"{one.method}, {one.line()}")
    folder = shop.folder / student
    if folder.is_dir():
        with disk_errors(folder):
            write_atomically(folder / "evaluation.json", json.dumps([asdict(one) for one in found], indent=1))


def main() -> None:
    app()
