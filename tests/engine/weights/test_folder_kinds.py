"""What people have on disk and no engine here loads: one true sentence each, which says what it is and what to do."""

import json
import os
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from engine.errors import BadInput
from engine.weights.catalogue import get_pair
from engine.weights.folder_kinds import FORMATS, missing_parts

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 12, "max_position_embeddings": 64,
}  # fmt: skip
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 988097824\n"
SENTENCE_PIECE = b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02"


def tensors(*names):
    def write(file):
        save_file({name: np.zeros((2, 2), "f4") for name in names or ["model.norm.weight"]}, file)

    return write


MODEL = {"config.json": CONFIG, "tokenizer.json": "{}", "model.safetensors": tensors()}


def without(*files, **more):
    return {name: data for name, data in MODEL.items() if name not in files} | more


def rounded(**described):
    return MODEL | {"config.json": CONFIG | {"quantization_config": described}}


def of_family(**fields):
    return MODEL | {"config.json": CONFIG | fields}


WEIGHTS = ("model.safetensors",)
LORA = {"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-0.5B"}
CARD = "---\nlicence: mit\nbase_model:\n- Qwen/Qwen3-4B\n---\n# A card\n"
INDEX = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
# name → its files, and parts of the sentence in order; [] for a folder that is a model
KINDS = {
    "a model": (MODEL, []),
    "a gguf beside": (MODEL | {"model.gguf": "GGUF"}, []),
    "a pickle beside": (MODEL | {"pytorch_model.bin": POINTER}, []),
    "a stale download beside": (MODEL | {".cache/huggingface/download/x.incomplete": "1"}, []),
    "nothing": ({}, ["is empty"]),
    "lora": ({"adapter_config.json": LORA, "adapter_model.safetensors": tensors()},
             ["an adapter, not a model; merge it with its base model, Qwen/Qwen2.5-0.5B", "merge_and_unload"]),
    "lora with tokenizer": (without(*WEIGHTS, **{"adapter_config.json": LORA, "adapter_model.bin": ""}),
                            ["an adapter, not a model"]),
    "a bare adapter": (without(*WEIGHTS, **{"adapter_model.safetensors": tensors()}), ["an adapter, not a model"]),
    "prompt tuning": ({"adapter_config.json": LORA | {"peft_type": "PROMPT_TUNING"}}, ["or name that model alone"]),
    "lora beside": (MODEL | {"adapter_config.json": LORA}, ["a model and an adapter beside it", "merge both"]),
    "mlx lora": ({"adapter_config.json": {"model": "mlx/m"}, "adapters.safetensors": tensors()},
                 ["an adapter", "its base model, mlx/m", "mlx_lm.fuse"]),
    "mlx": (rounded(group_size=64, bits=4) | {"README.md": CARD}, ["by MLX, which only", "made from, Qwen/Qwen3-4B"]),
    "mlx's other field": (of_family(quantization={"group_size": 64, "bits": 8}), ["by MLX"]),
    "gptq": (rounded(quant_method="gptq", bits=4, group_size=128), ["by GPTQ", "made from", "pip install .*gptqmodel"]),
    "bitsandbytes": (rounded(load_in_4bit=True), ["by bitsandbytes", "pip install .*bitsandbytes"]),
    "fp8": (rounded(quant_method="fp8", weight_block_size=[128, 128]), ["by FP8", "pip install accelerate`"]),
    "compressed-tensors": (rounded(quant_method="compressed-tensors", format="pack-quantized", config_groups={}),
                           ["by compressed-tensors", "made from"]),
    "exl2": (rounded(quant_method="exl2", bits=4.0), ["rounded by 'exl2'", "does not know", "made from"]),
    "no method": (rounded(bits=3), ["a method that its config.json does not name", "made from"]),
    "modelopt": (MODEL | {"hf_quant_config.json": {"quantization": {}}}, ["'modelopt'", "does not know"]),
    "gptq, unsaid": (MODEL | {"model.safetensors": tensors("model.layers.0.mlp.up_proj.qweight")}, ["GPTQ or AWQ"]),
    "bnb, unsaid": (MODEL | {"model.safetensors": tensors("a.weight", "a.weight.absmax")}, ["rounded by bitsandbytes"]),
    "pickle": (without(*WEIGHTS, **{"pytorch_model.bin": "", "training_args.bin": ""}),
               ["pytorch_model.bin, a pickle, which is never", "save_pretrained"]),
    "ckpt": ({"last.ckpt": "", "optimizer.pt": ""}, ["last.ckpt, a pickle"]),
    "meta": ({"consolidated.00.pth": "", "params.json": "{}", "tokenizer.model": SENTENCE_PIECE},
             ["consolidated.00.pth, a pickle", "name a copy that has config.json"]),
    "mistral": ({"consolidated.safetensors": tensors(), "params.json": "{}", "tekken.json": "{}"},
                ["at its top, but consolidated.safetensors;", "a copy of it that has config.json"]),
    "openvino": (without(*WEIGHTS, **{"openvino_model.bin": "", "openvino_model.xml": ""}), ["but openvino_model.bin"]),
    "ctranslate2": ({"config.json": "{}", "model.bin": "", "vocabulary.json": "[]"}, ["but model.bin", "made from"]),
    "onnx": (without(*WEIGHTS, **{"model.onnx": "", "README.md": CARD, ".gitattributes": "", "LICENSE": ""}),
             ["but model.onnx; name the model that it was made from, Qwen/Qwen3-4B, or a"]),
    "no weights": (without(*WEIGHTS, **{"README.md": CARD}), ["lacks model.safetensors|has no .*safetensors"]),
    "diffusers": ({"model_index.json": "{}", "unet/config.json": "{}", "unet/model.safetensors": tensors()},
                  ["a pipeline", "pictures", "name a language model"]),
    "vectors": (MODEL | {"modules.json": "[]"}, ["a pipeline", "vectors"]),
    "bert": (of_family(model_type="bert", architectures=["BertForMaskedLM"]), ["BertForMaskedLM, not a decoder"]),
    "t5": (of_family(model_type="t5", architectures=["T5ForConditionalGeneration"], is_encoder_decoder=True),
           ["T5ForConditionalGeneration, not a decoder"]),
    "reward": (of_family(architectures=["LlamaForSequenceClassification"]), ["not a decoder that writes", "CausalLM"]),
    "shards gone": (without(*WEIGHTS, **{"model.safetensors.index.json": INDEX}),
                    ["lacks model-00001-of-00002.safetensors, model-00002-of-00002.safetensors"]),
    "a shard gone, no index": (without(*WEIGHTS, **{"model-00001-of-00002.safetensors": tensors()}),
                               ["lacks model-00002-of-00002.safetensors", "download the rest"]),
    "hub's part": (without(*WEIGHTS, **{".cache/huggingface/download/x.incomplete": "1"}), ["not finished"]),
    "lfs weights": (MODEL | {"model.safetensors": POINTER},
                    ["model.safetensors, a Git LFS pointer, not the file itself; run `git lfs pull`"]),
    "too high": ({f"sub/{name}": data for name, data in MODEL.items()}, ["subfolder .sub/model.safetensors.; name"]),
    "hub cache": ({"refs/main": "b" * 40, "blobs/x": "1"}
                  | {f"snapshots/{'b' * 40}/{name}": data for name, data in MODEL.items()},
                  [rf"subfolder .snapshots/{'b' * 40}/model.safetensors"]),
    "sentencepiece": (without("tokenizer.json", **{"tokenizer.model": SENTENCE_PIECE}),
                      ["tokenizer.model", "pip install sentencepiece", "tokenizer.json of the model"]),
    "tiktoken": (without("tokenizer.json", **{"qwen.tiktoken": "IQ== 0"}), [r"not read here \(qwen.tiktoken\); add"]),
    "tekken": (without("tokenizer.json", **{"tekken.json": "{}"}), []),
}  # fmt: skip


