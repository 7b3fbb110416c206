"""The page of sixty seconds before the lessons: its words, and the run that it plays."""

import pytest

from app.lessons_tab.minute import LINES, page
from engine.trace.speedup_model import interpolate
from engine.trace.trace import load
from lessons import loader
from lessons.loader import glossary, minute
from lessons.schema import TRACES, LessonError


@pytest.fixture(scope="module")
def rendered() -> dict:
    right, wrong = (load(TRACES / f"{name}.json") for name in (minute().trace, minute().wrong_trace))
    return page(minute(), right, wrong, glossary())


def test_the_page_has_150_words_at_most_and_no_number_of_its_own(rendered):
    lines = ["".join(piece[1] for piece in rendered[name]) for name in LINES]
    assert sum(len(line.split()) for line in lines) <= 150
    sums = [piece[1] for name in LINES for piece in rendered[name] if piece[0] == "sum"]
    trace = load(TRACES / f"{minute().trace}.json")
    clock = trace.finished.extra["speedup"]["median"]
    assert {str(len(trace.emitted)), str(len(trace.rounds)), f"{clock:.1f}"} <= set(sums)


def test_played_rounds_are_those_of_the_run_and_end_by_the_clock(rendered):
    trace = load(TRACES / f"{minute().trace}.json")
    tokens = [[t.text, t.status] for one in trace.rounds for t in one.tokens]
    shown = [pair for one in rendered["rounds"] for pair in (*one["drafts"], *filter(None, [one["own"]]))]
    assert shown == tokens
    steps = len(trace.emitted) / trace.finished.extra["speedup"]["median"]
    assert rendered["rounds"][-1]["at"] == pytest.approx(steps)


def test_run_shows_what_its_lines_say(rendered):
    """Guesses change nothing in the text; a copied mistake is rejected early, and all guesses come from the note."""
    drafted, alone = load(TRACES / f"{minute().trace}.json"), load(TRACES / "rewrite_plain.json")
    assert drafted.started.prompt_text == alone.started.prompt_text == rendered["prompt"]
    assert [token.id for token in drafted.emitted] == [token.id for token in alone.emitted]
    guessed = [one["drafts"] for one in rendered["rounds"] if one["drafts"]]
    assert [status for _, status in guessed[0]] == ["accepted", "accepted", "rejected", "discarded"]
    assert all("".join(text for text, _ in drafts) in rendered["prompt"] for drafts in guessed)


def test_wrong_guesses_change_the_clock_and_nothing_in_the_text(rendered):
    """The run is a real one: every guess was rejected by the model, and the text is the one that it writes alone."""
    wrong, alone = (load(TRACES / f"{name}.json") for name in (minute().wrong_trace, "rewrite_plain"))
    assert [token.id for token in wrong.emitted] == [token.id for token in alone.emitted]
    statuses = {token.status for one in wrong.rounds for token in one.tokens}
    assert statuses == {"rejected", "discarded", "resampled", "plain"}
    assert sum(bool(one.parents) for one in wrong.rounds) > 0.9 * len(wrong.rounds)
    assert wrong.started.costs is None and "speedup" not in wrong.finished.extra  # its own clock counts for nothing
    costs = load(TRACES / f"{minute().trace}.json").started.costs
    steps = sum(interpolate(costs.v, len(one.parents) + 1) for one in wrong.rounds)
    assert rendered["wrong_rounds"][-1]["at"] == pytest.approx(steps)
    sums = [piece[1] for piece in rendered["wrong_end"] if piece[0] == "sum"]
    assert sums == [f"{len(wrong.emitted) / steps:.2f}"] and 0.5 < float(sums[0]) < 1


def test_a_number_that_no_run_gives_is_refused(monkeypatch, tmp_path):
    source = (loader.FOLDER / "minute.toml").read_text(encoding="utf-8")
    (tmp_path / "minute.toml").write_text(source.replace("five tokens", "5 tokens"), encoding="utf-8")
    monkeypatch.setattr(loader, "FOLDER", tmp_path)
    glossary.cache_clear()
    (tmp_path / "glossary.toml").write_text('token = "A piece."\npass = "A trip."\n')
    with pytest.raises(LessonError, match=r"minute\.toml, check: 5 is neither evaluated"):
        minute.__wrapped__()
    glossary.cache_clear()


def test_the_page_names_its_rule_and_links_the_other(rendered):
    keep, end = ("".join(piece[1] for piece in rendered[name]) for name in ("keep", "end"))
    assert load(TRACES / f"{minute().trace}.json").started.config["sampling"]["temperature"] == 0
    assert "its own likeliest word" in keep and "Where a model draws at random" in end
    assert ["lesson", "lesson 3", "accept_reject_resample"] in rendered["end"]
