"""A block drafter after DFlash (arXiv 2602.06036) as a module to train, and its student.

A few layers whose queries come from a block alone: the last committed token, then masks. The target's fused features of
all tokens before it go through every layer's own k and v projections and are what the block attends to, beside itself:
all its slots see each other, and slot i guesses the token at its own place.

Dimension key: B rows, L positions, E hidden size, A anchors of a row, W slots of a block, H query heads, K key/value
heads, D head size.
"""

import torch
import torch.nn.functional as F
from torch import nn

from engine.models.attention import apply_rotary, rotary_frequencies, rotary_tables
from engine.training.students import Batch, Rollout, Student, strongest
from engine.training.teacher import Teacher


class DFlashLayer(nn.Module):
    """One layer of the block; queries and keys are normed."""

    def __init__(self, config, inner: int):
        super().__init__()
        E, self.eps = config.hidden_size, config.rms_norm_eps
        self.D = getattr(config, "head_dim", None) or E // config.num_attention_heads
        H, K = config.num_attention_heads * self.D, config.num_key_value_heads * self.D
        self.q, self.k, self.v = (nn.Linear(E, size, bias=False) for size in (H, K, K))
        self.o = nn.Linear(H, E, bias=False)
        self.gate, self.up = (nn.Linear(E, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, E, bias=False)
        self.norm_in, self.norm_mid = (nn.Parameter(torch.ones(E)) for _ in range(2))
        self.norm_q, self.norm_k = (nn.Parameter(torch.ones(self.D)) for _ in range(2))

    def _heads(self, x, part, norm, rotary):
        x = part(x).unflatten(-1, (-1, self.D)).transpose(1, 2)
        return x if norm is None else apply_rotary(F.rms_norm(x, (self.D,), norm, self.eps), *rotary)

    def forward(self, x, context, rotary, context_rotary, mask):
        """x [B, A·W, E], context [B, L, E] → [B, A·W, E]"""
        E = x.shape[-1]
        normed = F.rms_norm(x, (E,), self.norm_in, self.eps)
        q = self._heads(normed, self.q, self.norm_q, rotary)
        own = [self._heads(normed, self.k, self.norm_k, rotary), self._heads(normed, self.v, None, None)]
        above = [self._heads(context, self.k, self.norm_k, context_rotary), self._heads(context, self.v, None, None)]
        k, v = (torch.cat(both, 2) for both in zip(above, own, strict=True))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + self.o(out.transpose(1, 2).flatten(2))
        normed = F.rms_norm(x, (E,), self.norm_mid, self.eps)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class DFlashHead(nn.Module):
    def __init__(self, config, embed, head, taps: int, layers: int, inner: int, mask_token: int):
        super().__init__()
        E, self.eps, self.mask_token = config.hidden_size, config.rms_norm_eps, mask_token
        self.register_buffer("embed", embed, persistent=False)
        self.register_buffer("head", head, persistent=False)
        self.fc = nn.Linear(taps * E, E, bias=False)
        self.norm_fused, self.norm = (nn.Parameter(torch.ones(E)) for _ in range(2))
        self.layers = nn.ModuleList(DFlashLayer(config, inner) for _ in range(layers))
        self.D = self.layers[0].D
        frequencies, self.scaling = rotary_frequencies(config, self.D, "cpu")
        self.register_buffer("inverse", frequencies, persistent=False)

    def blocks(self, ids, features, anchors, slots: int):
        """ids [B, L], features [B, L, taps·E], anchors [B, A]: the last position with features of each block →
        [B, A, slots, E] of the masks."""
        (B, L), A, W = ids.shape, anchors.shape[1], slots + 1
        E = self.embed.shape[1]
        context = F.rms_norm(self.fc(features), (E,), self.norm_fused, self.eps)
        pending = F.pad(ids[:, 1:], (0, 1)).gather(1, anchors)
        block = torch.cat([pending[..., None], ids.new_full((B, A, slots), self.mask_token)], 2)
        x = F.embedding(block.flatten(1), self.embed)
        places = anchors[..., None] + 1 + torch.arange(W, device=ids.device)
        rotary = self._rotary(places.flatten(1), x.dtype)
        context_rotary = self._rotary(torch.arange(L, device=ids.device).expand(B, L), x.dtype)
        starts = anchors.repeat_interleave(W, 1)
        seen = torch.arange(L, device=ids.device) <= starts[..., None]
        number = torch.arange(A, device=ids.device).repeat_interleave(W)
        same = (number[None] == number[:, None]).expand(B, A * W, A * W)
        mask = torch.cat([seen, same], 2)[:, None]
        for layer in self.layers:
            x = layer(x, context, rotary, context_rotary, mask)
        return x.view(B, A, W, E)[:, :, 1:]

    def _rotary(self, positions, dtype):
        tables = rotary_tables(positions.reshape(-1), self.inverse, self.scaling, dtype)
        return [table.view(len(positions), 1, -1, self.D) for table in tables]

    def logits(self, hidden):
        return F.linear(F.rms_norm(hidden, self.norm.shape, self.norm, self.eps), self.head)


class DFlashStudent(Student):
    shift, reduced, reads_taps = 1, True, True
    SLOTS, LAYERS, INNER, SHARE = 5, 2, 512, 0.35
    USE = "DFlash."
    RECIPE = ""

    @staticmethod
    def new(teacher: Teacher, words: torch.Tensor, scales: torch.Tensor) -> "DFlashStudent":
        student = DFlashStudent(teacher, words, len(scales))
        module, layer, E = student.module, teacher.layer, teacher.config.hidden_size
        with torch.no_grad():
            module.fc.weight.normal_(0, 0.02).div_(scales.repeat_interleave(E)[None] / scales[-1])
            module.fc.weight[:, -E:] += torch.eye(E)
            module.norm_fused.copy_(layer["input_layernorm.weight"])
            for one in module.layers:
                for name in ("q", "k", "v", "o"):
                    getattr(one, name).weight.copy_(layer[f"self_attn.{name}_proj.weight"])
                gate, up, down = (layer[f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
                units = strongest(gate, up, down, one.gate.out_features)
                (
                    one.gate.weight.copy_(gate[units]),
                    one.up.weight.copy_(up[units]),
                    one.down.weight.copy_(down[:, units]),
                )
                one.norm_in.copy_(layer["input_layernorm.weight"])
                one.norm_mid.copy_(layer["post_attention_layernorm.weight"])
            module.norm.copy_(teacher.norm)
        return student

    @staticmethod
    def rollout(is_continued: bool) -> Rollout:
        return ((0.0, DFlashStudent.SLOTS),)

    def __init__(self, teacher: Teacher, words: torch.Tensor, taps: int):
        super().__init__()
        known, V = {*words.tolist()}, teacher.config.vocab_size
        unused = next((i for i in range(V) if i not in known), V - 1)
        inner = min(self.INNER, teacher.config.intermediate_size)
        self.module = DFlashHead(teacher.config, teacher.embed, teacher.head[words], taps, self.LAYERS, inner, unused)
        self.register_buffer("words", words, persistent=False)

    def covers(self, batch: Batch, k: int) -> torch.Tensor:
        t = torch.arange(batch.ids.shape[1], device=batch.ids.device)[None] + self.shift + 1
        drafted = (t >= batch.prompt_len[:, None]) & (t < batch.length[:, None])
        return drafted if batch.draws is None else drafted & (batch.draws < self.SHARE)

    def states(self, batch: Batch, steps: int) -> list[torch.Tensor]:
        covered = self.covers(batch, 1)
        anchors = (~covered).float().argsort(dim=1, stable=True)[:, : max(1, int(covered.sum(1).max()))]
        blocks = self.module.blocks(batch.ids, batch.features, anchors, steps)
        B, L, E = *batch.ids.shape, blocks.shape[-1]
        zeros = blocks.new_zeros(B, L, E)
        return [zeros.scatter(1, anchors[..., None].expand(-1, -1, E), blocks[:, :, i]) for i in range(steps)]

    def logits(self, states, words):
        return self.module.logits(states)

    def words_for_update(self, generator):
        return self.words, None
