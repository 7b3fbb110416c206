"""Pairs whose draft has another tokenizer, as tiny checkpoints of real architectures: they run, and stay exact."""

from types import SimpleNamespace

import pytest
from shared_passes import drive
from tiny_pairs import (
    engine_of,
    generated,
    ids_of,
    model_folder,
    read_late_at_once_and_blindly,
    request,
    run,
    without_clocks,
)
from unlike_tokenizers import CHAT, OTHER_CHAT, byte_level, letters, sentence_piece

from engine.runtime.run_batch import RunBatch
from engine.trace.costs import CostModel
from engine.trace.trace import fold, from_json, to_json
from engine.weights.preflight import check_pair, notes

EOS = {"bytes": 1, "pieces": 2}


@pytest.fixture(scope="session")
def unlike(tmp_path_factory):
    """``root``: a folder of models; ``models``: transformers' own."""
    root = tmp_path_factory.mktemp("unlike")
    bytes_, pieces = byte_level(), sentence_piece()
    sized = {"bytes": (bytes_, CHAT, len(bytes_) + 3), "pieces": (pieces, OTHER_CHAT, len(pieces))}
    models = {}
    for kind, (tokenizer, template, size) in sized.items():
        for name, family in ((kind, "llama"), (f"{kind}-gpt2", "gpt2"), (f"{kind}-qwen", "qwen2")):
            settings = {"vocab_size": size, "eos_token_id": EOS[kind], "seed": 4, "initializer_range": 0.15}
            models[name] = model_folder(root / name, family, tokenizer, template, **settings)
    model_folder(root / "nothing", tokenizer=letters(*"αβγ"), template=None)
    return SimpleNamespace(root=root, models=models)


def engine(unlike, target: str, draft: str):
    made = engine_of(unlike, target, draft)
    made._costs = {m: CostModel(0.1, {1: 1.0, 8: 1.2}, 64, 0.001) for m in ("none", "lm", "ngram", "lookahead")}
    return made


def lossless_from(unlike, target: str, whole) -> None:
    prompt, written = ids_of(whole)
    assert written == generated(unlike.models[target], prompt, len(written), eos=(EOS[target.split("-")[0]],))


PAIRS = [
    ("bytes", "pieces"), ("pieces-gpt2", "bytes-qwen"),
    *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (("pieces", "bytes"), ("bytes", "pieces-gpt2"))),
]  # fmt: skip


@pytest.mark.parametrize(("target", "draft"), PAIRS)
def test_greedy_text_equals_the_targets_and_repeats_from_its_trace(unlike, target, draft):
    made = engine(unlike, target, draft)
    for prompt, gamma in (("the cat, naïve 🙂 sat", 4), ("the cat, naïve 🙂 sat", "auto"), ("日本", 4)):
        whole = run(made, "lm", gamma=gamma, max_new_tokens=24, prompt=prompt)
        lossless_from(unlike, target, whole)
        assert any(r.parents for r in whole.rounds)
    lossless_from(unlike, target, run(made, "lm", gamma="auto", max_new_tokens=12, chat=True))
    for temperature in (0.0, 0.9):
        asked = {"gamma": "auto", "temperature": temperature, "max_new_tokens": 24}
        first = run(made, "lm", **asked)
        again = run(made, "lm", [(r.gamma, r.draft_steps) for r in first.rounds], **asked)
        assert without_clocks(again) == without_clocks(first)


def test_the_trace_names_the_translation_and_its_cost_is_measured(unlike, own_cache):
    made = engine_of(unlike, "bytes", "pieces")
    assert run(made, "lm", max_new_tokens=6).started.translated.by == "text"
    whole = run(made, "lm", temperature=1.0, max_new_tokens=6)
    common = whole.started.translated
    assert (common.by, common.target, common.draft) == ("tokens", len(byte_level()), len(sentence_piece()))
    assert 100 < common.common < common.target and whole.started.costs.c > 0
    assert from_json(to_json(whole)) == whole
    assert run(made, "ngram").started.translated is None


def test_runs_that_share_passes_write_what_each_would_alone(unlike):
    made = engine(unlike, "bytes", "pieces")
    configs = [
        request(made.pair.name, "lm", gamma=3, prompt=prompt, max_new_tokens=16, **settings)
        for prompt, settings in (("the cat", {}), ("naïve 🙂", {"temperature": 0.8}), ("and the hat", {"seed": 3}))
    ]
    alone = [fold(made.run(config)).output for config in configs]
    made.drafts.unusable["quantised"] = "another test's"
    assert run(made, "auto", gamma=2, max_new_tokens=24).started.translated.by, "it competes"
    batch = RunBatch(made, 3)
    for name, config in enumerate(configs):
        batch.add(name, config)
    together = drive(batch)
    assert [fold(together[name]).output for name in range(3)] == alone


@pytest.mark.parametrize("settings", [{"max_new_tokens": 100}, {"prompt": "日本" * 12, "max_new_tokens": 60}])
def test_a_text_that_outgrows_the_draft_s_context_is_finished_without_it(unlike, tmp_path, settings):
    pieces = sentence_piece()
    model_folder(tmp_path / "short", tokenizer=pieces, template=None, vocab_size=len(pieces),
                 max_position_embeddings=48)  # fmt: skip
    made = engine(unlike, "bytes", tmp_path / "short")
    whole = run(made, "lm", gamma=3, **settings)
    lossless_from(unlike, "bytes", whole)
    assert any(each.parents for each in whole.rounds[:3])
    assert not whole.rounds[-2].parents


@pytest.mark.parametrize(("target", "draft"), PAIRS[:1])
def test_a_translated_draft_reads_late_and_drafts_as_before(unlike, target, draft):
    late, at_once, blindly = read_late_at_once_and_blindly(engine(unlike, target, draft), "lm")
    assert late == at_once != blindly


def test_a_pair_without_a_common_token_keeps_its_other_methods(unlike):
    made = engine(unlike, "bytes", "nothing")
    (reason,) = check_pair(made.pair, "lm", available_bytes=10**12)
    assert "no token in common" in reason and notes(made.pair) == [reason]
    lossless_from(unlike, "bytes", run(made, "ngram"))
    lossless_from(unlike, "bytes", run(made, "auto"))
    assert not made.drafts.translations and not made.drafts.loaded
