"""Builds the tokenizer that a GGUF file describes, as the tokenizer.json and tokenizer_config.json of a folder.

Transformers' own GGUF reader is not used, because it drops the splitting before BPE (5.23), so that "\\n\\n1" becomes
other tokens than the model was trained on.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.files import ASSETS

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = range(1, 5)  # GGUF's types of tokens, as far as they matter here
_FIELD = "tokenizer.ggml."  # how the names of all its fields begin
# Those that are read, or say nothing about the tokens of a text; all that end in _token_id are among them.
_KNOWN = {"model", "pre", "tokens", "token_type", "token_type_count", "scores", "merges", "add_bos_token",
          "add_eos_token", "add_space_prefix", "normalizer.nfc"}  # fmt: skip
_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
_DEFAULTS = {"llama": {"bos": 1, "eos": 2, "unknown": 0}}  # where a file of the kind names none
_HARMLESS = ("unknown", "padding")  # roles for which a number beyond the vocabulary means none
# Names of tokens, as llama.cpp lists them; the types that a file gives these tokens do not count. ``ends`` end a turn
# or a text, and so do ``ends_by_role`` unless the file names another token for the role; an end is ``inner``, a part of
# the text, beside others; ``marks`` are control tokens, and ``visible`` ones belong to the text.
_NAMES = json.loads((ASSETS / "data" / "gguf_tokens.json").read_text(encoding="utf-8"))
_ENDS, _VISIBLE, _ENDS_BY_ROLE = {*_NAMES["ends"]}, {*_NAMES["visible"]}, _NAMES["ends_by_role"]
_MARKS = {*_NAMES["marks"]}.union(*_ENDS_BY_ROLE.values())
_STRIPPING = ("phi-3", "phi3")  # models, by their names, whose marks take the white space after them away
_NOT_STRIPPING = {"<unk>", "<s>", "<|endoftext|>"}

_ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
# How the text is split before BPE, by `tokenizer.ggml.pre`: the patterns of the models' own tokenizer.json files.
_PATTERNS = {
    "qwen2": rf"{_ENGLISH}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}",
    "llama-bpe": rf"{_ENGLISH}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}",
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
_ALIASES = {"llama3": "llama-bpe", "llama-v3": "llama-bpe", "gpt2": "gpt-2", "deepseek-r1-qwen": "qwen2"}
_WHOLE_WORDS_FIRST = ("llama-bpe", "tekken")  # a word that is a token is not merged from its parts
_WITH_FIRST_TOKEN = ("llama-bpe", "tekken")  # a text begins with their first token, unless the file says otherwise
_COMPOSED = ("qwen2",)  # those whose texts are put into Unicode's composed form first


def write_tokenizer(folder: Path, fields: Mapping, context: int) -> None:
    """Writes both files. Raises ValueError with the reason for an unknown tokenizer, KeyError without one."""
    kind, tokens = fields["tokenizer.ggml.model"], _tokens(fields)
    _refuse_unknown(fields)
    types = fields.get("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    for name, values in {"types": types, "scores": fields.get("tokenizer.ggml.scores", types)}.items():
        if len(values) < len(tokens):
            raise ValueError(f"it has {len(tokens):,} tokens, but the {name} of only {len(values):,}")
    if kind == "gpt2":
        tokenizer = _byte_level(fields, tokens)
    elif kind == "llama":
        tokenizer = _sentence_pieces(fields, tokens, types)
    else:
        raise ValueError(f"its tokenizer is of the kind {kind!r}, and gpt2 (BPE) and llama (SentencePiece) are read")
    _add_special(tokenizer, fields, tokens, types)
    tokenizer.save(str(folder / "tokenizer.json"))
    ids = {role: special_id(fields, name) for role, name in _ROLES.items()}
    template = fields.get("tokenizer.chat_template")
    config = {
        "backend": "tokenizers",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "tokenizer_class": "TokenizersBackend",
    }
    config |= {role: tokens[i] for role, i in ids.items() if i is not None}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    if template:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


def _refuse_unknown(fields: Mapping) -> None:
    """Raises ValueError for a field that may change the tokens of a text, such as one that has it in small letters."""
    for name, value in fields.items():
        own = name.removeprefix(_FIELD)
        is_known = own == name or own in _KNOWN or own.endswith("_token_id")
        if not is_known and value not in (False, 0, "", []):
            raise ValueError(f"its field {name} ({str(value)[:40]}) is not known here, and may change its tokens")


def special_id(fields: Mapping, role: str) -> int | None:
    """Returns the number of the token that has this role, None without one. Raises ValueError if it is none of them."""
    size = len(fields["tokenizer.ggml.tokens"])
    usual = _DEFAULTS.get(fields["tokenizer.ggml.model"], {}).get(role)
    number = fields.get(f"{_FIELD}{role}_token_id", usual)
    if number is None or 0 <= number < size:
        return number
    if role in _HARMLESS or number == usual:
        return None
    raise ValueError(f"its {role} token is number {number:,}, but it has {size:,} tokens")


def end_ids(fields: Mapping) -> list[int]:
    """Returns the ids at which a text ends: those that the file names, and tokens with the name of an end."""
    tokens, ends = fields["tokenizer.ggml.tokens"], _ENDS
    named = [special_id(fields, role) for role in ("eos", "eot", "eom", *_ENDS_BY_ROLE)]
    for role, names in _ENDS_BY_ROLE.items():
        if special_id(fields, role) is None:
            ends = ends.union(names)
    ids = dict.fromkeys(i for i in (*named, *(i for i, token in enumerate(tokens) if token in ends)) if i is not None)
    texts = {tokens[i] for i in ids}
    inner = {end for end, others in _NAMES["inner"] if texts.issuperset(others)}
    return [i for i in ids if tokens[i] not in inner]


def _tokens(fields: Mapping) -> list[str]:
    """Returns the texts of all tokens; an empty one gets a name. Raises ValueError where two are the same."""
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(fields["tokenizer.ggml.tokens"])]
    if len({*tokens}) < len(tokens):
        twice = max(tokens, key=Counter(tokens).__getitem__)
        raise ValueError(f"it has the token {twice!r} twice, so one of the two could never be written")
    return tokens


def _byte_level(fields: Mapping, tokens: Sequence[str]):
    """Returns a BPE tokenizer over bytes, like GPT-2's."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pre = _splitting(fields)
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pre in _WHOLE_WORDS_FIRST))
    if pre in _PATTERNS:
        split = pre_tokenizers.Split(Regex(_PATTERNS[pre]), "isolated")
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    elif pre in ("smollm", "gpt-2"):
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        digits = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, bytes_]) if digits else bytes_
    else:
        known = ", ".join(sorted({"gpt-2", "smollm", *_PATTERNS}))
        raise ValueError(f"its text is split for BPE in the way {pre!r}, and the ways known here are {known}")
    if fields.get("tokenizer.ggml.normalizer.nfc", pre in _COMPOSED):
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _splitting(fields: Mapping) -> str:
    pre = fields.get("tokenizer.ggml.pre", "default")
    return _ALIASES.get(pre, pre)


