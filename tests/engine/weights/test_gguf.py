"""Reads GGUF files: each architecture and type against transformers and the gguf package, tokenizers, and refusals."""

import json
import shutil
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from closeness import assert_close, assert_each_close
from gguf_files import WORDS, random_blocks, tiny_model, write_gguf
from tiny_models import RUNTIMES, logits_of
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoConfig, LlamaConfig
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from engine.errors import BadInput, EngineError, Unavailable
from engine.files import sha256
from engine.models.decoder.transformers_config import load_config, load_tokenizer
from engine.models.decoder.transformers_runner import load_transformers
from engine.models.tensors import gguf_blocks, gguf_reader
from engine.models.tensors.gguf_reader import GgufReader, StoredRows
from engine.models.tensors.grouped import GroupedWeight
from engine.tools.bench.recording import read_from_files
from engine.weights.catalogue import get_pair
from engine.weights.checkpoint_dir import weights_hash
from engine.weights.gguf.layout import gguf_files
from engine.weights.store import locate

TYPES = gguf.GGMLQuantizationType
BIG = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
IDS = [1, 2, 3, 4, 5, 9, 7, 8, 2, 2, 6, 3]


def prepared(path):
    """The folder of a file that a user names."""
    return get_pair(str(path)).target.folder


def logits(folder, runtime):
    runner = RUNTIMES[runtime](folder, type("Model", (), {"config": load_config(folder)}))
    runner.reset(32)
    runner.prefill(IDS[:4])
    return runner.forward(torch.tensor(IDS[4:]))


def test_a_pair_of_the_catalogue_is_read_from_files_with_its_digests(tmp_path):
    files = [write_gguf(tmp_path / f"{name}.gguf", tiny_model(tmp_path / name)) for name in ("target", "draft")]
    listed, names = get_pair("qwen2.5-coder-1.5b-gguf"), "+".join(map(str, files))

    def with_digest(model, file):
        return replace(model, gguf=replace(model.gguf, sha256=sha256(file)))

    draft = with_digest(listed.draft("lm"), files[1])
    pair = read_from_files(replace(listed, target=with_digest(listed.target, files[0]), drafts={"lm": draft}), names)
    assert [gguf_files(locate(model)) for model in pair.models("lm")] == [[file] for file in files]
    assert (pair.name, pair.target.revision) == (listed.name, listed.target.revision)
    with pytest.raises(BadInput, match=r"target is not the file qwen2\.5-coder-1\.5b"):
        read_from_files(listed, names)
    with pytest.raises(BadInput, match="leave the files out"):
        read_from_files(get_pair("smollm2-135m"), names)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("arch, kind, settings", [
    ("llama", "llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 5000.0}}),
    ("llama", "llama-biased", {"mlp_bias": False}), ("llama", "llama-tied", {}), ("llama", "llama-wide-head", {}),
    ("llama", "mistral", {}), ("qwen2", "qwen2", {}), ("qwen3", "qwen3", {}), ("qwen3", "qwen3-tied", {}),
])  # fmt: skip
def test_a_file_of_each_architecture_is_the_model_it_was_made_from(tmp_path, runtime, arch, kind, settings):
    model = tiny_model(tmp_path / "model", kind, **settings)
    folder = prepared(write_gguf(tmp_path / "m.gguf", model, arch=arch))
    assert_close(logits(folder, runtime), logits_of(model, IDS)[4:])
    again = load_transformers(folder, torch.float32, "cpu")
    assert_close(logits_of(again, IDS), logits_of(model, IDS))


STORED = ("Q8_0", "Q4_K", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q5_K", "Q6_K", "Q3_K", "IQ4_XS", "F16", "BF16")
EACH = [*(("llama", type_) for type_ in STORED), *((arch, t) for arch in ("qwen2", "qwen3") for t in STORED[:2])]


@pytest.mark.parametrize(("arch", "type_"), EACH)
def test_a_quantised_file_is_what_transformers_reads(tmp_path, arch, type_):
    """It is compared with transformers' own reading of the same bytes, tensor by tensor; the whole model in fp32."""
    size = {"head_dim": 64} if arch == "qwen3" else {}
    model = tiny_model(tmp_path / "model", arch, **BIG, **size)
    path = write_gguf(tmp_path / "m.gguf", model, TYPES[type_], arch=arch)
    theirs = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)
    folder = prepared(path)
    ours = GgufReader(folder, torch.float32, "cpu")
    assert {*ours.names} == {*theirs["tensors"]}
    for name, tensor in theirs["tensors"].items():
        assert_each_close(ours(name, tuple(tensor.shape)), tensor.float(), roundings=8)
    config = AutoConfig.from_pretrained(folder)
    same = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "rms_norm_eps",
            "num_hidden_layers", "vocab_size", "tie_word_embeddings", "max_position_embeddings")  # fmt: skip
    for field in same:
        if field in theirs["config"]:
            assert getattr(config, field) == pytest.approx(theirs["config"][field], rel=1e-6), field


