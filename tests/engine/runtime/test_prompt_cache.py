"""A run that takes its prompt from an earlier run writes the same trace to the bit, and says what it took."""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
import torch
from chi_squared import CAUGHT, FALSE_ALARM, joint_p_value, two_token_law
from real_model import PAIR, PROMPTS
from shared_passes import drive
from tiny_models import CHECKPOINTS, onnx_runner_of, write
from tiny_pairs import engine_in, engine_of, model_folder, request, without_clocks

from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.models.decoder import prompt_cache
from engine.models.decoder.prompt_cache import BLOCK, PromptCache, prompt_cache_limit
from engine.runtime.engine import load_engine
from engine.runtime.run_batch import RunBatch
from engine.trace.costs import CostModel
from engine.trace.trace import fold, from_json, to_json

LARGE = 10**9
IDS = [(37 * i * i + 11 * i + 5) % 96 for i in range(150)]
WIDE = {"hidden_size": 64, "intermediate_size": 96}  # 32 divides every width
TEXT = "the cat sat on the mat, and the hat of the cat lay under the mat; "  # 66 tokens
# The lengths of the texts that were read before, the length of the next one, and how much of that is taken.
TEXTS = {
    "the same": ([120], 120, 112), "a strict prefix": ([120], 70, 64), "one token more": ([112], 113, 112),
    "a whole block more": ([64], 128, 64), "one token of a block": ([64], 65, 64), "whole blocks": ([64], 64, 64),
    "less than a block": ([120], 15, 0), "nothing": ([120], 0, 0), "the longer of two": ([50, 120], 100, 96),
    "two that tie": ([80, 80], 80, 80),
}  # fmt: skip


@pytest.fixture(scope="module")
def runners(tmp_path_factory):
    """``runners(name, precision)``: a tiny model of each family."""
    made = {}

    def get(name: str, precision: str):
        if (name, precision) not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name, precision] = onnx_runner_of(folder, write(folder, name, **WIDE), precision)
        return made[name, precision]

    return get


def state_after(runner, prompts: PromptCache, ids, chunks=(512,)) -> list[torch.Tensor]:
    """Reads ``ids`` in chunks; gives keys, values, tapped states, and logits of a plain step and of a chain."""
    runner.reset(len(ids) + 8)
    at = prompts.take(runner, ids)
    for size in count():
        if at >= len(ids):
            break
        runner.prefill(ids[at : at + chunks[size % len(chunks)]])
        at = runner.length
    prompts.keep(runner, ids)
    logits = [runner.forward(torch.tensor(IDS[-width:])) for width in (1, 4)]
    cache, tapped = runner.cache, [] if runner.tapped is None else [runner.tapped[: len(ids) + 5].clone()]
    return [*(side[:, :, : len(ids) + 5].clone() for side in (cache.keys, cache.values)), *tapped, *logits]


def are_equal(ours, theirs) -> bool:
    return len(ours) == len(theirs) and all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def kept_by(runner) -> int:
    """Counts the bytes that a large cache keeps of a text."""
    prompts = PromptCache(LARGE)
    state_after(runner, prompts, IDS[:64])
    return prompts.bytes


# Kept keys and values have the same layout in every family, so the precisions other than fp32 are tried on three.
FAST = ("llama", "qwen2", "qwen3")
CASES = [
    pytest.param(name, precision, marks=() if name in FAST and precision != "int4" else pytest.mark.slow)
    for name in CHECKPOINTS
    for precision in (("fp32", "int8", "int4") if name in FAST else ("fp32",))
    if name != "mistral-window"
]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_a_kept_text_leaves_the_bits_of_a_read_one(runners, name, precision):
    runner, nothing = runners(name, precision), PromptCache(0)
    if precision != "fp32" and not runner.same_bits:
        assert not kept_by(runner), "rows have other bits in other passes on this processor"
        return
    assert runner.same_bits
    runner.tap((0, 2))
    for case, (before, length, taken) in TEXTS.items():
        prompts = PromptCache(LARGE)
        for each in before:
            state_after(runner, prompts, IDS[:each])
        runner.reset(length)
        assert prompts.take(runner, IDS[:length]) == taken, case
        for chunks in ((512,), (1,), (3, 1, 7)):
            ours = state_after(runner, prompts, IDS[:length], chunks)
            assert are_equal(ours, state_after(runner, nothing, IDS[:length])), (case, chunks)
        other = [IDS[0] + 1, *IDS[1:length]]
        assert are_equal(state_after(runner, prompts, other), state_after(runner, nothing, other)), case