def _sentence_pieces(fields: Mapping, tokens: Sequence[str], types: Sequence[int]):
    """Returns Llama 2's kind of tokenizer: the pair of pieces with the best score is merged first, and a character
    without a piece becomes bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    vocabulary = {token: i for i, token in enumerate(tokens)}
    unknown = special_id(fields, "unknown") or 0
    scores = fields["tokenizer.ggml.scores"]
    model = models.BPE(
        vocabulary, _merges(vocabulary, scores, types), unk_token=tokens[unknown], fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    prefix = [normalizers.Prepend("▁")] if fields.get("tokenizer.ggml.add_space_prefix", True) else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip,
    ])  # fmt: skip
    return tokenizer


def _merges(vocabulary: Mapping[str, int], scores: Sequence[float], types: Sequence[int]) -> list[tuple[str, str]]:
    """Returns the pairs of pieces that make another piece, the highest score first.

    >>> _merges({"a": 0, "b": 1, "ab": 2, "aab": 3}, [0, 0, -1, -2], [1, 1, 1, 1])
    [('a', 'b'), ('a', 'ab')]
    """
    merges = []
    for piece, i in vocabulary.items():
        if types[i] != _NORMAL:
            continue
        cuts = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        pairs = [(left, right) for left, right in cuts if left in vocabulary and right in vocabulary]
        merges += [(-scores[i], vocabulary[left], vocabulary[right], left, right) for left, right in pairs]
    return [(left, right) for *_, left, right in sorted(merges, key=lambda merge: merge[0])]


def _add_special(tokenizer, fields: Mapping, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Marks the tokens that no merge makes, and puts the first token before a text where the file says so."""
    from tokenizers import AddedToken, processors

    visible = _VISIBLE | (_ENDS - {tokens[i] for i in end_ids(fields)})
    strips = any(name in str(fields.get("general.name")).lower() for name in _STRIPPING)
    for token, kind in zip(tokens, types, strict=False):
        kind = _USER_DEFINED if token in visible else _CONTROL if token in _ENDS | _MARKS else kind
        if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN):
            rstrip = strips and token not in _NOT_STRIPPING
            is_special = kind != _USER_DEFINED
            tokenizer.add_tokens([AddedToken(token, special=is_special, normalized=False, rstrip=rstrip)])
    usually = fields["tokenizer.ggml.model"] == "llama" or _splitting(fields) in _WITH_FIRST_TOKEN
    begins, first = fields.get("tokenizer.ggml.add_bos_token", usually), special_id(fields, "bos")
    ends, last = fields.get("tokenizer.ggml.add_eos_token", False), special_id(fields, "eos")
    before = [first] if begins and first is not None else []
    after = [last] if ends and last is not None else []
    if before or after:

        def template(text: str, sequence: int) -> list[str]:
            names = [tokens[i] for i in before] + [text] + [tokens[i] for i in after]
            return [f"{name}:{sequence}" for name in names]

        tokenizer.post_processor = processors.TemplateProcessing(
            single=template("$A", 0), pair=template("$A", 0) + template("$B", 1),
            special_tokens=[(tokens[i], i) for i in dict.fromkeys([*before, *after])],
        )  # fmt: skip
