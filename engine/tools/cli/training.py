"""Runs `python -m engine training`: one command a stage. Each can be interrupted and started again."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from engine.config import AUTO, DEFAULT_PAIR
from engine.errors import BadInput, Unavailable, quantity
from engine.tools.cli.console import say
from engine.tools.cli.options import Commands, Device, check_models, parse_list, writable_folder
from engine.tools.cli.progress import progress

# Large tensors come and go in every update. In 4 KiB pages the kernel took as long to map them as the model to
# compute: 1.3 s an update on two cores, 0.75 s with large pages. Torch reads this when it first allocates.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

app = Commands("training", "Make a draft for a target: prompts → sample → distil → export → evaluate.")

Pair = Annotated[str, typer.Option(help="A pair of `python -m engine pairs`, or a target's own folder.")]
Work = Annotated[
    Path | None,
    typer.Option(metavar="DIR", callback=writable_folder, help="Where everything is kept (default: the cache)."),
]
Out = Annotated[
    Path, typer.Option(metavar="DIR", callback=writable_folder, help="A new folder, or an older draft to replace.")
]
Seed = Annotated[int, typer.Option(min=0, help="Fixes every random draw.")]
Slots = Annotated[int, typer.Option(min=1, help="Texts sampled side by side.")]
Precision = Annotated[str, typer.Option(help="The target's, while it writes; on a CPU int8 is the quickest.")]
Files = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE.npz|DIR", help="Samples: a file, or a folder of parts; may be given again."),
]
Bits = Annotated[int, typer.Option(help="Bits of a weight: 16, or 8, for lm, eagle and block, in half the size.")]
Student = Annotated[str, typer.Argument(metavar="lm|eagle|block|medusa|exit", help="Which kind of draft.")]


def _project(pair: str, work: Path | None, device: str, files: Sequence[Path] | None = ()):
    from engine.tools.training.project import TrainingProject

    return TrainingProject(pair, work, device, files or ())


def _check_student(student: str) -> None:
    from engine.tools.training.kinds import STUDENTS

    if student not in STUDENTS:
        raise BadInput(f"{student[:40]!r} is no kind of draft; choose from {', '.join(STUDENTS)}.")


def _check_samples(files: Sequence[Path] | None, folder: Path) -> None:
    """Raises BadInput for files that are not there. What they hold is checked when they are read."""
    from engine.tools.training.dataset import check_present, sample_files

    for path in sample_files(files, folder):
        check_present(path)


@app.command()
def prompts(
    count: Annotated[int, typer.Option(min=1, help="Attempts; a tenth or so is unusable.")] = 2000,
    pair: Pair = DEFAULT_PAIR, work: Work = None, device: Device = AUTO, seed: Seed = 0, slots: Slots = 16,
    precision: Precision = AUTO,
):  # fmt: skip
    """Let the target write questions, each on a line of WORK/prompts.jsonl."""
    check_models(pair, device, precision)

    from engine.tools.training.batched_sampler import BatchedSampler
    from engine.tools.training.prompts import LONGEST, Attempts, question_prefixes, write_questions

    project = _project(pair, work, device)
    model = project.model(precision, slots)
    room = max(map(len, question_prefixes(model.tokenizer))) + LONGEST
    attempts = Attempts(project.folder / "prompts" / "attempts.jsonl")
    project.start("prompts", {"seed": seed, "precision": precision}, is_started=bool(attempts.texts))
    left = [i for i in range(count) if i not in attempts.texts]
    with progress() as show:
        sampler = BatchedSampler(model.runner, slots, room)
        for done, (index, text) in enumerate(write_questions(sampler, model.tokenizer, model.eos, left, seed), 1):
            attempts.add(index, text)
            total = count - len(left) + done
            show(total / count, f"{total:,} of {count:,} attempts, {sampler.pace}")
    questions = attempts.questions(count)
    if not questions:
        raise BadInput(
            f"The target wrote no usable question in {count} attempts; ask for more, or pass a file to sample."
        )
    _write_prompts(project.folder / "prompts.jsonl", questions)


@app.command()
def tasks(
    count: Annotated[int, typer.Option(min=1)] = 2000,
    samples: Files = None, pair: Pair = DEFAULT_PAIR, work: Work = None, seed: Seed = 0,
):  # fmt: skip
    """Make requests about texts (summarise, rewrite, quote …) of the target's own replies, into WORK/tasks.jsonl."""
    from engine.tools.training.dataset import work_folder

    spec = check_models(pair, AUTO, AUTO)
    _check_samples(samples, work_folder(spec.name, work))

    from engine.runtime.engine import load_tokenizer
    from engine.tools.training.prompts import make_tasks

    project = _project(pair, work, "cpu", samples)
    tokenizer = load_tokenizer(project.target)
    _write_prompts(project.folder / "tasks.jsonl", list(make_tasks(project.samples(), tokenizer, count, seed)))


