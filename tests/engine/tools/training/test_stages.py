"""Runs every stage of making a draft by the command line, on a tiny target, and again with the same seed."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file
from tiny_pairs import VOCABULARY
from training_project import PROMPTS, RANK, TRAIN, WORDS, part_of, refused, stage

from engine.tools.training import dataset as sample_file
from engine.weights.checkpoint_dir import weights_hash

RATE = 1e-6  # at this rate an update moves a weight by little more than 1e-6


def test_each_stage_says_where_its_work_is(journey):
    number = int(re.search(r"prompts\.jsonl has (\d+) prompts\.", journey.said["prompts"])[1])
    lines = (journey.work / "prompts.jsonl").read_text().splitlines()
    asked = [json.loads(line)["prompt"] for line in lines]
    assert len(asked) == number == len({*asked}) > 10 and all(len(text) >= 12 for text in asked)
    assert not any("<end>" in text or "\ufffd" in text for text in asked)
    assert re.search(r"120 replies, [\d,]+ tokens, in .*samples\.npz\.", journey.said["sample"])
    for kind in ("lm", "eagle"):
        assert re.search(r'Trained: α on held-out prompts \{"greedy": \[', journey.said[kind])
    measured = json.loads((journey.work / "eagle" / "evaluation.json").read_text())
    assert [one["temperature"] for one in measured] == [0.0, 1.0]
    assert all(one["by_depth"] and one["tau"] >= 1 and one["speedup"] > 0 for one in measured)
    assert re.search(r"eagle, temperature 0: speedup (noise|[\d.]+×).* τ is [\d.]+ .* 1: ", journey.said["evaluate"])
    leftovers = {p.name for p in journey.root.rglob("*") if p.name.endswith(".tmp") or p.name.startswith(".")}
    assert not leftovers


def test_a_stage_that_is_done_does_not_start_over(journey, root, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in (journey.work / "eagle").iterdir()}
    runner = "models.decoder.runner.DecoderRunner"
    for name in (f"{runner}.forward_many", f"{runner}.step", "tools.training.distil.loss"):
        monkeypatch.setattr(f"engine.{name}", pytest.fail)
    stage(root, "sample", "--max-new-tokens", 12, "--count", 120)
    stage(root, "distil", "eagle", *TRAIN)
    assert {p: p.stat().st_mtime_ns for p in (journey.work / "eagle").iterdir()} == before


@pytest.mark.slow
def test_the_seed_decides_everything(journey, root):
    found = []
    for work, seed in (("work", 0), ("again", 0), ("other", 1)):
        if work != "work":
            stage(root, "prompts", "--count", PROMPTS, "--slots", 5, "--seed", seed, work=work)
            asked = ("--prompts", journey.work / "prompts.jsonl", "--slots", 11, "--seed", seed)
            stage(root, "sample", "--max-new-tokens", 12, "--count", 120, *asked, work=work)
        samples = sample_file.load(root / work / "samples" / "samples.npz", VOCABULARY)
        found.append(({*(root / work / "prompts.jsonl").read_text().splitlines()}, samples.fingerprint()))
    assert found[0] == found[1] and all(a != b for a, b in zip(found[0], found[2], strict=True))


def test_a_draft_goes_on_from_an_older_one(journey, root, tmp_path):
    """Its words, its weights and what it has seen, with other samples and another recipe."""
    whole = sample_file.load(journey.samples, VOCABULARY)
    sample_file.save(tmp_path / "more.npz", part_of(whole, 90))
    asked = ("--updates", 1, "--rows", 6, "--words", 30, "--samples", tmp_path / "more.npz", "--learning-rate", RATE)
    older = ("--start", journey.work / "eagle")
    stage(root, "distil", "eagle", *asked, "--taps", "0,1", *older, work=tmp_path / "work")
    old, new = (torch.load(w / "eagle" / "checkpoint.pt", weights_only=True) for w in (journey.work, tmp_path / "work"))
    assert torch.equal(old["words"], new["words"]) and len(new["words"]) == WORDS
    assert all(torch.allclose(t, new["student"][name], atol=2 * RATE) for name, t in old["student"].items())
    assert new["seen"] > old["seen"] and new["update"] == 1
    more = ("--out", tmp_path / "out", "--samples", tmp_path / "more.npz")
    stage(root, "export", "eagle", *more, work=tmp_path / "work")
    assert len(load_file(tmp_path / "out" / "model.safetensors")["d2t"]) == WORDS
    for settings, words in ((("--taps", "1", *older), "of another kind or reads other layers"),
                            (("--taps", "0,1", "--start", journey.work / "lm"), "of another kind"),
                            (("--taps", "0,1", "--start", tmp_path / "none"), "Nothing was trained in")):  # fmt: skip
        refused(words, root, "distil", "eagle", *asked, *settings, work=tmp_path / "other")
        assert not (tmp_path / "other").exists()


def test_a_block_head_goes_on_from_an_exported_eagle_head(journey, root, tmp_path):
    """With its words; once begun, it goes on by itself."""
    asked = ("--updates", 1, "--rows", 6, "--words", WORDS, "--samples", journey.samples, "--learning-rate", RATE)
    asked = ("distil", "block", *asked, "--taps", "0,1", "--layers", 2)
    stage(root, *asked, "--start", root / "eagle", work=tmp_path / "work")
    found = torch.load(tmp_path / "work" / "block" / "checkpoint.pt", weights_only=True)
    head = load_file(root / "eagle" / "model.safetensors")
    assert torch.allclose(found["student"]["fc.weight"], head["fc.weight"].float(), atol=2 * RATE)
    assert torch.equal(found["words"], head["d2t"] + torch.arange(WORDS)) and found["seen"] > 0
    stage(root, *asked, "--start", tmp_path / "work" / "block", work=tmp_path / "next")
    assert torch.load(tmp_path / "next" / "block" / "checkpoint.pt", weights_only=True)["seen"] > found["seen"]
    for older, words in (
        (root / "lm", "cannot be started from"),
        (root / "block", f"a bias of rank {RANK}; ask for the"),
        (journey.work / "eagle", "of another kind"),
    ):
        refused(words, root, *asked, "--start", older, work=tmp_path / "other")
        assert not (tmp_path / "other" / "block").exists()


def test_a_run_of_sample_that_was_cut_can_be_trained_on(copied, journey, root, tmp_path):
    """By the folder of its parts, as many as there are."""
    (copied / "samples" / "samples.npz").unlink()
    for file in sorted((copied / "samples").glob("part-*"))[2:]:  # 100 of 120 rows are left
        file.unlink()
    trained = ("--updates", 1, "--rows", 6, "--words", WORDS, "--taps", "0,1", "--samples", copied / "samples")
    assert "Trained" in stage(root, "distil", "eagle", *trained, work=tmp_path / "new")
    stage(root, "export", "eagle", "--out", tmp_path / "out", *trained[-2:], work=tmp_path / "new")
    assert "100 replies of the target" in (tmp_path / "out" / "README.md").read_text()
    (tmp_path / "none").mkdir()
    words = r"holds no part of any samples \(part-00000\.npz\); name a folder"
    refused(words, root, "distil", "eagle", *trained[:-1], tmp_path / "none", work=tmp_path / "other")


def test_a_card_says_how_the_draft_was_made(journey, root):
    own = {
        "lm": "base_model: target", "medusa": "3 heads trained together, each counting 0.8 of the one before it",
        "eagle": "entering layers 0, 1;", "exit": "Reads the state after 1 layers",
        "block": "5 slots trained together, each counting 0.8 of the one before it. A bias of rank 32 tells each",
    }  # fmt: skip
    whole = sample_file.load(journey.samples, VOCABULARY)
    for kind, words in own.items():
        text = re.sub(r"\s+", " ", (root / kind / "README.md").read_text())
        assert words in text and "120 replies" in text and f"{int(whole.reply_len.sum()):,} tokens" in text
        assert "6 updates of 6 rows" in text and "0, 0.7, 1." in text and "seed 0." in text and "{" not in text
        assert ("entering layers" in text) == (kind in ("eagle", "block"))
    stage(root, "export", "eagle", "--out", root / "eagle")  # now that it was evaluated
    assert "temperature 1: speedup" in (root / "eagle" / "README.md").read_text()


@pytest.mark.slow
def test_evaluate_measures_the_draft_of_its_work_folder(copied, journey, root, tmp_path):
    """The pair comes with the EAGLE head of the journey, and the work folder holds one that went on from it."""
    pair, held = f"{root / 'target'}+{root / 'eagle'}", ("--prompts", root / "held.jsonl", "--max-new-tokens", 12)
    older = ("--start", journey.work / "eagle", "--samples", journey.samples)
    trained = ("--updates", 2, "--rows", 6, "--words", WORDS, "--taps", "0,1", "--learning-rate", 0.1, *older)
    stage(root, "distil", "eagle", *trained, work=tmp_path / "next")
    own = ("--samples", journey.samples)
    said = stage(root, "evaluate", "eagle", *held, *own, work=tmp_path / "next")
    assert f"trained in {tmp_path / 'next' / 'eagle'}" in said
    measured = json.loads((tmp_path / "next" / "eagle" / "evaluation.json").read_text())
    stage(root, "export", "eagle", "--out", tmp_path / "out", *own, work=tmp_path / "next")
    assert {one["weights"] for one in measured} == {weights_hash(tmp_path / "out")} != {weights_hash(root / "eagle")}
    assert "temperature 1: speedup" in (tmp_path / "out" / "README.md").read_text()
    assert sorted(p.name for p in (tmp_path / "next").iterdir()) == ["eagle", "features"]
    said = stage(root, "evaluate", "eagle", *held, pair=pair, work=copied)
    assert f"comes with {pair}" in said, "a draft that is named is measured"
    words = "Nothing was trained in .*none.eagle; begin with distil"
    refused(words, root, "evaluate", "eagle", *held, work=tmp_path / "none")


def test_export_quotes_no_numbers_of_another_draft(copied, root, tmp_path):
    file = copied / "eagle" / "evaluation.json"
    stage(root, "export", "eagle", "--out", tmp_path / "own", work=copied)
    assert "real loop" in (tmp_path / "own" / "README.md").read_text()
    file.write_text(json.dumps([one | {"weights": "0" * 64} for one in json.loads(file.read_text())]))
    stage(root, "export", "eagle", "--out", tmp_path / "other", work=copied)
    assert "real loop" not in (tmp_path / "other" / "README.md").read_text()
    file.write_text(json.dumps([{"method": "eagle"}]))
    stage(root, "export", "eagle", "--out", tmp_path / "damaged", work=copied)
