"""Checks whether drafts weaken penalties, a bias or a least length, each on texts where it must show. Imports no torch.

A round commits several tokens, and an engine that counts only the last of them, or looks once a round, keeps none of
these promises: a penalty counts too few tokens, and a least length forbids the end for too long.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from engine.tools.servers.check_server import movement
from engine.tools.servers.client import Client
from engine.tools.servers.streamed_answer import mapping
from engine.tools.servers.subject import STEP, Judgement, Subject, Written, differences

TEXTS = (  # that go on with what they have had, so that drafts are accepted and penalties count
    "la la la la la la la la la la la la",
    "one two three one two three one two three one two",
    "- red: 1\n- blue: 1\n- green: 1\n- red: 1\n- blue: 1\n- green: 1\n- red:",
    "The cat sat on the mat. The dog sat on the mat. The cat sat on the mat. The",
)
SHORT = (  # chats whose answers end soon, and repeat the question
    "Repeat exactly this and nothing else: one two three four five.",
    "Repeat exactly this and nothing else: The sky is blue.",
    "Say yes and nothing else.",
)
BIAS, MORE = -100, 8
WEAKENED = "sgl-project/sglang pull request 33643"
IGNORED = "NVIDIA/TensorRT-LLM pull request 17701, vllm-project/vllm#18902"
REMEDY = "a newer version, or no drafts for requests with this field"


@dataclass(frozen=True)
class Penalty:
    """A field of a request, its value here, and a value near it: where that changes a text as early as drafts do, the
    difference may be rounding."""

    field: str
    value: float
    near: float


PENALTIES = {
    "presence penalty": Penalty("presence_penalty", 1.5, 1.4),
    "frequency penalty": Penalty("frequency_penalty", 0.8, 0.75),
    "repetition penalty": Penalty("", 1.3, 1.27),  # its field has another name in each engine
}


def penalty(name: str, drafting: Subject, plain: Subject | None) -> Judgement:
    """Compares greedy texts under a penalty with a plain server's, or only with the same server's without it."""
    kind = PENALTIES[name]
    texts = [_write_all(kind, subject, kind.value) for subject in (drafting, plain) if subject]
    free = [drafting.write(text) for text in TEXTS]
    for subject in filter(None, (drafting, plain)):
        if refused := subject.client.refused & _fields(kind, subject, 1.0).keys():
            return "unknown", f"A server refuses {min(refused)}, so it cannot be tested."
    moved = [sum(a.tokens != b.tokens for a, b in zip(rows, free, strict=True)) for rows in texts]
    if not plain:
        words = f"The {name} of {kind.value} changed {moved[0]} of {len(TEXTS)} texts."
        return (
            ("right", words) if moved[0] else ("unknown", f"{words} Only an OFF_URL can tell whether it should have.")
        )
    if not moved[1]:
        return "unknown", f"The {name} of {kind.value} changes no text without drafts either."
    wrong = _wide(texts[0], texts[1], _write_all(kind, plain, kind.near))
    equal = sum(a.tokens == b.tokens for a, b in zip(*texts, strict=True))
    words = f"Under a {name} of {kind.value}, {equal} of {len(TEXTS)} texts are the same as without drafts"
    words += f", with {_repeats(texts[0])} repeated tokens against {_repeats(texts[1])}."
    if not wrong:
        return "right", words
    issue = WEAKENED if moved[0] else IGNORED
    how = "is weaker" if moved[0] else "has no effect"
    return "wrong", f"{words} It {how} with drafts: at token {wrong[0] + 1} no rounding explains it.", issue, REMEDY


def _fields(kind: Penalty, subject: Subject, value: float) -> dict[str, Any]:
    return {kind.field: value} if kind.field else dict.fromkeys(subject.no_penalty, value)


def _write_all(kind: Penalty, subject: Subject, value: float) -> list[Written]:
    return [subject.write(text, **_fields(kind, subject, value)) for text in TEXTS]


def _wide(drafts: list[Written], plain: list[Written], near: list[Written]) -> list[int]:
    """Returns the places of differences that rounding cannot explain: by the model's own numbers the two tokens are far
    apart, and a penalty that is a little smaller would not have changed the plain text up to there."""
    limit, places = 2 * movement(plain, drafts) + STEP, []
    for ours, theirs, close in zip(drafts, plain, near, strict=True):
        for place, gap in differences([theirs], [ours]):
            if gap > limit and close.tokens[: place + 1] == theirs.tokens[: place + 1]:
                places.append(place)
    return places


def _repeats(rows: list[Written]) -> int:
    return sum(len(row.tokens) - len(set(row.tokens)) for row in rows)


# ── a bias ──


def logit_bias(drafting: Subject, plain: Subject | None) -> Judgement:
    """Forbids the word that a text has most often."""
    for text in TEXTS:
        counts = Counter(token for token in drafting.write(text).tokens if token.strip().isalpha())
        for token, count in counts.most_common(3):
            if count > 2 and (id := _id(drafting.client, drafting.model, token)) is not None:
                sides = [
                    subject.write(text, logit_bias={str(id): BIAS}).tokens.count(token)
                    for subject in (drafting, plain)
                    if subject
                ]
                return _bias_judgement(token, count, sides)
    return "unknown", "It has no /tokenize that names a word's number, so none can be forbidden."


def _bias_judgement(token: str, count: int, sides: list[int]) -> Judgement:
    words = f"Forbidden by logit_bias {BIAS}, {token!r} came {sides[0]} times in place of {count}"
    words += f", and {sides[1]} times without drafts." if sides[1:] else "."
    if not sides[0]:
        return "right", words
    if sides[1:] and sides[1] >= sides[0]:
        return "unknown", f"{words} So drafts are not to blame."
    if not sides[1:] and sides[0] >= count:
        return "unknown", f"{words} The server may not know the field. Only an OFF_URL can tell whether drafts are why."
    return "wrong", words, "sgl-project/sglang#10617, vllm-project/vllm#42744", REMEDY


def _id(client: Client, model: str, token: str) -> int | None:
    """Returns the number of a token; None where the text is several. Engines call the text by two names."""
    body = {"model": model, "prompt": token, "content": token, "add_special_tokens": False, "add_special": False}
    ids = mapping(client.post_json("/tokenize", body)).get("tokens")
    return ids[0] if isinstance(ids, list) and len(ids) == 1 and isinstance(ids[0], int) else None


# ── a least length ──


def min_tokens(drafting: Subject, plain: Subject | None) -> Judgement:
    """Asks for answers that end by themselves with less than they have, which must change nothing, and with more."""
    faults = [_least_faults(drafting), *([_least_faults(plain)] if plain else [])]
    if faults[0] is None:
        return "unknown", "No short answer ended by itself, twice alike, so a least length cannot be tested."
    if not (changed := faults[0]):
        return "right", f"{len(SHORT)} answers are as long as min_tokens asks for, and no longer."
    if plain and (faults[1] is None or len(faults[1]) >= len(changed)):
        return "unknown", f"{changed[0]} Without drafts it is the same, so they are not to blame."
    if not plain and "too short" in changed[0]:
        return "unknown", f"{changed[0]} Only an OFF_URL can tell whether drafts are to blame."
    return "wrong", changed[0], f"{WEAKENED}, vllm-project/vllm pull request 41768", REMEDY


def _least_faults(subject: Subject) -> list[str] | None:
    """Returns a sentence for each answer that breaks a least length; None where no answer is steady and ends."""
    faults, tried = [], 0
    for question in SHORT:
        text, size, reason = _chat(subject, question)
        if reason != "stop" or not size or (text, size, reason) != _chat(subject, question):
            continue
        tried += 1
        for least in range(max(1, size - 3), size):
            other, count, _ = _chat(subject, question, min_tokens=least)
            if other != text:
                faults.append(
                    f"min_tokens {least} changed an answer that has {size} tokens by itself; it then had {count}."
                )
        _, count, _ = _chat(subject, question, min_tokens=size + MORE)
        if count is not None and count < size + MORE:
            faults.append(f"With min_tokens {size + MORE} an answer had {count} tokens, which is too short.")
    return faults if tried else None


def _chat(subject: Subject, question: str, **more) -> tuple[str, int | None, str]:
    """Returns an answer's text, its tokens, and why it ended."""
    body = {"model": subject.model, "messages": [{"role": "user", "content": question}], "temperature": 0.0}
    body |= {"max_tokens": subject.tokens + MORE} | subject.no_penalty | more
    answer = subject.client.post_json("/v1/chat/completions", body)
    choice = mapping(answer["choices"][0])
    text, count = mapping(choice.get("message")).get("content"), mapping(answer.get("usage")).get("completion_tokens")
    return str(text or ""), count if isinstance(count, int) else None, str(choice.get("finish_reason"))