def test_rows_read_again_are_those_of_the_file(monkeypatch):
    monkeypatch.setattr(gguf_reader, "_MOST", 2)
    rows = random_blocks("Q6_K", (6, 512))
    stored, right = StoredRows("Q6_K", rows), gguf_blocks.dense("Q6_K", rows)
    for ids in ([4, 1], [1, 1, 4], [0, 4, 2], [5, 4, 1], [*range(6)] * 3, [3]):
        assert torch.equal(stored.dense_rows(torch.tensor(ids)), right[ids])


@pytest.mark.parametrize("type_", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "IQ4_NL"])
def test_blocks_are_split_as_the_gguf_package_expands_them(type_):
    kind, matrix = TYPES[type_], torch.randn(6, 512, generator=torch.Generator().manual_seed(0)).numpy()
    is_written = type_ in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
    rows = gguf.quants.quantize(matrix, kind) if is_written else random_blocks(type_, (6, 512))
    right = torch.from_numpy(gguf.quants.dequantize(rows, kind))
    assert_each_close(gguf_blocks.dense(type_, rows), right, roundings=8)
    some = StoredRows(type_, rows).dense_rows(torch.tensor([4, 1]))
    assert_each_close(some, right[[4, 1]], roundings=8)
    if type_ in gguf_blocks.SPLIT:
        size, split = gguf_blocks.SPLIT[type_]
        exact = split(torch.from_numpy(rows).unflatten(-1, (-1, size)))
        assert exact.bits == (8 if type_ == "Q8_0" else int(type_[1]))
        step = (exact.scale.abs() / (1 << (8 - exact.bits))).max()
        assert (exact.in_eight_bits().dense() - right).abs().max() <= 0.51 * step


def test_stacked_weights_of_different_types_keep_their_values():
    parts = [GroupedWeight.round(torch.randn(4, 64) + shift, bits) for bits, shift in ((4, 0), (8, 0), (4, 9), (4, -9))]
    whole = GroupedWeight.cat(parts)
    assert whole.bits == 8 and len(whole.n) == 16
    right = torch.cat([part.dense() for part in parts])
    assert (whole.dense() - right).abs().max() < 0.51 * whole.scale.abs().max()


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_rounded_file_keeps_its_distribution(tmp_path, precision):
    """K-quants mix types within one product; the rest is the rounding of inputs to 8 bits."""
    model = tiny_model(tmp_path / "model", "qwen2", **BIG)
    path = write_gguf(tmp_path / "m.gguf", model, TYPES.Q4_K, arch="qwen2")
    folder = prepared(path)
    runner = RUNTIMES["onnx"](folder, type("Model", (), {"config": load_config(folder)}), precision)
    runner.reset(32)
    runner.prefill(IDS[:4])
    ours, right = runner.forward(torch.tensor(IDS[4:])), logits(folder, "torch")
    kl = (right.log_softmax(-1).exp() * (right.log_softmax(-1) - ours.log_softmax(-1))).sum(-1).mean()
    assert 0 < kl < 0.01


LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip


def llama3_divisors():
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, rope_parameters=LLAMA3,
                         max_position_embeddings=131072)  # fmt: skip
    scaled = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")[0]
    plain = 1.0 / 10000.0 ** (torch.arange(0, 16, 2).float() / 16)
    return (plain / scaled).numpy()


