"""Links read back as written; values from outside stay within their control's range, and none starts a run."""

import json
import random
from types import SimpleNamespace

import pytest
from fake_worker import FakeEngine
from presses import line, status_of

from app.form import NAMES, control_values, controls_by_name, defaults, settings
from app.jobs.engine_facade import Pair
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.playground import startup_run
from app.playground.link_handlers import LinkHandlers
from app.playground.links import MOST, Link, query, read_link, sentence
from app.playground.result_handlers import ResultValues
from app.playground.run_press import RunPress
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.config import AUTO, Constraint, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.trace.branch import config_of

LIMITS = Limits(new_tokens=512, prompt_chars=8_000)
CONTROLS = controls_by_name(LIMITS)
PAIRS = [
    Pair("smollm2-135m", "SmolLM2 135M", ("ngram", "lookahead", "eagle", "none"), "ab810cf68114" + "0" * 28),
    Pair("qwen3-4b", "Qwen3 4B", ("ngram", "none"), ""),
]
HOSTILE = ["<script>window.pwned=1</script>", "{{1+1}} ${1+1}", "a&b=c#d + %41 ?", "🌊\n\t\u202eשלום", "a\u2028b\x00"]
CONSTRAINTS = [
    Constraint("json_schema", '{"type":\n "object"}', compact=True),
    Constraint("json_schema", "true"),
    Constraint("regex", r"[a-z]+&\d\?<b>"),
    Constraint("choice", "yes\nno 🌊"),
    Constraint("grammar", 'start: "a" | "b"'),
]


def opened(text: str) -> Link:
    return read_link(text, CONTROLS, PAIRS, LIMITS.prompt_chars)


def any_run(chance: random.Random) -> RunConfig:
    pair = chance.choice(PAIRS)
    method = chance.choice([AUTO, *pair.methods])
    rule = chance.choice(["token", "block", "typical"])
    own, more = {}, {}
    if rule == "typical":
        own = {"epsilon": chance.choice([0.0, 0.25]), "delta": chance.choice([0.3, 1.0])}
    if chance.random() < 0.5:
        more["constraint"] = chance.choice(CONSTRAINTS)
    if method == "lookahead":
        own |= {"window": chance.randint(1, 8), "ngram_size": chance.randint(2, 4), "guesses": chance.randint(1, 8)}
    return RunConfig(
        prompt=chance.choice(["Hi", "  spaced \n", *HOSTILE]),
        pair=pair.name,
        method=method,
        gamma=0 if method == "none" else chance.choice([AUTO, 0, 1, 16]),
        sampling=SamplingParams(
            chance.choice([0, 0.05, 2]), chance.choice([0, 7]), chance.choice([1, 0.05]), chance.choice([0, 0.3]),
            chance.choice([1, 1.15]),
        ),
        max_new_tokens=chance.randint(1, 512),
        seed=chance.choice([0, 3, 2**53 - 1]),
        chat=chance.random() < 0.5,
        system=chance.choice([None, "Be brief.", *HOSTILE[:3]]),
        thinking=chance.choice([None, True, False]),
        precision=chance.choice([AUTO, "fp32", "bf16"]),
        acceptance=rule,
        own_settings=own,
        **more,
    )  # fmt: skip


def test_a_link_reproduces_its_run():
    chance = random.Random(7)
    for _ in range(400):
        config = any_run(chance)
        values = control_values(config)
        assert tuple(values) == NAMES and settings(values) == config
        text = query(values, CONTROLS)
        assert text.isascii() and not set(text) & set("<>\"'` \n")
        link = opened("?" + text)
        assert link.refused == () and settings(defaults(LIMITS) | link.values) == config


def test_only_what_differs_is_written():
    assert query(defaults(LIMITS), CONTROLS) == ""
    assert query(defaults(LIMITS) | {"temperature": 0.5, "auto": False}, CONTROLS) == "auto=0&temperature=0.5"
    assert query(defaults(LIMITS), CONTROLS, PAIRS[0].revision) == "revision=ab810cf68114"
    assert query(defaults(LIMITS) | {"seed": 2**53 - 1}, CONTROLS) == f"seed={2**53 - 1}"


def test_a_prompt_too_long_for_a_link_is_said():
    fits = query(defaults(LIMITS) | {"prompt": "x" * (MOST - len("prompt="))}, CONTROLS)
    assert len(fits) == MOST and opened(fits).values["prompt"].startswith("xxx")
    with pytest.raises(BadInput, match="save the trace and send the file instead"):
        query(defaults(LIMITS) | {"prompt": "x" * MOST}, CONTROLS)
    with pytest.raises(BadInput, match="makes a link of"):
        query(defaults(LIMITS) | {"prompt": "🌊" * 1000}, CONTROLS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("temperature=1e99", "Temperature cannot be '1e99'; it is a number from 0 to 2."),
        ("seed=1.5", "Seed cannot be '1.5'; it is a whole number."),
        ("constraint=yaml", "Constraint cannot be 'yaml'; choose from none, json_schema, regex, choice, grammar."),
        ("auto=yes", "auto cannot be 'yes'; choose from 1, 0."),
        ("method=%3Cscript%3E", "Method cannot be '<script>'"),
        ("pair=qwen3-4b&method=eagle", "Qwen3 4B has no draft for the method 'eagle'."),
        ("prompt=" + "x" * 6_999, "Prompt has 6,999 characters; this page takes up to 6,000."),
        ("hide=seed,passwords,cookies", "names 2 controls that this page does not have"),
        ("only=prompt,passwords", "names 1 control that this page does not have"),
        ("prompt=" + "x" * 9_000, "The link is 9,007 characters long"),
        ("&".join(f"a{i}=1" for i in range(65)), "more than 64 parameters"),
    ],
)
def test_what_does_not_fit_is_left_out_and_said(text, words):
    link = read_link(text, CONTROLS, PAIRS, 6_000)
    assert any(words in refused for refused in link.refused), link.refused
    assert all(len(refused) < 250 for refused in link.refused)
    name = text.partition("=")[0]
    assert name not in link.values or name == "pair"
    settings(defaults(LIMITS) | link.values)


