"""Bad samples, prompts, settings, checkpoints, heads and full disks: one sentence each, and earlier work is kept."""

import errno
import json
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tiny_pairs import VOCABULARY, model_folder
from training_project import CHAT, TRAIN, WORDS, files, made_up, part_of, run, sentence, stage
from typer.testing import CliRunner

from engine.cli.training import app
from engine.errors import BadInput, Unavailable
from engine.runtime.engine import load_engine
from engine.training import dataset as sample_file

pytestmark = pytest.mark.xdist_group("training")


def damaged(kind: str, source: Path, path: Path) -> None:
    arrays = dict(np.load(source))
    changes = {
        "row missing": {"prompt_len": arrays["prompt_len"][1:]},
        "length changed": {"reply_len": arrays["reply_len"] + np.uint16(1)},
        "empty reply": {"reply_len": arrays["reply_len"] * np.uint16(0)},
        "not flat": {"tokens": arrays["tokens"][None]},
        "other ids": {"tokens": arrays["tokens"] + np.uint16(VOCABULARY - 50)},
        "negative ids": {"tokens": arrays["tokens"].astype(np.int64) - VOCABULARY},
        "fractions": {"tokens": arrays["tokens"].astype(np.float32)},
        "no rows": {name: arrays[name][:0] for name in arrays},
        "objects": {"tokens": np.array([{}, []], dtype=object)},
    }
    content = source.read_bytes()
    if kind in changes:
        np.savez_compressed(path, **{**arrays, **changes[kind]})
    elif kind == "no temperatures":
        np.savez_compressed(path, **{n: a for n, a in arrays.items() if n != "temperature"})
    elif kind == "a single array":
        with path.open("wb") as file:
            np.save(file, arrays["tokens"])
    elif kind == "another archive":
        with zipfile.ZipFile(path, "w") as file:
            for name in arrays:
                file.writestr(name, "text")
    else:
        middle = content.index(b"tokens.npy") + 200
        path.write_bytes({
            "cut short": content[: len(content) // 2], "cut at the end": content[:-30], "empty": b"",
            "text": b"these are no samples\n",
            "bytes changed": content[:middle] + b"\x5a" * 40 + content[middle + 40 :],
        }[kind])  # fmt: skip


CUT = "are damaged or cut short; sample them again or copy them anew"

SAMPLES = {
    "cut short": CUT, "cut at the end": CUT, "empty": CUT, "text": CUT, "bytes changed": CUT, "objects": CUT,
    "a single array": "is not a sample file|" + CUT, "another archive": "is not a sample file|" + CUT,
    "no temperatures": "is not a sample file: it lacks the array 'temperature'",
    "row missing": "one entry for each row",
    "length changed": r"its rows add up to \d+ tokens but it holds \d+, so it is cut short",
    "empty reply": "every row needs a prompt and a reply", "not flat": "arrays must be flat",
    "other ids": rf"token id \d+ lies outside the target's {VOCABULARY} words: another tokenizer made it",
    "negative ids": "outside the target's", "fractions": "must be whole numbers", "no rows": "every row needs a prompt",
}  # fmt: skip


@pytest.mark.parametrize("kind", SAMPLES)
def test_bad_samples_are_told_before_anything_is_written(journey, root, tmp_path, kind):
    path = tmp_path / "bad.npz"
    damaged(kind, journey.work / "samples" / "samples.npz", path)
    said = run("distil", "eagle", "--samples", path, "--pair", root / "target", "--work", tmp_path / "work",
               "--device", "cpu", "--words", 20, fails=True)  # fmt: skip
    assert re.search(SAMPLES[kind], sentence(said)) and "bad.npz" in said
    assert not (tmp_path / "work").exists()


def test_no_samples_at_all(root, tmp_path):
    for student in ("lm", "eagle"):
        said = stage(root, "distil", student, work=tmp_path / "none", fails=True)
        assert "There are no samples at" in sentence(said) and "python -m engine training sample" in said
        assert "Nothing was trained in" in stage(
            root, "export", student, "--out", tmp_path / "x", work=tmp_path / "none", fails=True
        )
    assert not (tmp_path / "none").exists() and not (tmp_path / "x").exists()


PROMPTS = {
    '{"prompt": "one"}\n{"prompt": }\n': "Line 2 of .* is no JSON object with `prompt`",
    '{"prompt": "one"}\nhello\n': "Line 2 of .* is no JSON object with `prompt`",
    '["prompt"]\n': "Line 1 of .* is no JSON object",
    '{"text": "one"}\n': "Line 1 of .* is no JSON object with `prompt`",
    '{"prompt": "one"}\n{"prompt": "  "}\n': "Line 2 of .* has an empty prompt",
    '{"prompt": 7}\n': "Line 1 of .* has an empty prompt",
    "": "holds no prompts",
    b"\xff\xfe": "cannot be read",
    None: "cannot be read; make some with",
}  # fmt: skip


@pytest.mark.parametrize("content", PROMPTS, ids=str)
def test_bad_prompts_are_told_by_line(root, tmp_path, content):
    path = tmp_path / "asked.jsonl"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    said = stage(root, "sample", "--prompts", path, work=tmp_path / "work", fails=True)
    assert re.search(PROMPTS[content], sentence(said)) and not (tmp_path / "work").exists()


def test_prompts_that_leave_no_room(root, tmp_path):
    path = tmp_path / "asked.jsonl"
    path.write_text(json.dumps({"prompt": "x" * 300}) + "\n")
    said = stage(root, "sample", "--prompts", path, "--max-new-tokens", 40, work=tmp_path / "work", fails=True)
    assert "every prompt is too long to leave room" in sentence(said)


def test_a_target_that_our_decoder_does_not_run(tmp_path, journey):
    model_folder(tmp_path / "gpt", "gpt2")
    (tmp_path / "asked.jsonl").write_text('{"prompt": "one"}\n')
    asked = ("--words", 20, "--samples", journey.work / "samples" / "samples.npz")
    commands = [("prompts",), ("sample", "--prompts", tmp_path / "asked.jsonl")]
    for command in (*commands, ("distil", "lm", *asked), ("distil", "eagle", *asked)):
        said = stage(tmp_path, *command, pair=tmp_path / "gpt", fails=True)
        assert "targets that our own decoder runs: the Llama family" in sentence(said)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("settings, words", {
    ("--updates", 13): r"checkpoint\.pt has another recipe; continue with that one, or name another --work",
    ("--learning-rate", 0.01): "has another recipe", ("--rows", 5): "has another recipe",
    ("--words", 30): "holds a draft with other settings; name another --work, or delete it",
    ("--taps", "1"): "with other settings", ("--seed", 1): "with other settings",
    ("--taps", "1,0"): "from low to high", ("--taps", "1,1"): "from low to high",
    ("--taps", "x"): "must be layer numbers",
}.items(), ids=str)  # fmt: skip
def test_another_recipe_is_told_and_the_old_work_kept(copied, root, settings, words):
    before = (copied / "eagle" / "checkpoint.pt").read_bytes(), (copied / "eagle" / "setup.json").read_text()
    said = stage(root, "distil", "eagle", *TRAIN, *settings, work=copied, fails=True)
    assert re.search(words, sentence(said))
    assert before == ((copied / "eagle" / "checkpoint.pt").read_bytes(), (copied / "eagle" / "setup.json").read_text())


@pytest.mark.parametrize("settings, words", {
    ("--taps", "0,7"): "Taps must lie between 0 and 1", ("--taps", "-1,0"): "Taps must lie between|from low to high",
    ("--words", 20000): "too few different words for a vocabulary of 20000",
}.items(), ids=str)  # fmt: skip
def test_a_mistake_at_the_start_can_be_put_right(journey, root, tmp_path, settings, words):
    """The mistaken attempt leaves nothing that stops the next."""
    asked = ("--samples", journey.work / "samples" / "samples.npz")
    said = stage(root, "distil", "eagle", *TRAIN, *settings, *asked, work=tmp_path / "work", fails=True)
    assert re.search(words, sentence(said))
    stage(root, "distil", "eagle", *TRAIN, *asked, work=tmp_path / "work")


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


@pytest.mark.parametrize(
    "kind", ["cut short", "text", "shapes", "another student's", "student", "update", "log", "seen", "recipe"]
)
def test_a_damaged_checkpoint_is_told(copied, root, tmp_path, kind):
    not_a_checkpoint(copied / "eagle" / "checkpoint.pt", kind)
    said = stage(root, "distil", "eagle", *TRAIN, work=copied, fails=True)
    assert re.search(r"checkpoint\.pt (cannot be read; delete it to begin anew|has another recipe)", sentence(said))
    if kind != "update":
        said = stage(root, "export", "eagle", "--out", tmp_path / "out", work=copied, fails=True)
        assert "cannot be read; delete it to begin anew" in sentence(said) and not (tmp_path / "out").exists()


def test_a_damaged_setup_is_told(copied, root, tmp_path):
    for content in ("", "{}", "[]", '{"student": "eagle"}'):
        (copied / "eagle" / "setup.json").write_text(content)
        assert "setup.json is damaged; delete its folder" in sentence(
            stage(root, "distil", "eagle", *TRAIN, work=copied, fails=True)
        )
        assert "setup.json is damaged" in sentence(
            stage(root, "export", "eagle", "--out", tmp_path / "x", work=copied, fails=True)
        )


def test_a_damaged_part_of_the_samples_is_told(copied, root, journey):
    (copied / "samples" / "samples.npz").unlink()
    part = sorted((copied / "samples").glob("part-*.npz"))[0]
    asked = ("--max-new-tokens", 12, "--count", 120, "--prompts", journey.work / "prompts.jsonl")
    for file in (part.with_suffix(".npy"), part):
        kept = file.read_bytes()
        file.write_bytes(kept[:40])
        assert "damaged" in sentence(stage(root, "sample", *asked, work=copied, fails=True))
        file.write_bytes(kept)
    stage(root, "sample", *asked, work=copied)
    assert (copied / "samples" / "samples.npz").exists()


def test_other_samples_than_it_was_trained_on(copied, root, journey, tmp_path):
    whole = sample_file.load(journey.work / "samples" / "samples.npz", VOCABULARY)
    sample_file.save(copied / "samples" / "samples.npz", part_of(whole, 90))
    said = stage(root, "export", "lm", "--out", tmp_path / "out", work=copied, fails=True)
    assert "was trained on other samples; name the same files with --samples" in sentence(said)
    assert not (tmp_path / "out").exists()
    assert "with other settings" in sentence(
        stage(root, "distil", "lm", *TRAIN[:-2], "--taps", "0,1", work=copied, fails=True)
    )
    original = ("--samples", journey.work / "samples" / "samples.npz")
    stage(root, "export", "lm", "--out", tmp_path / "out", *original, work=copied)


def test_too_few_rows_to_hold_some_out(root, tmp_path):
    sample_file.save(tmp_path / "few.npz", made_up(3))
    asked = ("--words", 20, "--taps", 1, "--samples", tmp_path / "few.npz")
    said = stage(root, "distil", "lm", *asked, work=tmp_path / "w", fails=True)
    assert "3 rows are too few to train on some and hold others out" in sentence(said)


FULL = OSError(errno.ENOSPC, "No space left on device")


def no_room(*args, **kwargs):
    raise FULL


@pytest.mark.parametrize("student", ["lm", "eagle"])
def test_a_full_disk_at_export_leaves_the_older_draft(copied, root, tmp_path, monkeypatch, student):
    stage(root, "export", student, "--out", tmp_path / "out", work=copied)
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    full = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    name = "engine.training.export.save_file" if student == "eagle" else "safetensors.torch.save_file"

    def no_room(*args, **kwargs):
        raise full

    monkeypatch.setattr(name, no_room)
    monkeypatch.setattr("transformers.modeling_utils.safe_save_file", no_room)
    said = stage(root, "export", student, "--out", tmp_path / "out", work=copied, fails=True)
    assert re.search("The disk that holds .* is full; free some space", sentence(said))
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before and not list(tmp_path.glob(".*"))


def test_a_full_disk_at_every_other_stage(copied, root, journey, tmp_path, monkeypatch):
    said = {}
    with monkeypatch.context() as patch:
        patch.setattr("numpy.savez_compressed", no_room)
        asked = ("--prompts", journey.work / "prompts.jsonl", "--count", 4, "--max-new-tokens", 4)
        said["sample"] = stage(root, "sample", *asked, work=tmp_path / "fresh", fails=True)
        assert not list((tmp_path / "fresh").rglob("*.npz")) and not list((tmp_path / "fresh").rglob(".*"))
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", no_room)
        said["prompts"] = stage(root, "prompts", "--count", 20, work=tmp_path / "asked", fails=True)
        assert not list((tmp_path / "asked").rglob("*.jsonl"))
        before = files(copied)
        (copied / "eagle" / "checkpoint.pt").unlink()
        said["distil"] = stage(root, "distil", "eagle", *TRAIN, work=copied, fails=True)
        assert before - files(copied) == {"eagle/checkpoint.pt"} and files(copied) <= before
    with monkeypatch.context() as patch:
        patch.setattr("os.posix_fallocate", no_room)  # at once, not as a signal in the middle
        asked = ("--samples", journey.work / "samples" / "samples.npz")
        said["features"] = stage(root, "distil", "eagle", *TRAIN, *asked, work=tmp_path / "features", fails=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9, 1000))
        short = stage(root, "distil", "eagle", *TRAIN, *asked, work=tmp_path / "short", fails=True)
        assert re.search("Keeping the target's features needs .* on disk, but .* has 0.0 MB free", sentence(short))
        assert not (tmp_path / "short" / "features" / "features.bin").exists()
    for what, line in said.items():
        assert re.search("The disk that holds .* is full; free some space", sentence(line)), what


