"""Every stage of making a draft, on a tiny target, in seconds: resumable, deterministic, and plain about bad files."""

import errno
import json
import math
import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pairs import END, VOCABULARY, generated, model_folder, request
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tiny import one_thread, write  # noqa: F401
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from engine.eagle import EagleModel, word_ids
from engine.errors import BadInput, Unavailable
from engine.loading import load_engine
from engine.models import load_model
from engine.trace import fold
from engine.training import distil, export, features, sample, slots
from engine.training import prompts as prompt_stage
from engine.training import samples as sample_file
from engine.training.cli import app
from engine.training.distil import Data, Recipe
from engine.training.samples import Samples
from engine.training.slots import Row, Slots
from engine.training.students import Batch, EagleStudent, LmShape, LmStudent, new_eagle, new_lm
from engine.training.teacher import Teacher
from engine.training.workshop import frequent, rollout_for

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
ENDS = frozenset({END})
WORDS = 40
SHAPE = LmShape(width=24, layers=1, heads=2, inner=32)
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(sample_file, "HELD_OUT", 0.2)  # of a few dozen prompts a twenty-fifth may be none
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A target that writes ASCII and comes to an end, as an instruct model does."""
    root = tmp_path_factory.mktemp("training")
    model = model_folder(root / "target", template=CHAT)
    tokenizer = AutoTokenizer.from_pretrained(root / "target")
    said = [len(tokenizer.decode([i])) == 1 and 32 <= ord(tokenizer.decode([i])) < 127 for i in range(VOCABULARY)]
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = 20.0  # the same in every state, so that words can have a bias
        model.model.norm.weight[0] = 3.0
        model.lm_head.weight[:, 0] = torch.where(torch.tensor(said), 0.0, -10.0)
        model.lm_head.weight[END, 0] = 0.5
    model.save_pretrained(root / "target")
    return root


@pytest.fixture(scope="module")
def target(root):
    return load_model(root / "target", "cpu", "fp32")


@pytest.fixture(scope="module")
def teacher(root):
    return Teacher.load(root / "target", "cpu")


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if fails:
        assert result.exit_code == 1 and isinstance(result.exception, SystemExit), repr(result.exception)
        assert "Traceback" not in result.output
    else:
        assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def stage(root, name, *arguments, pair=None, work="work", **kwargs):
    return run(name, *arguments, "--pair", pair or root / "target", "--work", root / work, "--device", "cpu", **kwargs)


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def weights_of(student):
    return {name: t.clone() for name, t in student.module.state_dict().items()}


def same(a, b) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def made_up(rows=60, seed=0, shortest=4) -> Samples:
    """Prompts repeat, as they do where one is answered at several temperatures."""
    rng = np.random.default_rng(seed)
    prompts = [rng.integers(0, VOCABULARY, n) for n in rng.integers(shortest, 9, rows // 3)]
    replies = [rng.integers(0, VOCABULARY, n) for n in rng.integers(3, 12, rows)]
    tokens = np.concatenate([np.concatenate([prompts[i // 3], replies[i]]) for i in range(rows)]).astype(np.uint16)
    lengths = ([len(prompts[i // 3]) for i in range(rows)], [len(r) for r in replies])
    return Samples(tokens, *(np.array(n, dtype=np.uint16) for n in lengths), np.ones(rows, dtype=np.float32))


# ---- the stages, one after the other, by the command line ----------------------------------------------------------


@pytest.fixture(scope="module")
def journey(root, cache):
    """prompts → sample → distil → export → evaluate, both kinds."""
    said = {"prompts": stage(root, "prompts", "--count", 90, "--slots", 16)}
    said["sample"] = stage(root, "sample", "--max-new-tokens", 12, "--slots", 7, "--count", 120)
    for kind in ("lm", "eagle"):
        said[kind] = stage(root, "distil", kind, "--updates", 12, "--rows", 6, "--words", WORDS, "--taps", "0,1")
        stage(root, "export", kind, "--out", root / kind)
    (root / "held.jsonl").write_text('{"id": "a", "kind": "x", "prompt": "the cat"}\n')
    for kind in ("lm", "eagle"):
        asked = ("--prompts", root / "held.jsonl", "--max-new-tokens", 24, "--gamma", 3)
        said[f"evaluate {kind}"] = stage(root, "evaluate", kind, *asked, pair=f"{root / 'target'}+{root / kind}")
    return SimpleNamespace(said=said, work=root / "work", root=root)


def test_each_stage_says_where_its_work_is(journey):
    number = int(re.search(r"(\d+) prompts are in .*prompts\.jsonl\.", journey.said["prompts"])[1])
    lines = (journey.work / "prompts.jsonl").read_text().splitlines()
    asked = [json.loads(line)["prompt"] for line in lines]
    assert len(asked) == number == len({*asked}) > 20 and all(len(text) >= 12 for text in asked)
    assert not any("<end>" in text or "\ufffd" in text for text in asked)
    assert re.search(r"120 replies, [\d,]+ tokens, in .*samples\.npz\.", journey.said["sample"])
    for kind in ("lm", "eagle"):
        assert re.search(r'Trained: α on held-out prompts \{"greedy": \[', journey.said[kind])
        measured = json.loads((journey.work / kind / "evaluation.json").read_text())
        assert [one["temperature"] for one in measured] == [0.0, 1.0]
        assert all(one["by_depth"] and one["tau"] >= 1 and one["speedup"] > 0 for one in measured)
        said = journey.said[f"evaluate {kind}"]
        assert re.search(rf"{kind}, temperature 0: speedup [\d.]+ .* τ is [\d.]+ .* 1: ", said)
    leftovers = {p.name for p in journey.root.rglob("*") if p.name.endswith(".tmp") or p.name.startswith(".")}
    assert not leftovers


def test_what_was_sampled_is_what_the_target_says(journey, root, target):
    """Temperatures in turn; at 0 the reply is what generate says, and every row ends where it should."""
    whole = sample_file.load(journey.work / "samples" / "samples.npz", VOCABULARY)
    model = AutoModelForCausalLM.from_pretrained(root / "target")
    asked = [json.loads(line)["prompt"] for line in (journey.work / "prompts.jsonl").read_text().splitlines()]
    assert len(whole) == 120 and {round(float(t), 2) for t in whole.temperature} == {0.0, 0.7, 1.0}
    for i in range(0, 120, 7):
        text = f"<user>{asked[i % len(asked)]}\n<assistant>"
        assert whole.prompt(i).tolist() == target.tokenizer(text).input_ids
        reply = whole.row(i)[whole.prompt_len[i] :].tolist()
        assert END not in reply[:-1] and (reply[-1] == END or len(reply) == 12)
        if whole.temperature[i] == 0:
            assert reply == generated(model, whole.prompt(i).tolist(), 12)


def test_one_prompt_is_asked_at_every_temperature(target):
    rows = list(sample.requests(target.tokenizer, ["one", "two", "three"], 9, 0, 100))
    seen = {(tuple(r.tokens), r.temperature) for r in rows}
    assert len(seen) == 9 and len({r.seed for r in rows}) == 9
    assert [r.index for r in sample.requests(target.tokenizer, ["one", "x" * 90], 4, 0, 50)] == [0, 2]


def test_the_exported_draft_drafts(journey, root):
    for kind in ("lm", "eagle"):
        engine = load_engine(f"{root / 'target'}+{root / kind}", "cpu")
        traces = [fold(engine.run(request(engine.pair.name, m, gamma=3, max_new_tokens=24))) for m in ("none", kind)]
        assert [t.id for t in traces[0].emitted] == [t.id for t in traces[1].emitted]
        assert sum(r.draft_steps for r in traces[1].rounds) > 0


def test_a_card_says_how_the_draft_was_made(journey, root):
    lm, eagle = (re.sub(r"\s+", " ", (root / kind / "README.md").read_text()) for kind in ("lm", "eagle"))
    whole = sample_file.load(journey.work / "samples" / "samples.npz", VOCABULARY)
    for text in (lm, eagle):
        assert "120 replies" in text and f"{int(whole.reply_len.sum()):,} tokens" in text and "0, 0.7, 1." in text
        assert "12 updates of 6 rows" in text and "seed 0." in text and "CPU threads" in text
        assert "base_model: target" in text and "{" not in text
    assert "entering layers 0, 1;" in eagle and "entering layers" not in lm
    stage(root, "export", "lm", "--out", root / "lm")  # now that it was evaluated
    assert "temperature 1: speedup" in (root / "lm" / "README.md").read_text()


def test_a_stage_that_is_done_does_not_start_over(journey, root, monkeypatch):
    before = {p: p.stat().st_mtime_ns for p in (journey.work / "eagle").iterdir()}
    for name in (
        "engine.training.slots.batched_step",
        "engine.training.distil.loss",
        "engine.runner.DecoderRunner.step",
    ):
        monkeypatch.setattr(name, pytest.fail)
    stage(root, "sample", "--max-new-tokens", 12, "--count", 120)
    stage(root, "distil", "eagle", "--updates", 12, "--rows", 6, "--words", WORDS, "--taps", "0,1")
    assert {p: p.stat().st_mtime_ns for p in (journey.work / "eagle").iterdir()} == before


def test_the_seed_decides_everything(journey, root):
    for work, seed in (("again", 0), ("other", 1)):
        stage(root, "prompts", "--count", 90, "--slots", 5, "--seed", seed, work=work)
        asked = ("--prompts", journey.work / "prompts.jsonl", "--slots", 11, "--seed", seed)
        stage(root, "sample", "--max-new-tokens", 12, "--count", 120, *asked, work=work)
    first, again, other = (
        (
            {*(root / work / "prompts.jsonl").read_text().splitlines()},
            sample_file.load(root / work / "samples" / "samples.npz", VOCABULARY).fingerprint(),
        )
        for work in ("work", "again", "other")
    )
    assert first == again
    assert first[0] != other[0] and first[1] != other[1]


def part_of(whole: Samples, rows: int) -> Samples:
    lengths = {n: getattr(whole, n)[:rows] for n in ("prompt_len", "reply_len", "temperature")}
    return replace(whole, tokens=whole.tokens[: whole.starts[rows]], **lengths)


def test_a_draft_goes_on_from_an_older_one(journey, root, tmp_path):
    """Its words, its weights and what it has seen, with other samples and another recipe."""
    whole = sample_file.load(journey.work / "samples" / "samples.npz", VOCABULARY)
    sample_file.save(tmp_path / "more.npz", part_of(whole, 90))
    asked = ("--updates", 1, "--rows", 6, "--words", 30, "--samples", tmp_path / "more.npz", "--learning-rate", 1e-6)
    older = ("--start", journey.work / "eagle")
    stage(root, "distil", "eagle", *asked, "--taps", "0,1", *older, work=tmp_path / "work")
    old, new = (torch.load(w / "eagle" / "checkpoint.pt", weights_only=True) for w in (journey.work, tmp_path / "work"))
    assert torch.equal(old["words"], new["words"]) and len(new["words"]) == WORDS
    assert all(torch.allclose(t, new["student"][name], atol=1e-4) for name, t in old["student"].items())
    assert new["seen"] > old["seen"] and new["update"] == 1
    stage(
        root, "export", "eagle", "--out", tmp_path / "out", "--samples", tmp_path / "more.npz", work=tmp_path / "work"
    )
    assert len(load_file(tmp_path / "out" / "model.safetensors")["d2t"]) == WORDS
    for settings, words in ((("--taps", "1", *older), "of another kind or reads other layers"),
                            (("--taps", "0,1", "--start", journey.work / "lm"), "of another kind"),
                            (("--taps", "0,1", "--start", tmp_path / "none"), "Nothing was trained in")):  # fmt: skip
        said = stage(root, "distil", "eagle", *asked, *settings, work=tmp_path / "other", fails=True)
        assert words in sentence(said) and not (tmp_path / "other").exists()


# ---- sampling many texts at once -----------------------------------------------------------------------------------


def texts(count: int, vocabulary=VOCABULARY, longest=9) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocabulary, n).tolist() for n in rng.integers(1, longest, count)]


def sampled(runner, many, number, temperature=0.0, most=20, ends=ENDS, longest=64) -> dict[int, list[int]]:
    rows = (Row(i, list(ids), temperature, 70 + i) for i, ids in enumerate(many))
    return {row.index: row.tokens for row in Slots(runner, number, longest).sample(rows, ends, most)}


@pytest.mark.parametrize("name", ["llama-tied", "llama-biased", "llama3-rope", "multi-query", "mistral", "qwen3"])
def test_greedy_slots_say_what_generate_says(tmp_path, name):
    model = model_folder(tmp_path, name)
    many = texts(9)
    found = sampled(load_model(tmp_path, "cpu", "fp32").runner, many, 4)
    assert found == {i: ids + generated(model, ids, 20) for i, ids in enumerate(many)}


def test_the_number_of_slots_changes_no_token(target):
    many = texts(13)
    one, three, twenty = (sampled(target.runner, many, n, temperature=1.0) for n in (1, 3, 20))
    assert one == three == twenty and len({tuple(t[-3:]) for t in one.values()}) > 8
    assert {len(t) for t in one.values()} != {len(t) for t in many}


def test_a_row_says_what_a_plain_run_of_its_seed_says(root, target):
    engine = load_engine(str(root / "target"), "cpu")
    runs = [fold(engine.run(request(engine.pair.name, seed=70 + i, temperature=1.0))) for i in range(3)]
    prompt = [p.id for p in runs[0].started.prompt]
    found = sampled(target.runner, [prompt] * 3, 2, temperature=1.0, most=16, longest=128)
    assert found == {i: prompt + [t.id for t in run.emitted] for i, run in enumerate(runs)}


def test_temperatures_side_by_side_do_not_mix(root, target):
    model = AutoModelForCausalLM.from_pretrained(root / "target")
    rows = [Row(i, [7, 9, 30], (0.0, 1.0)[i % 2], i) for i in range(8)]
    found = {r.index: r.tokens[3:] for r in Slots(target.runner, 8, 64).sample(rows, ENDS, 10)}
    assert {tuple(found[i]) for i in range(0, 8, 2)} == {tuple(generated(model, [7, 9, 30], 10))}
    assert len({tuple(found[i]) for i in range(1, 8, 2)}) == 4


def test_a_slot_is_refilled_as_soon_as_its_row_ends(target, monkeypatch):
    live, real = [], slots.batched_step
    monkeypatch.setattr(slots, "batched_step", lambda m, ids, *rest: live.append(len(ids)) or real(m, ids, *rest))
    many = texts(12)
    found = sampled(target.runner, many, 4, temperature=1.0)
    new = [len(found[i]) - len(ids) for i, ids in enumerate(many)]
    assert sum(live) == sum(new) and len({*new}) > 3
    ends, busy = [0] * 4, []  # when each slot is free again, rows taken in order
    for length in new:
        slot = int(np.argmin(ends))
        busy.append(ends[slot])
        ends[slot] += length
    assert live == [4] * max(busy) + [sum(end > t for end in ends) for t in range(max(busy), max(ends))]


def test_rows_end_at_the_context_and_when_asked_to(target):
    found = sampled(target.runner, [[3] * 10, [4]], 2, ends=frozenset(), longest=16, most=100)
    assert [len(found[0]), len(found[1])] == [16, 16]
    rows = (Row(i, [5, 6], 1.0, i) for i in range(50))
    assert list(Slots(target.runner, 4, 64).sample(rows, frozenset(), 30, cancelled=lambda: True)) == []


# ---- interrupted and resumed ---------------------------------------------------------------------------------------


def stop_after(number: int):
    said = []

    def say(fraction, message):
        said.append(message)
        if len(said) >= number:
            raise KeyboardInterrupt

    return say


def quiet(fraction, message):
    pass


def test_questions_go_on_where_they_were_interrupted(root, tmp_path, monkeypatch):
    """Every attempt is its own draw: broken off twice, once within a line, the questions are the same."""
    asked = ("--count", 40, "--slots", 5)
    stage(root, "prompts", *asked, work=tmp_path / "whole")
    add = prompt_stage.Attempts.add
    for most in (7, 9):
        made = []

        def cut(self, index, text, made=made, most=most):
            add(self, index, text)
            made.append(index)
            if len(made) == most:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(prompt_stage.Attempts, "add", cut)
            CliRunner().invoke(app, ["prompts", *map(str, asked), "--pair", str(root / "target"),
                                     "--work", str(tmp_path / "parts"), "--device", "cpu"])  # fmt: skip
        assert len(made) == most and not (tmp_path / "parts" / "prompts.jsonl").exists()
        with open(tmp_path / "parts" / "prompts" / "attempts.jsonl", "a") as file:
            file.write('[39, "hal')
    stage(root, "prompts", *asked, work=tmp_path / "parts")
    assert (tmp_path / "parts" / "prompts.jsonl").read_text() == (tmp_path / "whole" / "prompts.jsonl").read_text()
    lines = (tmp_path / "parts" / "prompts" / "attempts.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)[0] for line in lines) == list(range(40))


def test_sampling_goes_on_where_it_was_interrupted(target, tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_PART", 5)

    def collect(folder, say):
        rows = sample.requests(target.tokenizer, [f"say {i}" for i in range(11)], 33, 3, 60)
        return sample.collect(Slots(target.runner, 4, 64), rows, 33, target.eos, 8, folder, say)

    whole = collect(tmp_path / "whole", quiet)
    for many in (13, 3):  # the second time nothing is lost either, though no part was full
        with pytest.raises(KeyboardInterrupt):
            collect(tmp_path / "parts", stop_after(many))
        assert not (tmp_path / "parts" / "samples.npz").exists()
    sampled_again = []
    resumed = collect(tmp_path / "parts", lambda fraction, message: sampled_again.append(fraction))
    assert len(sampled_again) == 33 - 10 and sampled_again[-1] == 1.0
    for name in ("tokens", "prompt_len", "reply_len", "temperature"):
        assert np.array_equal(getattr(whole, name), getattr(resumed, name))
        assert getattr(whole, name).dtype == getattr(resumed, name).dtype
    assert sample_file.load(tmp_path / "parts" / "samples.npz", VOCABULARY).fingerprint() == whole.fingerprint()


def test_features_are_the_targets_hidden_states(root, target, tmp_path):
    model, samples = AutoModelForCausalLM.from_pretrained(root / "target"), made_up(12)
    last = []
    model.model.norm.register_forward_pre_hook(lambda module, inputs: last.append(inputs[0][0]))
    found = features.compute(target.runner, samples, tmp_path, (0, 1), "a target")
    assert target.runner.model.taps == () and target.runner.cache is None, "the runner as it was"
    for i in range(len(samples)):
        with torch.no_grad():
            ids = torch.from_numpy(samples.row(i).astype(np.int64))[None]
            hidden = model(ids, output_hidden_states=True).hidden_states
        start, end = samples.starts[i], samples.starts[i + 1]
        tapped = torch.from_numpy(found.tapped(start, end, (1, 0)).astype(np.float32))
        assert torch.allclose(tapped[:, 0], hidden[1][0], rtol=2e-3, atol=2e-3)
        assert torch.allclose(tapped[:, 1], hidden[0][0], rtol=2e-3, atol=2e-3)
        final = torch.from_numpy(found.final(start, end).astype(np.float32))
        assert torch.allclose(final, last[-1], rtol=2e-3, atol=2e-3)


def test_a_teacher_turns_the_last_states_into_the_targets_distribution(root, teacher, target, tmp_path):
    model, samples = AutoModelForCausalLM.from_pretrained(root / "target"), made_up(6)
    found = features.compute(target.runner, samples, tmp_path, (1,), "a target")
    final = torch.from_numpy(found.final(0, samples.starts[1]).astype(np.float32))
    with torch.no_grad():
        logits = model(torch.from_numpy(samples.row(0).astype(np.int64))[None]).logits[0]
    assert torch.allclose(teacher.logits(final), logits, atol=0.05)
    some = torch.tensor([3, 99])
    assert torch.allclose(teacher.logits(final, some), teacher.logits(final)[:, some], atol=1e-5)


def test_features_go_on_where_they_were_interrupted(target, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "_EVERY", 7)
    samples, rows, real = made_up(30), [], target.runner.prefill
    monkeypatch.setattr(target.runner, "prefill", lambda ids, **more: rows.append(ids) or real(ids, **more))
    whole = features.compute(target.runner, samples, tmp_path / "whole", (0, 1), "a target")
    rows.clear()
    with pytest.raises(KeyboardInterrupt):
        features.compute(target.runner, samples, tmp_path / "parts", (0, 1), "a target", stop_after(2))
    resumed = features.compute(target.runner, samples, tmp_path / "parts", (0, 1), "a target")
    assert len(rows) == 30, "none twice"
    assert np.array_equal(whole.states, resumed.states)
    features.compute(target.runner, samples, tmp_path / "parts", (0, 1), "a target")
    assert len(rows) == 30
    other = features.compute(target.runner, made_up(30, seed=1), tmp_path / "parts", (0, 1), "a target")
    assert len(rows) == 60 and other.states.shape[1:] == (3, 32)


def test_features_begun_for_other_taps_are_not_taken_for_these(target, tmp_path, monkeypatch):
    samples = made_up(30)
    first = np.array(features.compute(target.runner, samples, tmp_path, (0,), "a target").states)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # as large a file, and not noted yet
        patch.setattr(target.runner, "prefill", lambda ids: stop_after(1)(0.0, ""))
        features.compute(target.runner, samples, tmp_path, (1,), "a target")
    assert np.array_equal(features.compute(target.runner, samples, tmp_path, (0,), "a target").states, first)


def test_features_of_another_target_are_not_taken_for_this_ones(target, tmp_path):
    samples, filled = made_up(30), []
    features.compute(target.runner, samples, tmp_path, (0,), "a target")
    for whose, fresh in (("a target", 0), ("another", 1), ("another", 0)):
        filled.clear()
        features.compute(
            target.runner, samples, tmp_path, (0,), whose, lambda fraction, message: filled.append(fraction)
        )
        assert bool(filled) == bool(fresh)


# ---- what a student computes ---------------------------------------------------------------------------------------


def slow_rollout(head, config, ids: list[int], tapped: torch.Tensor, steps: int) -> list[dict[int, torch.Tensor]]:
    """The head as it drafts: one position at a time with a list of keys and values. → for each step {position: state}.

    Written from the paper, apart from the module: rotary as complex numbers, one head at a time.
    """
    frequencies = torch.tensor(
        [1 / config.rope_parameters["rope_theta"] ** (2 * i / head.D) for i in range(head.D // 2)]
    )

    def norm(x, weight):
        return x / (x.pow(2).mean() + config.rms_norm_eps).sqrt() * weight

    def turn(x, position):
        half = head.D // 2
        turned = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones(half), position * frequencies)
        return torch.cat([turned.real, turned.imag])

    def one(token, hidden, position, past):
        x = torch.cat([norm(head.embed[token], head.norm_embed), norm(hidden, head.norm_hidden)])
        q, k, v = (part.weight @ x for part in (head.q, head.k, head.v))
        keys = [turn(part, position) for part in k.split(head.D)]
        past = [*past, (keys, v.split(head.D))]
        out = []
        for h, query in enumerate(q.split(head.D)):
            group = h // (head.H // head.K)
            scores = torch.stack([turn(query, position) @ ks[group] / math.sqrt(head.D) for ks, _ in past])
            shares = scores.softmax(0)
            out.append(sum(share * vs[group] for share, (_, vs) in zip(shares, past, strict=True)))
        hidden = hidden + head.o.weight @ torch.cat(out)
        x = norm(hidden, head.norm_mid)
        inner = head.gate.weight @ x
        return hidden + head.down.weight @ (inner * torch.sigmoid(inner) * (head.up.weight @ x)), past

    found, past = [{} for _ in range(steps)], []
    for t in range(len(ids) - 1):
        state, past = one(ids[t + 1], head.fc.weight @ tapped[t], t, past)
        found[0][t], branch = state, past
        for k in range(2, steps + 1):
            if t + k < len(ids):
                state, branch = one(ids[t + k], state, t + k - 1, branch)
                found[k - 1][t] = state
    return found


def random_head(folder: Path, name="llama", taps=2, seed=0, words=None, **settings) -> EagleStudent:
    write(folder, name, vocab_size=VOCABULARY, **settings)
    teacher = Teacher.load(folder, "cpu")
    torch.manual_seed(seed)
    words = torch.arange(0, VOCABULARY, 3) if words is None else words
    student = new_eagle(teacher, words, taps, teacher.layer, torch.ones(taps))
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return student, teacher


@pytest.mark.parametrize("name", ["llama", "llama-wide-head", "multi-query"])
def test_a_training_rollout_is_what_drafting_one_by_one_gives(tmp_path, name):
    student, teacher = random_head(tmp_path, name)
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, VOCABULARY, (2, 9)))
    tapped = torch.randn(2, 9, 2 * 32)
    with torch.no_grad():
        states = student.module.rollout(ids, tapped, 3)
        for b in range(2):
            slow = slow_rollout(student.module, teacher.config, ids[b].tolist(), tapped[b], 3)
            for k, at in enumerate(slow, start=1):
                assert sorted(at) == list(range(9 - k))
                for t, state in at.items():
                    assert torch.allclose(states[k - 1][b, t], state, atol=2e-4), (k, t)


def test_a_rollout_knows_nothing_of_what_comes_later(tmp_path):
    student, _ = random_head(tmp_path)
    ids, tapped = torch.full((1, 8), 5), torch.randn(1, 8, 64)
    with torch.no_grad():
        before = student.module.rollout(ids, tapped, 3)
        ids[0, 6], tapped[0, 4] = 9, 0.0
        after = student.module.rollout(ids, tapped, 3)
    for k in (1, 2, 3):  # step k at t reads tokens up to t + k and features up to t
        untouched = [t for t in range(8 - k) if t < 4 and t + k < 6]
        assert torch.equal(before[k - 1][0, untouched], after[k - 1][0, untouched])
        assert not torch.allclose(before[k - 1][0, 4], after[k - 1][0, 4])


@pytest.fixture(scope="module")
def learning(target, teacher, tmp_path_factory):
    """Samples of the target with their features, and what makes students from them."""
    folder = tmp_path_factory.mktemp("learning")
    rows = sample.requests(target.tokenizer, [f"say {i}" for i in range(40)], 120, 0, 60)
    whole = sample.collect(Slots(target.runner, 16, 64), rows, 120, target.eos, 12, folder, quiet)
    found = features.compute(target.runner, whole, folder, (0, 1), "a target")
    words = frequent(whole, WORDS)

    def student(kind, seed=0):
        torch.manual_seed(seed)
        if kind == "lm":
            return new_lm(teacher, words, SHAPE, seed)
        return new_eagle(teacher, words, 2, teacher.layer, torch.ones(2))

    def data(kind):
        return Data(whole, found, (0, 1) if kind == "eagle" else (), "cpu")

    return SimpleNamespace(samples=whole, features=found, words=words, student=student, data=data, teacher=teacher)


def test_held_out_prompts_are_never_trained_on():
    samples = made_up(300)
    zeros = np.zeros((len(samples.tokens), 1, 4), dtype=np.float16)
    data = Data(samples, features.Features(zeros, ()), (), "cpu")
    trained = [tuple(samples.prompt(i)) for epoch in (0, 1) for rows in data.epoch(0, epoch, 8) for i in rows]
    held = {tuple(samples.prompt(i)) for i in data.validation}
    assert held and not held & set(trained) and 0.1 < len(data.validation) / 300 < 0.3
    for epoch in (0, 1):
        rows = np.concatenate(data.epoch(0, epoch, 8))
        assert sorted(rows) == data.training.tolist(), "each once"
    orders = [np.concatenate(data.epoch(s, e, 8)).tolist() for s, e in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert orders[0] == orders[3] and len({*map(tuple, orders)}) == 3
    stream = data.batches(Recipe(10, rows=8), 0)
    first = [next(stream).tolist() for _ in range(100)]
    for start in (1, 37, 38, 99):
        assert next(data.batches(Recipe(10, rows=8), start)).tolist() == first[start]


def test_a_batch_holds_each_row_where_it_belongs(learning):
    data, s = learning.data("eagle"), learning.samples
    rows = data.training[[3, 0, 11]]
    batch = data.batch(rows)
    for b, i in enumerate(rows):
        n = s.length(i)
        assert batch.ids[b, :n].tolist() == s.row(i).tolist() and not batch.ids[b, n:].any()
        states = learning.features.states[s.starts[i] : s.starts[i + 1]].astype(np.float32)
        assert np.array_equal(batch.features[b, :n].numpy(), states[:, :2].reshape(n, -1))
        assert np.array_equal(batch.final[b, :n].numpy(), states[:, 2])
        assert (int(batch.prompt_len[b]), int(batch.length[b])) == (s.prompt_len[i], n)
    assert learning.data("lm").batch(rows).features is None


def by_hand(learning, kind, student, rows, steps):
    """For each step (guesses, agreements, overlap, KL summed over positions), a token of the text at a time."""
    s, teacher, table = learning.samples, learning.teacher, []
    words = student.words.tolist() if kind == "eagle" else list(range(VOCABULARY))
    for k in range(1, steps + 1):
        count = agree = overlap = divergence = 0
        for i in rows:
            ids = torch.from_numpy(s.row(i).astype(np.int64))[None]
            states = learning.features.states[s.starts[i] : s.starts[i + 1]].astype(np.float32)
            tapped = torch.from_numpy(states[:, :2].reshape(1, ids.shape[1], -1).copy())
            all_states = student.states(Batch(ids, tapped, None, None, None), steps)
            for guessed in range(int(s.prompt_len[i]), ids.shape[1]):  # a token that the target wrote
                at = guessed - k - (kind == "eagle")
                if at < 0:
                    continue
                p_logits = teacher.logits(torch.from_numpy(states[guessed - 1, 2]))
                q_logits = student.logits(all_states[k - 1][0, at], torch.tensor(words))
                p, q = p_logits.softmax(-1), q_logits.softmax(-1)
                count += 1
                agree += words[int(q.argmax())] == int(p.argmax())
                overlap += sum(min(float(p[w]), float(q[j])) for j, w in enumerate(words))
                inside, guesses = p_logits[words].log_softmax(-1), q_logits.log_softmax(-1)
                divergence += float((inside.exp() * (inside - guesses)).sum())
        table.append((count, agree, overlap, divergence))
    return table


@pytest.mark.parametrize("kind, steps", [("lm", 1), ("eagle", 3)])
@torch.no_grad()
def test_acceptance_and_loss_are_what_counting_by_hand_gives(learning, kind, steps):
    student, data = learning.student(kind), learning.data(kind)
    table = by_hand(learning, kind, student, data.validation, steps)
    found = distil.acceptance(student, learning.teacher, data, steps, rows=1000)
    assert found["greedy"] == pytest.approx([agree / n for n, agree, _, _ in table], abs=1e-4)
    assert found["sampled"] == pytest.approx([overlap / n for n, _, overlap, _ in table], abs=1e-3)
    recipe = Recipe(10, decay=0.5)
    value = distil.loss(student, learning.teacher, data.batch(data.validation), recipe, steps, torch.Generator())
    mean = sum(0.5**k * d / n for k, (n, _, _, d) in enumerate(table)) / sum(0.5**k for k in range(steps))
    assert float(value) == pytest.approx(mean, rel=1e-3)


@torch.no_grad()
def test_a_handful_stands_for_the_words_left_out(learning, monkeypatch):
    """On average over handfuls the normaliser is the whole vocabulary's."""
    monkeypatch.setattr(LmStudent, "HANDFUL", 50)
    student = learning.student("lm")
    states = torch.randn(7, SHAPE.width)
    whole = student.logits(states, torch.arange(VOCABULARY)).exp().sum(-1)
    sums = []
    for seed in range(300):
        words, extra = student.words_for_update(torch.Generator().manual_seed(seed))
        assert words[:WORDS].tolist() == learning.words.tolist() and len({*words.tolist()}) == len(words) == WORDS + 50
        sums.append((student.logits(states, words) + extra).exp().sum(-1))
    assert torch.allclose(torch.stack(sums).mean(0), whole, rtol=0.03)


