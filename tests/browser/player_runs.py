"""Runs for the player: of another acceptance rule, of another method by name, and with hostile texts."""

from dataclasses import replace

from fake_worker import chances
from player_page import make_trace

from engine.config import SamplingParams
from engine.tools.exactness.toy_models import ToyLM, make_drafter, record_trace
from engine.trace.events import Round, Timings, Token
from engine.trace.trace import Trace

HOSTILE = [
    "<script>window.pwned=1</script>", '<img src=x onerror="window.pwned=2">', "{{1+1}}", "${window.pwned=3}",
    "</script>", "\\u0041", "\u202eright to left", "\ud83d",  # half of an emoji
    "🌊" * 300, "a\n\n\tb  c", "'\"`", "  ",
]  # fmt: skip


def by_rule(acceptance: str, method: str = "lm", gamma: int = 4) -> Trace:
    """A run of the toy with another acceptance rule; blocks rescue drafts in it."""
    target = ToyLM.random(8, seed=1, spread=1.2)
    drafter = make_drafter(method, target.with_noise(0.8, seed=2))
    settings = {"sampling": SamplingParams(0.8), "gamma": gamma, "max_new_tokens": 60, "seed": 1}
    return record_trace(target, drafter, [0, 1], acceptance=acceptance, **settings)


def drafted_by(method: str, trace: Trace, **config) -> Trace:
    settings = trace.started.config | {"method": method} | config
    return replace(trace, started=replace(trace.started, config=settings))


def with_texts(texts: list[str]) -> Trace:
    """One plain round per text, then one round that drafts them all and keeps them."""
    base = make_trace(2)
    timings = Timings(0, 0.1, 0, 0)
    events = [
        Round(i, 0, (Token(i, text, "plain", i, 1, p=0.5, u=0.1),), (), 0, 5, timings, i / 10, i / 10 + 0.1)
        for i, text in enumerate(texts)
    ]
    n = len(texts)
    drafts = tuple(
        Token(i, text, "accepted", n + i, i + 1, p=0.5, q=0.6, u=0.1, accept=0.83, **chances(text, text[::-1]))
        for i, text in enumerate(texts)
    )
    last = Round(n, n, drafts, tuple(range(n)), n, 5, timings, n / 10, n / 10 + 0.1)
    return replace(base, rounds=(*events, last))