HEADS = {
    "another width": ({"hidden_size": 48}, {}, "was made for a target of width 48"),
    "another vocabulary": ({"vocab_size": 300}, {}, "and 300 words, this one has 32 and 264"),
    "a layer too many": ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 9]}}, {}, "layer 9"),
    "a layer too few": ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0]}}, {}, r"fc\.weight in .*\(32, 64\)"),
    "layers upside down": ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 0]}}, {}, "describes no EAGLE-3"),
    "no layers": ({"eagle_config": {}}, {}, "describes no EAGLE-3 head"),
    "sizes in words": ({"head_dim": "8"}, {}, "describes no EAGLE-3 head|gives no head_dim"),
    "heads that do not fit": ({"num_attention_heads": 8}, {}, "q_proj"),
    "fewer words than the map": ({"draft_vocab_size": 39}, {}, r"lm_head\.weight in .* is \(40, 32\)"),
    "no map": ({}, {"d2t": None}, "has no tensor 'd2t'"),
    "a word twice": ({}, {"d2t": torch.zeros(WORDS, dtype=torch.int64) - torch.arange(WORDS)}, "or twice"),
    "a word too far": ({}, {"d2t": torch.full((WORDS,), 250)}, "names words that the target does not have"),
    "a word below": ({}, {"d2t": torch.full((WORDS,), -1)}, "names words that the target does not have"),
    "a map too short": ({}, {"d2t": torch.zeros(7, dtype=torch.int64)}, "has 7 words, not 40"),
    "a map of fractions": ({}, {"d2t": torch.zeros(WORDS)}, "vocabulary map"),
    "a map that is a table": ({}, {"d2t": torch.zeros(WORDS, 3, dtype=torch.int64)}, "vocabulary map"),
    "an empty map": ({}, {"d2t": torch.zeros(0, dtype=torch.int64)}, "vocabulary map"),
    "a weight of another shape": ({}, {"midlayer.mlp.down_proj.weight": torch.zeros(32, 47)}, r"down_proj.*\(32, 47\)"),
    "a weight missing": ({}, {"midlayer.hidden_norm.weight": None}, "has no tensor 'midlayer.hidden_norm.weight'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADS)
def test_a_head_that_does_not_fit_is_told(journey, root, tmp_path, kind):
    settings, changed, words = HEADS[kind]
    shutil.copytree(root / "eagle", tmp_path / "head")
    config = json.loads((tmp_path / "head" / "config.json").read_text()) | settings
    (tmp_path / "head" / "config.json").write_text(json.dumps(config))
    tensors = load_file(root / "eagle" / "model.safetensors") | changed
    save_file({n: t for n, t in tensors.items() if t is not None}, tmp_path / "head" / "model.safetensors")
    with pytest.raises((Unavailable, BadInput), match=words) as told:
        load_engine(f"{root / 'target'}+{tmp_path / 'head'}", "cpu").drafter("eagle")
    assert sentence(str(told.value))


def test_work_begun_otherwise_is_not_mixed(copied, root, journey, tmp_path):
    """Another seed, other prompts, another length: said before a token is sampled; the same again goes on."""
    asked = ("--max-new-tokens", 12, "--slots", 7, "--count", 120)
    before = (copied / "samples" / "samples.npz").read_bytes()
    for changed, what in ((("--seed", 5), "seed"), (("--prompts", root / "held.jsonl"), "prompts")):
        said = stage(root, "sample", *asked, *changed, work=copied, fails=True)
        assert f"started with another {what}; name another --work" in sentence(said)
    said = stage(root, "sample", "--max-new-tokens", 11, work=copied, fails=True)
    assert "started with another max_new_tokens" in sentence(said)
    assert "started with another seed" in sentence(stage(root, "prompts", "--seed", 5, work=copied, fails=True))
    other = tmp_path / "other"
    model_folder(other, template=CHAT)
    assert "started with another" in sentence(stage(root, "sample", *asked, pair=other, work=copied, fails=True))
    assert "with other settings" in sentence(
        stage(root, "distil", "eagle", *TRAIN, pair=other, work=copied, fails=True)
    )
    start = ("--start", copied / "eagle", "--samples", copied / "samples" / "samples.npz")
    said = stage(root, "distil", "eagle", *TRAIN, *start, pair=other, work=tmp_path / "new", fails=True)
    assert "made for another target" in sentence(said)
    assert (copied / "samples" / "samples.npz").read_bytes() == before
    stage(root, "sample", *asked, work=copied)
    assert (copied / "samples" / "samples.npz").read_bytes() == before


def test_a_mistake_before_the_first_reply_can_be_put_right(root, tmp_path):
    """A note of how sampling was begun counts for nothing while there is nothing."""
    path = tmp_path / "asked.jsonl"
    path.write_text(json.dumps({"prompt": "x" * 300}) + "\n")
    stage(root, "sample", "--prompts", path, "--max-new-tokens", 40, work=tmp_path / "work", fails=True)
    path.write_text(json.dumps({"prompt": "x"}) + "\n")
    stage(root, "sample", "--prompts", path, "--max-new-tokens", 4, "--seed", 2, work=tmp_path / "work")


def test_no_such_kind_of_draft_and_no_such_seed(root, tmp_path):
    assert "'medusa' is no kind of draft; choose from lm, eagle" in sentence(
        stage(root, "distil", "medusa", fails=True)
    )
    result = CliRunner().invoke(
        app, ["prompts", "--seed", "-1", "--pair", str(root / "target"), "--work", str(tmp_path)]
    )
    assert result.exit_code == 2 and "seed" in result.output
