"""Splits texts into words as tokens, for models without a tokenizer: the toys, and weights made at random."""

from collections.abc import Sequence
from types import SimpleNamespace


class WordTokenizer:
    """Words separated by spaces: just enough of a tokenizer for prompts, pieces and traces.

    ``special``: ids that decoding leaves out, the first of them ending a text.
    """

    chat_template = None

    def __init__(self, words: Sequence[str], special: Sequence[int] = ()):
        self.words, self.all_special_ids = tuple(words), list(special)
        self.eos_token_id = self.all_special_ids[0] if special else None

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, text: str, add_special_tokens: bool = True):
        return SimpleNamespace(input_ids=[self.words.index(word) for word in text.split()])

    def decode(self, ids, skip_special_tokens: bool = False, clean_up_tokenization_spaces: bool = False) -> str:
        hidden = self.all_special_ids if skip_special_tokens else []
        return " ".join(self.words[i] for i in ids if i not in hidden)

    def convert_ids_to_tokens(self, token: int) -> str:
        return self.words[token]
