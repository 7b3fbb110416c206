"""Replies sampled for many prompts at once are the ones that the target gives to each alone."""

import json
import re

import numpy as np
import pytest
from tiny_pairs import END, VOCABULARY, generated, model_folder, request
from training_project import ENDS, quiet, stop_after
from transformers import AutoModelForCausalLM

from engine.models.decoder.runner import DecoderRunner
from engine.models.loader import load_model
from engine.runtime.engine import load_engine
from engine.tools.training import batched_sampler, generate
from engine.tools.training import dataset as sample_file
from engine.tools.training.batched_sampler import BatchedSampler, Row
from engine.trace.trace import fold


def test_what_was_sampled_is_what_the_target_says(journey, root, target):
    """Temperatures in turn; at 0 the reply is what generate says, and every row ends where it should."""
    whole = sample_file.load(journey.samples, VOCABULARY)
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
    rows = list(generate.requests(target.tokenizer, ["one", "two", "three"], 9, 0, 100))
    seen = {(tuple(r.tokens), r.temperature) for r in rows}
    assert len(seen) == 9 and len({r.seed for r in rows}) == 9
    assert [r.index for r in generate.requests(target.tokenizer, ["one", "x" * 90], 4, 0, 50)] == [0, 2]


def texts(count: int, vocabulary=VOCABULARY, longest=9) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocabulary, n).tolist() for n in rng.integers(1, longest, count)]


def sampled(runner, many, number, temperature=0.0, limit=20, ends=ENDS, longest=64) -> dict[int, list[int]]:
    rows = (Row(i, list(ids), temperature, 70 + i) for i, ids in enumerate(many))
    return {row.index: row.tokens for row in BatchedSampler(runner, number, longest).sample(rows, ends, limit)}


@pytest.mark.parametrize("name", ["llama-tied", "llama-biased", "llama3-rope", "multi-query", "mistral", "qwen3"])
def test_greedy_slots_say_what_generate_says(tmp_path, name):
    model = model_folder(tmp_path, name)
    many = texts(9)
    found = sampled(load_model(tmp_path, "cpu", "fp32").runner, many, 4)
    assert found == {i: ids + generated(model, ids, 20) for i, ids in enumerate(many)}


def test_slots_and_chunk_sizes_change_no_token(target, monkeypatch):
    many = texts(13, longest=20)
    one, three, twenty = (sampled(target.runner, many, n, temperature=1.0) for n in (1, 3, 20))
    monkeypatch.setattr(batched_sampler, "_CHUNK", 4)
    assert max(map(len, many)) > 9 and one == three == twenty == sampled(target.runner, many, 3, temperature=1.0)
    assert len({tuple(t[-3:]) for t in one.values()}) > 8 and len({len(t) for t in one.values()}) > 3
    short = sampled(target.runner, [[3] * 10, [4]], 2, ends=frozenset(), longest=16, limit=100)
    assert [len(short[0]), len(short[1])] == [16, 16], "rows end at the context"


def test_a_row_says_what_a_plain_run_of_its_seed_says(root, target):
    engine = load_engine(str(root / "target"), "cpu")
    runs = [fold(engine.run(request(engine.pair.name, seed=70 + i, temperature=1.0))) for i in range(3)]
    prompt = [p.id for p in runs[0].started.prompt]
    found = sampled(target.runner, [prompt] * 3, 2, temperature=1.0, limit=16, longest=128)
    assert found == {i: prompt + [t.id for t in run.emitted] for i, run in enumerate(runs)}


def test_a_slot_is_refilled_as_soon_as_its_row_ends(target, monkeypatch):
    """Every pass holds a token or a chunk of a prompt of as many rows as there are slots, until no more wait."""
    live, real, many = [], DecoderRunner.forward_many, texts(12)
    monkeypatch.setattr(DecoderRunner, "forward_many", lambda self, batch: live.append(len(batch)) or real(self, batch))
    found = sampled(target.runner, many, 4, temperature=1.0)
    passes = [len(found[i]) - len(ids) + (len(ids) > 1) for i, ids in enumerate(many)]  # one reads the prompt
    assert len({*passes}) > 3 and sum(live) == sum(passes) and live == sorted(live, reverse=True)
    assert live.count(4) >= (sum(passes) - 3 * max(passes)) / 4


def test_sampling_goes_on_where_it_was_interrupted(target, tmp_path, monkeypatch):
    monkeypatch.setattr(generate, "_PART", 5)

    def collect(folder, say):
        rows = generate.requests(target.tokenizer, [f"say {i}" for i in range(11)], 33, 3, 60)
        return generate.collect(BatchedSampler(target.runner, 4, 64), rows, 33, target.eos, 8, folder, say)

    whole = collect(tmp_path / "whole", quiet)
    for many in (13, 3):  # nothing is lost, though no part of the second run was full
        with pytest.raises(KeyboardInterrupt):
            collect(tmp_path / "parts", stop_after(many))
        assert not (tmp_path / "parts" / "samples.npz").exists()
    sampled_again = []
    resumed = collect(tmp_path / "parts", lambda fraction, message: sampled_again.append((fraction, message)))
    assert len(sampled_again) == 33 - 16 and sampled_again[-1][0] == 1.0
    assert re.fullmatch(r"33 of 33 replies, [\d,]+ tokens a second", sampled_again[-1][1])
    assert generate.read_folder(tmp_path / "parts").fingerprint() == whole.fingerprint()
    for name in ("tokens", "prompt_len", "reply_len", "temperature"):
        assert np.array_equal(getattr(whole, name), getattr(resumed, name))
        assert getattr(whole, name).dtype == getattr(resumed, name).dtype
    assert sample_file.load(tmp_path / "parts" / "samples.npz", VOCABULARY).fingerprint() == whole.fingerprint()