def test_a_text_without_the_tapped_states_is_read_again(runners):
    runner, prompts = runners("qwen3", "fp32"), PromptCache(LARGE)
    taken = []
    for layers in ((), (0,), (0, 2), (2,), ()):
        runner.tap(layers)
        runner.reset(80)
        taken.append(prompts.take(runner, IDS[:64]))
        state = state_after(runner, prompts, IDS[:64])
        assert are_equal(state, state_after(runner, PromptCache(0), IDS[:64])), layers
    assert taken == [0, 0, 0, 64, 64] and prompts.bytes == sum(block.bytes for block in prompts._blocks.values())


def test_the_limit_drops_the_ends_of_the_oldest_texts(runners, monkeypatch):
    runner, some = runners("llama", "fp32"), PromptCache(LARGE)
    runner.tap(())
    state_after(runner, some, IDS[:BLOCK])
    prompts = PromptCache(5 * some.bytes)
    beginning, other = IDS[: 2 * BLOCK], [95, *IDS[:50]]
    for text, blocks in ((IDS[: 4 * BLOCK], 4), (other, 3), (IDS, 5)):
        state_after(runner, prompts, text)
        assert len(prompts._blocks) <= 5 and prompts.bytes <= prompts.limit
        runner.reset(200)
        assert prompts.take(runner, text) == blocks * BLOCK, "a text is kept from its beginning on"
    state_after(runner, prompts, other)
    runner.reset(200)
    assert prompts.take(runner, beginning) == 2 * BLOCK, "the end of the older text went first"
    free = [8 * some.bytes]
    monkeypatch.setattr(prompt_cache, "available_memory", lambda device: free[0])
    prompts.make_room(free[0], "cpu")
    assert prompts.bytes == 5 * some.bytes
    prompts.make_room(free[0] + 2 * some.bytes, "cpu")
    assert prompts.bytes == 3 * some.bytes, "a run or a draft that needs memory gets it"
    state_after(runner, prompts, other)
    assert prompts.bytes == some.bytes, "an eighth of the memory that would be free without them"
    prompts.clear()
    assert prompts.bytes == 0 == len(prompts._blocks)


def test_the_setting_is_a_number_of_megabytes(monkeypatch):
    for text, limit in (("", 128), ("0", 0), (" 64 ", 64)):
        monkeypatch.setenv(prompt_cache.VARIABLE, text)
        assert prompt_cache_limit() == limit * 10**6
    for text in ("-1", "much", "1.5", "²"):
        monkeypatch.setenv(prompt_cache.VARIABLE, text)
        with pytest.raises(BadInput, match="number of megabytes"):
            prompt_cache_limit()


def run_with_cache(engine, config: RunConfig):
    return fold(engine.run(config, keeps_prompt=True))


def cold(engine, config: RunConfig) -> str:
    return without_clocks(fold(engine.run(config)))


@pytest.fixture(scope="module")
def tiny(pairs):
    engine = engine_of(pairs, draft="draft")
    engine._costs = {name: CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001) for name in ("none", "lm", "ngram", "auto")}
    return engine


def a_mistake(name: str, monkeypatch) -> None:
    """Plants one: a position too many is taken, or all texts are taken for equal."""
    take = PromptCache.take
    if name == "one too many":

        def too_many(self, runner, ids):
            more = bool(take(self, runner, ids))
            runner.cache.length += more
            return runner.length

        monkeypatch.setattr(PromptCache, "take", too_many)
    else:
        monkeypatch.setattr(prompt_cache, "blake2b", lambda digest_size: _Blind())


class _Blind:
    length = 0

    def update(self, data):
        self.length += len(data)

    def digest(self):
        return self.length


