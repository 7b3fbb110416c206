"""A server on our own loop: a toy target with the penalties of OpenAI's API, and two mistakes that drafts invite."""

import json
from collections import Counter
from collections.abc import Sequence

import torch
from stand_in_server import DONE, event

from engine.config import SamplingParams
from engine.drafters.ngram import NgramDrafter
from engine.tools.exactness.toy_models import ToyLM, ToyRunner, toy_decoder

WORDS = (" one", " two", " three", " four", " five", " six", " seven", " eight", " nine", " ten", "")
END = len(WORDS) - 1
GAMMA = 4
GREEDY = SamplingParams()


class PenalisedRunner(ToyRunner):
    """A target whose every row is penalised by the tokens of its own path, from ``start`` on."""

    def __init__(self, model: ToyLM, asked: dict, start: int):
        super().__init__(model)
        self.asked, self.start = asked, start

    def forward(self, tokens: torch.Tensor, parents: Sequence[int] | None = None, last: bool = False) -> torch.Tensor:
        base, fed = list(self.ids), tokens.tolist()
        assert parents is None, "lookup drafts a chain"
        rows = super().forward(tokens).clone()
        for i, row in enumerate(rows):
            output = [*base, *fed[: i + 1]][self.start :]
            self.penalise(row, Counter(self.counted(output, i)), self.length_of(output, i))
        return rows[-1:] if last else rows

    def counted(self, output: list[int], row: int) -> list[int]:
        """Returns the tokens that count for the penalties of a row."""
        return output

    def length_of(self, output: list[int], row: int) -> int:
        """Returns the length that a row compares with the least one."""
        return len(output)

    def penalise(self, row: torch.Tensor, counts: Counter, length: int) -> None:
        repetition = self.asked.get("repetition_penalty", 1.0)
        for token, count in counts.items():
            row[token] = row[token] * repetition if row[token] < 0 else row[token] / repetition
            row[token] -= self.asked.get("presence_penalty", 0.0) + count * self.asked.get("frequency_penalty", 0.0)
        for token, bias in self.asked.get("logit_bias", {}).items():
            row[int(token)] += bias
        if length < self.asked.get("min_tokens", 0):
            row[END] = -torch.inf


class LastCounts(PenalisedRunner):
    """Counts only the last token that each round committed."""

    seen: tuple[int, ...] = ()

    def counted(self, output: list[int], row: int) -> list[int]:
        if row == 0:
            self.seen = (*self.seen, *output[-1:])
        return list(self.seen)


class OnceARound(PenalisedRunner):
    """Looks at the length once, at the beginning of a round."""

    def length_of(self, output: list[int], row: int) -> int:
        return len(output) - row


class Ignores(PenalisedRunner):
    """Has no penalties at all."""

    def penalise(self, row: torch.Tensor, counts: Counter, length: int) -> None:
        pass


def circles() -> ToyLM:
    """Returns a model whose greedy text repeats five words, each of which has a slightly less likely substitute."""
    row = torch.full((len(WORDS), len(WORDS)), -5.0)
    for i in range(10):
        row[i, (i + 1) % 5], row[i, 5 + (i + 1) % 5] = 5.0, 4.0
    return ToyLM(row.expand(len(WORDS) + 1, -1, -1), WORDS)


def short_model() -> ToyLM:
    """Returns a model that counts from one to five and ends; from six on it counts to ten and begins again."""
    row = torch.full((len(WORDS), len(WORDS)), -5.0)
    row[range(10), [1, 2, 3, 4, END, 6, 7, 8, 9, 0]] = 5.0
    row[4, 5], row[END, 5] = 3.0, 3.0
    return ToyLM(row.expand(len(WORDS) + 1, -1, -1), WORDS)


def write(runner: type[PenalisedRunner], toy: ToyLM, asked: dict, prompt: list[int], gamma: int) -> list[int]:
    """Returns the tokens of a greedy answer, with the one that ends it."""
    run = toy_decoder(toy, NgramDrafter(), prompt, GREEDY, gamma, eos=[END], max_new_tokens=asked["max_tokens"])
    run.target = runner(toy, asked, len(prompt))
    for _ in run.rounds():
        pass
    return run.text.ids[len(prompt) :]


def server(runner: type[PenalisedRunner] = PenalisedRunner, gamma: int = GAMMA, caches: bool = True) -> dict:
    """Returns the answers of a small vLLM whose greedy texts our own loop writes. ``gamma`` 0 drafts nothing."""
    repeating, counting, read = circles(), short_model(), set()

    def completions(asked):
        if asked.get("n") == 2:
            return json.dumps({"choices": [{"text": ""}] * 2})
        first = sum(asked["prompt"].encode())
        prompt = [(first + i) % 5 for i in range(6)]
        tokens = write(runner, repeating, asked, prompt, gamma)
        beginning = asked["prompt"][: len(asked["prompt"]) // 2]
        details = {"cached_tokens": 900 * (caches and beginning in read)}
        read.add(beginning)
        usage = {"completion_tokens": len(tokens), "prompt_tokens": 1000, "prompt_tokens_details": details}
        if asked.get("stream"):
            events = [event(choices=[{"text": WORDS[token], "token_ids": [token]}]) for token in tokens]
            return b"".join([*events, event(choices=[], usage=usage), DONE])
        tops = []
        for i in range(len(tokens)):
            numbers = repeating.logits([*prompt, *tokens[:i]]).log_softmax(-1)
            tops.append({WORDS[int(token)]: float(numbers[token]) for token in numbers.topk(5).indices})
            tops[-1][WORDS[tokens[i]]] = float(numbers[tokens[i]])
        words = [WORDS[token] for token in tokens]
        own = [row[word] for row, word in zip(tops, words, strict=True)]
        rows = {"tokens": words, "token_logprobs": own, "top_logprobs": tops}
        choice = {"text": "".join(words), "logprobs": rows, "finish_reason": "length"}
        return json.dumps({"choices": [choice], "usage": usage})

    def chat(asked):
        tokens = write(runner, counting, asked, [0, 1, 2, 3, 4, END, 9], gamma)
        reason = "stop" if tokens[-1] == END else "length"
        choice = {"message": {"content": "".join(WORDS[token] for token in tokens)}, "finish_reason": reason}
        return json.dumps({"choices": [choice], "usage": {"completion_tokens": len(tokens)}})

    def tokenize(asked):
        return json.dumps({"tokens": [WORDS.index(asked["prompt"])] if asked["prompt"] in WORDS else [0, 1]})

    return {
        "/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/version": '{"version": "0.32.0"}', "/metrics": "",
        "/v1/completions": completions, "/v1/chat/completions": chat, "/tokenize": tokenize,
    }  # fmt: skip
