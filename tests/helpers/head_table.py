"""The layouts in which heads of EAGLE are published, each with the reference that it is compared with."""

import json
import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from safetensors.torch import save_file
from tiny_models import LINEAR, LLAMA3, YARN, seeded
from tiny_pairs import VOCABULARY
from torch import nn
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen3 import modeling_qwen3 as qwen3

E, H, K, D, INNER, LAYERS, WORDS, L = 64, 4, 2, 16, 48, 7, VOCABULARY // 2, 40
KNOWN = torch.arange(0, VOCABULARY, 2)
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 64, "factor": 4.0,
            "short_factor": [1.5] * (D // 2), "long_factor": [3.0] * (D // 2)}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What a reference is made of. ``fed``: the width of the target's states."""

    version: int = 3
    family: str = "llama"
    rope: dict = field(default_factory=lambda: PLAIN)
    layers: int = 1
    window: int | None = None
    width: int = E
    head_dim: int = D
    words: int = WORDS
    norms: str = ""
    norm_output: bool = False
    norm_before_residual: bool = False
    bias: tuple[str, ...] = ()
    eps: float = 1e-6
    own_embedding: bool = False


class Reference(nn.Module):
    """A head from transformers' parts, under the names of the speculators library."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape, width = shape, shape.width
        kind, self.parts = (Qwen3Config, qwen3) if shape.family == "qwen3" else (LlamaConfig, llama)
        prefix = "Qwen3" if shape.family == "qwen3" else "Llama"
        config = kind(
            hidden_size=width, intermediate_size=INNER, num_attention_heads=H, num_key_value_heads=K,
            head_dim=shape.head_dim, num_hidden_layers=1, vocab_size=VOCABULARY, rms_norm_eps=shape.eps,
            rope_parameters=dict(shape.rope), max_position_embeddings=256, mlp_bias="mlp" in shape.bias,
        )  # fmt: skip
        config._attn_implementation = "eager"
        norm = lambda size=width: llama.LlamaRMSNorm(size, shape.eps)  # noqa: E731
        self.rotary, self.layers = llama.LlamaRotaryEmbedding(config), nn.ModuleList()
        for i in range(shape.layers):
            layer, inputs = nn.Module(), 2 * width if shape.version == 3 and i == 0 else width
            layer.self_attn = getattr(self.parts, f"{prefix}Attention")(config, 0)
            for name, heads in (("q", H), ("k", K), ("v", K)):
                linear = nn.Linear(inputs, heads * shape.head_dim, bias="qkv" in shape.bias)
                setattr(layer.self_attn, f"{name}_proj", linear)
            layer.mlp = getattr(self.parts, f"{prefix}MLP")(config)
            layer.post_attention_layernorm = norm()
            if i or shape.version == 3:
                layer.input_layernorm = norm()
            if i == 0 and shape.version == 3:
                layer.hidden_norm = norm()
            self.layers.append(layer)
        self.fc = nn.Linear(3 * E if shape.version == 3 else 2 * width, width, bias="fc" in shape.bias)
        if shape.version == 3:
            self.norm, self.lm_head = norm(), nn.Linear(width, shape.words, bias=False)
        if shape.norms == "each":
            self.fc_norm = nn.ModuleList(norm(E) for _ in range(3))
        if shape.norms == "all":
            self.input_norm = norm(3 * E)
        if shape.own_embedding:
            self.embed_tokens = nn.Embedding(VOCABULARY, width)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        """The target's states [L, 3·E] as the first layer reads them."""
        if self.shape.norms == "each":
            parts = zip(self.fc_norm, features.chunk(3, -1), strict=True)
            features = torch.cat([norm(part) for norm, part in parts], -1)
        return self.fc(self.input_norm(features) if self.shape.norms == "all" else features)

    def states(self, embedded: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """embedded and ``last`` [L, width] → the outgoing states."""
        first = self.layers[0]
        if self.shape.version == 3:
            normed = first.hidden_norm(last)
            residual = normed if self.shape.norm_before_residual else last
            x = torch.cat([first.input_layernorm(embedded), normed], -1)
        else:
            x = residual = self.fc(torch.cat([embedded, last], -1))
        for i, layer in enumerate(self.layers):
            if i:
                x, residual = layer.input_layernorm(residual), residual
            residual = residual + layer.self_attn(x[None], self.rotary(x[None], torch.arange(len(x))[None]),
                                                  self.mask(len(x)))[0][0]  # fmt: skip
            residual = residual + layer.mlp(layer.post_attention_layernorm(residual))
        return residual

    def mask(self, length: int) -> torch.Tensor:
        steps = torch.arange(length)[:, None] - torch.arange(length)
        seen = (steps >= 0) & (steps < (self.shape.window or length))
        return torch.zeros(length, length).masked_fill(~seen, float("-inf"))[None, None]


def renamed(*pairs: tuple[str, str]):
    """A layout with other names of tensors; an empty one leaves them out."""

    def layout(tensors: dict, config: dict) -> None:
        for theirs, ours in pairs:
            for name in [name for name in tensors if re.search(theirs, name)]:
                tensor = tensors.pop(name)
                if ours is not None:
                    tensors[re.sub(theirs, ours, name)] = tensor

    return layout


def says(**fields):
    """A layout whose config.json has these fields, too; None leaves one out."""

    def layout(tensors: dict, config: dict) -> None:
        config.update(fields)
        for name in [name for name, value in fields.items() if value is None]:
            del config[name]

    return layout


def nested(*left_out: str):
    """The layout of the speculators library, which leaves out what equals its class's defaults."""

    def layout(tensors: dict, config: dict) -> None:
        layer = {name: config.pop(name) for name in [*config] if name not in ("architectures", "draft_vocab_size")}
        layer = {name: value for name, value in layer.items() if name not in left_out}
        config["speculators_model_type"], config["transformer_layer_config"] = "eagle3", layer
        config["speculators_config"] = {"verifier": {"name_or_path": "owner/target"}}

    return layout


def cast(name: str, dtype: torch.dtype):
    def layout(tensors: dict, config: dict) -> None:
        tensors[name] = tensors[name].to(dtype)

    return layout


def adds(**tensors: torch.Tensor):
    return lambda there, config: there.update({name.replace("__", "."): tensor for name, tensor in tensors.items()})


MIDLAYER, PREFIX = renamed((r"^layers\.0\.", "midlayer.")), renamed((r"^(?!lm_head|d2t|t2d)", "model."))
SLIDING = says(sliding_window=8, layer_types=["sliding_attention"])
NORM_NAMES = [(f"^fc_norm.{i}", f"aux_norm_{name}") for i, name in enumerate(("low", "mid", "high"))]
TABLE = {
    "safeailab": (Shape(), MIDLAYER),
    "model. before its names": (Shape(), PREFIX),
    "model.midlayer": (Shape(), MIDLAYER, PREFIX),
    "layers.0": (Shape(),),
    "compiled": (Shape(), renamed(("^(?!lm_head)", "_orig_mod."))),
    "wrapped by DDP": (Shape(), MIDLAYER, renamed(("^(?!lm_head)", "module."))),
    "its own eps": (Shape(eps=0.3), says(rms_norm_eps=0.3)),
    "its own base": (Shape(rope={**PLAIN, "rope_theta": 777.0}), says(rope_theta=777.0)),
    "llama3 rope": (Shape(rope=LLAMA3), says(rope_theta=10000.0, rope_scaling=dict(LLAMA3))),
    "yarn, in rope_parameters": (Shape(rope=YARN), says(rope_parameters=YARN)),
    "linear rope, its older name": (Shape(rope=LINEAR), says(rope_scaling={"type": "linear", "factor": 2.0})),
    "longrope": (Shape(rope=LONGROPE), says(rope_scaling=LONGROPE, max_position_embeddings=256)),
    "mrope": (Shape(), says(rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]})),
    "q and k norms": (Shape(family="qwen3", eps=0.3), MIDLAYER, says(model_type="qwen3", rms_norm_eps=0.3)),
    "speculators, Llama": (Shape(norm_before_residual=True), nested(), says(norm_before_residual=True)),
    "speculators, Qwen3": (
        Shape(family="qwen3", head_dim=128), says(model_type="qwen3"), nested("head_dim", "rms_norm_eps", "hidden_act"),
    ),
    "biases": (Shape(bias=("fc", "qkv", "mlp")), says(attention_bias=True, bias=True, mlp_bias=True)),
    "a bias that config.json names and nobody trained": (Shape(), says(attention_bias=True)),
    "its own embedding": (Shape(own_embedding=True),),
    "another width": (Shape(own_embedding=True, width=32), says(hidden_size=32, target_hidden_size=E)),
    "all words, with empty maps": (
        Shape(words=VOCABULARY), says(draft_vocab_size=VOCABULARY),
        adds(d2t=torch.zeros(VOCABULARY, dtype=torch.long), t2d=torch.zeros(VOCABULARY).bool()),
    ),
    "all words": (Shape(words=VOCABULARY), renamed(("d2t|t2d", None)), says(draft_vocab_size=None)),
    "all words of the target's output layer": (
        Shape(words=VOCABULARY), renamed(("d2t|t2d|lm_head", None)), says(draft_vocab_size=None),
    ),
    "some words of the target's output layer": (Shape(), renamed(("lm_head", None))),
    "tied to its own embedding": (
        Shape(own_embedding=True, words=VOCABULARY), renamed(("d2t|t2d|lm_head", None)),
        says(tie_word_embeddings=True, draft_vocab_size=None),
    ),
    "an output layer beside tie_word_embeddings": (Shape(own_embedding=True), says(tie_word_embeddings=True)),
    "words counted by the map": (Shape(), says(draft_vocab_size=None)),
    "a map in int32": (Shape(), cast("d2t", torch.int32), cast("t2d", torch.int64)),
    "no map of the target's words": (Shape(), renamed(("t2d", None))),
    "two layers": (Shape(layers=2), says(num_hidden_layers=2)),
    "layers counted by the tensors": (Shape(layers=3), says(num_hidden_layers=None)),
    "two layers of SGLang": (
        Shape(layers=2), says(num_hidden_layers=2), renamed((r"^layers\.1\.input_layernorm", "layers.1.hidden_norm")),
    ),
    "norms of EAGLE-3.1": (Shape(norms="each", norm_output=True), says(fc_norm=True, norm_output=True)),
    "norms by SGLang's older names": (Shape(norms="each"), says(use_aux_norm=True), renamed(*NORM_NAMES)),
    "one norm, in eagle_config": (Shape(norms="all"), says(eagle_config={"norm_before_fc": True})),
    "a window": (Shape(window=8), SLIDING),
    "a window of Qwen3's": (
        Shape(window=8, family="qwen3"),
        says(model_type="qwen3", sliding_window=8, use_sliding_window=True, max_window_layers=0),
    ),
    "a window of two layers": (
        Shape(window=5, layers=2), says(num_hidden_layers=2, sliding_window=5, layer_types=["sliding_attention"] * 2),
    ),
    "a window that its class does not read": (Shape(), says(sliding_window=8, use_sliding_window=False)),
    "a window that is off": (
        Shape(family="qwen3"), says(model_type="qwen3", sliding_window=8, layer_types=["sliding_attention"]),
    ),
    "ModelOpt's eagle_config": (
        Shape(), says(eagle_config={"use_aux_hidden_state": True, "use_last_layernorm": True, "parallel_draft_step": 1,
                                    "eagle_aux_hidden_state_layer_ids": [], "next_layer_regular": True}),
    ),
    "fields and tensors without effect": (
        Shape(), says(architectures="LlamaForCausalLMEagle3", _name_or_path="x", id2label={"0": "a"}, temperature=0.6,
                      attention_dropout=0.1, auto_map={"AutoModel": "x"}, tie_weights=None, pretraining_tp=1),
        adds(layers__0__self_attn__rotary_emb__inv_freq=torch.ones(8), verifier_norm__weight=torch.ones(E)),
    ),
    "EAGLE-1": (Shape(version=1, bias=("fc",)), says(bias=True)),
    "EAGLE-1 without a bias": (Shape(version=1), says(bias=False)),
    "EAGLE-1, biases, model. before its names": (Shape(version=1, bias=("fc", "qkv")), PREFIX),
    "EAGLE-1 with an embedding of its own": (Shape(version=1, own_embedding=True),),
    "EAGLE-1, two layers": (Shape(version=1, layers=2), says(num_hidden_layers=2)),
    "EAGLE-1, llama3 rope": (Shape(version=1, rope=LLAMA3), says(rope_scaling=dict(LLAMA3))),
    "EAGLE-1, an output layer that nobody reads": (Shape(version=1), adds(lm_head__weight=torch.ones(VOCABULARY, E))),
}  # fmt: skip


def write(folder, shape: Shape, *layouts):
    """Writes a head with random weights in these layouts; returns its reference."""
    with seeded(3):
        reference = Reference(shape)
    tensors = {name: tensor for name, tensor in reference.state_dict().items() if "inv_freq" not in name}
    config = {
        "architectures": ["LlamaForCausalLM" + ("Eagle3" if shape.version == 3 else "")], "model_type": "llama",
        "hidden_size": E, "intermediate_size": INNER, "num_attention_heads": H, "num_key_value_heads": K,
        "num_hidden_layers": 1, "vocab_size": VOCABULARY, "hidden_act": "silu",
    }  # fmt: skip
    if shape.width % (H * shape.head_dim):
        config["head_dim"] = shape.head_dim
    if shape.version == 3:
        known = torch.zeros(VOCABULARY, dtype=torch.bool)
        tensors |= {"d2t": KNOWN - torch.arange(WORDS), "t2d": known.index_fill(0, KNOWN, True)}
        config["draft_vocab_size"] = WORDS
    for layout in layouts:
        layout(tensors, config)
    folder.mkdir()
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return SimpleNamespace(reference=reference, tensors=tensors)
