"""Follows a constraint with the tokens of a toy: is an answer one of its own, and what could be one?"""

import json
from functools import cache

from unlike_tokenizers import byte_level

from engine.constraint import Constraint
from engine.sampling.constraint import GrammarReader, is_set
from engine.sampling.constraint_compiler import Grammars


@cache
def toy_grammars() -> Grammars:
    tokenizer = byte_level()
    return Grammars(tokenizer, len(tokenizer), {tokenizer.eos_token_id})


def follow(kind: str, rule: object, compact: bool = False, most: int = 4096) -> GrammarReader:
    """Returns a reader at the beginning of an answer. ``rule``: a text, or a schema as JSON. Raises BadInput."""
    own, text = toy_grammars(), rule if isinstance(rule, str) else json.dumps(rule)
    return GrammarReader(own.matcher(Constraint(kind, text, compact), most), own.eos_ids, own.vocab_size)


def accepts(kind: str, rule: object, answer: str, compact: bool = False) -> bool:
    """Returns whether the whole answer is one that the constraint allows. Raises BadInput."""
    reader = follow(kind, rule, compact)
    for token in byte_level()(answer, add_special_tokens=False).input_ids:
        if not is_set(reader.allowed_after(()), token):
            return False
        reader.advance(token)
    return reader.is_complete()
