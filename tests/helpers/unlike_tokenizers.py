"""Makes tokenizers that have little in common: byte-level BPE as Llama 3 and Qwen have it, and BPE with ▁ and byte
fallback as Llama 2 and Mistral have it."""

import json
from functools import cache
from pathlib import Path

from safetensors.torch import load_file, save_file
from tiny_models import ALPHABET, BYTES, byte_fallback_bpe, byte_level_bpe
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from engine.drafters.translation import Translation
from engine.tools.training.stored_bits import convert

WORDS = ["the", "cat", "hat", "and", "sat", "é", "🙂", "naïve"]
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
OTHER_CHAT = "{{ bos_token }}{% for m in messages %}<turn>{{ m.role }}\n{{ m.content }}</turn>\n{% endfor %}"


def _chain(word: str, tokens: list[str], merges: list) -> None:
    """Adds the tokens and merges that build ``word`` from its characters, left to right."""
    so_far = word[0]
    for letter in word[1:]:
        merges.append((so_far, letter))
        so_far += letter
        tokens.append(so_far)


@cache
def byte_level(markers: tuple[str, ...] = ("<|im_start|>", "<|im_end|>")) -> PreTrainedTokenizerFast:
    """Puts no BOS; ends with <|im_end|>."""
    merges, tokens = [], []
    for word in WORDS:
        spelt = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(" " + word)[0][0]
        _chain(spelt, tokens, merges)
    raw = byte_level_bpe([*markers, *ALPHABET, *tokens], list(dict.fromkeys(merges)))
    raw.add_special_tokens([AddedToken(m, special=True) for m in markers])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=markers[-1])
    made.chat_template = CHAT
    return made


@cache
def sentence_piece(markers: tuple[str, ...] = ("<turn>", "</turn>"), bos: bool = True) -> PreTrainedTokenizerFast:
    """Puts <s> first, and a space before the first word."""
    merges, tokens = [], []
    for word in (*WORDS, "catalogue"):
        _chain("▁" + word if word.isascii() else word, tokens, merges)
    letters = [*"▁abcdefghijklmnopqrstuvwxyz,.!\n[]ïé🙂"]
    names = ["<unk>", "<s>", "</s>", *markers, *BYTES, *letters, *tokens]
    raw = byte_fallback_bpe(names, list(dict.fromkeys(merges)))
    raw.add_special_tokens([AddedToken(m, special=True) for m in ("<unk>", "<s>", "</s>", *markers)])
    if bos:
        raw.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    made.chat_template = OTHER_CHAT
    return made


def letters(*tokens: str) -> PreTrainedTokenizerFast:
    """Makes a tokenizer of exactly these tokens; each longer one is merged from the one before its last letter."""
    merges = [(token[:-1], token[-1]) for token in tokens if len(token) > 1]
    raw = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw)


def toy_translation() -> Translation:
    """A target of six letters, and a draft of seven tokens, which has them in another order, lacks one and has two
    longer ones. In common: all of the target's but "e"."""
    return Translation(letters(*"abcdef"), letters("f", "c", "a", "b", "d", "ab", "cd"))


def renumbered(source: Path, folder: Path, merges: int | None = None) -> Path:
    """Writes a checkpoint with tied embeddings again, in 16 bits: its ids in reverse, and the tokens of its first
    ``merges`` only. The special tokens keep their names."""
    convert(source, folder, 16)
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    model, added = tokenizer["model"], {token["id"] for token in tokenizer["added_tokens"]}
    model["merges"] = model["merges"][:merges]
    made = {"".join(merge) for merge in model["merges"]}
    old = [i for name, i in model["vocab"].items() if i in added or len(name) == 1 or name in made]
    new_of = {i: new for new, i in enumerate(sorted(old, reverse=True))}
    model["vocab"] = {name: new_of[i] for name, i in model["vocab"].items() if i in new_of}
    for token in tokenizer["added_tokens"]:
        token["id"] = new_of[token["id"]]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": len(new_of)} | {
        f"{role}_token_id": new_of[config[f"{role}_token_id"]] for role in ("bos", "eos", "pad")
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").unlink()
    tensors = {}
    for file in folder.glob("*.safetensors*"):
        if file.suffix == ".safetensors":
            tensors |= load_file(file)
        file.unlink()
    key = "model.embed_tokens.weight"
    tensors[key] = tensors[key][sorted(old, reverse=True)].contiguous()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder
