"""Every layout of an EAGLE or block head, in both runtimes: it guesses as transformers' attention, MLP and norms do.

The target's rotary settings, norms and output layer are unlike the defaults of a head, so a value that came from there
shows.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from closeness import assert_close
from head_cases import CHEAP, TEXT, begin, load_unrounded
from head_table import KNOWN, LAYERS, LONGROPE, TABLE, WORDS, E, L, Shape, adds, nested, says, write
from tiny_models import LLAMA3, RUNTIMES
from tiny_pairs import VOCABULARY, generated, ids_of, model_folder, run
from transformers import LlamaConfig, Qwen3Config

from engine.errors import Unavailable
from engine.models.decoder.runner import DecoderRunner
from engine.models.decoder.tree_shape import tree_shape, within
from engine.models.heads.loader import load_head
from engine.weights.catalogue import get_pair
from engine.weights.head_config import DEFAULTS


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Makes a target with rotary settings of its own, and norms with another eps."""
    root = tmp_path_factory.mktemp("table")
    settings = {"num_hidden_layers": LAYERS, "rms_norm_eps": 0.1, "rope_parameters": {**LLAMA3, "rope_theta": 99.0}}
    model = model_folder(root / "target", **settings)
    models = {name: make(root / "target", model).model for name, make in RUNTIMES.items()}
    return SimpleNamespace(folder=root / "target", model=model, models=models)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", TABLE)
@torch.inference_mode()
def test_every_layout_drafts_by_transformers_layers(target, tmp_path, monkeypatch, name, runtime):
    """They agree at every position, on features as small as a real model's first layers give, and one step further."""
    monkeypatch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")  # rounding would hide what we look for
    shape, *layouts = TABLE[name]
    head_of = write(tmp_path / "head", shape, *layouts)
    reference, model, rows = head_of.reference, target.model, None
    assert list(get_pair(f"{target.folder}+{tmp_path / 'head'}").drafts) == ["eagle"]
    head = load_head("eagle", tmp_path / "head", target.models[runtime])
    embed = reference.embed_tokens if shape.own_embedding else model.model.embed_tokens
    if "lm_head.weight" not in head_of.tensors or shape.version == 1:
        tied = shape.own_embedding and shape.version == 3
        rows = (embed if tied else model.lm_head).weight[head.target_ids]
    ids, features = torch.randint(0, VOCABULARY, (L + 1,)), 0.01 * torch.randn(L, len(head.reads) * E)
    last = reference.fuse(features) if shape.version == 3 else model.model.norm(features)
    states = reference.states(embed(ids[:L]), last)
    normed = reference.norm(states) if shape.version == 3 else states
    logits = reference.lm_head(normed) if rows is None else normed @ rows.T
    runner = DecoderRunner(head)
    runner.reset(L + 1)
    seen, out = head.forward(ids[:L], [runner.next_span(L)], features=features)
    assert head.target_ids.tolist() == (KNOWN if len(head.target_ids) == WORDS else torch.arange(VOCABULARY)).tolist()
    assert len(head.target_ids) == shape.words or shape.version == 1
    given_on = reference.norm if shape.norm_output else lambda state: state
    assert_close(seen, logits)
    assert_close(out, given_on(states))
    runner.cache.length = L
    further = reference.states(embed(ids), torch.cat([last, out[-1:]]))[-1:]
    step = head.forward(ids[L:], [runner.next_span(1)], state=out[-1:])[1]
    assert_close(step, given_on(further))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", ["speculators, Llama", "EAGLE-1"])
def test_greedy_output_is_the_targets_own_in_each_layout(target, tmp_path, name, runtime):
    """The head's size counts every tensor but the maps of its words."""
    tensors = write(tmp_path / "head", *TABLE[name]).tensors
    engine = load_unrounded(f"{target.folder}+{tmp_path / 'head'}", "eagle", runtime)
    engine._costs |= dict.fromkeys(("eagle", "eagle-chain"), CHEAP)
    for method, gamma in (("eagle", "auto"), ("eagle-chain", 4)):
        prompt, ids = ids_of(run(engine, method, gamma=gamma, max_new_tokens=32))
        assert ids == generated(target.model, prompt, 32)
    ((kind, spec),) = engine.pair.drafts.items()
    loaded = sum(tensor.numel() for name, tensor in tensors.items() if name not in ("d2t", "t2d"))
    assert (kind, spec.layers, spec.hidden_size, spec.parameters) == ("eagle", 1, E, loaded)


NUMBERS = torch.Generator().manual_seed(2)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=NUMBERS)


