"""Checks whether another engine's server still writes what its model says, with drafts on. Imports no torch.

Each check gives a `Finding`: a sentence with the measurement, and for a fault a public issue that looks like it and a
setting to try. A server with drafts is compared with one without, and first of all with itself: two runs of one server
need not agree, and how far its own numbers move is the yardstick for the rest.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from engine.errors import EngineError, quantity
from engine.tools.servers.check_server import FALSE_ALARM, PROMPTS, TOPS, by_token, chi_squared, many, movement
from engine.tools.servers.client import Client
from engine.tools.servers.json_answers import COUNT, REQUESTS, invalid
from engine.tools.servers.recording import Recorder
from engine.tools.servers.streamed_answer import ServerRequest, mapping
from engine.trace.events import TESTED
from engine.trace.metrics import first_difference, wilson
from engine.trace.trace import Trace

Judgement = tuple[str, ...]  # the fields of a `Finding` after its name
MANY_BYTES = "Repeat: 日本語のテキスト 🙂🙃 Ελληνικά, naïve café. Repeat:"  # characters of several bytes
STEP = 0.02  # log-probabilities that differ by less are taken for equal
WIRING = "the method of the head (EAGLE or EAGLE3), the layers that it reads, an output layer in its folder"


@dataclass(frozen=True)
class Finding:
    """``state``: right, wrong or unknown. ``resembles``: a public issue; ``remedy``: a setting to try."""

    name: str
    state: str
    sentence: str
    resembles: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Written:
    """One answer. ``rows``: token, log-probability, and the log-probabilities of the likeliest choices; ``raw``: the
    answer itself. A log-probability is None if it is exactly 0 and lacks the requested choices that other tokens have,
    because the server filled it in."""

    rows: tuple[tuple[str, float | None, Mapping[str, float]], ...]
    text: str
    raw: dict
    count: int | None

    @classmethod
    def from_answer(cls, answer: dict) -> "Written":
        raw = mapping(answer["choices"][0])
        try:
            rows = list(by_token(raw["logprobs"]))
        except (KeyError, TypeError, ValueError):  # it gives none, or not one for each token
            rows = []
        has_others = any(len(tops) > 1 for _, _, tops in rows)
        rows = tuple((token, None if p == 0 and has_others and len(tops) < 2 else p, tops) for token, p, tops in rows)
        return cls(rows, str(raw.get("text", "")), raw, mapping(answer.get("usage")).get("completion_tokens"))

    @property
    def tokens(self) -> tuple[str, ...]:
        return tuple(token for token, _, _ in self.rows)

    def __iter__(self) -> Iterator:
        return iter(self.rows)

    def gap(self, place: int, other: str) -> float:
        """Returns how much likelier its token at a place is than another, by its own numbers. A token that is not among
        the choices is at least as far off as the last of them; nan where it has no second choice."""
        _, own, tops = self.rows[place]
        if own is None or len(tops) < 2:
            return math.nan
        return abs(own - tops.get(other, min(tops.values())))


@dataclass(frozen=True)
class Subject:
    """A server and its model; ``tokens`` to write in a greedy text, ``draws`` of a sampled one."""

    client: Client
    model: str
    tokens: int = 48
    draws: int = 200

    def write(self, prompt: str, tokens: int | None = None, temperature: float = 0.0, seed: int = 0, **more) -> Written:
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens or self.tokens, "temperature": temperature}
        body |= {"seed": seed, "logprobs": TOPS} | self.no_penalty | more
        return Written.from_answer(self.client.post_json("/v1/completions", body))

    @property
    def no_penalty(self) -> dict[str, float]:
        """The fields that switch penalties off; with a server's defaults, greedy text may not be the likeliest."""
        return dict.fromkeys(self.recorder.adapter.penalties, 1.0)

    def greedy(self) -> list[Written]:
        return [self.write(prompt) for prompt in PROMPTS]

    def draw_answers(self, first: int) -> list[Written]:
        return many(self.write, [(PROMPTS[2], 2, 1.0, seed) for seed in range(first, first + self.draws)], 8)

    @cached_property
    def recorder(self) -> Recorder:
        return Recorder(self.client)

    def stream(self, prompt: str, tokens: int | None = None) -> tuple[Trace, str]:
        """Returns the streamed answer as a trace, and why it broke off, or ""."""
        request = ServerRequest(self.model, prompt, tokens or self.tokens, chat=False, more=self.no_penalty)
        return self.recorder.record(request)