@pytest.mark.parametrize("rope, fields, extra", [
    (LLAMA3, {}, True),
    ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
     {"rope_scaling_type": gguf.RopeScalingType.LINEAR, "rope_scaling_factor": 4.0}, False),
    ({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32},
     {"rope_scaling_type": gguf.RopeScalingType.YARN, "rope_scaling_factor": 4.0,
      "rope_scaling_orig_ctx_len": 32}, False),
    ({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}, {"llama.rope.scale_linear": 4.0}, False),
    ({"rope_type": "default", "rope_theta": 10000.0},
     {"rope_scaling_type": gguf.RopeScalingType.NONE, "rope_scaling_factor": 4.0}, False),
])  # fmt: skip
def test_rope_scaling_comes_from_the_file(tmp_path, rope, fields, extra):
    model = tiny_model(tmp_path / "model", "llama", rope_parameters=rope, max_position_embeddings=128)
    tensors = {"rope_freqs.weight": llama3_divisors()} if extra else {}
    folder = prepared(write_gguf(tmp_path / "m.gguf", model, fields=fields, extra=tensors))
    assert {**load_config(folder).rope_parameters, **rope} == load_config(folder).rope_parameters
    assert_close(logits(folder, "onnx"), logits_of(model, IDS)[4:])


@pytest.mark.parametrize("change, words", [
    ({"name": "gemma"}, "its architecture is gemma, and those read from GGUF are llama, qwen2, qwen3"),
    ({"pre": "unheard-of"}, "in the way 'unheard-of'"),
    ({"extra": {"rope_freqs.weight": np.array([1, 2, 3, 4, 5, 6, 7, 8], "f4")}}, "in a way that is not Llama 3's"),
    ({"extra": {"blk.0.attn_sinks.weight": np.ones(4, "f4")}}, "'blk.0.attn_sinks.weight', which nothing here"),
    ({"extra": {"blk.0.attn_q.bias": np.ones(64, "f4")}}, "its tensor 'blk.0.attn_k.bias' is missing, which a"),
    ({"extra": {"blk.2.ffn_up.weight": np.ones((64, 64), "f4")}}, "'blk.2.ffn_up.weight', which nothing here"),
    ({"extra": {"output.weight": np.ones((10, 64), "i1")}}, "tensors of type I8, which is not read here; choose"),
    ({"fields": {"tokenizer.ggml.normalizer.lowercase": True}}, r"lowercase \(True\) is not known here"),
    ({"fields": {"tokenizer.ggml.suppress_tokens": [3]}}, r"suppress_tokens \(\[3\]\) is not known here"),
    ({"fields": {"llama.logit_scale": 0.5}}, r"its field logit_scale \(0.5\) is not known here"),
    ({"fields": {"llama.expert_count": 8}}, r"its field expert_count \(8\) is not known here"),
    ({"fields": {"rope_dimension_count": 8}}, "turns only a part of each attention head"),
    ({"fields": {"tokenizer_model": "t5"}}, "its tokenizer is of the kind 't5'"),
    ({"fields": {"rope_scaling_type": gguf.RopeScalingType.LONGROPE, "rope_scaling_factor": 2.0}}, "'longrope'"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_completely_is_refused(tmp_path, change, words):
    with pytest.raises(Unavailable, match=words):
        prepared(write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"), **change))


def test_a_file_with_a_field_twice_is_refused(tmp_path):
    """The two values may differ, and programs differ in which one they take."""
    path = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"), fields={"other.rope.freq_base": 5e5})
    path.write_bytes(path.read_bytes().replace(b"other.rope.freq_base", b"llama.rope.freq_base"))
    with pytest.raises(Unavailable, match=r"has the field 'llama\.rope\.freq_base' twice"):
        prepared(path)


def test_a_damaged_file_is_refused_in_a_sentence(tmp_path):
    whole = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model")).read_bytes()
    for size in (0, 3, 30, 700, 5000, len(whole) - 64):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(Unavailable, match=r"cut\.gguf is (damaged, or is no GGUF file|cut off)"):
            prepared(tmp_path / "cut.gguf")
    draw = np.random.default_rng(0)
    for _ in range(60):  # bytes of the header changed at random: a sentence, or a file that still can be read
        data = bytearray(whole)
        for at in draw.integers(4, 1500, 3):
            data[at] = draw.integers(256)
        (tmp_path / "odd.gguf").write_bytes(data)
        try:
            prepared(tmp_path / "odd.gguf")
        except EngineError as error:
            assert "\n" not in str(error)


# --- files of a user's own


def test_a_file_runs_where_it_lies(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"))
    pair = get_pair(str(path))
    assert pair.target.name == "m" and gguf_files(pair.target.folder) == [path.resolve()]
    assert not [*(tmp_path / "cache").rglob("*.gguf")] and locate(pair.target) == pair.target.folder
    before = weights_hash(pair.target.folder)
    assert get_pair(str(path)).target.folder == pair.target.folder
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(Unavailable, match=r"m\.gguf has changed since it was read"):
        locate(pair.target)
    assert weights_hash(get_pair(str(path)).target.folder) != before
    path.unlink()
    with pytest.raises(EngineError, match=r"There is no file .*m\.gguf"):
        get_pair(str(path))


def test_a_folder_with_one_model_is_that_model_and_with_two_asks_which(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    write_gguf(folder / "one.gguf", tiny_model(tmp_path / "model"))
    write_gguf(folder / "mmproj.gguf", tiny_model(tmp_path / "model"), fields={"type": "mmproj"})
    assert get_pair(str(folder)).target.folder.name.startswith("one-")
    shutil.copy(folder / "one.gguf", folder / "two.gguf")
    with pytest.raises(BadInput, match=r"holds 2 models \(one\.gguf, two\.gguf\); name the file that you want"):
        get_pair(str(folder))
    draft = get_pair(f"{folder / 'one.gguf'}+{folder / 'two.gguf'}").draft("lm")
    assert draft.name == "two"


def test_a_file_in_parts_is_one_model(tmp_path):
    model = tiny_model(tmp_path / "model")
    whole = prepared(write_gguf(tmp_path / "m.gguf", model))
    writer = gguf.GGUFWriter(tmp_path / "s.gguf", "llama", split_max_tensors=7)
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind.name == "ARRAY" else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    for write_part in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write_part()
    writer.close()
    parts = sorted(tmp_path.glob("s-*.gguf"))
    assert len(parts) > 2
    ours, right = (GgufReader(folder, torch.float32, "cpu") for folder in (prepared(parts[1]), whole))
    assert {*ours.names} == {*right.names} and all(torch.equal(ours(name), right(name)) for name in right.names)
    parts[-1].unlink()
    with pytest.raises(BadInput, match=rf"is one of {len(parts)} parts, and {parts[-1].name} is not beside it"):
        get_pair(str(parts[0]))


# --- tokenizers


def test_the_tokenizer_splits_digits_before_merging(tmp_path):
    """transformers' own GGUF reader drops this, and then cuts the blank line before a numbered item in two."""
    tokenizer = load_tokenizer(prepared(write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"))))
    assert tokenizer.tokenize("ab\n\n12") == ["ab", "ĊĊ", "1", "2"]
    assert tokenizer.decode(tokenizer("a 1\n\n2b").input_ids) == "a 1\n\n2b"
    assert tokenizer("<|user|>a").input_ids == [1, 2]
    assert (tokenizer.eos_token, tokenizer.bos_token, tokenizer.model_max_length) == ("<|end|>", "<|user|>", 128)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False) == "<|user|>a<|end|>"


QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
LLAMA3_SPLIT = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")  # as in the tokenizer.json of each model


@pytest.mark.parametrize("pre, pattern", [("qwen2", QWEN2), ("llama-bpe", LLAMA3_SPLIT)], ids=["qwen2", "llama3"])
def test_text_is_split_as_the_models_own_tokenizer_does(tmp_path, pre, pattern):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*alphabet, "12", "123", "Ġa", "ll", "'l", "'ll"]
    merges = ["1 2", "12 3", "Ġ a", "l l", "' l", "' ll"]
    right = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, [tuple(m.split()) for m in merges]))
    right.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    if pre == "qwen2":
        right.normalizer = normalizers.NFC()
    model = tiny_model(tmp_path / "model", vocab_size=len(words))
    fields = {"token_list": words, "token_merges": merges, "token_types": [1] * len(words)}
    ours = load_tokenizer(prepared(write_gguf(tmp_path / "m.gguf", model, pre=pre, fields=fields)))
    for text in ("we'll 12345 a\n\n  a e\u0301 x'LL  \t1 23", " a  a", "1234567 'll", "\r\n \n12a"):
        ids = ours(text, add_special_tokens=False).input_ids
        assert ids == right.encode(text).ids, text


def test_sentence_pieces_are_merged_by_their_scores(tmp_path):
    """They are compared with the pieces as transformers' converter of SentencePiece models sets them up."""
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    pieces = ["▁", "a", "b", "ab", "▁a", "▁ab", "ba", "aba", "▁b"]
    words = ["<unk>", "<s>", "</s>", *bytes_, *pieces]
    scores = [0.0] * 259 + [-9.0, -8.0, -7.0, -1.0, -2.0, -3.0, -0.5, -4.0, -6.0]
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    fields = {
        "tokenizer_model": "llama", "token_list": words, "token_scores": scores, "token_types": types,
        "bos_token_id": 1, "eos_token_id": 2, "unk_token_id": 0, "add_bos_token": True,
    }  # fmt: skip
    model = tiny_model(tmp_path / "model", vocab_size=len(words))
    ours = load_tokenizer(prepared(write_gguf(tmp_path / "m.gguf", model, fields=fields)))
    # "ba" has the best score, so "aba" is a + ba; then ▁ + a, and "▁ab" is never made
    assert ours.tokenize("aba") == ["▁a", "ba"]
    assert ours.tokenize("ab b") == ["▁ab", "▁b"]
    assert ours("ab").input_ids[0] == 1 and ours.tokenize("é") == ["▁", "<0xC3>", "<0xA9>"]
    for text in ("aba ab", "a  é b", "\n"):
        assert ours.decode(ours(text).input_ids, skip_special_tokens=True) == text


def test_all_end_ids_of_a_file_end_a_text(tmp_path):
    words = [*WORDS, "<|eot_id|>", "<|im_end|>"]
    fields = {"token_list": words, "token_types": [3, 3] + [1] * 8 + [3, 1], "eot_token_id": 9}
    folder = prepared(write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "m", vocab_size=len(words)), fields=fields))
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["eos_token_id"] == [0, 9, 10, 11], "<|im_end|> ends a text, although the file calls it a word"
    assert load_tokenizer(folder)("a<|im_end|>").input_ids == [2, 11]


def with_words(tmp_path, *more, types=None, **fields):
    """Prepares a file whose vocabulary is WORDS and ``more``, these normal tokens unless ``types`` says otherwise."""
    words = [*WORDS, *more]
    settings = {"token_list": words, "token_types": [3, 3] + [1] * 8 + (types or [1] * len(more))} | fields
    return prepared(write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "m", vocab_size=len(words)), fields=settings))


