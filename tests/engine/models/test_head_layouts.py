"""Heads in the layouts that the hub has: each says what transformers' own parts, or the paper's formula, say."""

import json
from types import SimpleNamespace

import pytest
import torch
from head_cases import TEXT, begin, load_unrounded
from safetensors.torch import save_file
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, generated, ids_of, model_folder, run
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama as llama

from engine.models.heads import load_head
from engine.models.runner import DecoderRunner
from engine.trace.events import CostModel
from engine.training.students import MedusaStudent
from engine.weights.catalogue import get_pair
from engine.weights.head_kinds import own_name

E, H, K, D, INNER, LAYERS, WORDS = 64, 4, 2, 16, 48, 7, VOCABULARY // 2
LAYER = {
    "hidden_size": E, "intermediate_size": INNER, "num_attention_heads": H, "num_key_value_heads": K,
    "num_hidden_layers": 1, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-5, "max_position_embeddings": 256,
    "hidden_act": "silu",
}  # fmt: skip


def config_of(theta: float) -> LlamaConfig:
    config = LlamaConfig(**LAYER, rope_parameters={"rope_type": "default", "rope_theta": theta})
    config._attn_implementation = "eager"
    return config


class Head(nn.Module):
    """A head from transformers' attention, MLP and norms. ``version``: of EAGLE, 1 or 3."""

    def __init__(self, version: int, theta: float, bias: bool, norm_before_residual: bool = False):
        super().__init__()
        self.version, self.norm_before_residual = version, norm_before_residual
        config = config_of(theta)
        self.rotary, self.mlp = llama.LlamaRotaryEmbedding(config), llama.LlamaMLP(config)
        self.self_attn = llama.LlamaAttention(config, 0)
        inputs = 2 * E if version == 3 else E
        for name, size in (("q", H * D), ("k", K * D), ("v", K * D)):
            setattr(self.self_attn, f"{name}_proj", nn.Linear(inputs, size, bias=bias))
        self.fc = nn.Linear((3 if version == 3 else 2) * E, E, bias=bias)
        self.post_attention_layernorm = llama.LlamaRMSNorm(E, 1e-5)
        if version == 3:
            self.input_layernorm, self.hidden_norm, self.norm = (llama.LlamaRMSNorm(E, 1e-5) for _ in range(3))
            self.lm_head = nn.Linear(E, WORDS, bias=False)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))

    def states(self, embedded: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """embedded [L, E] of the next tokens; ``last`` [L, E]: of EAGLE-3 after `fc`, of EAGLE-1 what `fc` reads beside
        the embedding. Returns the outgoing states [L, E]."""
        if self.version == 3:
            normed = self.hidden_norm(last)
            residual = normed if self.norm_before_residual else last
            x = torch.cat([self.input_layernorm(embedded), normed], -1)
        else:
            x = residual = self.fc(torch.cat([embedded, last], -1))
        L = len(x)
        mask = torch.full((L, L), float("-inf")).triu(1)[None, None]
        rotary = self.rotary(x[None], torch.arange(L)[None])
        hidden = residual + self.self_attn(x[None], rotary, mask)[0][0]
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


def specforge(head: Head) -> tuple[dict, dict]:
    """As SGLang's heads: no list of layers and no head_dim; both maps are there."""
    at = "midlayer."
    names = {name.replace("self_attn", at + "self_attn").replace("mlp", at + "mlp"): t for name, t in tensors(head)}
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        names[f"midlayer.{norm}.weight"] = names.pop(f"{norm}.weight")
    config = LAYER | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": WORDS, "rope_theta": 5000.0}
    return names | maps(), config | {"model_type": "llama", "torch_dtype": "float32", "attention_bias": False}


def speculators(head: Head) -> tuple[dict, dict]:
    """As Red Hat's heads: the layer's fields nested, its tensors named like a Llama's, the layers it reads null."""
    names, _ = specforge(head)
    names = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in names.items()}
    return names, {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": WORDS,
        "norm_before_residual": True, "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": None,
        "transformer_layer_config": LAYER | {"model_type": "llama", "head_dim": D, "rope_theta": 5000.0},
    }  # fmt: skip