def check(drafting: Subject, plain: Subject | None, progress: Callable[[float, str], None]) -> Iterator[Finding]:
    """Yields every finding. Without a plain server the comparisons with it are left out."""
    texts: dict[str, list[Written]] = {}

    def greedy(name: str) -> list[Written]:
        subject = plain if plain and name.startswith("plain") else drafting
        texts[name] = texts.get(name) or subject.greedy()
        return texts[name]

    steps: list[tuple[str, Callable[[], Judgement]]] = [
        ("itself", lambda: _itself(greedy("drafts"), greedy("drafts again"))),
        ("acceptance", lambda: _acceptance(drafting)),
        ("stream", lambda: _stream(drafting, greedy("drafts"), greedy("drafts again"))),
        ("limits", lambda: _limits(drafting, greedy("drafts"))),
        ("log-probabilities", lambda: _logprobs(greedy("drafts"))),
        ("characters", lambda: _characters(drafting)),
        *((name, partial(_json, name, drafting, plain)) for name in REQUESTS),
    ]
    if plain:
        pairs = lambda: (greedy("plain"), greedy("plain again"), greedy("drafts"))  # noqa: E731
        steps.insert(1, ("greedy text", lambda: _same(*pairs())))
        steps.append(
            ("distribution", lambda: _distribution(drafting.draw_answers(0), plain.draw_answers(drafting.draws)))
        )
    for i, (name, step) in enumerate(steps):
        progress(i / len(steps), f"Checking: {name}")
        try:
            yield Finding(name, *step())
        except (EngineError, KeyError, TypeError, ValueError, IndexError) as error:
            reason = str(error) if isinstance(error, EngineError) else "Its answer has another form than OpenAI's."
            yield Finding(name, "unknown", reason)


def _differences(ones: Sequence[Written], others: Sequence[Written]) -> list[tuple[int, float]]:
    """Returns (place, gap) of the first difference of each pair of unlike texts. The gap is by the numbers of
    ``ones``, because drafts change some servers' numbers; infinite where one ends early, nan where it is unknown."""
    partings = []
    for one, other in zip(ones, others, strict=True):
        if (place := first_difference(one.tokens, other.tokens)) is not None:
            ends_early = place == min(len(one.tokens), len(other.tokens))
            partings.append((place, math.inf if ends_early else one.gap(place, other.tokens[place])))
    return partings


def _itself(ones: Sequence[Written], others: Sequence[Written]) -> Judgement:
    differences = _differences(ones, others)
    words = f"Asked twice, it wrote {len(ones) - len(differences)} of {len(ones)} greedy texts alike; "
    words += f"its log-probabilities moved by up to {movement(ones, others):.3f}."
    return "right", words


def _same(plain: Sequence[Written], again: Sequence[Written], drafts: Sequence[Written]) -> Judgement:
    """Compares greedy texts. Each of two logits may move as far as the log-probabilities do, so a gap of twice that is
    a near tie."""
    limit = 2 * max(movement(plain, again), movement(plain, drafts)) + STEP
    differences, own = _differences(plain, drafts), _differences(plain, again)
    wide = [(place, gap) for place, gap in differences if gap > limit]
    words = f"With drafts {len(plain) - len(differences)} of {len(plain)} greedy texts are the same as without"
    words += f" (without drafts, asked twice: {len(plain) - len(own)})."
    if not wide and (untold := [place for place, gap in differences if math.isnan(gap)]):
        words += f" At token {untold[0] + 1} they part, and without drafts the server tells no second choice there."
        return "unknown", words
    if not wide:
        tie = f" Where they part the two tokens are within {limit:.3f}: a near tie." if differences else ""
        return "right", words + tie
    place, gap = max(wide, key=lambda each: each[1])
    how = f"the two tokens are {gap:.2f} apart, and rounding moves {limit:.2f}"
    if math.isinf(gap):
        how = "one of them ends early"
    issues = "ggml-org/llama.cpp#25618, vllm-project/vllm#47087"
    remedy = "the same run without CUDA graphs (--enforce-eager), then another drafting method"
    return "wrong", f"{words} At token {place + 1} {how}.", issues, remedy


def _stream(subject: Subject, written: Sequence[Written], again: Sequence[Written]) -> Judgement:
    """Compares streams. Another text is wrong only if two answers without a stream were the same."""
    wrong, unsure, cut = [], 0, ""
    for prompt, complete, other in zip(PROMPTS, written, again, strict=True):
        trace, fault = subject.stream(prompt)
        cut = fault or cut
        if trace.text != complete.text:
            if complete.text == other.text:
                wrong.append(prompt)
            else:
                unsure += 1
    if cut:
        return "wrong", cut, "", "a larger limit in the proxy before the server"
    number, equal = len(written), len(written) - len(wrong) - unsure
    if not wrong:
        words = f"{equal} of {number} streamed texts are those that came in one answer."
        words += f" Two answers without stream are unlike, too, for the other {unsure}." if unsure else ""
        return "right" if equal else "unknown", words
    words = f"{len(wrong)} of {number} streamed texts are not those that came in one answer, as after {wrong[0]!r}."
    return "wrong", words, "vllm-project/vllm#52469", "an answer without stream, until it is fixed"


