"""Recordings of a server of known speed, made without waiting: its answer is read at once, then given times."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from stand_in_server import DONE, event, recorded

from engine.trace.trace import Trace, save

NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
WORDS = [f"{word} " for word in NUMBERS.split()] * 4


def vllm_recording(gamma: int, pause: float, accepted: Sequence[int] = (0,), **more) -> Trace:
    """vLLM's answer of `WORDS`: a piece every ``pause`` seconds, each with the next number of ``accepted`` drafts."""
    pieces, at, turns = [WORDS[:1]], 1, cycle(accepted)
    while at < len(WORDS):
        size = next(turns) + 1
        pieces.append(WORDS[at : at + size])
        at += size
    lines = [event(choices=[{"delta": {"content": "".join(p)}, "token_ids": [*map(_id, p)]}]) for p in pieces]
    if gamma:
        kept = [len(piece) - 1 for piece in pieces[1:]]
        counts = {"num_spec_steps": len(kept), "num_draft_tokens": gamma * len(kept), "num_spec_tokens": gamma}
        counts |= {"num_accepted_draft_tokens": sum(kept), "per_step_accepted": kept}
        lines.append(
            event(choices=[], metrics={"speculative_decoding": counts | {"per_step_drafted": [gamma] * len(kept)}})
        )
    trace, _ = recorded({
        "/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/version": '{"version": "0.33.0"}', "/metrics": "vllm:x 1\n",
        "/v1/chat/completions": b"".join([*lines, DONE]),
        "/detokenize": lambda asked: json.dumps({"prompt": WORDS[asked["tokens"][0] - 1]}),
    }, **more)  # fmt: skip
    return timed(trace, pause)


def _id(word: str) -> int:
    return WORDS.index(word) + 1


def timed(trace: Trace, pause: float) -> Trace:
    """The recording with ``pause`` seconds a round; its first token comes after as many."""
    rounds = tuple(replace(r, start=pause * max(1, r.index), end=pause * (r.index + 1)) for r in trace.rounds)
    return replace(trace, rounds=rounds)


def uncounted_recording() -> Trace:
    """An answer of a server of no known engine, which tells neither ids nor how many drafts it rejected."""
    sizes = ((1, "a cat "), (3, "sat on "), (6, "the mat "), (7, "and "), (10, "slept and slept"))
    lines = [event(choices=[{"text": text}], usage={"completion_tokens": count}) for count, text in sizes]
    trace, _ = recorded({"/v1/completions": b"".join([*lines, DONE])}, chat=False)
    return timed(trace, 0.1)


def hidden_recording(drafts: int = 0) -> Trace:
    """An answer of nine tokens in three pieces, whose server counts at the end alone; perhaps drafts, too."""
    lines = [event(choices=[{"text": text}]) for text in ("a cat ", "sat on ", "the mat")]
    counts = {"usage": {"completion_tokens": 9}}
    counts |= {"timings": {"predicted_n": 9, "draft_n": drafts, "draft_n_accepted": 2}} if drafts else {}
    trace, _ = recorded({"/v1/completions": b"".join([*lines, event(choices=[], **counts), DONE])}, chat=False)
    return timed(trace, 0.1)


def file_of(trace: Trace, folder: Path, name: str) -> str:
    save(trace, folder / name)
    return str(folder / name)


PLAIN, ONE, THREE = (
    vllm_recording(0, 0.03), vllm_recording(1, 0.045, (1, 0, 1, 1)), vllm_recording(3, 0.06, (3, 1, 0, 2)),
)  # fmt: skip