def ends_of(folder) -> list[int]:
    ends = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    return ends if isinstance(ends, list) else [ends]


ENDS = (  # llama.cpp's, of November 2026; <|tool_response> is below, because beside it </s> ends nothing
    "<|eot_id|>", "<|im_end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
    "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>",
    "<turn|>", "<｜end▁of▁sentence｜>", "[e~[", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
)  # fmt: skip


def test_a_token_with_the_name_of_an_end_ends_a_text(tmp_path):
    folder = with_words(tmp_path, *ENDS)
    assert ends_of(folder) == [10 + i for i in range(len(ENDS))], "beside some of them <|end|> is a part of the text"
    tokenizer = load_tokenizer(folder)
    for i, name in enumerate(ENDS, 10):
        assert tokenizer(f"a{name}").input_ids == [2, i], name
        assert tokenizer.decode([2, i], skip_special_tokens=True) == "a", name


@pytest.mark.parametrize(("words", "fields", "ends"), [
    *((words, {"eos_token_id": 10}, [10, 11]) for words in (
        ("<|return|>", "<|call|>"), ("<|return|>", "<|calls|>"), ("<|calls|>", "<|flush|>"), ("<|call|>", "<|flush|>"),
    )),
    (("<|return|>", "<|flush|>"), {}, [0, 10, 11]),
    (("</s>", "<|tool_response>"), {}, [0, 11]), (("</s>", "x"), {}, [0, 10]),
    (("<|fim_pad|>", "x"), {"tokenizer.ggml.fim_pad_token_id": 11}, [0, 11]),
    (("x", "y"), {"eot_token_id": 10, "tokenizer.ggml.eom_token_id": 11}, [0, 10, 11]),
    (("x", "<|end_of_turn|>"), {}, [0]),
])  # fmt: skip
def test_ends_depend_on_each_other_and_on_the_fields(tmp_path, words, fields, ends):
    folder = with_words(tmp_path, *words, **fields)
    assert ends_of(folder) == ends
    hidden = load_tokenizer(folder).decode([0, 2], skip_special_tokens=True) == "a"
    assert hidden is (0 in ends), "beside others <|end|> is a part of the text"


