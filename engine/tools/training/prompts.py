"""Lets the target write the questions that it will answer: given its chat template up to the user's turn, an instruct
model continues with a user's question (Magpie; Xu et al. 2024). Imports no torch: wrong files are refused first."""

import json
import random
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from engine.errors import BadInput
from engine.files import disk_errors, write_atomically
from engine.tools.bench.prompts import SHIPPED, read_prompts

if TYPE_CHECKING:
    from engine.tools.training.batched_sampler import BatchedSampler
    from engine.tools.training.dataset import Samples

_MARK = "\ue000prompt\ue000"  # placeholder for the user's words while the template is rendered
LONGEST = 200  # tokens of a question
_SHORTEST = 12  # characters
_TEMPERATURE = 0.8  # at 1.0 a small target's questions make little sense
# System turns under which an attempt's question is written, in turn; "" for the template's own.
TOPICS = (
    "",
    "You are an expert programmer. Users ask you for short functions, programs and explanations of code.",
    "You are a patient teacher of mathematics. Users ask you word problems with numbers.",
    "You help with everyday questions about the household, health, travel, cooking and work.",
    "You write letters, notes, stories, product texts and speeches for your users.",
    "You explain science, history, geography and language to curious people.",
)


def question_prefixes(tokenizer) -> list[list[int]]:
    """Returns the token ids before the user's words, one list a topic. BadInput without a chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise BadInput("This target has no chat template, so it cannot write questions; pass a file with --prompts.")
    texts = []
    for topic in TOPICS:
        system = [{"role": "system", "content": topic}] if topic else []
        with suppress(TemplateError):  # some templates know no system turn
            texts.append(tokenizer.apply_chat_template([*system, {"role": "user", "content": _MARK}], tokenize=False))
    return [tokenizer(text[: text.index(_MARK)], add_special_tokens=False).input_ids for text in texts]


def write_questions(
    sampler: "BatchedSampler", tokenizer, ends: frozenset[int], attempts: Iterable[int], seed: int
) -> Iterator[tuple[int, str]]:
    """Yields (attempt, question), topics in turn; an unusable question is "". Each attempt has its own seed, so that
    its question does not depend on the batch."""
    from engine.tools.training.batched_sampler import Row

    prefixes = question_prefixes(tokenizer)
    rows = (Row(i, list(prefixes[i % len(prefixes)]), _TEMPERATURE, seed * 1_000_003 + i) for i in attempts)
    for row in sampler.sample(rows, ends, LONGEST):
        ids = row.tokens[row.prompt_len :]
        text = tokenizer.decode(ids[:-1], skip_special_tokens=False).strip()
        yield row.index, text if ids[-1] in ends and is_usable(text, tokenizer) else ""


class Attempts:
    """Stores the questions on disk as they are written. ``texts``: attempt → question, "" for an unusable one."""

    def __init__(self, path: Path):
        self.path, self.texts = path, {}
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else [""]
        for line in lines[:-1]:  # an interrupted write leaves an incomplete line after the last newline
            try:
                index, text = json.loads(line)
                self.texts[int(index)] = str(text)
            except (ValueError, TypeError) as error:
                raise BadInput(f"{path} is damaged; delete {path.parent} to start again.") from error
        if lines[-1]:
            with disk_errors(path.parent):
                write_atomically(path, "".join(f"{line}\n" for line in lines[:-1]))

    def add(self, index: int, text: str) -> None:
        self.texts[index] = text
        with disk_errors(self.path.parent), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([index, text]) + "\n")

    def questions(self, count: int) -> list[str]:
        """Returns the usable questions of the first ``count`` attempts, in order, without duplicates."""
        distinct: dict[str, str] = {}
        for index in sorted(i for i in self.texts if i < count):
            text = self.texts[index]
            distinct.setdefault(re.sub(r"\W+", " ", text.lower()).strip(), text)
        return [text for text in distinct.values() if text]


def is_usable(text: str, tokenizer) -> bool:
    """Returns whether the text is long enough to be a question and free of the template's special tokens."""
    special = any(token in text for token in tokenizer.all_special_tokens)
    return len(text) >= _SHORTEST and not special and "\ufffd" not in text


def _words(text: str) -> str:
    """Returns a text's words alone, so that neither case nor punctuation nor white space tells two texts apart."""
    return " ".join(re.findall(r"\w+", text.lower()))


_EVALUATED = {_words(prompt.text): prompt.text for prompt in read_prompts(SHIPPED)}


def evaluated_in(text: str) -> str | None:
    """Returns the prompt measuring drafts that the text holds, alone or among other words; None if there is none."""
    words = f" {_words(text)} "
    return next((prompt for known, prompt in _EVALUATED.items() if f" {known} " in words), None)


_TASKS = (
    "Summarize the following text in one sentence.",
    "Summarise this passage in two or three sentences:",
    "Rewrite the following text in simpler words:",
    "Correct any grammar mistakes in this text and write it out again:",
    "Read the text and list its main points.",
    "Repeat the following text word for word:",
    "What is the following text about? Quote the sentence that shows it.",
    "Make this text sound more formal:",
    "Turn this text into bullet points:",
    "Rewrite this in the past tense:",
)
_LENGTHS = (200, 350, 500)  # characters of a text that a task is about


def make_tasks(samples: "Samples", tokenizer, count: int, seed: int) -> Iterator[str]:
    """Yields requests about a text, taken from the target's own replies below temperature 0.9. Because plain questions
    rarely quote a text, a draft trained on them alone is poor at quoting."""
    rng = random.Random(seed)
    rows = [i for i in range(len(samples)) if samples.reply_len[i] >= 40 and samples.temperature[i] < 0.9]
    if not rows:
        raise BadInput("The samples hold no reply of 40 tokens for a task; sample more first.")
    for n in range(count):
        if n % len(rows) == 0:
            rng.shuffle(rows)
        i = rows[n % len(rows)]
        text = tokenizer.decode(samples.row(i)[samples.prompt_len[i] :], skip_special_tokens=True)
        text = text.strip().replace("\n\n", "\n")[: rng.choice(_LENGTHS)].rsplit(". ", 1)[0].strip()
        if len(text) >= _SHORTEST:
            yield f"{rng.choice(_TASKS)}\n\n{text}"


def read_texts(path: Path) -> list[str]:
    """Returns the texts of a file of prompts. BadInput names the wrong line, or a prompt that measures drafts."""
    if not Path(path).is_file():
        raise BadInput(f"The prompts {path} cannot be read; make some with `python -m engine training prompts`.")
    texts = [prompt.text for prompt in read_prompts(path)]
    for text in filter(None, map(evaluated_in, texts)):
        raise BadInput(f"{path} holds {text[:60]!r}…, which measures drafts ({SHIPPED.name}); leave it out.")
    return texts
