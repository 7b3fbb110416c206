"""Many users at once: the numbers by hand, and a real engine on a tiny pair whose cells are kept in a file."""

from dataclasses import replace
from functools import partial

import pytest

from engine.config import AUTO
from engine.errors import BadInput, Unavailable
from engine.tools.bench.prompts import Prompt, after_long_texts
from engine.tools.bench.users import ManyUsers, UsersSettings, _Writing
from engine.tools.bench.users_results import Served, least_chances, pass_time, rows
from engine.trace.costs import CostModel
from engine.trace.events import Round, Timings, Token

PROMPTS = [Prompt(text, "x") for text in ("aa", "bb bb", "the cat, the hat")]
PLAIN_PASSES = (2, 0, 0)
COSTS = CostModel(0.1, {1: 1.0, 2: 1.1, 16: 2.5}, 64, 0.01)


def served(seconds: float, writing=(0, 0.0, 0.0), ids=((1, 2), (3, 4)), **more) -> Served:
    return Served(4, seconds, writing, (0.5, 0.7), 4, 6, **({"accepted": 3, "tested": 4} | more), ids=ids)


def test_rows_divide_by_plain_decoding_of_the_same_users_and_of_the_fewest():
    numbers = {
        (2, "none"): [served(3.0, (4, 1.2, 2.0), full=PLAIN_PASSES), served(1.0, (4, 0.8, 2.0), full=PLAIN_PASSES)],
        (2, "lm"): [served(1.0, (4, 0.5, 1.5), ids=((1, 2), (3, 5)), full=(1, 3, 2))],
        (4, "lm"): [served(1.0)],
    }
    lm, none, more = rows(numbers, is_greedy=True)
    assert (none.total_tokens_per_second, none.tokens_per_second, none.over_plain) == (2.0, 1.0, 1.0), "both repeats"
    assert (lm.total_tokens_per_second, lm.over_plain, lm.over_fewest_users) == (4.0, 2.0, 2.0)
    assert lm.all_writing_over_plain == pytest.approx(1.2), "one token a pass, and passes of 0.5 s instead of 0.6"
    assert lm.all_writing_tokens_per_second == pytest.approx(1.2 * none.all_writing_tokens_per_second)
    assert lm.predicted_tokens_per_second == pytest.approx(2 / (1.5 * 0.5)), "two users, a pass of 1.5 plain ones"
    assert (lm.differs, lm.acceptance, lm.drafted_per_round, lm.ttft) == (1, 0.75, 1.5, 0.6)
    assert none.predicted_tokens_per_second == 4.0, "a plain step took half a second, so that it is as measured"
    assert more.over_plain is None and more.all_writing_tokens_per_second is None and more.over_fewest_users == 2.0
    assert rows(numbers, is_greedy=False)[0].differs is None and rows({}, is_greedy=True) == []


def test_repeats_give_a_speedup_its_interval_and_its_tokens_a_pass_a_bound():
    ours = [served(1.0, (4, seconds, 1.0), busy=0.4, full=(4, 6, 4)) for seconds in (0.4, 0.5, 0.6)]
    plain = [served(1.0, (4, seconds, 2.0), full=(4, 0, 0)) for seconds in (1.0, 1.0, 1.1)]
    (row,) = (row for row in rows({(1, "lm"): ours, (1, "none"): plain}, True) if row.method == "lm")
    assert row.all_writing_over_plain == pytest.approx(3.1 / 1.5) and row.busy == 0.4
    assert row.low < row.all_writing_over_plain < row.high
    assert row.tau == 1.0 and not row.measured.is_possible, "four tokens in four rounds cannot be twice as fast"
    assert rows({(1, "lm"): ours[:1], (1, "none"): plain}, True)[0].measured.low is None, "one repeat has no spread"


def test_easy_texts_that_end_early_do_not_count_twice():
    """Two users: one text brings four tokens per pass, the other one. Only the first passes are shared by both."""
    easy, hard = (4, 3), (1, 3)  # tokens and drafts of a round; answers of 8 tokens: 2 rounds, 8 rounds
    passes = 2
    ours = Served(
        16, 2.0, (passes * (easy[0] + hard[0]), passes * 0.2, 0.0), (0.1, 0.1), 10, 30, 6, 30, ((), ()),
        full=(passes, passes * 6, passes * 2),
    )  # fmt: skip
    plain = Served(16, 1.6, (16, 8 * 0.1, 0.0), (0.1, 0.1), 16, 0, 0, 0, ((), ()), full=(8, 0, 0))
    (row,) = (row for row in rows({(2, "lm"): [ours], (2, "none"): [plain]}, True) if row.method == "lm")
    assert row.tau == 1.6, "16 tokens in 10 rounds; in the passes that both share it is 2.5"
    assert row.all_writing_over_plain == pytest.approx(1.6 / 2), "a pass takes twice as long as a plain one"
    half = pass_time(2, [ours], [plain]).speedup(2.0, 0.5)
    assert half.value == pytest.approx(2.0 / 1.5), "where rounds draft half as often, a pass costs half as much more"


def round_(emitted: int, drafted: int, steps: int = 0) -> Round:
    token = Token(5, "x", "plain", 0, 0)
    return Round(0, 2, (token,) * emitted, tuple(range(drafted)), steps, 10, Timings(0, 0, 0, 0), 0.0, 1.0)