@pytest.mark.parametrize(("name", "kind", "is_token", "is_hidden"), [
    ("<x>", 1, False, False), ("<x>", 2, True, True), ("<x>", 3, True, True), ("<x>", 4, True, False),
    ("<x>", 5, False, False), ("<|fim_prefix|>", 1, True, True), ("<MID>", 4, True, True),
    ("<|channel|>", 3, True, False), ("<|message|>", 1, True, False),
])  # fmt: skip
def test_the_type_of_a_token_decides_what_it_is_in_a_text(tmp_path, name, kind, is_token, is_hidden):
    tokenizer = load_tokenizer(with_words(tmp_path, name, types=[kind]))
    assert (10 in tokenizer(f"a{name}b").input_ids) is is_token
    assert tokenizer.decode([2, 10], skip_special_tokens=True) == ("a" if is_hidden else f"a{name}")


@pytest.mark.parametrize(("model", "name", "ids"), [
    ("Phi-3 mini", "<x>", [2, 10, 3]), ("phi3", "<x>", [2, 10, 3]), ("Llama", "<x>", [2, 10, 4, 3]),
    ("Phi-3", "<|endoftext|>", [2, 10, 4, 3]), ("Phi-3", "</s>", [2, 10, 3]),
])  # fmt: skip
def test_marks_of_phi_take_the_space_after_them(tmp_path, model, name, ids):
    tokenizer = load_tokenizer(with_words(tmp_path, name, types=[3], name=model))
    assert tokenizer(f"a{name} b").input_ids == ids