def _limits(subject: Subject, written: Sequence[Written]) -> Judgement:
    """Checks limits: max_tokens to the token, a stop string that is not written, and as many answers as n asks for."""
    for one in written:
        reason, count = one.raw.get("finish_reason"), one.count
        if count is None:
            continue
        if (reason == "length" and count != subject.tokens) or count > subject.tokens:
            return "wrong", f"max_tokens {subject.tokens} gave {quantity(count, 'token')} and the reason {reason!r}."
        if one.tokens and len(one.tokens) != count:
            return "wrong", f"It counted {quantity(count, 'token')}, but wrote {len(one.tokens)}."
    text = written[0].text
    stop = next((word for word in text.split()[2:] if len(word) > 1), None)
    if stop and stop in (stopped := subject.write(PROMPTS[0], stop=[stop])).text:
        return "wrong", f"The stop string {stop!r} is in the text {stopped.text[-40:]!r}."
    body = {"model": subject.model, "prompt": PROMPTS[0], "max_tokens": 4, "n": 2, "temperature": 1.0}
    if len(subject.client.post_json("/v1/completions", body).get("choices") or []) != 2:
        return "wrong", "n = 2 did not give two answers."
    return "right", "max_tokens, a stop string and n = 2 are kept to."


def _logprobs(written: Sequence[Written]) -> Judgement:
    every = [p for one in written for _, p, _ in one]
    known = [p for p in every if p is not None]
    if not every:
        return "unknown", "It gives no log-probabilities."
    if len(known) < len(every) or all(p == 0 for p in known):
        some = f"{len(every) - len(known)} of {len(every)} log-probabilities are"
        words = f"{some if any(known) else 'Every log-probability is'} 0, so they are not those of the model."
        issues = "ggml-org/llama.cpp#27972, vllm-project/vllm#17876"
        return "wrong", words, issues, "a newer version, or no drafts for such requests"
    return "right", f"{len(known)} log-probabilities, the mean {sum(known) / len(known):.2f}."


def _characters(subject: Subject) -> Judgement:
    text, again = (subject.write(MANY_BYTES).text for _ in range(2))
    trace, fault = subject.stream(MANY_BYTES)
    if fault or "\ufffd" in trace.text.rstrip("\ufffd"):
        return "wrong", fault or "The stream divides characters and shows them as replacements."
    if trace.text != text:
        if text != again:
            return "unknown", "Two answers of characters of several bytes are unlike."
        return "wrong", "Characters of several bytes differ in the stream."
    return "right", "Characters of several bytes come whole."


def _json(name: str, subject: Subject, plain: Subject | None) -> Judgement:
    """Blames the drafts only if fewer answers are broken without them."""
    bad, words = invalid(subject.client, subject.model, name), REQUESTS[name][0]
    if not bad:
        return "right", f"{COUNT} of {COUNT} {words} are valid."
    sentence = f"{bad} of {COUNT} {words} are not valid."
    if not plain:
        return "wrong", f"{sentence} Only a server without drafts can tell whether they are to blame: give its OFF_URL."
    if (without := invalid(plain.client, plain.model, name)) >= bad:
        return "unknown", f"{sentence} Without drafts it is {without}, so they are not to blame."
    remedy = "a newer version, or no drafts for such requests"
    return "wrong", sentence, "vllm-project/vllm#44993", remedy


def _acceptance(subject: Subject) -> Judgement:
    """Judges the acceptance; exactly 0 means that the drafter is wired wrongly."""
    rounds = [r for prompt in PROMPTS for r in subject.stream(prompt, tokens=96)[0].rounds[1:]]
    with_counts = [r for r in rounds if r.gamma is not None]
    drafted = [r for r in with_counts if r.parents]
    sizes = [len(r.emitted) for r in rounds]
    if not drafted and (with_counts or max(sizes, default=1) == 1):
        return "unknown", "It drafts nothing, or does not say so: is drafting switched on?"
    tau = sum(sizes) / len(sizes)
    if drafted and sum(map(len, (r.emitted for r in drafted))) == len(drafted):
        words = f"In {quantity(len(drafted), 'round')} no draft was accepted. A length of exactly 1.00 means a drafter "
        words += "wired wrongly."
        return "wrong", words, "sgl-project/sglang pull request 21272", WIRING
    if not drafted:
        return "right", f"τ is {tau:.2f}; it does not say how many drafts were rejected."
    tested = [t.status for r in drafted for t in r.tokens if t.status in TESTED]
    alpha = wilson(tested.count("accepted"), len(tested))
    words = f"{alpha.value:.2f} (95 %: {alpha.low:.2f}–{alpha.high:.2f})" if alpha else "unknown"
    return "right", f"τ is {tau:.2f}, α {words}."


def _distribution(ones: Sequence[Written], others: Sequence[Written]) -> Judgement:
    """Tests the first and the second token: the prompt's pass gives the first one, a round with drafts the second."""
    words, worst = [], 1.0
    for place, name in enumerate(("first", "second")):
        rows = [[one.tokens[place] for one in side if len(one.tokens) > place] for side in (ones, others)]
        if not all(rows):
            return "unknown", f"One side gives no log-probability of a {name} token, so none was counted."
        statistic, freedom, p = chi_squared(*rows)
        worst = min(worst, p)
        degrees = quantity(freedom, "degree")
        words.append(f"{name} token: chi-squared {statistic:.1f} at {degrees} of freedom, p = {p:.2g}")
    sentence = f"{len(ones)} draws a side, {'; '.join(words)}."
    if worst < FALSE_ALARM:
        remedy = "temperature 0, another drafting method, or a lossless acceptance rule"
        return "wrong", sentence, "vllm-project/vllm#47087", remedy
    return "right", sentence
