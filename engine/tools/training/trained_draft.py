"""Writes the draft that a work folder trained, and pairs it with its target so that the engine can run it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from engine.errors import BadInput
from engine.files import disk_errors
from engine.tools.training import export, model_card
from engine.tools.training.project import StudentSetup, TrainingProject
from engine.weights.catalogue import local_model
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.specs import PairSpec


def is_trained(project: TrainingProject, student: str) -> bool:
    """Returns whether the work folder holds a draft of this kind."""
    return (project.folder / student / "setup.json").exists()


def write_draft(project: TrainingProject, student: str, out: Path) -> None:
    """Writes the trained draft as safetensors in 16 bits with its config and model card. The card has the numbers of
    `evaluate` where they were measured with exactly these weights. BadInput for samples it was not trained on."""
    setup = StudentSetup.read(project.folder / student)
    dataset, teacher = project.samples(), project.teacher()
    if dataset.fingerprint() != setup.samples:
        raise BadInput("This draft was trained on other samples; name the same files with --samples.")
    draft, state = project.restore(setup, teacher, project.folder / student)
    text = model_card.write(project, setup, state, dataset)
    if student == "lm":
        export.lm(draft, project.target, out, text)
    else:
        export.head(student, draft, teacher, setup.taps, project.pair.target, out, text)
    if measured := model_card.in_the_loop(project, student, weights_hash(out.resolve())):
        with disk_errors(out):
            (out / "README.md").write_text(text + measured, encoding="utf-8")


@contextmanager
def trained_pair(project: TrainingProject, student: str) -> Iterator[PairSpec]:
    """Yields the target with the trained draft, whose files are there until the with block ends."""
    with disk_errors(project.folder), tempfile.TemporaryDirectory(dir=project.folder, prefix="evaluated-") as folder:
        out = Path(folder) / student
        write_draft(project, student, out)
        name = f"{project.pair.name}+{project.folder / student}"
        yield replace(project.pair, name=name, title=name, drafts=MappingProxyType({student: local_model(out)}))