def test_a_head_begins_with_the_targets_last_layer_reading_its_highest_tap(learning):
    """What the lower taps add is small next to it, however large they are: they are scaled by their size."""
    teacher, loud = learning.teacher, torch.tensor([50.0, 1.0])
    torch.manual_seed(0)
    head = new_eagle(teacher, learning.words, 2, teacher.layer, loud).module
    tapped = torch.randn(100, 2, 32) * loud[:, None]
    with torch.no_grad():
        assert ((head.fc(tapped.flatten(1)) - tapped[:, 1]).pow(2).mean().sqrt()) < 0.3
    assert torch.equal(head.down.weight, teacher.layer["mlp.down_proj.weight"])
    assert torch.equal(head.q.weight[:, 32:], teacher.layer["self_attn.q_proj.weight"])
    assert torch.equal(head.head, teacher.head[learning.words])


@pytest.mark.parametrize("kind, tv", [("lm", 0.0), ("eagle", 0.0), ("eagle", 0.3)])
def test_a_student_learns(learning, tmp_path, kind, tv):
    student, data = learning.student(kind), learning.data(kind)
    recipe = Recipe(60, rows=12, learning_rate=5e-3, every=20, tv=tv, rollout=((0.0, 1), (0.5, 2)))
    before = distil.acceptance(student, learning.teacher, data, 1)
    log = distil.train(student, learning.teacher, data, recipe, tmp_path)
    assert [entry["update"] for entry in log] == [20, 40, 60]
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    assert log[-1]["sampled"][0] > before["sampled"][0] + 0.05
    assert len(log[-1]["greedy"]) == (2 if kind == "eagle" else 1)