def write(folder, files):
    folder.mkdir()
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if callable(data):
            data(file)
        else:
            file.write_bytes(data if isinstance(data, bytes) else text(data).encode())
    return folder


def text(data) -> str:
    return data if isinstance(data, str) else json.dumps(data)


def refusal_of(folder) -> str:
    with pytest.raises(BadInput) as caught:
        get_pair(str(folder))
    sentence = str(caught.value)
    assert sentence.startswith(str(folder)) and re.fullmatch(r"[^\n]{20,600}\.", sentence), sentence
    return sentence


@pytest.mark.parametrize("name", KINDS)
def test_a_folder_is_called_what_it_is(tmp_path, monkeypatch, name):
    monkeypatch.setattr("engine.weights.folder_kinds.find_spec", lambda module: None)
    files, words = KINDS[name]
    folder = write(tmp_path / name, files)
    if not words:
        assert get_pair(str(folder)).target.layers == 2
        return
    assert re.search(".*".join(words), sentence := refusal_of(folder)), sentence


@pytest.mark.parametrize(("forms", "what", "advice"), FORMATS)
def test_every_format_is_called_by_its_name_with_what_to_do(tmp_path, forms, what, advice):
    for number, form in enumerate(forms.split()):
        folder = write(tmp_path / str(number), {form.replace("*", "sub/x"): ""})
        sentence = refusal_of(folder)
        assert what.partition("{file}")[0] in sentence and what.rpartition("{file}")[2] in sentence
        assert advice.partition("{")[0] in sentence


def test_rounded_weights_are_left_to_the_packages_that_are_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.weights.folder_kinds.find_spec", lambda module: object())
    assert get_pair(str(write(tmp_path / "gptq", rounded(quant_method="gptq", bits=4)))).target.layers == 2
    assert "only MLX" in refusal_of(write(tmp_path / "mlx", rounded(group_size=64, bits=4)))


def test_a_file_and_a_link_to_nowhere_are_named(tmp_path):
    folder = write(tmp_path / "model", MODEL)
    assert "is a file and not *.gguf; name a folder" in refusal_of(folder / "model.safetensors")
    os.replace(folder / "model.safetensors", tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    assert get_pair(str(folder))
    (tmp_path / "blob").unlink()
    assert "model.safetensors, a link to a file that is not here" in refusal_of(folder)


def test_missing_parts_of_several_sets():
    whole = [f"a-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert missing_parts(whole) == [] and missing_parts(["a.safetensors"]) == []
    absent = [f"b-0000{i}-of-00003.safetensors" for i in (1, 2)]
    assert missing_parts([*whole, "b-00003-of-00003.safetensors"]) == absent