def eagle1(head: Head) -> tuple[dict, dict]:
    """As the authors': the config of a Llama model with one layer."""
    named = tensors(head)
    names = {name if name.startswith("fc.") else f"layers.0.{name}": tensor for name, tensor in named}
    return names, LAYER | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "bias": True}


def tensors(head: Head) -> list[tuple[str, torch.Tensor]]:
    return [(name, tensor) for name, tensor in head.state_dict().items() if "rotary" not in name]


def maps() -> dict[str, torch.Tensor]:
    """Every second word."""
    return {"d2t": torch.arange(WORDS), "t2d": torch.arange(VOCABULARY) % 2 == 0}


LAYOUTS = {
    "specforge": (specforge, lambda: Head(3, 5000.0, bias=False)),
    "speculators": (speculators, lambda: Head(3, 5000.0, bias=False, norm_before_residual=True)),
    "eagle1": (eagle1, lambda: Head(1, 10000.0, bias=True)),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """Deep enough for the layers that EAGLE-3 was published with: 2, 3 and 4 of 7."""
    root = tmp_path_factory.mktemp("layouts")
    model = model_folder(root / "target", num_hidden_layers=LAYERS, max_position_embeddings=256)
    return SimpleNamespace(root=root, model=model, folder=root / "target")


@pytest.fixture(scope="module", params=LAYOUTS)
def written(target, request):
    layout, make = LAYOUTS[request.param]
    torch.manual_seed(3)
    head = make()
    folder = target.root / request.param
    return SimpleNamespace(name=request.param, head=head, folder=write(folder, *layout(head)), target=target)


def write(folder, tensors: dict, config: dict, file="model.safetensors"):
    folder.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / file)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("runtime", RUNTIMES)
@torch.inference_mode()
def test_an_eagle_head_says_what_transformers_parts_say(written, runtime, monkeypatch):
    """At every position from features, and one step further from its own state."""
    monkeypatch.setattr("engine.models.onnx_graph.DRAFTS", "fp32")  # rounding would hide a wrong feature
    target, head, L = written.target.model, written.head, 40
    engine_head = load_head("eagle", written.folder, RUNTIMES[runtime](written.target.folder, target).model)
    assert engine_head.on_host == (runtime == "onnx")
    assert engine_head.reads == ((LAYERS,) if head.version == 1 else (2, 3, 4))
    ids, features = torch.randint(0, VOCABULARY, (L + 1,)), torch.randn(L, len(engine_head.reads) * E)
    last = head.fc(features) if head.version == 3 else target.model.norm(features)
    states = head.states(target.model.embed_tokens(ids[:L]), last)
    logits = head.lm_head(head.norm(states)) if head.version == 3 else target.lm_head(states)
    runner = DecoderRunner(engine_head)
    runner.reset(L + 1)
    given, out = engine_head.forward(ids[:L], [runner.next_span(L)], features=features)
    runner.cache.length = L
    assert torch.allclose(out, states, atol=1e-4) and torch.allclose(given, logits, atol=1e-3)
    further = head.states(target.model.embed_tokens(ids), torch.cat([last, states[-1:]]))[-1]
    step = engine_head.forward(ids[L:], [runner.next_span(1)], state=out[-1:])[1][0]
    assert torch.allclose(step, further, atol=1e-4)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_greedy_output_is_the_targets_own_and_its_size_leaves_out_what_is_not_loaded(written, runtime):
    engine = load_unrounded(f"{written.target.folder}+{written.folder}", "eagle", runtime)
    engine._costs |= dict.fromkeys(("eagle", "eagle-chain"), CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001))
    for method, gamma in (("eagle", "auto"), ("eagle-chain", 4)):
        prompt, ids = ids_of(run(engine, method, gamma=gamma, max_new_tokens=32))
        assert ids == generated(written.target.model, prompt, 32)
    ((kind, spec),) = engine.pair.drafts.items()
    loaded = sum(t.numel() for _, t in tensors(written.head))
    assert (kind, spec.layers, spec.hidden_size, spec.parameters) == ("eagle", 1, E, loaded)


