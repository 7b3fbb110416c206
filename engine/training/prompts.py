"""Questions to put to the target. It writes them itself: given its chat template up to where a user would speak, an
instruct model goes on with what users ask (Magpie; Xu et al. 2024)."""

import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from engine.errors import BadInput
from engine.folders import disk_errors, write_atomically
from engine.training.samples import Samples
from engine.training.slots import Row, Slots

_MARK = "\ue000prompt\ue000"  # stands for the user's words while the template is rendered
LONGEST = 200  # tokens of a question
_SHORTEST = 12  # characters


def opening(tokenizer) -> list[int]:
    """Token ids up to where the user's words begin. BadInput without a chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise BadInput("This target has no chat template, so it cannot write questions; pass a file with --prompts.")
    text = tokenizer.apply_chat_template([{"role": "user", "content": _MARK}], tokenize=False)
    return tokenizer(text[: text.index(_MARK)], add_special_tokens=False).input_ids


def written(
    slots: Slots, tokenizer, ends: frozenset[int], attempts: Iterable[int], seed: int
) -> Iterator[tuple[int, str]]:
    """(attempt, question) at temperature 1 as they come; an unusable one is "". An attempt is its own draw, whatever
    stands beside it."""
    start = opening(tokenizer)
    rows = (Row(i, list(start), 1.0, seed * 1_000_003 + i) for i in attempts)
    for row in slots.sample(rows, ends, LONGEST):
        ids = row.tokens[row.prompt_len :]
        text = tokenizer.decode(ids[:-1], skip_special_tokens=False).strip()
        yield row.index, text if ids[-1] in ends and usable(text, tokenizer) else ""


class Attempts:
    """``texts``: attempt → question, "" for an unusable one. A line each on disk as they come, so that an interrupted
    run loses none of them."""

    def __init__(self, path: Path):
        self.path, self.texts = path, {}
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else [""]
        for line in lines[:-1]:  # behind the last line's end stands what was being written when it was cut short
            try:
                index, text = json.loads(line)
                self.texts[int(index)] = str(text)
            except (ValueError, TypeError) as error:
                raise BadInput(f"{path} is damaged; delete {path.parent} to begin anew.") from error
        if lines[-1]:
            with disk_errors(path.parent):
                write_atomically(path, "".join(f"{line}\n" for line in lines[:-1]))

    def add(self, index: int, text: str) -> None:
        self.texts[index] = text
        with disk_errors(self.path.parent), open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps([index, text]) + "\n")

    def questions(self, count: int) -> list[str]:
        """The usable ones of the first ``count`` attempts, in their order, no two alike."""
        found: dict[str, str] = {}
        for index in sorted(i for i in self.texts if i < count):
            text = self.texts[index]
            found.setdefault(re.sub(r"\W+", " ", text.lower()).strip(), text)
        return [text for text in found.values() if text]


def usable(text: str, tokenizer) -> bool:
    """Long enough to be a question, and nothing of the template's own in it."""
    special = any(token in text for token in tokenizer.all_special_tokens)
    return len(text) >= _SHORTEST and not special and "\ufffd" not in text


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


def tasks(samples: Samples, tokenizer, count: int, seed: int) -> Iterator[str]:
    """Requests about a text, which questions alone hardly hold: the texts are the target's own calmer replies."""
    rng = random.Random(seed)
    rows = [i for i in range(len(samples)) if samples.reply_len[i] >= 40 and samples.temperature[i] < 0.9]
    if not rows:
        raise BadInput("The samples hold no reply of 40 tokens to make a task of; sample more first.")
    for n in range(count):
        if n % len(rows) == 0:
            rng.shuffle(rows)
        i = rows[n % len(rows)]
        text = tokenizer.decode(samples.row(i)[samples.prompt_len[i] :], skip_special_tokens=True)
        text = text.strip().replace("\n\n", "\n")[: rng.choice(_LENGTHS)].rsplit(". ", 1)[0].strip()
        if len(text) >= _SHORTEST:
            yield f"{rng.choice(_TASKS)}\n\n{text}"


def read(path: Path) -> list[str]:
    """The `prompt` of each line. BadInput names a bad line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"The prompts {path} cannot be read; make some with `python -m engine.training prompts`."
        ) from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            text = json.loads(line)["prompt"]
        except (ValueError, TypeError, KeyError) as error:
            raise BadInput(f"Line {number} of {path} is no JSON object with `prompt`.") from error
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"Line {number} of {path} has an empty prompt.")
        found.append(text)
    if not found:
        raise BadInput(f"{path} holds no prompts.")
    return found
