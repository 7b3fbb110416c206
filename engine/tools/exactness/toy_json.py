"""Defines a toy that writes JSON about the weather, held to it by a grammar: a target, a draft, and the law of answers.

Each answer has one of three texts, and each text several tokens: its quotes and brackets can be cut in two ways.
"""

from collections.abc import Callable, Iterator, Mapping

from engine.config import Constraint, SamplingParams
from engine.decoding.loop import TRUE_RULES, Rules
from engine.drafters.base import Drafter
from engine.drafters.draft_model import DraftModelDrafter
from engine.errors import BadInput
from engine.sampling.constraint import GrammarReader
from engine.tools.exactness.results import JSON_END, JSON_TOKENS, TOY_WORDS
from engine.tools.exactness.toy_grammar import constrained_distribution, text_reader
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, make_drafter, toy_decoder
from engine.trace.events import Round

WORDS = ('{"', "sky", '":"', *TOY_WORDS, '"}', "{", '"', ":", "}", JSON_END)
END = WORDS.index(JSON_END)
TEXTS = tuple(f'{{"sky":"{word}"}}' for word in TOY_WORDS)
PROMPT = [
    WORDS.index(word) for word in ('{"', "sky", '":"', "rain", '"}', JSON_END)
]  # an answer, which lookup finds again
_KNOWN = 4.0  # how much more the target's logits give to a word that follows another one in an answer


class DrawnBlindly(DraftModelDrafter):
    """Drafts as on a device, where the host does not know the drafts while they are drawn: the grammar cuts them."""

    def mask_guess(self, logits, drafts):
        return logits


def json_pair() -> tuple[ToyLM, ToyLM]:
    """Makes a target that writes right JSON most of the time, and a draft that is much less sure."""
    table = ToyLM.random(len(WORDS), seed=2, spread=0.5).table
    answers = [JSON_END + text + JSON_END for text in TEXTS]
    for first, before in enumerate(WORDS):
        for second, after in enumerate(WORDS):
            if any(before + after in answer for answer in answers):
                table[:, first, second] += _KNOWN
    target = ToyLM(table, WORDS)
    return target, target.with_noise(1.5, seed=3)


def json_reader() -> GrammarReader:
    return text_reader(TEXTS, WORDS, END)


def json_law(sampling: SamplingParams) -> Mapping[tuple[int, ...], float]:
    """Returns the exact distribution of whole answers."""
    law = constrained_distribution(json_pair()[0], PROMPT, json_reader(), sampling)
    assert max(map(len, law)) < JSON_TOKENS
    return law


def json_drafter(method: str, draft: ToyLM) -> Drafter:
    """Returns the drafter of a toy's method; a draft model does not see the grammar, as on a GPU."""
    return DrawnBlindly(ToyRunner(draft)) if method == "lm" else make_drafter(method, draft)


def json_runs(
    drafter: Callable[[ToyLM], Drafter], sampling: SamplingParams, gamma: int, rules: Rules, acceptance: str = "token"
) -> Callable[[int], Iterator[Round]]:
    """Returns seed → rounds of an answer. A wrong rule may leave the grammar; then nothing can follow, and the answer
    ends there. ``drafter``: makes one for the toy's draft."""
    target, draft = json_pair()
    constraint = Constraint("choice", "\n".join(TEXTS))

    def rounds(seed: int) -> Iterator[Round]:
        run = toy_decoder(
            target, drafter(draft), PROMPT, sampling, gamma, rules, eos=[END], seed=seed, reader=json_reader(),
            constraint=constraint, acceptance=acceptance, max_new_tokens=JSON_TOKENS, trace=False,
        )  # fmt: skip
        try:
            yield from run.rounds()
        except BadInput:
            if rules is TRUE_RULES:
                raise

    return rounds


def json_text(answer: tuple[int, ...]) -> str:
    """Joins the text of an answer, without its end."""
    return "".join(WORDS[token] for token in answer if token != END)