SENTENCE_PIECES = {
    "tokenizer_model": "llama", "token_list": ["<unk>", "<s>", "</s>", "▁", "a", "b"], "token_scores": [0.0] * 6,
    "token_types": [2, 3, 3, 1, 1, 1], "token_merges": [],
}  # fmt: skip


@pytest.mark.parametrize(("fields", "ids"), [
    ({}, [1, 3, 4]), ({"tokenizer.ggml.add_bos_token": False}, [3, 4]),
    ({"tokenizer.ggml.add_space_prefix": False}, [1, 4]), ({"tokenizer.ggml.add_eos_token": True}, [1, 3, 4, 2]),
])  # fmt: skip
def test_sentence_pieces_have_the_usual_marks_without_fields(tmp_path, fields, ids):
    """A file of llama's kind may leave the numbers of <s> and </s> out, which are then 1 and 2."""
    model, path = tiny_model(tmp_path / "model", vocab_size=6), tmp_path / "m.gguf"
    write_gguf(path, model, fields=SENTENCE_PIECES | fields)
    data = path.read_bytes()  # with other names for the two fields, which nothing reads
    for role in (b"bos", b"eos"):
        data = data.replace(b"tokenizer.ggml.%s_token_id" % role, b"tokenizer.none.%s_token_id" % role)
    path.write_bytes(data)
    folder = prepared(path)
    assert load_tokenizer(folder)("a").input_ids == ids and ends_of(folder) == [2]