@pytest.mark.parametrize(
    ("method", "temperature"),
    [("lm", 0.8), *(pytest.param(m, t, marks=pytest.mark.slow) for m in ("none", "ngram", AUTO) for t in (0.0, 0.8))],
)
def test_the_trace_is_that_of_a_run_that_reads(tiny, method, temperature):
    """Again, with another method, a longer and a shorter text, a branch, a penalty, and the next turn of a chat."""
    tiny.prompts.clear()
    first = request(tiny.pair.name, method, prompt=2 * TEXT, temperature=temperature, max_new_tokens=40)
    prefix = tuple(token.id for token in fold(tiny.run(first)).emitted[:20])
    configs = [
        first, first, replace(first, method="none", gamma=0), *(replace(first, prompt=n * TEXT) for n in (3, 1)),
        replace(first, prefix=(*prefix, 7)), replace(first, seed=5), replace(first, prompt="a" + TEXT),
        replace(first, sampling=replace(first.sampling, repetition_penalty=1.3)), replace(first, prompt="a"),
    ]  # fmt: skip
    ours = [run_with_cache(tiny, config) for config in configs]
    assert [without_clocks(trace) for trace in ours] == [cold(tiny, config) for config in configs]
    prompts = [[p.id for p in (*trace.started.prompt, *trace.started.prefix)] for trace in ours]
    texts = [[*ids, *(token.id for token in trace.emitted)] for ids, trace in zip(prompts, ours, strict=True)]
    for at, trace in enumerate(ours):
        least, most = (common_blocks(some[:at], prompts[at][:-1]) for some in (prompts, texts))
        assert least <= trace.finished.kept_tokens.get("target", 0) <= most, "trees end what is kept of an output"
        assert method != "lm" or trace.finished.kept_tokens.get("target", 0) == most
    assert ("draft" in ours[1].finished.kept_tokens) is (method in ("lm", AUTO))
    assert from_json(to_json(ours[1])) == ours[1] and ours[1].prompt_words.startswith("112 tokens, 96 kept")


@pytest.mark.parametrize("mistake", ["one too many", "another text"])
def test_a_wrong_cache_changes_the_trace(tiny, monkeypatch, mistake):
    tiny.prompts.clear()
    first, other = (request(tiny.pair.name, prompt=text + TEXT, max_new_tokens=8) for text in "ab")
    right = [cold(tiny, config) for config in (first, other)]
    assert [without_clocks(run_with_cache(tiny, config)) for config in (first, other)] == right
    a_mistake(mistake, monkeypatch)
    for config in (first, other):
        run_with_cache(tiny, config)
    assert [without_clocks(run_with_cache(tiny, config)) for config in (first, other)] != right


