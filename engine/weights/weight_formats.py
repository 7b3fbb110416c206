"""Lists the formats of weights that are not loaded, by the names of their files, with what to do instead."""

from dataclasses import dataclass

_OTHER_COPY = "name the model that it was made from{origin}, in safetensors"


@dataclass(frozen=True)
class Format:
    """Weights of a kind that is not loaded. ``files``: forms of their names, the most telling first; ``what`` and
    ``advice`` may have {file} and {origin}."""

    what: str
    files: tuple[str, ...]
    advice: str = _OTHER_COPY


_ARCHIVES = ("*.zip", "*.tar", "*.tar.gz", "*.tgz", "*.tar.zst", "*.7z", "*.rar")
# Looked for where safetensors are absent, in this order, because some come with files of another.
FORMATS = (
    Format("holds GGUF files, not at its top", ("*.gguf",), "name one of them, such as {file}"),
    Format("holds an OpenVINO model", ("openvino_model.xml", "*/openvino_model.xml")),
    Format("holds an ONNX model", ("*.onnx", "*/*.onnx", "genai_config.json")),
    Format("holds a CoreML model", ("*.mlmodel", "*.mlpackage/*", "*.mlmodelc/*", "*/*.mlpackage/*")),
    Format("holds a TensorRT-LLM engine", ("rank*.engine", "*.engine", "*.plan")),
    Format("holds an MLC model", ("mlc-chat-config.json", "ndarray-cache.json", "params_shard_*.bin")),
    Format("holds a LiteRT model", ("*.tflite", "*.task", "*.litertlm")),
    Format("holds an ExecuTorch program", ("*.pte",)),
    Format("holds a llamafile", ("*.llamafile",)),
    Format("holds weights in GGML's older format", ("ggml-*.bin", "ggml*.bin")),
    Format("holds a CTranslate2 model", ("shared_vocabulary.*", "vocabulary.json", "vocabulary.txt")),
    Format("holds a NeMo model", ("*.nemo",)),
    Format("holds Flax weights", ("flax_model*.msgpack", "*.msgpack")),
    Format("holds TensorFlow weights", ("tf_model*.h5", "*.h5", "saved_model.pb", "*.ckpt.index", "*.ckpt.data-*")),
    Format("holds NumPy arrays", ("*.npz",)),
    Format(
        "holds a checkpoint in DeepSpeed's parts",
        ("zero_to_fp32.py", "global_step*/*", "zero_pp_rank_*"),
        "join them with `python zero_to_fp32.py . OUT --safe_serialization` in that folder, then name OUT",
    ),
    Format(
        "holds a checkpoint in the parts of torch.distributed",
        ("*.distcp", "*/*.distcp"),
        "join them with `accelerate merge-weights` and name the folder that it writes",
    ),
    Format(
        "holds a checkpoint in its authors' format ({file} is a pickle, which is never loaded because it can run code)",
        ("consolidated.*.pth", "consolidated*.pth"),
        "name its copy in the transformers format, which has config.json and *.safetensors",
    ),
    Format(
        "has no safetensors weights ({file} is a pickle, which is never loaded because it can run code)",
        ("pytorch_model*.bin", "model*.bin", "*.ckpt", "*.pth", "*.pt", "*.bin", "*.pkl"),
        "save it as safetensors, a model with `AutoModelForCausalLM.from_pretrained(…).save_pretrained(…)` of "
        "transformers, a head with save_file of safetensors.torch",
    ),
    Format("holds an archive ({file})", _ARCHIVES, "unpack it and name the folder inside"),
)