def test_rounds_count_where_all_write_and_so_did_the_round_before():
    writing, both = _Writing(2, COSTS), [round_(1, 0), round_(3, 2, steps=2)]
    for rounds, seconds in ((both, 1.0), (both, 2.0), (both[:1], 4.0), (both, 8.0), (both, 16.0)):
        writing.add(rounds, seconds)
    assert (writing.tokens, writing.seconds) == (8, 1.0 + 8.0), "a round took the time of the step that scored it"
    assert (writing.passes, writing.drafted, writing.drafting) == (2, 4, 2)
    assert writing.steps == pytest.approx(2 * (2 * 0.1 + 1.3)), "v(4) = 1.3, and two draft steps"
    writing.add([replace(each, reading=3.0) for each in both], 1.0)
    assert writing.seconds == 9.0 + 16.0 - 6.0, "drafts read the prompts in the step that scored it"


def test_a_drafted_token_costs_more_with_every_user():
    chances = least_chances(COSTS, 32)
    assert chances[1] == pytest.approx(0.1 + 0.1), "its draft step, and its row"
    assert chances[4] == pytest.approx(4 / 1.3 * (0.1 + 0.1)), "4 ÷ v(4) times as much"
    assert sorted(chances.values()) == [*chances.values()] and [*chances] == [*range(1, len(chances) + 1)]
    assert len(least_chances(replace(COSTS, c=2.0), 32)) == 0, "no draft is worth two plain steps"


def test_a_long_text_is_that_of_other_prompts():
    longer = after_long_texts(PROMPTS, 6)
    assert [prompt.text for prompt in longer] == [
        "bb bb\n\nthe cat, the hat\n\naa", "the cat, the hat\n\nbb bb", "aa\n\nbb bb\n\nthe cat, the hat",
    ]  # fmt: skip
    assert after_long_texts(PROMPTS, 0) == PROMPTS


def many(engine, folder=None, users=(3, 1), methods=("ngram", "lm"), **more) -> ManyUsers:
    again = more.pop("again", False)
    return ManyUsers(engine, UsersSettings(users, methods, **{"max_new_tokens": 6} | more), PROMPTS, folder, again)


def test_cells_are_kept_and_not_measured_twice(engine, tmp_path):
    first = many(engine, tmp_path, prompts_first=True)
    assert [(cell.users, cell.method) for cell in first.cells] == [
        (1, "none"), (1, "ngram"), (1, "lm"), (3, "ngram"), (3, "lm"), (3, "none"),
    ]  # fmt: skip
    for cell in first.missing()[:2]:
        assert list(first.steps(cell))[-1] == 1.0
    assert list(first.steps(first.missing()[0], cancelled=lambda: True)) == []
    assert len(first.missing()) == 4 and len(first.rows()) == 2
    again = many(engine, tmp_path, prompts_first=True)
    assert again.rows() == first.rows() and again.missing() == first.missing()
    again.run()
    kept = partial(many, engine, tmp_path, prompts_first=True)
    whole = kept()
    assert not whole.missing() and whole.rows() == again.rows() and whole.rows()[:2] != first.rows()
    for row in whole.rows():
        assert row.tokens == 18 and row.differs == 0 and row.all_writing_tokens_per_second > 0
        assert row.predicted_tokens_per_second > 0
    assert len(kept(users=(1,)).missing()) == 0, "fewer of the same"
    for more in ({"repeats": 2}, {"max_new_tokens": 5}, {"again": True}):
        assert len(kept(**more).missing()) == 6
    assert set(whole.costs()) == {"none", "ngram", "lm"}


def test_an_estimate_in_the_middle_of_a_cell_calibrates_nothing(engine, calibrations):
    """A calibration would take the cache of the text that is being written."""
    measured = many(engine, users=(2,), methods=())
    (cell,) = measured.cells
    known = len(calibrations)
    assert all(measured.expected_steps(cell) > 0 for _ in measured.steps(cell)) and len(calibrations) == known


def test_a_measurement_may_end_with_the_first_answer(engine):
    whole, part = (many(engine, users=(3,), methods=(), until_one_ends=each, max_new_tokens=12) for each in (0, 1))
    for measured in (whole, part):
        measured.configs[0] = replace(measured.configs[0], max_new_tokens=4)
        measured.run()
    (all_of_it,), (beginning,) = whole.file.results.values(), part.file.results.values()
    assert all_of_it.tokens == 28 and beginning.tokens < 20 and beginning.full == all_of_it.full != (0, 0, 0)


def test_auto_is_measured_and_chooses_its_own_lengths(engine, tmp_path, monkeypatch):
    measured = many(engine, tmp_path, users=(2,), methods=(AUTO,), gamma=3)
    seen, add = [], ManyUsers._add
    monkeypatch.setattr(ManyUsers, "_add", lambda self, batch, name, config, costs: seen.append(config) or add(
        self, batch, name, config, costs))  # fmt: skip
    measured.run()
    assert {(config.method, config.gamma) for config in seen} == {("none", 0), (AUTO, AUTO)}
    assert [row.method for row in measured.rows()] == [AUTO, "none"] and not many(
        engine, tmp_path, users=(2,), methods=(AUTO,), gamma=3
    ).missing(), "its file is found again, although drafts have been loaded since"


def test_what_cannot_be_is_one_sentence(engine, monkeypatch):
    for users, methods, words in (
        ((0, 1), ("ngram",), "from 1 to 3"), ((), ("ngram",), "from 1 to 3"),
        ((1,), ("eagle",), "'eagle' cannot be measured"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            many(engine, users=users, methods=methods)
    full = many(engine, users=(3,))
    longest = engine.prepare(full.configs[2], own_cache=True).memory
    for room, words in ((2.5, "suffices for 2 of 3 users with none: choose fewer"), (0.1, "for 1 of 3")):
        monkeypatch.setattr("engine.runtime.run_batch.available_memory", lambda device, room=room: room * longest)
        with pytest.raises(Unavailable, match=words):
            list(full.steps(full.cells[0]))
    assert full.file.results == {}