def common_blocks(texts, ids: list[int]) -> int:
    """The tokens of the longest beginning of ``ids``, in whole blocks, that one of the texts has, too."""
    return max((n // BLOCK * BLOCK for text in texts for n in range(len(ids) + 1) if ids[:n] == text[:n]), default=0)


def test_what_a_tree_leaves_is_not_kept(tiny):
    """Its sums have another order. Chains leave the bits of a prompt, so a chat's next turn reads only the rest."""
    for method, taken in (("none", None), ("lm", None), ("lookahead", 112)):
        tiny.prompts.clear()
        first = request(tiny.pair.name, method, prompt=2 * TEXT, max_new_tokens=40)
        prefix = tuple(token.id for token in run_with_cache(tiny, first).emitted[:35])
        after = replace(first, method="none", gamma=0, prefix=prefix)
        found = run_with_cache(tiny, after)
        whole = (len(found.started.prompt) + len(prefix) - 1) // BLOCK * BLOCK
        assert whole > 112 and found.finished.kept_tokens == {"target": taken or whole}, method
        assert without_clocks(run_with_cache(tiny, after)) == cold(tiny, after)


def test_a_stopped_run_keeps_what_it_has_read(tiny, monkeypatch):
    tiny.prompts.clear()
    monkeypatch.setattr("engine.decoding.batch._CHUNK", 64)
    config, polls = request(tiny.pair.name, prompt=3 * TEXT, max_new_tokens=4), count()
    for event in tiny.run(config, lambda: next(polls) > 0, keeps_prompt=True):
        end = event
    assert end.reason == "cancelled"
    assert run_with_cache(tiny, config).finished.kept_tokens["target"] == 64
    assert without_clocks(run_with_cache(tiny, config)) == cold(tiny, config)


def test_users_who_share_passes_take_the_prompt_of_the_first(tiny):
    tiny.prompts.clear()
    configs = {seed: request(tiny.pair.name, "lm", prompt=3 * TEXT, temperature=0.8, seed=seed) for seed in range(3)}
    batch = RunBatch(tiny, 4)
    batch.add(0, configs[0], keeps_prompt=True)
    first = [*batch.step(), *batch.step(), *batch.step()]
    for seed in (1, 2):
        batch.add(seed, configs[seed], keeps_prompt=True)
    events = {seed: [event for name, event in first if name == seed] for seed in configs}
    traces = {seed: fold(events[seed] + rest) for seed, rest in drive(batch).items()}
    taken = [traces[seed].finished.kept_tokens.get("target", 0) for seed in configs]
    assert taken == [0, 160, 160] and max(trace.others for trace in traces.values()) == 2
    for seed, trace in traces.items():
        assert [token.id for token in trace.emitted] == [t.id for t in fold(tiny.run(configs[seed])).emitted]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [None, "one too many"])
def test_sampled_runs_after_kept_prompts_keep_the_law(tiny, pairs, monkeypatch, mistake):
    tiny.prompts.clear()
    sampling = SamplingParams(1.5, top_k=4)
    config = request(tiny.pair.name, "lm", prompt=TEXT, gamma=2, max_new_tokens=3, trace=False, sampling=sampling)
    prompt = [token.id for token in run_with_cache(tiny, config).started.prompt]
    if mistake:
        a_mistake(mistake, monkeypatch)
    texts = (run_with_cache(tiny, replace(config, seed=seed)).output[:2] for seed in range(400))
    p_value = joint_p_value(Counter(map(tuple, texts)), two_token_law(pairs.models["target"], prompt, sampling))
    assert p_value < CAUGHT if mistake else p_value > FALSE_ALARM


@pytest.mark.parametrize("mistake", [False, True])
def test_each_precision_keeps_its_own(tmp_path, monkeypatch, mistake):
    """Two engines of one folder share a cache here, as no program does; a cache that ignores the model is caught."""
    model_folder(tmp_path / "wide", "qwen3", **WIDE)
    engines = [load_engine(str(tmp_path / "wide"), "cpu", precision) for precision in ("fp32", "int8")]
    engines[1].prompts = engines[0].prompts
    if mistake:
        hashes = prompt_cache._hashes
        monkeypatch.setattr(prompt_cache, "_hashes", lambda *text: [name for _, name in hashes(*text)])
    config = request(tmp_path / "wide", prompt=TEXT, max_new_tokens=12)
    ours = [without_clocks(run_with_cache(engine, config)) for engine in engines]
    assert (ours == [cold(engine, config) for engine in engines]) is not mistake
    engines[0].close()
    assert engines[0].prompts.bytes == 0, "freed with the weights"


def test_where_bits_may_differ_nothing_is_kept(pairs):
    """On other devices than a CPU it was never tried; transformers' own models are left out, too."""
    for engine in (engine_in("torch", pairs.root / "target", "none"), engine_of(pairs, target="gpt2")):
        for _ in range(2):
            assert run_with_cache(engine, request(engine.pair.name, prompt=TEXT)).finished.kept_tokens == {}
        assert engine.prompts.bytes == 0


@pytest.mark.slow
@pytest.mark.xdist_group("real-model")
@pytest.mark.parametrize(
    ("precision", "method", "times"),
    [("fp32", "eagle", 2.0), ("fp32", "lm", 1.0), ("int8", "none", 0.5), ("int4", "none", 0.5)],
)
def test_the_real_pair_writes_the_same_bits(engine, precision, method, times):
    """A text of 150 tokens, or of 600, which is read in two chunks; and four that share its beginning and leave unlike
    numbers of rows to read. Where the load finds that rows have other bits in other passes, nothing is kept."""
    engine = engine if precision == "fp32" else load_engine(PAIR, "cpu", precision)
    is_kept = engine.target.runner.same_bits
    assert is_kept or precision != "fp32"
    text = "\n".join(PROMPTS.values())
    whole, shared = (2 * text)[: int(times * len(text))], text[: int(0.4 * len(text))]
    first = RunConfig(whole, pair=PAIR, method=method, gamma=2, max_new_tokens=10, sampling=SamplingParams(0.8))
    cut = [replace(first, prompt=shared + " so" * n) for n in range(4)]
    traces = {each: run_with_cache(engine, each) for each in (first, *cut)} | {first: run_with_cache(engine, first)}
    for config, trace in traces.items():
        assert (trace.finished.kept_tokens.get("target", 0) > 100) == is_kept
        assert without_clocks(trace) == cold(engine, config)
    engine.prompts.clear()