@pytest.mark.parametrize("kind", ["lm", "eagle"])
def test_training_goes_on_where_it_was_interrupted(learning, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(LmStudent, "HANDFUL", 50)
    recipe = rollout_for(SimpleNamespace(student=kind, start=""), Recipe(12, rows=40, learning_rate=5e-3, every=3))

    def train(name, say=quiet, recipe=recipe):
        student = learning.student(kind)
        log = distil.train(student, learning.teacher, learning.data(kind), recipe, tmp_path / name, say)
        return weights_of(student), [{k: e[k] for k in ("update", "tokens", "greedy", "sampled")} for e in log]

    whole = train("whole")
    for messages in (5, 6, 1):  # in the middle of updates, and before the first of them
        with pytest.raises(KeyboardInterrupt):
            train("parts", stop_after(messages))
    resumed = train("parts")
    assert same(whole[0], resumed[0]) and whole[1] == resumed[1]
    done = train("parts")
    assert same(whole[0], done[0]) and whole[1] == done[1], "nothing left to do"
    assert not same(whole[0], train("other", recipe=replace(recipe, seed=1))[0])
    assert files(tmp_path / "parts") == {"checkpoint.pt"}


def test_the_rate_warms_up_and_falls_and_rollouts_grow():
    new, older, lm = (SimpleNamespace(student=k, start=s) for k, s in (("eagle", ""), ("eagle", "x"), ("lm", "")))
    recipe = rollout_for(new, Recipe(1000, learning_rate=0.1, warm_up=0.1, final_rate=0.05))
    rates = [recipe.rate(i) for i in range(1000)]
    assert rates[0] == pytest.approx(0.001) and max(rates) == pytest.approx(0.1) == rates[100]
    assert rates[:100] == sorted(rates[:100]) and rates[100:] == sorted(rates[100:], reverse=True)
    assert rates[550] == pytest.approx(0.1 * (0.05 + 0.95 / 2), rel=0.01)
    assert rates[-1] == pytest.approx(0.005, rel=0.01)
    assert [recipe.steps(i) for i in (0, 549, 550, 799, 800, 999)] == [1, 1, 2, 2, 3, 3]
    assert max(rollout_for(older, recipe).steps(i) for i in range(300)) == 2, "sooner, for it can guess already"
    assert rollout_for(lm, recipe) == recipe and Recipe(9).steps(8) == 1
    assert [Recipe(1).rate(0), Recipe(2, warm_up=0.0).rate(0)] == [1e-3, 1e-3]


def test_texts_without_a_guess_do_no_harm(learning):
    """One token asked and one answered: nobody guesses the next step's token, and the mean of nothing is none."""
    student = learning.student("eagle")
    batch = Batch(torch.ones(1, 3, dtype=torch.long), torch.randn(1, 3, 64), torch.randn(1, 3, 32),
                  torch.tensor([1]), torch.tensor([3]))  # fmt: skip
    value = distil.loss(student, learning.teacher, batch, Recipe(9), 3, torch.Generator())
    value.backward()
    assert torch.isfinite(value) and all(p.grad is None or torch.isfinite(p.grad).all() for p in student.parameters())


# ---- words and files -----------------------------------------------------------------------------------------------


def test_frequent_words_are_those_the_target_wrote():
    tokens = np.array([9, 9, 9, 9, 5, 5, 3, 9, 2, 5, 7, 3, 2, 3, 7, 3], dtype=np.uint16)  # prompt 4, reply 4, twice
    samples = Samples(tokens, np.array([4, 4], np.uint16), np.array([4, 4], np.uint16), np.zeros(2, np.float32))
    assert frequent(samples, 2).tolist() == [3, 5], "3 three times, 5 twice, and what only the prompts say never"
    assert frequent(samples, 4).tolist() == [2, 3, 5, 7], "in increasing order"
    with pytest.raises(BadInput, match="too few different words for a vocabulary of 200; ask for fewer"):
        frequent(samples, 200)


@pytest.mark.parametrize("words", [[0], [3, 4, 90], list(range(0, 100, 7)), list(range(100))])
def test_the_vocabulary_map_there_and_back(words):
    maps = export.vocabulary_map(torch.tensor(words), 100)
    assert word_ids(maps["d2t"], 100, Path()).tolist() == words
    assert maps["t2d"].nonzero()[:, 0].tolist() == words and maps["t2d"].shape == (100,)
    assert maps["d2t"].dtype == torch.int64 and maps["t2d"].dtype == torch.bool


def test_a_head_is_stored_as_other_engines_load_it(journey, root):
    """vLLM's llama_eagle3.py puts "model." before each name, renames `d2t` to draft_id_to_target_id and skips `t2d`;
    SGLang's reads the same file. Target id = draft id + d2t, and layer ids count the states that enter a layer."""
    tensors, config = (
        load_file(root / "eagle" / "model.safetensors"),
        json.loads((root / "eagle" / "config.json").read_text()),
    )
    E, heads, shared, inner = 32, 32, 16, 48
    layer = {
        "input_layernorm": (E,), "hidden_norm": (E,), "post_attention_layernorm": (E,),
        "self_attn.q_proj": (heads, 2 * E), "self_attn.k_proj": (shared, 2 * E), "self_attn.v_proj": (shared, 2 * E),
        "self_attn.o_proj": (E, heads), "mlp.gate_proj": (inner, E), "mlp.up_proj": (inner, E),
        "mlp.down_proj": (E, inner),
    }  # fmt: skip
    shapes = {f"midlayer.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {"fc.weight": (E, 2 * E), "norm.weight": (E,), "lm_head.weight": (WORDS, E)}
    shapes |= {"d2t": (WORDS,), "t2d": (VOCABULARY,)}
    assert {name: tuple(t.shape) for name, t in tensors.items()} == shapes
    kinds = {name: t.dtype for name, t in tensors.items()}
    assert (kinds.pop("d2t"), kinds.pop("t2d")) == (torch.int64, torch.bool) and {*kinds.values()} == {torch.bfloat16}
    words = tensors["d2t"] + torch.arange(WORDS)
    target = AutoModelForCausalLM.from_pretrained(root / "target")
    assert torch.equal(tensors["lm_head.weight"], target.lm_head.weight[words].bfloat16())
    assert torch.equal(tensors["t2d"].nonzero()[:, 0], words)
    wanted = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1,
              "hidden_size": E, "vocab_size": VOCABULARY, "draft_vocab_size": WORDS,
              "num_attention_heads": 4, "num_key_value_heads": 2,
              "head_dim": 8, "intermediate_size": inner, "hidden_act": "silu", "tie_word_embeddings": False,
              "rope_theta": 10000.0, "rms_norm_eps": target.config.rms_norm_eps, "max_position_embeddings": 256,
              "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [0, 1]}}  # fmt: skip
    assert {name: config[name] for name in wanted} == wanted


@pytest.mark.parametrize("name", ["llama", "llama3-rope", "yarn-rope", "qwen3", "qwen2"])
def test_an_exported_head_says_what_the_trained_one_said(tmp_path, monkeypatch, name):
    """With features at every position, beyond the length where scaled rotary embeddings differ from plain ones."""
    monkeypatch.setattr("engine.linear.quantising_works", lambda: False)  # which rounds, and hides what we look for
    student, teacher = random_head(tmp_path / "target", name)
    export.eagle(student, teacher, (0, 1), tmp_path / "head", "a card")
    model_folder(tmp_path / "target", name)  # the same, with a tokenizer
    target = load_model(tmp_path / "target", "cpu", "fp32").runner.model
    head = EagleModel(tmp_path / "head", target)
    assert head.words.tolist() == student.words.tolist() and head.reads == (0, 1)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.copy_(parameter.bfloat16())
        student.module.head.copy_(student.module.head.bfloat16())
        ids, tapped, L = torch.randint(0, VOCABULARY, (1, 61)), torch.randn(1, 61, 64), 60
        state = student.module.rollout(ids, tapped, 1)[0][0, :L]
        mask = torch.ones(L, L, dtype=torch.bool).tril()
        where = torch.arange(L)
        logits, out = head.forward(ids[0, 1:], where, where, mask, L, head.new_cache(L), features=tapped[0, :L])
        assert torch.allclose(out, state, atol=1e-3)
        assert torch.allclose(logits, student.module.logits(state), atol=1e-3)


def test_an_exported_lm_is_plain_transformers(journey, root):
    draft, config = (
        AutoModelForCausalLM.from_pretrained(root / "lm"),
        json.loads((root / "lm" / "config.json").read_text()),
    )
    assert config["architectures"] == ["LlamaForCausalLM"] and config["vocab_size"] == VOCABULARY
    assert draft.dtype == torch.bfloat16 and {"tokenizer.json", "config.json", "README.md"} <= files(root / "lm")
    target = AutoModelForCausalLM.from_pretrained(root / "target")
    tokenizer = AutoTokenizer.from_pretrained(root / "lm")
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(root / "target").get_vocab()
    assert tokenizer.chat_template == CHAT
    ids = tokenizer("the cat, the hat", return_tensors="pt").input_ids
    plain = target.generate(ids, max_new_tokens=30, do_sample=False, eos_token_id=END, pad_token_id=0)
    assisted = target.generate(
        ids, assistant_model=draft.float(), max_new_tokens=30, do_sample=False, eos_token_id=END, pad_token_id=0
    )
    assert plain.tolist() == assisted.tolist()


def test_an_lm_says_the_same_from_its_file(learning, root, tmp_path):
    student = learning.student("lm")
    ids = torch.from_numpy(learning.samples.row(0).astype(np.int64))[None]
    with torch.no_grad():
        logits = student.logits(student.states(Batch(ids, None, None, None, None), 1)[0], torch.arange(VOCABULARY))
        export.lm(student, root / "target", tmp_path / "lm", "a card")
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "lm", dtype=torch.float32)
        again = loaded(ids).logits
    assert torch.allclose(again, logits, rtol=0.02, atol=0.05)
    assert torch.allclose(load_model(tmp_path / "lm", "cpu", "fp32").runner.model.embed, loaded.lm_head.weight)


def test_the_tokenizer_is_the_targets_own_without_white_space(root, journey):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        ours, theirs = (root / "lm" / name).read_text(), (root / "target" / name).read_text()
        assert json.loads(ours) == json.loads(theirs) and len(ours) < len(theirs)


@pytest.mark.parametrize("words", [20, 40])
def test_an_lm_may_be_wider_than_its_target(teacher, words):
    student = new_lm(teacher, torch.arange(words), LmShape(), 0)
    assert student.module.model.embed_tokens.weight.shape == (VOCABULARY, 192)
    assert torch.isfinite(student.module.model.embed_tokens.weight).all()
    again = new_lm(teacher, torch.arange(words), LmShape(), 0)
    assert same(weights_of(student), weights_of(again))


# ---- bad input -----------------------------------------------------------------------------------------------------


def sentence(said: str) -> str:
    """The last thing said, which must be one sentence (or two) a person can act on, on one line."""
    line = said.strip().splitlines()[-1]
    assert line.endswith(".") and 20 < len(line) < 400
    return line


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
    "a single array": "is no sample file|" + CUT, "another archive": "is no sample file|" + CUT,
    "no temperatures": "is no sample file: it lacks the array 'temperature'", "row missing": "one entry for each row",
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
        assert "There are no samples at" in sentence(said) and "python -m engine.training sample" in said
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
    assert "every prompt is longer than the room" in sentence(said)


def test_a_target_that_writes_no_questions(tmp_path):
    model_folder(tmp_path / "mute", template=CHAT)  # bytes at random are no text
    said = stage(tmp_path, "prompts", "--count", 3, pair=tmp_path / "mute", fails=True)
    assert "no usable question" in sentence(said) and not (tmp_path / "work" / "prompts.jsonl").exists()
    model_folder(tmp_path / "base", template=None)
    said = stage(tmp_path, "prompts", "--count", 3, pair=tmp_path / "base", fails=True)
    assert "has no chat template" in sentence(said)


def test_a_target_that_our_decoder_does_not_run(tmp_path, journey):
    model_folder(tmp_path / "gpt", "gpt2")
    (tmp_path / "asked.jsonl").write_text('{"prompt": "one"}\n')
    asked = ("--words", 20, "--samples", journey.work / "samples" / "samples.npz")
    commands = [("prompts",), ("sample", "--prompts", tmp_path / "asked.jsonl")]
    for command in (*commands, ("distil", "lm", *asked), ("distil", "eagle", *asked)):
        said = stage(tmp_path, *command, pair=tmp_path / "gpt", fails=True)
        assert "targets that our own decoder runs: the Llama family" in sentence(said)
    assert not (tmp_path / "work").exists()


@pytest.fixture
def copied(journey, root, tmp_path):
    """The whole workshop, to be damaged."""
    shutil.copytree(journey.work, tmp_path / "work")
    return tmp_path / "work"


TRAIN = ("--updates", 12, "--rows", 6, "--words", WORDS, "--taps", "0,1")


@pytest.mark.parametrize("settings, words", {
    ("--updates", 13): r"checkpoint\.pt was made with another recipe; go on with that one, or name another --work",
    ("--learning-rate", 0.01): "made with another recipe", ("--rows", 5): "made with another recipe",
    ("--words", 30): "holds a draft begun otherwise; name another --work, or delete it",
    ("--taps", "1"): "begun otherwise", ("--seed", 1): "begun otherwise",
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
    """Nothing of the mistaken attempt stands in the way of the next."""
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
    assert re.search(
        r"checkpoint\.pt (cannot be read; delete it to begin anew|was made with another recipe)", sentence(said)
    )
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
    assert "begun otherwise" in sentence(
        stage(root, "distil", "lm", *TRAIN[:-2], "--taps", "0,1", work=copied, fails=True)
    )
    original = ("--samples", journey.work / "samples" / "samples.npz")
    stage(root, "export", "lm", "--out", tmp_path / "out", *original, work=copied)


def test_too_few_rows_to_hold_some_out(root, tmp_path):
    sample_file.save(tmp_path / "few.npz", made_up(3))
    asked = ("--words", 20, "--taps", 1, "--samples", tmp_path / "few.npz")
    said = stage(root, "distil", "lm", *asked, work=tmp_path / "w", fails=True)
    assert "3 rows are too few to train on some and hold others out" in sentence(said)


@pytest.mark.parametrize("what", ["notes", "target", "project", "file"])
def test_export_takes_the_place_of_nothing_but_an_older_draft(copied, root, tmp_path, what):
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    elif what == "target":
        shutil.copytree(root / "target", out)
    else:
        out.mkdir()
        (out / ("config.json" if what == "project" else "notes.txt")).write_text("{}")
    before = files(tmp_path)
    for student in ("lm", "eagle"):
        said = stage(root, "export", student, "--out", out, work=copied, fails=True)
        assert re.search("out holds something that is no draft; name an empty or new folder", sentence(said))
    assert files(tmp_path) == before


def test_export_replaces_an_older_draft_whole(copied, root, tmp_path):
    (tmp_path / "out").mkdir()
    stage(root, "export", "lm", "--out", tmp_path / "out", work=copied)
    stage(root, "export", "eagle", "--out", tmp_path / "out", work=copied)
    assert files(tmp_path / "out") == {"config.json", "model.safetensors", "README.md"}
    stage(root, "export", "lm", "--out", tmp_path / "out", work=copied)
    assert "tokenizer.json" in files(tmp_path / "out") and not list(tmp_path.glob(".*"))


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


def no_room(*args, **kwargs):
    raise FULL


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


def test_torch_says_it_when_the_disk_is_full(learning, tmp_path, monkeypatch):
    """Given a path, torch.save hides why it failed; so what is written must go through a file that tells."""
    student, seen = learning.student("lm"), []
    real = torch.save
    monkeypatch.setattr(torch, "save", lambda state, where, **more: seen.append(where) or real(state, where, **more))
    distil.train(student, learning.teacher, learning.data("lm"), Recipe(1), tmp_path)
    assert seen and not any(isinstance(where, (str, Path)) for where in seen)


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
        assert f"begun with another {what}; name another --work" in sentence(said)
    said = stage(root, "sample", "--max-new-tokens", 11, work=copied, fails=True)
    assert "begun with another max_new_tokens" in sentence(said)
    assert "begun with another seed" in sentence(stage(root, "prompts", "--seed", 5, work=copied, fails=True))
    other = tmp_path / "other"
    model_folder(other, template=CHAT)
    assert "begun with another" in sentence(stage(root, "sample", *asked, pair=other, work=copied, fails=True))
    assert "begun otherwise" in sentence(stage(root, "distil", "eagle", *TRAIN, pair=other, work=copied, fails=True))
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


def test_tasks_are_about_the_targets_own_replies(root, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(root / "target")
    words = [tokenizer(f"the {i}th reply, long enough to be a text. " * 3).input_ids for i in range(30)]
    rows = [Row(i, [5, 6], 0.0 if i % 2 else 1.0, 0) for i in range(30)]
    for row, ids in zip(rows, words, strict=True):
        row.tokens += ids
    sample_file.save(tmp_path / "given.npz", sample.of_rows(rows))
    run("tasks", "--count", 50, "--samples", tmp_path / "given.npz", "--pair", root / "target", "--work", tmp_path)
    made = [json.loads(line)["prompt"] for line in (tmp_path / "tasks.jsonl").read_text().splitlines()]
    assert len(made) == 50 and len({text.split("\n\n")[0] for text in made}) > 5
    for text in made:
        number = int(re.search(r"the (\d+)th reply", text)[1])
        assert number % 2, "a text sampled at temperature 1 is no calm one"
        about = text.split("\n\n", 1)[1]
        assert about in tokenizer.decode(words[number])
    again = tmp_path / "again"
    run("tasks", "--count", 50, "--samples", tmp_path / "given.npz", "--pair", root / "target", "--work", again)
    assert (again / "tasks.jsonl").read_text() == (tmp_path / "tasks.jsonl").read_text()


def test_no_such_kind_of_draft_and_no_such_seed(root, tmp_path):
    assert "'medusa' is no kind of draft; choose from lm, eagle" in sentence(
        stage(root, "distil", "medusa", fails=True)
    )
    result = CliRunner().invoke(
        app, ["prompts", "--seed", "-1", "--pair", str(root / "target"), "--work", str(tmp_path)]
    )
    assert result.exit_code == 2 and "seed" in result.output
