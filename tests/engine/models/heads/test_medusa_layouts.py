"""Medusa heads in the layouts that the hub has: each says what the paper's formula says."""

import json

import pytest
import torch
from closeness import assert_close
from head_cases import TEXT, E, begin, load_unrounded
from safetensors.torch import save_file
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, generated, ids_of, model_folder, run
from torch.nn.functional import silu

from engine.tools.training.students import MedusaStudent
from engine.weights.head_kinds import own_name


def medusa_tensors(kind: str, words: torch.Tensor, heads: int) -> dict[str, torch.Tensor]:
    """Names them as Medusa 0.1 or TGI's version 2 does, or as vLLM, where layers have no biases. Adds a map of words if
    these are not all."""
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
    (tmp_path / "heads").mkdir()
    save_file(tensors, tmp_path / "heads" / MedusaStudent.FILE)
    (tmp_path / "heads" / "config.json").write_text(json.dumps(config))
    engine = load_unrounded(f"{tmp_path / 'target'}+{tmp_path / 'heads'}", "medusa", runtime)
    last = model.model(torch.tensor([TEXT[:11]])).last_hidden_state[0, -1:]
    target, drafter = begin(engine, "medusa", TEXT[:12])
    draft = drafter.propose(TEXT[:12], 8)
    assert len(draft) == heads
    for k, q in enumerate(draft.q):
        tensors = {own_name(name): tensor for name, tensor in tensors.items()}
        weight, bias = tensors[f"{k}.0.linear.weight"], tensors.get(f"{k}.0.linear.bias", torch.zeros(E))
        output = tensors.get(f"{k}.1.weight", model.lm_head.weight)
        output = output if len(output) == len(words) else output[words]
        guess = (last + silu(last @ weight.T + bias)) @ output.T
        assert_close(q[words], guess.softmax(-1)[0], guess)
    prompt, written = ids_of(run(engine, "medusa", gamma=3, max_new_tokens=12))
    assert written == generated(model, prompt, 12)
