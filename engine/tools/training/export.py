"""Exports a trained student as safetensors in 16 bits with a config, in a temporary folder that is then renamed.

`lm` becomes a transformers checkpoint with the target's tokenizer; `eagle` and `block` the layout of vLLM; `medusa` the
layout of TGI's version 2 with a map of the words; `exit` the layout that `engine/models/heads/exit.py` reads.
"""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import save_file

from engine.config import load_object
from engine.errors import BadInput
from engine.files import work_folder
from engine.models.decoder.attention import rope
from engine.tools.training.kinds import EXPORTERS
from engine.tools.training.model_card import TAG
from engine.tools.training.teacher import Teacher
from engine.weights.head_config import LAYER_IDS
from engine.weights.specs import ModelSpec

_EAGLE3 = "LlamaForCausalLMEagle3"  # the name of the architecture in vLLM and SGLang
_TOKENIZER = (  # copied if the target has them
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json", "generation_config.json",
)  # fmt: skip


def vocabulary_map(words: torch.Tensor, vocabulary: int) -> dict[str, torch.Tensor]:
    """Returns "d2t" [Vd] (target id − draft id) and "t2d" [V] (whether the draft has the word) of words [Vd], which are
    target ids."""
    known = torch.zeros(vocabulary, dtype=torch.bool)
    known[words] = True
    return {"d2t": words - torch.arange(len(words)), "t2d": known}


def head(kind: str, *of_a_head) -> None:
    """Writes a trained head; the other arguments are as in `medusa`, as for each kind in EXPORTERS."""
    load_object(EXPORTERS[kind])(*of_a_head)


def eagle(student, teacher: Teacher, taps: tuple[int, ...], target: ModelSpec | None, folder: Path, card: str) -> None:
    """Writes the head with its words' rows of the target's output layer; the embedding is not included."""
    tensors = _tensors(student) | {"lm_head.weight": student.module.head}
    norms = () if student.module.fc_norm is None else student.module.fc_norm
    tensors |= {f"fc_norm.{i}.weight": norm for i, norm in enumerate(norms)}
    _write_eagle(student, teacher, tensors, _eagle_config(student, teacher, taps), folder, card)


def block(student, teacher: Teacher, taps: tuple[int, ...], target: ModelSpec | None, folder: Path, card: str) -> None:
    """Writes the head with its mask. The words' rows of the output layer are read from the target, where that has them
    beside its embedding; else they are added."""
    module = student.module
    tensors = _tensors(student) | {"mask_hidden": module.mask_hidden[None]}
    if teacher.head is not teacher.embed:
        tensors |= {"lm_head.weight": module.head}
    config = _eagle_config(student, teacher, taps)
    config |= {"parallel_drafting": True, "ptd_token_id": module.mask_token, "num_depths": student.SLOTS}
    config["num_hidden_layers"] += len(module.further)
    if module.bias is not None:
        config |= {"markov_rank": module.bias.w1.shape[1], "markov_head_type": "vanilla"}
    _write_eagle(student, teacher, tensors, config, folder, card)


def _tensors(student) -> dict[str, torch.Tensor]:
    return {theirs: student.module.get_parameter(ours) for ours, theirs in student.tensor_names().items()}


def _eagle_config(student, teacher: Teacher, taps: tuple[int, ...]) -> dict:
    c, module = teacher.config, student.module
    return {
        "architectures": [_EAGLE3], "model_type": "llama", "hidden_size": c.hidden_size,
        "intermediate_size": module.gate.weight.shape[0], "num_hidden_layers": 1, "num_attention_heads": module.H,
        "num_key_value_heads": module.K, "head_dim": module.D, "vocab_size": c.vocab_size,
        "draft_vocab_size": len(student.words), "rms_norm_eps": c.rms_norm_eps, "hidden_act": c.hidden_act,
        "rope_theta": c.rope_parameters["rope_theta"], "rope_scaling": _scaling(c), "attention_bias": False,
        "mlp_bias": False, "max_position_embeddings": c.max_position_embeddings, "tie_word_embeddings": False,
        "bos_token_id": c.bos_token_id, "eos_token_id": c.eos_token_id, "torch_dtype": "bfloat16",
        **({} if module.fc_norm is None else {"fc_norm": True, "norm_output": True}),
        # The states that enter these layers: vLLM (0.32) reads the flat list, SGLang (0.5.23) the other and adds 1.
        LAYER_IDS: list(taps),
        "eagle_config": {"use_aux_hidden_state": True, LAYER_IDS: [layer - 1 for layer in taps]},
    }  # fmt: skip


