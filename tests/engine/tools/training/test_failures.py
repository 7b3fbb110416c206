"""Bad samples, prompts, settings, checkpoints and full disks: one sentence each, and earlier work is kept."""

import errno
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from tiny_pairs import VOCABULARY, model_folder
from training_project import CHAT, TRAIN, files, made_up, part_of, refused, run, sentence, stage
from transformers import AutoTokenizer
from typer.testing import CliRunner

from engine.tools.bench.prompts import read_prompts
from engine.tools.cli.training import app
from engine.tools.training import dataset as sample_file
from engine.tools.training import generate, prompts

CUT = "are damaged or cut short; sample or copy them again"
OTHER = "is not a sample file|" + CUT
# changes of the arrays (None leaves one out) and the sentence
CHANGED = {
    "no temperatures": (lambda a: {"temperature": None}, "is not a sample file: it lacks the array 'temperature'"),
    "row missing": (lambda a: {"prompt_len": a["prompt_len"][1:]}, "one entry for each row"),
    "length changed": (lambda a: {"reply_len": a["reply_len"] + np.uint16(1)},
                       r"its rows add up to \d+ tokens but it holds \d+, so it is cut short"),
    "empty reply": (lambda a: {"reply_len": a["reply_len"] * np.uint16(0)}, "every row needs a prompt and a reply"),
    "not flat": (lambda a: {"tokens": a["tokens"][None]}, "arrays must be flat"),
    "other ids": (lambda a: {"tokens": a["tokens"] + np.uint16(VOCABULARY - 50)},
                  rf"token id \d+ lies outside the target's {VOCABULARY} words: another tokenizer made it"),
    "negative ids": (lambda a: {"tokens": a["tokens"].astype(np.int64) - VOCABULARY}, "outside the target's"),
    "fractions": (lambda a: {"tokens": a["tokens"].astype(np.float32)}, "must be whole numbers"),
    "no rows": (lambda a: {name: each[:0] for name, each in a.items()}, "every row needs a prompt"),
    "objects": (lambda a: {"tokens": np.array([{}, []], dtype=object)}, CUT),
}  # fmt: skip
# changes of the file and the sentence
DAMAGED = {
    "cut short": (lambda content: content[: len(content) // 2], CUT),
    "text": (lambda content: b"these are no samples\n", CUT),
    "bytes changed": (lambda content: content[:300] + b"\x5a" * 40 + content[340:], CUT),
    "a single array": (lambda content: single_array(), OTHER),
}


def single_array() -> bytes:
    content = io.BytesIO()
    np.save(content, np.arange(9))
    return content.getvalue()


@pytest.mark.parametrize("kind", [*CHANGED, *DAMAGED])
def test_bad_samples_are_told_before_anything_is_written(journey, root, tmp_path, kind):
    source, path = journey.samples, tmp_path / "bad.npz"
    if kind in CHANGED:
        arrays = dict(np.load(source))
        arrays |= CHANGED[kind][0](arrays)
        np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    else:
        path.write_bytes(DAMAGED[kind][0](source.read_bytes()))
    said = run("distil", "eagle", "--samples", path, "--pair", root / "target", "--work", tmp_path / "work",
               "--device", "cpu", "--words", 20, fails=True)  # fmt: skip
    assert re.search((CHANGED | DAMAGED)[kind][1], sentence(said)) and "bad.npz" in said
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("words, command", [
    ("There are no samples at .*python -m engine training sample", ("distil", "eagle")),
    ("Nothing was trained in", ("export", "lm", "--out", "out")),
    ("Line 2 of .* is no JSON object", ("sample", "--prompts", "asked.jsonl")),
    ("cannot be read; make some with", ("sample", "--prompts", "gone.jsonl")),
    ("'hydra' is no kind of draft; choose from lm, block, eagle, medusa, exit", ("distil", "hydra")),
])  # fmt: skip
def test_a_command_that_cannot_begin_writes_nothing(root, tmp_path, monkeypatch, words, command):
    """Other bad prompts: tests/engine/tools/bench/test_benchmark.py, of the same reader."""
    monkeypatch.chdir(tmp_path)
    Path("asked.jsonl").write_text('{"prompt": "one"}\nhello\n')
    refused(words, root, *command, work=tmp_path / "work")
    assert files(tmp_path) == {"asked.jsonl"}


def test_a_target_that_our_decoder_does_not_run(tmp_path, journey):
    model_folder(tmp_path / "gpt", "gpt2")
    (tmp_path / "asked.jsonl").write_text('{"prompt": "one"}\n')
    asked = ("--words", 20, "--samples", journey.samples)
    for command in (("prompts",), ("sample", "--prompts", tmp_path / "asked.jsonl"), ("distil", "eagle", *asked)):
        refused("targets that our own decoder runs: the Llama family", tmp_path, *command, pair=tmp_path / "gpt")
    assert not (tmp_path / "work").exists()


def test_another_recipe_is_told_and_the_old_work_kept(copied, root):
    before = [(copied / "eagle" / name).read_bytes() for name in ("checkpoint.pt", "setup.json")]
    for settings, words in {
        ("--updates", 13): r"checkpoint\.pt has another recipe; continue with that one, or name another --work",
        ("--learning-rate", 0.01): "has another recipe", ("--rows", 5): "has another recipe",
        ("--words", 30): "holds a draft with other settings; name another --work, or delete it",
        ("--taps", "1"): "with other settings", ("--taps", "1,0"): "from low to high",
        ("--taps", "x"): "must be layer numbers",
    }.items():  # fmt: skip
        refused(words, root, "distil", "eagle", *TRAIN, *settings, work=copied)
    assert before == [(copied / "eagle" / name).read_bytes() for name in ("checkpoint.pt", "setup.json")]


def test_a_mistake_at_the_start_can_be_put_right(journey, root, tmp_path):
    """The mistaken attempts leave nothing that stops the next."""
    asked = ("distil", "eagle", *TRAIN, "--updates", 1, "--samples", journey.samples)
    for settings, words in {
        ("--taps", "0,7"): "Taps must lie between 0 and 1",
        ("--taps", "-1,0"): "Taps must lie between|from low to high",
        ("--words", 20000): "too few different words for a vocabulary of 20000",
        ("--layers", 2): "--layers is for block heads", ("--bias", 8): "--bias is for block heads",
    }.items():  # fmt: skip
        refused(words, root, *asked, *settings, work=tmp_path / "work")
    stage(root, *asked, work=tmp_path / "work")


def not_a_checkpoint(path: Path, kind: str) -> None:
    state = torch.load(path, weights_only=True)
    if kind == "cut short":
        path.write_bytes(path.read_bytes()[:-2000])
    elif kind == "text":
        path.write_text("weights")
    elif kind == "another student's":
        shutil.copyfile(path.parent.parent / "lm" / "checkpoint.pt", path)
    elif kind == "shapes":
        torch.save(state | {"student": {n: t[..., :-1] for n, t in state["student"].items()}}, path)
    else:
        torch.save({n: v for n, v in state.items() if n != kind}, path)


@pytest.mark.parametrize("kind", ["cut short", "text", "shapes", "another student's", "student", "update", "recipe"])
def test_a_damaged_checkpoint_is_told(copied, root, tmp_path, kind):
    not_a_checkpoint(copied / "eagle" / "checkpoint.pt", kind)
    words = r"checkpoint\.pt (cannot be read; delete it to start again|has another recipe)"
    refused(words, root, "distil", "eagle", *TRAIN, work=copied)
    if kind != "update":
        refused("cannot be read; delete it to start", root, "export", "eagle", "--out", tmp_path / "out", work=copied)
        assert not (tmp_path / "out").exists()


def test_a_damaged_setup_is_told(copied, root, tmp_path):
    for content in ("", "[]", '{"student": "eagle"}'):
        (copied / "eagle" / "setup.json").write_text(content)
        for command in (("distil", "eagle", *TRAIN), ("export", "eagle", "--out", tmp_path / "x")):
            refused("setup.json is damaged; delete its folder", root, *command, work=copied)


def test_a_damaged_part_of_the_samples_is_told(copied, root):
    (copied / "samples" / "samples.npz").unlink()
    part = sorted((copied / "samples").glob("part-*.npz"))[0]
    asked = ("--max-new-tokens", 12, "--count", 120)
    for file in (part.with_suffix(".npy"), part):
        kept = file.read_bytes()
        file.write_bytes(kept[:40])
        refused("damaged", root, "sample", *asked, work=copied)
        file.write_bytes(kept)
    stage(root, "sample", *asked, work=copied)
    assert (copied / "samples" / "samples.npz").exists()


def test_other_samples_than_it_was_trained_on(copied, root, journey, tmp_path):
    out = ("--out", tmp_path / "out")
    sample_file.save(copied / "samples" / "samples.npz", part_of(sample_file.load(journey.samples, VOCABULARY), 90))
    words = "was trained on other samples; name the same files with --samples"
    refused(words, root, "export", "lm", *out, work=copied)
    assert not (tmp_path / "out").exists()
    refused("with other settings", root, "distil", "lm", *TRAIN, work=copied)
    stage(root, "export", "lm", *out, "--samples", journey.samples, work=copied)


def test_too_few_rows_to_hold_some_out_no_such_layer_and_no_such_seed(journey, root, tmp_path):
    sample_file.save(tmp_path / "few.npz", made_up(3))
    asked = ("--words", 20, "--taps", 1, "--samples", tmp_path / "few.npz")
    words = "3 rows cannot be both trained on and held out"
    refused(words, root, "distil", "lm", *asked, work=tmp_path / "w")
    for taps in ("0", "0,1"):
        refused("reads the state after one layer or more; name one", root, "distil", "exit", "--taps", taps)
    result = CliRunner().invoke(app, ["prompts", "--seed", "-1", "--pair", str(root / "target")])
    assert result.exit_code == 2 and "seed" in result.output


FULL = "The disk that holds .* is full; free some space"


def no_room(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("student", ["lm", "eagle"])
def test_a_full_disk_at_export_leaves_the_older_draft(copied, root, tmp_path, monkeypatch, student):
    stage(root, "export", student, "--out", tmp_path / "out", work=copied)
    before = (tmp_path / "out" / "model.safetensors").read_bytes()

    def no_room(*args, **kwargs):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    for name in ("engine.tools.training.export", "engine.tools.training.stored_bits", "safetensors.torch"):
        monkeypatch.setattr(f"{name}.save_file", no_room)
    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", no_room)
    refused(FULL, root, "export", student, "--out", tmp_path / "out", work=copied)
    assert run("convert", root / student, "--out", tmp_path / "small", "--bits", 8, fails=True)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before and not list(tmp_path.glob(".*"))
    assert not (tmp_path / "small").exists()


@pytest.mark.slow
def test_a_full_disk_at_every_other_stage(copied, root, journey, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        real = os.replace  # the samples themselves, after the note of how they were begun
        patch.setattr("os.replace", lambda a, b: no_room() if b.suffix == ".npz" else real(a, b))
        asked = ("--prompts", journey.work / "prompts.jsonl", "--count", 4, "--max-new-tokens", 4)
        refused(FULL, root, "sample", *asked, work=tmp_path / "fresh")
        patch.setattr("os.replace", no_room)
        refused(FULL, root, "prompts", "--count", 20, work=tmp_path / "fresh")
        assert not [*(tmp_path / "fresh").rglob("*.npz"), *(tmp_path / "fresh").rglob("*.jsonl")]
        assert not list((tmp_path / "fresh").rglob(".*"))
        before = files(copied)
        (copied / "eagle" / "checkpoint.pt").unlink()
        refused(FULL, root, "distil", "eagle", *TRAIN, work=copied)
        assert before - files(copied) == {"eagle/checkpoint.pt"} and files(copied) <= before
    asked = ("distil", "eagle", *TRAIN, "--samples", journey.samples)
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", no_room)  # at once, not as a signal in the middle
        refused(FULL, root, *asked, work=tmp_path / "features")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    words = "Keeping the target's features needs .* on disk, but .* has 0.0 MB free"
    refused(words, root, *asked, work=tmp_path / "short")
    assert not (tmp_path / "short" / "features" / "features.bin").exists()


def test_work_begun_otherwise_is_not_mixed(copied, root, journey, tmp_path):
    """Another seed, other prompts, another length: said before a token is sampled; the same again goes on."""
    asked = ("--max-new-tokens", 12, "--slots", 7, "--count", 120)
    samples, other = copied / "samples" / "samples.npz", tmp_path / "other"
    before = samples.read_bytes()
    for changed, what in ((("--seed", 5), "seed"), (("--prompts", root / "held.jsonl"), "prompts")):
        refused(f"started with another {what}; name another --work", root, "sample", *asked, *changed, work=copied)
    refused("started with another max_new_tokens", root, "sample", "--max-new-tokens", 11, work=copied)
    refused("started with another seed", root, "prompts", "--seed", 5, work=copied)
    model_folder(other, template=CHAT)
    refused("started with another", root, "sample", *asked, pair=other, work=copied)
    refused("with other settings", root, "distil", "eagle", *TRAIN, pair=other, work=copied)
    start = ("--start", copied / "eagle", "--samples", samples)
    refused("made for another target", root, "distil", "eagle", *TRAIN, *start, pair=other, work=tmp_path / "new")
    assert samples.read_bytes() == before
    stage(root, "sample", *asked, work=copied)
    assert samples.read_bytes() == before


def test_prompts_that_leave_no_room_can_be_put_right(root, tmp_path):
    """A note of how sampling was begun counts for nothing while there is nothing."""
    path, work = tmp_path / "asked.jsonl", tmp_path / "work"
    path.write_text(json.dumps({"prompt": "x" * 300}) + "\n")
    asked = ("--prompts", path, "--max-new-tokens", 40)
    refused("every prompt is too long to leave room", root, "sample", *asked, work=work)
    path.write_text(json.dumps({"prompt": "x"}) + "\n")
    stage(root, "sample", *asked, "--seed", 2, work=work)


def test_a_prompt_that_measures_drafts_trains_none(root, tmp_path):
    """Neither as a prompt to answer nor as a reply from elsewhere."""
    text = read_prompts(prompts.SHIPPED)[0].text
    for held in (text, f"  {text.upper()}\n", f"Rewrite this in the past tense:\n\n{text}"):
        (tmp_path / "some.jsonl").write_text(json.dumps({"prompt": "x"}) + "\n" + json.dumps({"prompt": held}) + "\n")
        refused("which measures drafts", root, "sample", "--prompts", tmp_path / "some.jsonl", work=tmp_path / "work")
    assert prompts.evaluated_in(text[:-3]) is None
    model_folder(tmp_path / "long", max_position_embeddings=4096, template=CHAT)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "long")
    row = next(generate.requests(tokenizer, [text], 1, 0, 4096))
    row.tokens.append(5)
    sample_file.save(tmp_path / "some.npz", generate.to_samples([row]))
    said = ("--samples", tmp_path / "some.npz", *TRAIN)
    refused("1 of the samples", root, "distil", "eagle", *said, pair=tmp_path / "long", work=tmp_path / "work")