class Block(nn.Module):
    """P-EAGLE from transformers' parts: an EAGLE-3 head, plain layers after it, and what its masked slots read."""

    def __init__(self, further: int, norm_before_residual: bool):
        super().__init__()
        self.head = Head(3, 5000.0, bias=False, norm_before_residual=norm_before_residual)
        config = config_of(5000.0)
        self.further = nn.ModuleList(llama.LlamaDecoderLayer(config, i + 1) for i in range(further))
        self.mask_hidden = nn.Parameter(torch.randn(1, 3 * E))
        with torch.no_grad():
            for parameter in self.further.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))

    def logits(self, embedded: torch.Tensor, features: torch.Tensor, masks: int) -> torch.Tensor:
        """embedded [L + masks, E], the last ones of the mask token; features [L, 3·E] → [masks + 1, Vd]"""
        L, head = len(embedded), self.head
        hidden = head.states(embedded, head.fc(torch.cat([features, self.mask_hidden.expand(masks, -1)])))[None]
        mask = torch.full((L, L), float("-inf")).triu(1)[None, None]
        for layer in self.further:
            rotary = head.rotary(hidden, torch.arange(L)[None])
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotary)
        return head.lm_head(head.norm(hidden[0, -masks - 1 :]))


def of_vllm(block: Block) -> tuple[dict, dict]:
    """A token more than the target has is the mask, with a row of the head's own embedding."""
    names, config = specforge(block.head)
    names |= {"mask_hidden": block.mask_hidden.data, "embed_tokens.weight": torch.randn(VOCABULARY + 1, E)}
    return names, config | {"ptd_token_id": VOCABULARY, "num_hidden_layers": 1}


def of_speculators(block: Block) -> tuple[dict, dict]:
    names, config = speculators(block.head)
    for i, layer in enumerate(block.further, start=1):
        names |= {f"layers.{i}.{name}": tensor for name, tensor in layer.state_dict().items()}
    layers = config["transformer_layer_config"] | {"num_hidden_layers": 1 + len(block.further)}
    config |= {"architectures": ["PEagleSpeculator"], "speculators_model_type": "peagle", "mask_token_id": 7}
    return names | {"mask_hidden": block.mask_hidden.data}, config | {"transformer_layer_config": layers}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("layout", "further"), [(of_vllm, 0), (of_speculators, 2)])
@torch.inference_mode()
def test_a_block_head_says_what_transformers_parts_say(target, tmp_path, monkeypatch, runtime, layout, further):
    """A whole block in one pass, and another after its masks were discarded; then a run."""
    torch.manual_seed(5)
    block = Block(further, norm_before_residual=layout is of_speculators)
    names, config = layout(block)
    folder = write(tmp_path / "head", names, config)
    assert list(get_pair(f"{target.folder}+{folder}").drafts) == ["block"]
    engine = load_unrounded(f"{target.folder}+{folder}", "block", runtime)
    embed = target.model.model.embed_tokens
    own = names.get("embed_tokens.weight", embed.weight)
    mask = own[[config.get("ptd_token_id", 7)]]
    states = target.model.model(torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    features = torch.cat([states[layer][0] for layer in (2, 3, 4)], -1)
    runner, drafter = begin(engine, "block", TEXT[:20])
    for known in (20, 22, 31):
        runner.prefill(TEXT[runner.length : known - 1])
        draft = drafter.propose(TEXT[:known], 4, 0)
        embedded = torch.cat([own[TEXT[1:known]], mask.expand(3, -1)])
        expected = block.logits(embedded, features[: known - 1], 3).softmax(-1)
        assert len(draft) == 4 and draft.passes == 1
        assert torch.allclose(draft.q[:, ::2], expected, atol=1e-4) and draft.q[:, 1::2].sum() == 0
        drafter.commit(0)
    monkeypatch.setitem(engine._costs, "block", CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001))
    prompt, written = ids_of(run(engine, "block", gamma=3, max_new_tokens=12))
    assert written == generated(target.model, prompt, 12)


