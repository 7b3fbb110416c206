"""Drafting from a corpus: it finds every place, the output stays the target's own, bad files are refused."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from chi_squared import CAUGHT, FALSE_ALARM, markov_p_value
from command_line import call
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT
from tiny_models import byte_tokenizer
from tiny_pairs import engine_of, generated, ids_of, model_folder, run

from engine.config import SamplingParams
from engine.decoding.loop import TRUE_RULES
from engine.drafters.base import DrafterSetup
from engine.drafters.context_index import DEPTH, ContextIndex
from engine.drafters.corpus import CorpusDrafter
from engine.errors import BadInput
from engine.sampling.random_streams import Uniforms
from engine.tools.cli.corpus import save
from engine.tools.exactness.mutants import MUTANTS
from engine.tools.exactness.toy_models import ToyLM, generate, make_drafter
from engine.weights import corpus_file
from engine.weights.catalogue import get_pair
from engine.weights.specs import own_corpus

TARGET, PROMPT, ALL = ToyLM.random(6, 0, spread=0.8), [0, 1], SamplingParams(0.7, top_k=5)
END = 99


def places(text: list[int], context: list[int]) -> set[int]:
    n = len(context)
    return {i for i in range(n, len(text) + 1) if text[i - n : i] == context}


@given(st.lists(st.integers(0, 2), min_size=1, max_size=80), st.lists(st.integers(0, 2), min_size=1, max_size=20))
def test_every_place_of_a_context_is_found_and_no_other(text, context):
    found = [set(m.tolist()) for m in ContextIndex(np.array(text)).matches(context)]
    expected = [places(text, context[-n:]) for n in range(1, min(DEPTH, len(context)) + 1)]
    assert found == [place for place in expected if place]


def started(texts: list[list[int]]) -> CorpusDrafter:
    drafter = CorpusDrafter(ContextIndex(np.array([token for text in texts for token in (*text, END)])))
    drafter.start([], DrafterSetup(SamplingParams(), 50, Uniforms(0, 8), None, 64, "cpu"))
    return drafter


def proposal(drafter: CorpusDrafter, context: list[int]) -> list[int]:
    offer = drafter.offer(context)
    return offer.draft(len(offer.keys), None).tokens.tolist() if offer else []


def test_it_follows_what_most_texts_say_and_stops_where_they_part():
    drafter = started([[1, 2, 3, 4, 5, 6]] * 20 + [[1, 2, 3, 4, n, n] for n in range(10, 50)])
    assert proposal(drafter, [7, 1, 2]) == [3, 4, 5, 6], "a third of them go on with 5"
    assert drafter.offer([7, 1, 2]).keys == [9, 9, 3, 8], "60, 60, 20 of 60 and 20 of 20 places, 3 more each"
    assert proposal(drafter, [5, 6]) == [] == proposal(drafter, [8]), "never across the end of a text"
    drafter = started([[1, 2, 3]] * 30 + [[9, 1, 2, 4, 5, 6, 7, 8]] * 20)
    assert proposal(drafter, [1, 2]) == [3]
    assert proposal(drafter, [9, 1, 2]) == [4, 5, 6, 7, 8], "a longer match goes first where it promises more"


@pytest.mark.parametrize("mutant", [None, "u-reused-for-closing"])
def test_the_output_is_the_targets_own_and_a_wrong_rule_is_caught(mutant):
    """The drafter copies from a text of the target's own, with another seed."""
    rules = next((each.rules for each in MUTANTS if each.name == mutant), TRUE_RULES)
    settings = {"sampling": ALL, "max_new_tokens": 1000}
    corpus = generate(TARGET, make_drafter("none", TARGET), PROMPT, seed=1, **settings)[:600]
    drafter = CorpusDrafter(ContextIndex(np.array([*corpus, END])))
    p_value = markov_p_value(TARGET, generate(TARGET, drafter, PROMPT, rules=rules, **settings), ALL)
    assert p_value < CAUGHT if mutant else p_value > FALSE_ALARM


@pytest.fixture
def pairs(tmp_path, own_cache):
    return SimpleNamespace(root=tmp_path, model=model_folder(tmp_path / "target"))


def make_corpus(pairs, *arguments) -> str:
    result = call("corpus", "--pair", pairs.root / "target", *arguments)
    return f"{result.output}{result.exception}"


@pytest.mark.slow
def test_a_pairs_own_texts_become_its_method(pairs):
    assert "corpus" not in engine_of(pairs).methods
    plain = run(engine_of(pairs), max_new_tokens=40)
    text = pairs.root / "text.txt"
    text.write_text(plain.text * 3)
    assert "has 240 tokens of 1 text" in make_corpus(pairs, text)
    engine = engine_of(pairs)
    whole = run(engine, "corpus", max_new_tokens=40)
    prompt, ids = ids_of(whole)
    assert ids == generated(pairs.model, prompt, 40) == ids_of(plain)[1]
    assert any(token.status == "accepted" for r in whole.rounds for token in r.tokens)
    assert len(whole.started.weights["corpus"]) == 64
    assert {*engine.drafts.competitors()} >= {"ngram", "corpus"}
    assert "no corpus" in make_corpus(pairs, "--remove") and "corpus" not in engine_of(pairs).methods


@pytest.mark.slow
def test_bad_files_are_refused_with_a_sentence(pairs, tmp_path):
    path = own_corpus(engine_of(pairs).pair.name)
    assert "name at least one file" in make_corpus(pairs)
    assert "cannot be read" in make_corpus(pairs, tmp_path / "nothing.txt")
    (tmp_path / "empty.txt").write_text("")
    assert "is empty" in make_corpus(pairs, tmp_path / "empty.txt")
    save(path, [np.arange(2, 200)], byte_tokenizer())
    assert run(engine_of(pairs), "corpus").finished
    whole = path.read_bytes()
    other = copy.deepcopy(byte_tokenizer())
    other.add_tokens(["cat"])
    save(tmp_path / "other.npz", [np.arange(2, 200)], other)
    unlike = (tmp_path / "other.npz").read_bytes()
    for content, words in ((whole[: len(whole) // 2], "damaged or cut short"), (unlike, "another tokenizer")):
        path.write_bytes(content)
        engine = engine_of(pairs)
        with pytest.raises(BadInput, match=words):
            run(engine, "corpus")
        assert run(engine, "auto").finished, "auto goes without it"


def test_the_shipped_corpus_holds_none_of_the_benchmarks_prompts():
    """Answers to them would be drafted by copying them."""
    from engine.models.decoder.transformers_config import load_tokenizer
    from engine.tools.bench.prompts import read_prompts
    from engine.weights.store import locate

    pair = get_pair("smollm2-135m")
    tokenizer = load_tokenizer(locate(pair.target) or pair.drafts["lm"].folder)
    index = ContextIndex(corpus_file.load(pair.shipped_corpus, tokenizer))
    assert len(index.tokens) > 50_000 and pair.shipped_corpus.stat().st_size < 4 * 2**20
    for prompt in read_prompts(ROOT / "assets/data/prompts.jsonl"):
        ids = tokenizer(prompt.text, add_special_tokens=False)["input_ids"][:DEPTH]
        assert len([*index.matches(ids)]) < len(ids), prompt.text