@pytest.mark.parametrize(("fields", "words"), [
    ({"token_list": [*WORDS[:-1], "a"]}, "the token 'a' twice"), ({"token_types": [1] * 9}, "types of only 9"),
    ({"eot_token_id": 10}, "its eot token is number 10, but it has 10 tokens"),
    ({"tokenizer.ggml.fim_sep_token_id": 99}, "its fim_sep token is number 99"),
    ({"tokenizer.ggml.suppress_tokens": [3]}, "suppress_tokens"),
])  # fmt: skip
def test_a_vocabulary_that_cannot_be_right_is_refused(tmp_path, fields, words):
    with pytest.raises(Unavailable, match=words):
        prepared(write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"), fields=fields))


def test_what_has_no_effect_is_left_out(tmp_path):
    fields = {"token_list": [*WORDS[:-2], "", "ab"], "token_merges": ["a b"], "pad_token_id": 10, "unk_token_id": 99}
    model = tiny_model(tmp_path / "model")
    tokenizer = load_tokenizer(prepared(write_gguf(tmp_path / "m.gguf", model, fields=fields)))
    assert (tokenizer.pad_token, tokenizer.unk_token) == (None, None)
    assert tokenizer.convert_ids_to_tokens(8) == "[EMPTY_8]" and tokenizer("ab").input_ids == [9]


@pytest.mark.parametrize(("field", "is_read"), [
    ("general.author", False), ("general.name", False), ("quantize.imatrix.file", False), ("general.license", False),
    ("tokenizer.chat_template", True), ("tokenizer.ggml.pre", True), ("general.type", True), ("llama.note", True),
])  # fmt: skip
def test_only_a_field_that_is_read_must_be_text(tmp_path, field, is_read):
    name = {"tokenizer.chat_template": "chat_template", "tokenizer.ggml.pre": "tokenizer_pre"}.get(field, field)
    path = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"), fields={name: "Renee"})
    path.write_bytes(path.read_bytes().replace(b"Renee", "Renée".encode("latin-1")))
    if is_read:
        with pytest.raises(Unavailable, match=f"its field '{field}' is not written in UTF-8"):
            prepared(path)
    else:
        assert load_tokenizer(prepared(path))("a").input_ids == [2]


def test_a_token_in_another_encoding_is_refused_by_the_name_of_its_field(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(tmp_path / "model"))
    path.write_bytes(path.read_bytes().replace("Ċ".encode(), b"\xe9\xe9"))
    with pytest.raises(Unavailable, match=r"'tokenizer\.ggml\.(tokens|merges)' is not written in UTF-8"):
        prepared(path)


@pytest.mark.parametrize("pre, begins", [("llama3", True), ("llama-bpe", True), ("tekken", True), ("qwen2", False)])
def test_a_text_begins_with_the_first_token_where_the_kind_asks_for_it(tmp_path, pre, begins):
    model = tiny_model(tmp_path / "model")
    for stated in (None, True, False):
        fields = {} if stated is None else {"add_bos_token": stated}
        tokenizer = load_tokenizer(prepared(write_gguf(tmp_path / "m.gguf", model, pre=pre, fields=fields)))
        assert tokenizer("ab").input_ids == ([1] if (begins if stated is None else stated) else []) + [9]


def test_files_that_are_no_model_for_this_machine_say_so(tmp_path):
    model, path = tiny_model(tmp_path / "model"), tmp_path / "m.gguf"
    data = bytearray(write_gguf(path, model).read_bytes())
    for change, words in (
        (b"GGUF\0\0\0\3", "was written for big-endian machines"),
        (b"GGUF\1\0\0\0", "its GGUF version is 1"),
        (b"version https://git-lfs", "is a Git LFS pointer, not the file itself"),
    ):
        path.write_bytes(change + data[len(change) :])
        with pytest.raises(Unavailable, match=words):
            prepared(path)
    name = b"output_norm.weight"
    at = data.index(name) + len(name) + 12  # after the number of dimensions and the one size
    path.write_bytes(data[:at] + (139).to_bytes(4, "little") + data[at + 4 :])  # as ik_llama.cpp's IQ4_K
    with pytest.raises(Unavailable, match=r"'output_norm\.weight' is stored in type 139, which nothing here knows"):
        prepared(path)
    for fields, words in (
        ({"type": "adapter"}, r"a part that belongs beside a model \(adapter\)"),
        ({"bos_token_id": 5000}, "its bos token is number 5,000, but it has 10 tokens"),
    ):
        with pytest.raises(Unavailable, match=words):
            prepared(write_gguf(path, model, fields=fields))