def medusa_tensors(kind: str, words: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    """As Medusa 0.1 or TGI's version 2 name them, or vLLM, where layers have no biases. With a map of words, if these
    are not all."""
    torch.manual_seed(3)
    layer, output = ("blocks.{}.layers.0", "lm_heads.{}") if kind == "vllm" else ("{}.0.linear", "{}.1")
    tensors = {f"{layer.format(k)}.weight": 0.2 * torch.randn(E, E) for k in range(heads)}
    if kind != "vllm":
        tensors |= {f"{layer.format(k)}.bias": 0.2 * torch.randn(E) for k in range(heads)}
    rows = VOCABULARY if kind == "vllm" else len(words)  # vLLM's map chooses among them
    tensors |= {f"{output.format(k)}.weight": torch.randn(rows, E) for k in range(heads if kind != "2" else 0)}
    reduced = {"token_map": words} if kind == "vllm" else {"d2t": words - torch.arange(len(words))}
    return tensors | ({} if len(words) == VOCABULARY else reduced)


@torch.inference_mode()
@pytest.mark.parametrize(
    ("target", "kind", "heads", "words"),
    [("llama", "0.1", 5, range(VOCABULARY)), ("llama", "2", 3, range(VOCABULARY)),
     ("llama-tied", "2", 3, range(VOCABULARY)), ("llama-tied", "0.1", 2, [3, 7, 8, 100]),
     ("llama", "vllm", 3, range(VOCABULARY)), ("llama", "vllm", 2, [3, 7, 8, 100]), ("llama", "2", 2, [3, 7, 8])],
)  # fmt: skip
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_medusa_heads_say_what_the_paper_says(tmp_path, target, kind, heads, words, runtime):
    """Their config.json says two heads, as in the wild, and the file may have more. The last one has some words and no
    rows of the output layer, so they are those of the target's."""
    model, words = model_folder(tmp_path / "target", target), torch.tensor(words)
    tensors = medusa_tensors(kind, words, heads)
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "owner/target"}
    if kind == "vllm":
        config = {"num_heads": 2, "model_type": "medusa", "truncated_vocab_size": len(words), "hidden_size": E}
    write(tmp_path / "heads", tensors, config, MedusaStudent.FILE)
    engine = load_unrounded(f"{tmp_path / 'target'}+{tmp_path / 'heads'}", "medusa", runtime)
    last = model.model(torch.tensor([TEXT[:11]])).last_hidden_state[0, -1:]
    target, drafter = begin(engine, "medusa", TEXT[:12])
    draft = drafter.propose(TEXT[:12], 8, 0)
    assert len(draft) == heads
    for k, q in enumerate(draft.q):
        tensors = {own_name(name): tensor for name, tensor in tensors.items()}
        weight, bias = tensors[f"{k}.0.linear.weight"], tensors.get(f"{k}.0.linear.bias", torch.zeros(E))
        output = tensors.get(f"{k}.1.weight", model.lm_head.weight)
        output = output if len(output) == len(words) else output[words]
        guess = (last + nn.functional.silu(last @ weight.T + bias)) @ output.T
        assert torch.allclose(q[words], guess.softmax(-1)[0], atol=1e-4)
    prompt, written = ids_of(run(engine, "medusa", gamma=3, max_new_tokens=12))
    assert written == generated(model, prompt, 12)
