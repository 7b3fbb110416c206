"""Defines the kinds of draft that can be trained, with one interface for `distil`.

Dimension key: B rows, L positions, E the target's hidden size, Vd words a student guesses among, k draft step.
A student's state at position t in step k guesses token t + k + shift. ``reduced``: whether it guesses among its words
only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from engine.config import load_object
from engine.errors import BadInput
from engine.models.heads.eagle_config import EagleConfig, read_config
from engine.models.heads.exit import read_exit_config
from engine.models.tensors.safetensors_reader import TensorReader
from engine.tools.training.eagle3_module import EAGLE_TENSORS, TENSORS, EagleHead
from engine.tools.training.kinds import STUDENTS
from engine.tools.training.teacher import Teacher

Rollout = tuple[tuple[float, int], ...]  # (share of the training, draft steps from there on)


@dataclass
class Texts:
    """ids [B, L]; features [B, L, taps·E]; final [B, L, E]; prompt_len and length [B], None of texts without a prompt.
    draws [B, L]: uniform numbers by which a student chooses the positions that an update trains; None for all."""

    ids: torch.Tensor
    features: Any  # a tensor, or None without taps
    final: torch.Tensor
    prompt_len: Any
    length: Any
    draws: torch.Tensor | None = None


def reply_mask(batch: Texts, ahead: int) -> torch.Tensor:
    """Returns [B, L] bool: positions t whose guess, token t + ahead, was written by the target."""
    t = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None] + ahead
    return (t >= batch.prompt_len[:, None]) & (t < batch.length[:, None])


class Student(nn.Module):
    """The base of all kinds: a head on the target's tapped states, unless a kind says otherwise."""

    RECIPE: ClassVar[str]
    USE: ClassVar[str]
    module: Any
    words: torch.Tensor
    head: torch.Tensor
    norm: torch.Tensor
    rest: torch.Tensor

    shift, reduced, reads_taps = 1, True, True
    FILE = "model.safetensors"  # that holds an exported one
    ADDED: tuple[str, ...] = ()  # first letters of parameters that a draft to begin from may lack

    def __init__(self, module: Any, words: torch.Tensor):
        super().__init__()
        self.module = module
        self.register_buffer("words", words, persistent=False)

    @classmethod
    def new(cls, teacher: Teacher, words: torch.Tensor, scales: torch.Tensor) -> Any:
        return cls(teacher, words)

    @staticmethod
    def rollout(is_continued: bool) -> Rollout | None:
        """Returns how far it drafts during the training; None is the recipe's one step."""
        return None

    @staticmethod
    def layers_read(folder: Path) -> tuple[int, ...] | None:
        """Returns the target's layers that the exported draft in this folder reads; None without a choice."""
        return None

    @staticmethod
    def bias_stored(read: TensorReader) -> int:
        """Returns the rank of the bias by the guess before in an exported draft; 0 without one."""
        return 0

    def tensor_names(self) -> dict[str, str]:
        """Names the tensor of an exported draft that holds each parameter of ``module``."""
        return {name: name for name, _ in self.module.named_parameters()}

    def covers(self, batch: Texts, k: int) -> torch.Tensor | bool:
        """Says at which positions [B, L] draft step k is computed."""
        return True

    def logits(self, states: torch.Tensor, words: torch.Tensor, before: torch.Tensor | None = None) -> torch.Tensor:
        """Returns logits [n, words] of states [n, E]. ``before`` [n]: the draft before each, which a student may read;
        None in the first step."""
        return self.module.logits(states)

    def words_for_update(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns words [n], and the log weights [n] that the normaliser adds to their logits, if any."""
        return self.words, None


def layers_named(config: EagleConfig, folder: Path) -> tuple[int, ...] | None:
    """Returns the target's layers that a head reads. Raises BadInput for a head that a student cannot begin as."""
    if config.fc_norm or config.norm_before_fc or config.norm_output:
        raise BadInput(f"The head in {folder} norms its states (EAGLE-3.1); start from its WORK/eagle instead.")
    return config.layers


class EagleStudent(Student):
    """Reads the target's features; ``words`` [Vd]: the target ids of its reduced vocabulary."""

    USE = "EAGLE-3 head: one decoder layer over the target's hidden states (layout of vLLM and SGLang)."
    RECIPE = " Reads the states entering layers {taps}; rollouts of {rollout} steps as the run went on."

    @staticmethod
    def new(teacher: Teacher, words: torch.Tensor, scales: torch.Tensor, is_normed: bool = False) -> "EagleStudent":
        """Returns a head that begins as the target's last layer. ``is_normed``: as in EAGLE-3.1."""
        module = EagleHead(teacher.config, teacher.embed, teacher.head[words], len(scales), is_normed)
        start_from_target(module, teacher, scales)
        if is_normed:  # so that `fc` reads what it would have
            module.fc_norm.data.copy_(scales[:, None].expand_as(module.fc_norm))
        return EagleStudent(module, words)

    @staticmethod
    def rollout(is_continued: bool) -> Rollout:
        """Lengthens the rollout during the training, sooner for a head that was trained before."""
        return ((0.0, 1), (0.12, 2), (0.7, 3)) if is_continued else ((0.0, 1), (0.55, 2), (0.8, 3))

    @staticmethod
    def layers_read(folder: Path) -> tuple[int, ...] | None:
        return layers_named(read_config(folder), folder)

    def tensor_names(self) -> dict[str, str]:
        return EAGLE_TENSORS

    def states(self, batch: Texts, steps: int) -> list[torch.Tensor]:
        return self.module.rollout(batch.ids, batch.features, steps)


class MedusaStudent(Student):
    """Medusa-1 heads (Cai et al. 2024) on the target's last state after its norm; their output layer is the target's
    rows of ``words`` [Vd], and stays as it is. Draft step k is head k: it does not see the tokens between."""

    shift, reduced, reads_taps = 1, True, False
    FILE = "medusa_lm_head.safetensors"  # in TGI's layout and in Medusa 0.1's
    HEADS = 3  # a fourth would be right too rarely to pay
    USE = (
        "Medusa-1 heads on the target's last hidden state, with rows of its own output layer (layout of TGI's version "
        "2, and a map of the words as an EAGLE-3 head has it)."
    )
    RECIPE = " {rollout} heads trained together, each counting {decay:g} of the one before it."

    @staticmethod
    def rollout(is_continued: bool) -> Rollout:
        return ((0.0, MedusaStudent.HEADS),)

    def tensor_names(self) -> dict[str, str]:
        return {name: name.replace(".", ".0.linear.", 1) for name, _ in self.module.named_parameters()}

    def __init__(self, teacher: Teacher, words: torch.Tensor):
        E = teacher.config.hidden_size
        super().__init__(nn.ModuleList(nn.Linear(E, E) for _ in range(self.HEADS)), words)
        self.eps = teacher.config.rms_norm_eps
        for parameter in self.module.parameters():
            nn.init.zeros_(parameter)  # each begins as the target's own guess for the next token
        self.register_buffer("norm", teacher.norm, persistent=False)
        self.register_buffer("head", teacher.head[words], persistent=False)

    def states(self, batch: Texts, steps: int) -> list[torch.Tensor]:
        last = F.rms_norm(batch.final, self.norm.shape, self.norm, self.eps)
        return [last + F.silu(linear(last)) for linear in self.module[:steps]]

    def logits(self, states: torch.Tensor, words: torch.Tensor, before: torch.Tensor | None = None) -> torch.Tensor:
        return F.linear(states, self.head)


class ExitHead(nn.Module):
    """The head on the state after the target's first layers; ``inner``: size of its gated layer, which begins as
    nothing, so that the head begins as the target's own norm and output layer."""

    def __init__(self, norm: torch.Tensor, eps: float, inner: int):
        super().__init__()
        E, self.eps = len(norm), eps
        self.gate, self.up, self.down = (nn.Linear(*s, bias=False) for s in ((E, inner), (E, inner), (inner, E)))
        self.norm_in, self.norm = nn.Parameter(torch.ones(E)), nn.Parameter(norm.clone())
        nn.init.zeros_(self.down.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.rms_norm(x, self.norm.shape, self.norm_in, self.eps)
        x = x + self.down(F.silu(self.gate(x)) * self.up(x))
        return F.rms_norm(x, self.norm.shape, self.norm, self.eps)


class ExitStudent(Student):
    """An exit head on the one state that it reads; its output layer is the target's rows of ``words`` [Vd], and stays
    as it is."""

    shift, reduced, reads_taps = 0, True, True
    INNER = 256
    USE = (
        "Exit head on the state after the target's first layers, with rows of its own output layer (layout of "
        "`engine/models/heads/exit.py`; the map of the words is like an EAGLE-3 head's)."
    )
    RECIPE = " Reads the state after {taps} layers; the layers themselves are not trained."

    @staticmethod
    def layers_read(folder: Path) -> tuple[int, ...]:
        return (read_exit_config(folder).exit_layer,)

    def __init__(self, teacher: Teacher, words: torch.Tensor):
        super().__init__(ExitHead(teacher.norm, teacher.config.rms_norm_eps, self.INNER), words)
        self.register_buffer("head", teacher.head[words], persistent=False)

    def states(self, batch: Texts, steps: int) -> list[torch.Tensor]:
        return [self.module(batch.features)]

    def logits(self, states: torch.Tensor, words: torch.Tensor, before: torch.Tensor | None = None) -> torch.Tensor:
        return F.linear(states, self.head)


class LmStudent(Student):
    """A small independent Llama, trained with a sampled softmax: all frequent ``words`` [Vd] plus a random 1,024 of the
    others in each update, importance-weighted."""

    shift, reduced, reads_taps = 0, False, False
    SAMPLED = 1024
    USE = "Independent draft: a Llama checkpoint of its own, also usable as transformers' `assistant_model`."
    RECIPE = ""

    def __init__(self, model: LlamaForCausalLM, words: torch.Tensor):
        super().__init__(model, words)
        rest = torch.ones(model.config.vocab_size, dtype=torch.bool)
        rest[words] = False
        self.register_buffer("rest", rest.nonzero()[:, 0], persistent=False)

    def states(self, batch: Texts, steps: int) -> list[torch.Tensor]:
        return [self.module.model(input_ids=batch.ids, use_cache=False).last_hidden_state]

    def logits(self, states: torch.Tensor, words: torch.Tensor, before: torch.Tensor | None = None) -> torch.Tensor:
        return F.linear(states, self.module.lm_head.weight[words])

    def words_for_update(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        if len(self.rest) <= self.SAMPLED:
            return torch.cat([self.words, self.rest]), None
        some = self.rest[torch.randperm(len(self.rest), generator=generator)[: self.SAMPLED]]
        weight = torch.zeros(len(self.words) + self.SAMPLED)
        weight[len(self.words) :] = torch.tensor(len(self.rest) / self.SAMPLED).log()
        return torch.cat([self.words, some]), weight.to(self.words.device)


def student_class(kind: str) -> type[Student]:
    """Returns the class for "lm" or a kind of head. ``new(teacher, words, scales)`` makes a head's student, with the
    scale of each tapped state; ``rollout(is_continued)`` is how far it drafts, None as the recipe has it; ``USE`` and
    ``RECIPE`` are sentences of its model card."""
    return load_object(STUDENTS[kind])


def start_from_target(module: EagleHead, teacher: Teacher, scales: torch.Tensor) -> None:
    """Initialises a head: the half that reads hidden states takes the weights of the target's last layer, the embedding
    half starts small, and `fc` passes on the highest tap. scales [taps]: rms of each tap."""
    E, layer = teacher.config.hidden_size, teacher.layer
    with torch.no_grad():
        module.fc.weight.normal_(0, 0.02).div_(scales.repeat_interleave(E)[None] / scales[-1])
        module.fc.weight[:, -E:] += torch.eye(E)
        for name in ("q", "k", "v"):
            half = layer[f"self_attn.{name}_proj.weight"]
            embedded = torch.randn_like(half) * half.std() * 0.5
            getattr(module, name).weight.copy_(torch.cat([embedded, half], 1))
        for name in ("o", "gate", "up", "down"):
            getattr(module, name).weight.copy_(layer[TENSORS[f"{name}.weight"]])
        module.norm_hidden.copy_(layer["input_layernorm.weight"])
        module.norm_mid.copy_(layer["post_attention_layernorm.weight"])
        module.norm.copy_(teacher.norm)


@dataclass(frozen=True)
class LmShape:
    """Sizes of the independent draft; small enough that one step costs a tenth of the target's."""

    width: int = 192
    layers: int = 4
    heads: int = 3
    inner: int = 448


def new_lm(teacher, words: torch.Tensor, shape: LmShape, seed: int) -> LmStudent:
    """Returns a draft initialised from the target: its embedding, projected onto the principal directions of its
    frequent words."""
    c = teacher.config
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=c.vocab_size, hidden_size=shape.width, intermediate_size=shape.inner,
        num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.heads,
        head_dim=shape.width // shape.heads, max_position_embeddings=c.max_position_embeddings,
        rms_norm_eps=c.rms_norm_eps, rope_parameters=dict(c.rope_parameters), tie_word_embeddings=True,
        bos_token_id=c.bos_token_id, eos_token_id=c.eos_token_id, pad_token_id=c.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        rows = teacher.embed.float()
        centred = rows[words] - rows[words].mean(0)
        directions = torch.linalg.svd(centred, full_matrices=False).Vh[: shape.width]  # [width, E]
        projected = (rows - rows[words].mean(0)) @ directions.T
        if projected.shape[1] < shape.width:  # a narrow target, or few words, has fewer directions
            more = shape.width - projected.shape[1]
            projected = torch.cat([projected, projected.std() * torch.randn(len(rows), more, device=rows.device)], 1)
        projected *= 0.5 / projected[words].pow(2).mean().sqrt() * shape.width**-0.25
        model.model.embed_tokens.weight.copy_(projected)
        model.model.norm.weight.fill_(0.25)  # otherwise its first guess is the last word, with high certainty
    return LmStudent(model, words)