def _write_prompts(path: Path, texts: list[str]) -> None:
    from engine.files import write_file

    write_file(path, "".join(json.dumps({"prompt": text}, ensure_ascii=False) + "\n" for text in texts))
    say(f"{path} has {quantity(len(texts), 'prompt')}.")


@app.command()
def sample(
    prompts: Annotated[list[Path] | None, typer.Option(metavar="FILE.jsonl", help="May be given again.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Replies; one for each prompt unless told.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 256,
    pair: Pair = DEFAULT_PAIR, work: Work = None, device: Device = AUTO, seed: Seed = 0, slots: Slots = 16,
    precision: Precision = AUTO,
):  # fmt: skip
    """Let the target answer at temperatures 0, 0.7 and 1, into WORK/samples/samples.npz."""
    from engine.tools.training.dataset import work_folder
    from engine.tools.training.prompts import read_texts

    spec = check_models(pair, device, precision)
    files = prompts or [work_folder(spec.name, work) / "prompts.jsonl"]
    texts = [text for path in files for text in read_texts(path)]

    from engine.tools.training import generate as stage
    from engine.tools.training.batched_sampler import BatchedSampler

    project = _project(pair, work, device)
    model, count = project.model(precision, slots), count or len(texts)
    longest = min(1024, model.runner.max_length)
    folder, settings = project.folder / "samples", {"seed": seed, "prompts": stage.fingerprint(texts)}
    project.start(
        "samples",
        settings | {"max_new_tokens": max_new_tokens, "precision": precision},
        is_started=any(folder.glob("*.npz")),
    )
    with progress() as show:
        rows = stage.requests(model.tokenizer, texts, count, seed, longest - max_new_tokens)
        sampler = BatchedSampler(model.runner, slots, longest)
        samples = stage.collect(sampler, rows, count, model.eos, max_new_tokens, folder, show)
    replies, tokens = quantity(len(samples), "reply", "replies"), quantity(int(samples.reply_len.sum()), "token")
    say(f"{replies}, {tokens}, in {folder / 'samples.npz'}.")


@app.command()
def distil(
    student: Student,
    updates: Annotated[int, typer.Option(min=1, help="Optimiser steps; resuming needs the same number.")] = 2000,
    rows: Annotated[int, typer.Option(min=1, help="Rows an update.")] = 8,
    learning_rate: Annotated[float, typer.Option(min=1e-6, max=1.0)] = 2e-3,
    words: Annotated[int, typer.Option(min=16, help="Draft vocabulary: the words the target writes most.")] = 6144,
    taps: Annotated[str, typer.Option(help="Target layers a head reads, commas between.")] = AUTO,
    layers: Annotated[int, typer.Option(min=1, max=8, help="A block head's; more guess better, and cost more.")] = 1,
    bias: Annotated[int, typer.Option(min=0, max=1024, help="Rank of a block head's bias by the guess before.")] = 0,
    normed: Annotated[bool, typer.Option(help="An EAGLE head that norms what it reads and feeds back (3.1).")] = False,
    tv: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of total variation in the loss.")] = 0.0,
    start: Annotated[Path | None, typer.Option(metavar="DIR", help="WORK/STUDENT, or an exported draft.")] = None,
    precision: Annotated[str, typer.Option(help="The target's, while its states are read: fp32, bf16 or fp16.")] = AUTO,
    samples: Files = None, pair: Pair = DEFAULT_PAIR, work: Work = None, device: Device = AUTO, seed: Seed = 0,
):  # fmt: skip
    """Train a draft on the samples, resuming from its last checkpoint; logs α on held-out prompts as it goes."""
    from engine.tools.training.dataset import work_folder

    _check_student(student)
    spec = check_models(pair, device, precision)
    named = None if taps == AUTO else _layers(taps)
    _check_samples(samples, work_folder(spec.name, work))

    from engine.tools.training.distil import Data, Recipe, train
    from engine.tools.training.hidden_states import exit_layer, high_taps
    from engine.tools.training.project import rollout_for

    project = _project(pair, work, device, samples)
    dataset = project.samples()
    choose = exit_layer if student == "exit" else high_taps
    chosen = named or choose(project.pair.target.layers)
    setup = project.prepare(student, chosen, words, seed, dataset, start, layers, normed, bias)
    recipe = rollout_for(setup, Recipe(updates, rows, learning_rate, tv=tv, seed=seed))
    with progress() as show:
        features, teacher = project.features(dataset, chosen, show, precision), project.teacher()
        draft, before = project.student(setup, teacher, dataset, features)

        def report(fraction: float, message: str) -> None:
            (say if message.startswith("{") else lambda m: show(fraction, m))(message)

        data = Data(dataset, features, chosen if draft.reads_taps else (), project.device)
        log = train(draft, teacher, data, recipe, project.folder / student, report, before)
    say(f"Trained: α on held-out prompts {json.dumps({k: log[-1][k] for k in ('greedy', 'sampled')})}.")


def _layers(text: str) -> tuple[int, ...]:
    layers = parse_list(text, int, "taps", "layer numbers with commas between, or auto")
    if not layers or list(layers) != sorted({*layers}):
        raise BadInput("Name each tapped layer once, from low to high.")
    return layers


@app.command()
def export(
    student: Student,
    out: Out,
    bits: Bits = 16, samples: Files = None, pair: Pair = DEFAULT_PAIR, work: Work = None, device: Device = AUTO,
):  # fmt: skip
    """Write a trained draft as safetensors with its config and model card."""
    from engine.tools.training.kinds import check_bits

    _check_student(student)
    check_models(pair, device, AUTO)
    check_bits(bits)

    from engine.tools.training import stored_bits
    from engine.tools.training.trained_draft import write_draft

    write_draft(_project(pair, work, device, samples), student, out)
    if bits != 16:
        stored_bits.convert(out, out, bits)
    say(f"The draft is in {out}.")


@app.command()
def convert(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A draft model or an EAGLE head.")],
    out: Out,
    bits: Bits = 16,
    target: Annotated[
        str | None,
        typer.Option(metavar="PAIR", help="Add this pair's output layer to a head without one: vLLM needs it."),
    ] = None,
):
    """Write an existing draft again with 16-bit weights, as other engines read them, or 8-bit ones."""
    from engine.tools.training.kinds import check_bits
    from engine.weights.catalogue import get_pair
    from engine.weights.checkpoint_dir import damage, missing
    from engine.weights.store import locate

    check_bits(bits)
    if problem := missing(folder) or damage(folder):
        raise BadInput(problem)
    if target:
        get_pair(target)

    from engine.tools.training import stored_bits

    weights = locate(get_pair(target).target) if target else None
    if target and weights is None:
        raise Unavailable(f"The weights of {target} are not here; run `python -m engine fetch {target}` first.")
    stored_bits.convert(folder, out, bits, weights)
    say(f"The draft is in {out}, in {bits} bits.")


@app.command()
def evaluate(
    student: Student,
    prompts: Annotated[Path, typer.Option(metavar="FILE.jsonl", help="Prompts it was never trained on.")],
    gamma: Annotated[int, typer.Option(min=1, max=16, help="Fixed, so that every position is tried.")] = 4,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 128,
    limit: Annotated[int | None, typer.Option(min=1)] = None,
    samples: Files = None, pair: Pair = DEFAULT_PAIR, work: Work = None, device: Device = AUTO,
):  # fmt: skip
    """Count α by draft position, τ and speedup of WORK's draft in the real loop, at temperatures 0 and 1.

    Measures the pair's own draft where nothing was trained in WORK, or where the pair is named as TARGET+DRAFT.
    """
    from engine.tools.bench.prompts import read_prompts

    _check_student(student)
    check_models(pair, device, AUTO)
    chosen = read_prompts(prompts, limit)

    from engine.files import write_file
    from engine.runtime.engine import load_engine
    from engine.tools.training.evaluate import evaluate as count
    from engine.trace.noise import about_machine, largest_share

    project = _project(pair, work, device, samples)
    with _draft_to_measure(project, student, work) as spec, progress() as show:
        engine = load_engine(spec, device)
        results = [count(engine, student, chosen, t, gamma, max_new_tokens, show) for t in (0.0, 1.0)]
    for one in results:
        print(f"{one.method}, {one.line()}")
    if busy := about_machine(largest_share(one.busy for one in results)):
        say(busy)
    if (project.folder / student).is_dir():
        write_file(project.folder / student / "evaluation.json", json.dumps([asdict(one) for one in results], indent=1))


@contextmanager
def _draft_to_measure(project, student: str, work: Path | None) -> Iterator:
    """Yields the pair with the draft to measure, and says which one that is."""
    from engine.tools.training.trained_draft import is_trained, trained_pair

    folder, coming = project.folder / student, project.pair.drafts.get(student)
    is_named = coming is not None and "+" in project.pair.name
    if is_trained(project, student) and not is_named:
        say(f"Measuring the draft that was trained in {folder}.")
        with trained_pair(project, student) as spec:
            yield spec
        return
    if coming is None or (work and not is_named):
        owned = f"leave --work out to measure the one of {project.pair.name}" if coming else "begin with distil"
        raise BadInput(f"Nothing was trained in {folder}; {owned}.")
    say(f"Measuring the draft that comes with {project.pair.name}: {coming.folder or coming.name}.")
    yield project.pair
