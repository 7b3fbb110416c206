"""Writes tiny Llama checkpoints whose tokenizer has one token a byte."""

from pathlib import Path

TEMPLATE = "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}\n{% endfor %}a:"


def make_tiny(folder: Path, seed: int = 0, layers: int = 2, template: str | None = TEMPLATE) -> Path:
    """A Llama of 32 dimensions with one token a byte, saved as any checkpoint is."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate([*letters, "<end>"])}, merges=[]))
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", chat_template=template, clean_up_tokenization_spaces=False
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=257, hidden_size=32, intermediate_size=64, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, eos_token_id=256, bos_token_id=None, pad_token_id=256,
        initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