BLOCKS = {
    "vLLM's": (
        # A token more than the target has is the mask, with a row of the head's own embedding.
        Shape(), adds(mask_hidden=normal(1, 3 * E), embed_tokens__weight=normal(VOCABULARY + 1, E)),
        says(ptd_token_id=VOCABULARY),
    ),
    "the speculators library's": (
        Shape(layers=3, norm_before_residual=True), says(num_hidden_layers=3), nested(),
        adds(mask_hidden=normal(1, 3 * E)),
        says(speculators_model_type="peagle", mask_token_id=7, norm_before_residual=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layout", BLOCKS)
@torch.inference_mode()
def test_a_block_head_drafts_by_transformers_layers(target, tmp_path, monkeypatch, layout, runtime):
    """It drafts a whole block in one pass, another after its masks were discarded, and then a run."""
    head = write(tmp_path / "head", *BLOCKS[layout])
    pair = f"{target.folder}+{tmp_path / 'head'}"
    assert list(get_pair(pair).drafts) == ["block"]
    engine = load_unrounded(pair, "block", runtime)
    embedding = head.tensors.get("embed_tokens.weight", target.model.model.embed_tokens.weight)
    mask = embedding[[VOCABULARY if layout == "vLLM's" else 7]]
    states = target.model.model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    features = torch.cat([states[layer][0] for layer in (2, 3, 4)], -1)
    runner, drafter = begin(engine, "block", TEXT[:20])
    for known in (20, 22, 31):
        runner.prefill(TEXT[runner.length : known - 1])
        draft = drafter.propose(TEXT[:known], 4)
        embedded = torch.cat([embedding[TEXT[1:known]], mask.expand(3, -1)])
        fused = head.reference.fuse(torch.cat([features[: known - 1], head.tensors["mask_hidden"].expand(3, -1)]))
        normed = head.reference.norm(head.reference.states(embedded, fused)[-4:])
        logits = head.reference.lm_head(normed)
        assert len(draft) == 4 and draft.passes == 1
        assert_close(draft.q[:, ::2], logits.softmax(-1), logits)
        assert draft.q[:, 1::2].sum() == 0
        drafter.commit(0)
    monkeypatch.setitem(engine._costs, "block", CHEAP)
    prompt, written = ids_of(run(engine, "block", gamma=3, max_new_tokens=12))
    assert written == generated(target.model, prompt, 12)


@pytest.mark.parametrize("runtime", RUNTIMES)
@torch.inference_mode()
def test_a_window_counts_a_trees_steps_and_not_its_nodes(target, tmp_path, monkeypatch, runtime):
    """Each node says what it would say at the end of its own path."""
    monkeypatch.setattr("engine.models.onnx.graph.DRAFTS", "fp32")
    write(tmp_path / "head", Shape(window=4), says(sliding_window=4, layer_types=["sliding_attention"]))
    head = load_head("eagle", tmp_path / "head", target.models[runtime])
    parents = [0, 0, 1, 2, 3, 5, 6]  # two branches, one of them five deep
    depth, ancestors = tree_shape(parents)
    ids, states = torch.randint(0, VOCABULARY, (20 + len(depth),)), torch.randn(20 + len(depth), E)
    runner = DecoderRunner(head)

    def after(nodes: list[int], parents=None) -> torch.Tensor:
        runner.reset(64)
        head.forward(ids[:20], [runner.next_span(20)], state=states[:20])
        runner.cache.length = 20
        at = torch.tensor(nodes) + 20
        return head.forward(ids[at], [runner.next_span(len(nodes), parents)], state=states[at])[0]

    tree = after([*range(len(depth))], parents)
    for node in range(len(depth)):
        path = np.flatnonzero(ancestors[node]).tolist()
        assert_close(tree[node], after(path)[-1])
    assert not np.array_equal(within(ancestors, 4), ancestors), "no path is longer than the window"


@pytest.mark.parametrize(("rope", "tokens"), [
    ({"rope_scaling": LONGROPE, "max_position_embeddings": 256}, 64),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 128}, 128),
    ({"rope_scaling": {"type": "linear", "factor": 2.0}, "max_position_embeddings": 128}, 256),
])  # fmt: skip
def test_a_head_whose_rotary_embedding_changes_ends_before_that_length(target, tmp_path, rope, tokens):
    write(tmp_path / "head", Shape(), says(**rope))
    assert load_head("eagle", tmp_path / "head", target.models["torch"]).max_length == tokens


LAYER_IDS = {  # the lists of config.json, and of which layers the incoming states are read
    "none": ({}, (2, 3, 4)),
    "SpecForge's, which counts outputs": ({"nested": [0, 2, 5]}, (1, 3, 6)),
    "the speculators library's, which counts inputs": ({"flat": [0, 3, 7]}, (0, 3, 7)),
    "both": ({"flat": [0, 3, 7], "nested": [-1, 2, 6]}, (0, 3, 7)),
    "ours before there were two": ({"nested": [0, 3, 7], "card": True}, (0, 3, 7)),
    "both that differ": ({"flat": [1, 3, 6], "nested": [1, 3, 6]}, "the outputs of layers"),
}


@pytest.mark.parametrize("name", LAYER_IDS)
def test_layer_ids_are_read_by_the_rule_of_who_wrote_them(target, tmp_path, name):
    lists, reads = LAYER_IDS[name]
    fields, ids = {}, "eagle_aux_hidden_state_layer_ids"
    if "flat" in lists:
        fields[ids] = lists["flat"]
    if "nested" in lists:
        fields["eagle_config"] = {ids: lists["nested"], "use_aux_hidden_state": True}
    write(tmp_path / "head", Shape(), says(**fields))
    if "card" in lists:
        (tmp_path / "head" / "README.md").write_text("… seed 3. Reads the states entering\nlayers 0, 3, 7; rollouts …")
    if isinstance(reads, tuple):
        assert load_head("eagle", tmp_path / "head", target.models["torch"]).reads == reads
        return
    with pytest.raises(Unavailable, match=reads):
        load_head("eagle", tmp_path / "head", target.models["torch"])


def test_missing_fields_have_the_defaults_of_the_classes_in_transformers():
    for family, kind in (("llama", LlamaConfig), ("qwen3", Qwen3Config)):
        theirs, ours = kind(), dict(DEFAULTS[family])
        assert ours.pop("rope_theta") == theirs.rope_parameters["rope_theta"]
        assert {name: getattr(theirs, name) for name in ours} == ours
