"""Questions and tasks that a target writes for itself."""

import json
import re

from tiny_pairs import model_folder
from training_project import CHAT, refused, run, stage
from transformers import AutoTokenizer
from typer.testing import CliRunner

from engine.tools.cli.training import app
from engine.tools.training import dataset as sample_file
from engine.tools.training import generate
from engine.tools.training import prompts as prompt_stage
from engine.tools.training.batched_sampler import Row


def test_questions_go_on_where_they_were_interrupted(root, tmp_path, monkeypatch):
    """Every attempt is its own draw: broken off twice, once within a line, the questions are the same."""
    asked = ("--count", 20, "--slots", 5)
    stage(root, "prompts", *asked, work=tmp_path / "whole")
    add = prompt_stage.Attempts.add
    for limit in (7, 9):
        made = []

        def cut(self, index, text, made=made, limit=limit):
            add(self, index, text)
            made.append(index)
            if len(made) == limit:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(prompt_stage.Attempts, "add", cut)
            CliRunner().invoke(app, ["prompts", *map(str, asked), "--pair", str(root / "target"),
                                     "--work", str(tmp_path / "parts"), "--device", "cpu"])  # fmt: skip
        assert len(made) == limit and not (tmp_path / "parts" / "prompts.jsonl").exists()
        with open(tmp_path / "parts" / "prompts" / "attempts.jsonl", "a") as file:
            file.write('[19, "hal')
    stage(root, "prompts", *asked, work=tmp_path / "parts")
    assert (tmp_path / "parts" / "prompts.jsonl").read_text() == (tmp_path / "whole" / "prompts.jsonl").read_text()
    lines = (tmp_path / "parts" / "prompts" / "attempts.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)[0] for line in lines) == list(range(20))


def test_tasks_are_about_the_targets_own_replies(root, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(root / "target")
    words = [tokenizer(f"the {i}th reply, long enough to be a text. " * 3).input_ids for i in range(30)]
    rows = [Row(i, [5, 6], 0.0 if i % 2 else 1.0, 0) for i in range(30)]
    for row, ids in zip(rows, words, strict=True):
        row.tokens += ids
    sample_file.save(tmp_path / "given.npz", generate.to_samples(rows))
    run("tasks", "--count", 50, "--samples", tmp_path / "given.npz", "--pair", root / "target", "--work", tmp_path)
    made = [json.loads(line)["prompt"] for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert len(made) == 50 and len({text.split("\n\n")[0] for text in made}) > 5
    for text in made:
        number = int(re.search(r"the (\d+)th reply", text)[1])
        assert number % 2, "a text sampled at temperature 1 is no calm one"
        about = text.split("\n\n", 1)[1]
        assert about in tokenizer.decode(words[number])


def test_a_target_that_writes_no_questions(tmp_path):
    model_folder(tmp_path / "mute", template=CHAT)  # random bytes do not make text
    refused("no usable question", tmp_path, "prompts", "--count", 3, pair=tmp_path / "mute")
    assert not (tmp_path / "work" / "prompts.jsonl").exists()
    model_folder(tmp_path / "base", template=None)
    refused("has no chat template", tmp_path, "prompts", "--count", 3, pair=tmp_path / "base")


def test_topics_take_turns_where_the_template_has_a_system_turn(root, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(root / "target")
    prefixes = [tokenizer.decode(ids) for ids in prompt_stage.question_prefixes(tokenizer)]
    assert len(prefixes) == len({*prefixes}) == len(prompt_stage.TOPICS)
    assert all(prefix.endswith("<user>") for prefix in prefixes)
    model_folder(
        tmp_path, template="{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHAT
    )
    assert len(prompt_stage.question_prefixes(AutoTokenizer.from_pretrained(tmp_path))) == 1
