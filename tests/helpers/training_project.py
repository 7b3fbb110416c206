"""Runs the training command line on a tiny target, and makes samples and heads up for its tests."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tiny_models import seeded, write
from tiny_pairs import END, VOCABULARY
from typer.testing import CliRunner

from engine.tools.cli.training import app
from engine.tools.training.dataset import Samples
from engine.tools.training.students import EagleStudent, LmShape
from engine.tools.training.teacher import Teacher

CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
CHAT += "{% if add_generation_prompt %}<assistant>{% endif %}"

ENDS = frozenset({END})
PROMPTS = 90  # attempts, of which a sixth are usable
WORDS, RANK = 40, 32  # size of reduced vocabularies, and rank of a bias
SHAPE = LmShape(width=24, layers=1, heads=2, inner=32)
RECIPE = ("--updates", 6, "--rows", 6, "--words", WORDS)
TRAIN = (*RECIPE, "--taps", "0,1")


def run(*arguments, fails=False):
    """``fails``: whether with 1, or with 2 because an option is wrong."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if fails:
        assert result.exit_code in (1, 2) and isinstance(result.exception, SystemExit), repr(result.exception)
        assert "Traceback" not in result.output
    else:
        assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def stage(root, name, *arguments, pair=None, work="work", **kwargs):
    return run(name, *arguments, "--pair", pair or root / "target", "--work", root / work, "--device", "cpu", **kwargs)


def refused(words: str, root, name, *arguments, **kwargs):
    """A stage that ends in one sentence, which matches ``words``."""
    said = sentence(stage(root, name, *arguments, fails=True, **kwargs))
    assert re.search(words, said), said


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def weights_of(student):
    return {name: t.clone() for name, t in student.module.state_dict().items()}


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def made_up(rows=60, seed=0) -> Samples:
    """Prompts repeat, as they do where one is answered at several temperatures."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, VOCABULARY, n) for n in rng.integers(4, 9, rows // 3)]
    replies = [rng.integers(0, VOCABULARY, n) for n in rng.integers(3, 12, rows)]
    tokens = np.concatenate([np.concatenate([prompts[i // 3], replies[i]]) for i in range(rows)]).astype(np.uint16)
    lengths = ([len(prompts[i // 3]) for i in range(rows)], [len(r) for r in replies])
    return Samples(tokens, *(np.array(n, dtype=np.uint16) for n in lengths), np.ones(rows, dtype=np.float32))


def part_of(whole: Samples, rows: int) -> Samples:
    lengths = {n: getattr(whole, n)[:rows] for n in ("prompt_len", "reply_len", "temperature")}
    return replace(whole, tokens=whole.tokens[: whole.starts[rows]], **lengths)


def stop_after(number: int):
    said = []

    def say(fraction, message):
        said.append(message)
        if len(said) >= number:
            raise KeyboardInterrupt

    return say


def quiet(fraction, message):
    pass


def random_head(folder: Path, name="llama", **more) -> tuple[EagleStudent, Teacher]:
    write(folder, name, vocab_size=VOCABULARY)
    teacher = Teacher.load(folder, "cpu")
    with seeded(0), torch.no_grad():
        student = EagleStudent.new(teacher, torch.arange(0, VOCABULARY, 3), torch.ones(2), **more)
        for parameter in student.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return student, teacher


def sentence(said: str) -> str:
    """The last thing said, which must be one sentence (or two) a person can act on, on one line."""
    line = said.strip().splitlines()[-1]
    assert line.endswith(".") and 20 < len(line) < 400
    return line