def test_sentence_asks_to_read_a_shown_prompt_and_names_other_weights():
    assert "read the prompt, then press Run" in sentence(opened("prompt=Hi&hide=seed"), CONTROLS)
    assert "Nothing has run yet: press Run." in sentence(opened("prompt=Hi&hide=prompt"), CONTROLS)
    assert not opened("revision=ab810cf68114").notes and not opened("revision=<b>").notes
    assert "this server has revision ab810cf" in opened("revision=0123456789ab").notes[0]


def test_a_link_hides_by_name_or_all_but_some():
    others = tuple(name for name in NAMES if name != "prompt")
    assert opened("only=prompt").hide == opened("hide=" + ",".join(others)).hide == others
    assert opened("only=prompt,seed&hide=seed").hide == others and opened("only=").hide == NAMES
    assert opened("hide=").hide == opened("present=1").hide == ()


def test_what_is_not_ours_is_passed_over():
    for text in ("", "?", "__theme=dark&utm_source=x", "?=", "&&&", "%", "%ff%fe=%ed%a0%80", "present=2"):
        assert opened(text) == Link() and sentence(opened(text), CONTROLS) == "", text
    assert opened("prompt=%ed%a0%80").values["prompt"].isprintable(), "half a character becomes a whole one"


@pytest.fixture
def sharing() -> LinkHandlers:
    return LinkHandlers(Service(FakeEngine(), Limits()))


def event(text) -> SimpleNamespace:
    return SimpleNamespace(_data={"query": text})


def parts(opened: list) -> tuple:
    """Splits an opened link into the stage, the session, the controls by name, and the results below the stage."""
    _, stage, session, *rest = opened
    return stage, session, dict(zip(NAMES, rest, strict=False)), ResultValues(*rest[len(NAMES) :])


def test_opening_fills_the_controls_and_runs_nothing(sharing):
    told, *_ = opened = sharing.open_link(RunPress(), event("?prompt=Hello&seed=7&hide=seed&present=1"))
    stage, session, controls, results = parts(opened)
    assert controls["prompt"]["value"] == "Hello" and controls["seed"]["value"] == 7
    assert [name for name, update in controls.items() if update != SKIP] == ["prompt", "seed"]
    assert "press Run" in status_of(stage)["text"] and status_of(stage)["kind"] == "quiet"
    assert session == Session(), "the recorded run makes way"
    assert line(stage, "numbers")["tiles"]["speedup"] == ["–", ""], "and so do its numbers"
    notes = [figure["note"] for text in results[:4] for figure in json.loads(text)["figures"].values()]
    assert set(notes) == {"Nothing has run yet."}, "and its charts"
    assert results.tree_tab["visible"] is False and all(file["value"] is None for file in results[-4:])
    assert json.loads(told) | {"at": ""} == {"hide": ["seed"], "present": True, "at": ""}
    assert sharing.service.engine.worker.jobs == []


def test_controls_begin_with_the_recorded_run_and_links_reset_them(sharing):
    specs = startup_run.controls(sharing.service)
    run, _ = startup_run.load_recorded()
    assert settings({name: spec.default for name, spec in specs.items()}) == config_of(run)
    links, revision = LinkHandlers(sharing.service, specs), "revision=" + "f" * 12
    _, _, filled, _ = parts(links.open_link(RunPress(), event(revision)))
    reset = {name: update["value"] for name, update in filled.items() if update != SKIP}
    assert settings({name: spec.default for name, spec in specs.items()} | reset) == settings(defaults())
    for text in ("hide=seed&present=1", "__theme=dark", ""):
        assert all(update == SKIP for update in links.open_link(RunPress(), event(text))[3:]), text
    shared = json.loads(links.link(Session(), *(spec.default for spec in specs.values())))["link"]
    _, stage, session, *_ = links.open_link(RunPress(), event(shared))
    assert stage == session == SKIP, "who gets the opening run's link sees that run"
    stage = links.open_link(RunPress(), event(shared + "&force=3:9"))[1]
    assert status_of(stage)["text"].startswith("Once your run has ended") and "Nothing has run" not in stage
    alone = Service(FakeEngine(), Limits(new_tokens=64))
    assert startup_run.controls(alone) == controls_by_name(alone.limits), "it could not run here"


def test_a_bad_link_is_an_error_in_words(sharing):
    _, stage, _, *filled = sharing.open_link(RunPress(), event("temperature=99"))
    assert status_of(stage)["kind"] == "error" and all(update == SKIP for update in filled)
    stage, _, filled, _ = parts(sharing.open_link(RunPress(), event("temperature=99&seed=7")))
    assert status_of(stage)["kind"] == "slow" and filled["seed"]["value"] == 7
    text = status_of(stage)["text"]
    assert text.startswith("Temperature cannot be '99'") and "Everything else in the link was used." in text
    for text in ("temperature=99&hide=seed", "temperature=99&present=1"):
        assert status_of(sharing.open_link(RunPress(), event(text))[1])["kind"] == "slow"
    for data in (None, [], {"query": None}, {"query": ["x"]}, {"query": 10**10}):
        sharing.open_link(RunPress(), SimpleNamespace(_data=data))