def _write_eagle(student, teacher: Teacher, tensors: dict, config: dict, folder: Path, card: str) -> None:
    """Writes the tensors in 16 bits, and the map of the student's words."""
    tensors = {name: t.detach().to("cpu", torch.bfloat16).contiguous() for name, t in tensors.items()}
    tensors |= vocabulary_map(student.words.cpu(), teacher.config.vocab_size)
    replace_folder(folder, lambda work: _write_head(work, student.FILE, tensors, config, card))


def medusa(student, teacher: Teacher, taps: tuple[int, ...], target: ModelSpec, folder: Path, card: str) -> None:
    """Writes the heads and the map of their words."""
    config = {
        "medusa_num_heads": len(student.module), "medusa_num_layers": 1, "vocab_size": teacher.config.vocab_size,
        "base_model_name_or_path": target.repo or target.name, "torch_dtype": "float16",
    }  # fmt: skip
    _write_small(student, teacher, config, folder, card)


def exit_head(
    student, teacher: Teacher, taps: tuple[int, ...], target: ModelSpec | None, folder: Path, card: str
) -> None:
    """Writes the head that reads the state after as many layers as ``taps`` names, and the map of its words."""
    c = teacher.config
    config = {
        "exit_layer": taps[0], "hidden_size": c.hidden_size, "intermediate_size": student.INNER,
        "vocab_size": c.vocab_size, "torch_dtype": "float16",
    }  # fmt: skip
    _write_small(student, teacher, config, folder, card)


def _write_small(student, teacher: Teacher, config: dict, folder: Path, card: str) -> None:
    """Writes the tensors in 16 bits, and the map of the student's words. The output layer is read from the target,
    where that has it beside its embedding; else its rows are added, too."""
    tensors = _tensors(student)
    if teacher.head is not teacher.embed:
        tensors |= {"lm_head.weight": student.head}
    tensors = {name: t.detach().to("cpu", torch.float16).contiguous() for name, t in tensors.items()}
    tensors |= {"d2t": vocabulary_map(student.words.cpu(), teacher.config.vocab_size)["d2t"]}
    replace_folder(folder, lambda work: _write_head(work, student.FILE, tensors, config, card))


def _write_head(work: Path, file: str, tensors: dict[str, torch.Tensor], config: dict, card: str) -> None:
    save_file(tensors, work / file, {"format": "pt"})
    (work / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (work / "README.md").write_text(card, encoding="utf-8")


def _scaling(config) -> dict | None:
    """Returns the rope scaling that other engines read beside `rope_theta`; None for plain rotary positions."""
    parameters = {k: v for k, v in rope(config).items() if k != "rope_theta"}
    return None if parameters["rope_type"] == "default" else parameters


def lm(student, target: Path, folder: Path, card: str) -> None:
    """Writes a plain `LlamaForCausalLM` checkpoint with the target's tokenizer."""

    def write(work: Path) -> None:
        transformers.logging.disable_progress_bar()
        student.module.to("cpu", torch.bfloat16).save_pretrained(work)
        (work / "generation_config.json").unlink(missing_ok=True)
        for name in _TOKENIZER:
            if (target / name).is_file():
                _copy_compact(target / name, work / name)
        (work / "README.md").write_text(card, encoding="utf-8")

    replace_folder(folder, write)


def _copy_compact(source: Path, destination: Path) -> None:
    """Copies a file; JSON without its indentation, because half of a tokenizer file is white space."""
    if source.suffix != ".json":
        shutil.copyfile(source, destination)
        return
    value = json.loads(source.read_text(encoding="utf-8-sig"))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    destination.write_text(text, encoding="utf-8")


def _older_draft(folder: Path) -> bool:
    """Returns whether the folder was written by `export`, as its card says."""
    try:
        return TAG in (folder / "README.md").read_text(encoding="utf-8") and (folder / "config.json").is_file()
    except (OSError, UnicodeDecodeError):
        return False


def replace_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Replaces ``folder`` by one that ``write(work)`` fills, so that there is either the old draft or the new one."""
    folder = Path(folder)
    if folder.is_file() or (folder.exists() and any(folder.iterdir()) and not _older_draft(folder)):
        raise BadInput(f"{folder} holds something other than a draft; name an empty or new folder.")
    with work_folder(folder) as work:
        (work / "new").mkdir()
        try:
            write(work / "new")
        except SafetensorError as error:  # wraps the operating system's error in a text
            raise OSError(errno.ENOSPC if "os error 28" in str(error) else errno.EIO, str(error)) from error
        for file in (work / "new").iterdir():
            file.chmod(0o644)  # safetensors writes files that only their owner may read
        if folder.exists():
            os.replace(folder, work / "old")
        os.replace(work / "new", folder)
