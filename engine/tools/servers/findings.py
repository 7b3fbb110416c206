"""Checks whether another engine's server still writes what its model says, with drafts on. Imports no torch.

Each check gives a `Finding`: a sentence with the measurement, and for a fault a public issue that looks like it and a
setting to try. A server with drafts is compared with one without, and first of all with itself: two runs of one server
need not agree, and how far its own numbers move is the yardstick for the rest.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from engine.errors import EngineError, quantity
from engine.tools.servers.check_server import FALSE_ALARM, PROMPTS, chi_squared, movement
from engine.tools.servers.json_answers import COUNT, ENFORCED, MORE, REQUESTS, invalid
from engine.tools.servers.penalties import PENALTIES, logit_bias, min_tokens, penalty
from engine.tools.servers.prompt_cache import judge_cache
from engine.tools.servers.subject import STEP, Judgement, Subject, Written, differences
from engine.trace.events import TESTED
from engine.trace.metrics import wilson

JSON_ALARM = 1e-3  # how often chance may make JSON with drafts look worse
MANY_BYTES = "Repeat: 日本語のテキスト 🙂🙃 Ελληνικά, naïve café. Repeat:"  # characters of several bytes
WIRING = "the method of the head (EAGLE or EAGLE3), the layers that it reads, an output layer in its folder"


@dataclass(frozen=True)
class Finding:
    """``state``: right, wrong or unknown. ``resembles``: a public issue; ``remedy``: a setting to try."""

    name: str
    state: str
    sentence: str
    resembles: str = ""
    remedy: str = ""


Step = tuple[str, Callable[[], Judgement]]  # the name of a check, and what judges


def check(drafting: Subject, plain: Subject | None, progress: Callable[[float, str], None]) -> Iterator[Finding]:
    """Yields every finding. Without a plain server the comparisons with it are left out."""
    texts: dict[str, list[Written]] = {}

    def greedy(name: str) -> list[Written]:
        subject = plain if plain and name.startswith("plain") else drafting
        texts[name] = texts.get(name) or subject.greedy()
        return texts[name]

    steps: list[Step] = [
        ("itself", lambda: _itself(greedy("drafts"), greedy("drafts again"))),
        ("acceptance", lambda: _acceptance(drafting)),
        ("stream", lambda: _stream(drafting, greedy("drafts"), greedy("drafts again"))),
        ("limits", lambda: _limits(drafting, plain, greedy("drafts"))),
        ("log-probabilities", lambda: _logprobs(greedy("drafts"))),
        ("characters", lambda: _characters(drafting)),
        *((name, partial(_json, name, drafting, plain)) for name in REQUESTS),
        *promises(drafting, plain),
    ]
    if plain:
        pairs = lambda: (greedy("plain"), greedy("plain again"), greedy("drafts"))  # noqa: E731
        steps.insert(1, ("greedy text", lambda: _same(*pairs())))
        steps.append(
            ("distribution", lambda: _distribution(drafting.draw_answers(0), plain.draw_answers(drafting.draws)))
        )
    for i, (name, step) in enumerate(steps):
        progress(i / len(steps), f"Checking: {name}")
        yield find(name, step)


def promises(drafting: Subject, plain: Subject | None) -> list[Step]:
    """Returns the checks of what a request asks for beyond its text."""
    return [
        *((name, partial(penalty, name, drafting, plain)) for name in PENALTIES),
        ("logit bias", lambda: logit_bias(drafting, plain)),
        ("min_tokens", lambda: min_tokens(drafting, plain)),
        ("prompt cache", lambda: judge_cache(drafting, plain)),
    ]


def find(name: str, judge: Callable[[], Judgement]) -> Finding:
    """Returns the finding of one check; unknown where the server refuses or answers in another form."""
    try:
        return Finding(name, *judge())
    except (EngineError, KeyError, TypeError, ValueError, IndexError) as error:
        reason = str(error) if isinstance(error, EngineError) else "Its answer has another form than OpenAI's."
        return Finding(name, "unknown", reason)


def _itself(ones: Sequence[Written], others: Sequence[Written]) -> Judgement:
    partings = differences(ones, others)
    words = f"Asked twice, it wrote {len(ones) - len(partings)} of {len(ones)} greedy texts alike; "
    words += f"its log-probabilities moved by up to {movement(ones, others):.3f}."
    return "right", words


def _same(plain: Sequence[Written], again: Sequence[Written], drafts: Sequence[Written]) -> Judgement:
    """Compares greedy texts. Each of two logits may move as far as the log-probabilities do, so a gap of twice that is
    a near tie."""
    limit = 2 * max(movement(plain, again), movement(plain, drafts)) + STEP
    partings, own = differences(plain, drafts), differences(plain, again)
    wide = [(place, gap) for place, gap in partings if gap > limit]
    words = f"With drafts {len(plain) - len(partings)} of {len(plain)} greedy texts are the same as without"
    words += f" (without drafts, asked twice: {len(plain) - len(own)})."
    if not wide and (untold := [place for place, gap in partings if math.isnan(gap)]):
        words += f" At token {untold[0] + 1} they part, and without drafts the server tells no second choice there."
        return "unknown", words
    if not wide:
        tie = f" Where they part the two tokens are within {limit:.3f}: a near tie." if partings else ""
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


def _limits(subject: Subject, plain: Subject | None, written: Sequence[Written]) -> Judgement:
    """Checks limits: max_tokens to the token, a stop string that is not written, and as many answers as n asks for,
    which some servers never give."""
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
    if _gives_two(subject):
        return "right", "max_tokens, a stop string and n = 2 are kept to."
    words = "max_tokens and a stop string are kept to, but n = 2 did not give two answers."
    if not plain:
        return "unknown", f"{words} Only an OFF_URL can tell whether drafts are why."
    if not _gives_two(plain):
        return "unknown", f"{words} Without drafts it is the same, so they are not to blame."
    return "wrong", words


def _gives_two(subject: Subject) -> bool:
    body = {"model": subject.model, "prompt": PROMPTS[0], "max_tokens": 4, "n": 2, "temperature": 1.0}
    return len(subject.client.post_json("/v1/completions", body).get("choices") or []) == 2


def _logprobs(written: Sequence[Written]) -> Judgement:
    every = [p for one in written for _, p, _ in one]
    known = [p for p in every if p is not None]
    if not every:
        return "unknown", "It gives no log-probabilities."
    if len(known) < len(every) or all(p == 0 for p in known):
        some = f"{len(every) - len(known)} of {len(every)} log-probabilities are"
        words = f"{some if any(known) else 'Every log-probability is'} 0, so they are not the model's."
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
    """Blames the drafts only if certainly fewer answers are broken without them."""
    bad, words = invalid(subject.client, subject.model, name), REQUESTS[name][0]
    if not bad:
        return "right", f"{COUNT} of {COUNT} {words} are valid."
    sentence = f"{bad} of {COUNT} {words} are not valid."
    if not plain:
        ask = "Only a server without drafts can tell whether they are to blame: give its OFF_URL."
        if name in ENFORCED:
            return "wrong", f"{sentence} The server took a strict schema and has to keep to it. {ask}"
        return "unknown", f"{sentence} The model may write such calls by itself. {ask}"
    if (without := invalid(plain.client, plain.model, name)) >= bad:
        return "unknown", f"{sentence} Without drafts it is {without}, so they are not to blame."
    further, number = range(COUNT, COUNT + MORE), COUNT + MORE
    bad, without = (
        count + invalid(each.client, each.model, name, further) for each, count in ((subject, bad), (plain, without))
    )
    sentence = f"{bad} of {number} {words} are not valid, and {without} without drafts."
    *_, p = chi_squared(*([True] * count + [False] * (number - count) for count in (bad, without)))
    if bad <= without or p > JSON_ALARM:
        return "unknown", f"{sentence} That may be chance (p = {p:.2g})."
    return "wrong", sentence, "vllm-project/vllm#44993", "a newer version, or no drafts for such requests"


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
