"""The answer: its sentences at each load and for each kind of text, by hand, and a question to a tiny model."""

import json
import math
import statistics
from dataclasses import replace

import pytest
from answers import CELLS, COSTS, CROWDED, PLAN, cell, load, result

from engine.decoding.tokenization import encode_prompt
from engine.runtime import calibration
from engine.tools.bench import answer, answer_points, sweep_results, text_costs, users_results
from engine.tools.bench.answer import ELSEWHERE, NONE, AnswerPlan, Request, schedule
from engine.tools.bench.answer_points import AnswerPoints
from engine.tools.bench.answer_words import COLUMNS, recommendation, sentences, to_dict, to_rows
from engine.tools.bench.kept_prompts import shared_system
from engine.tools.bench.pass_curve import PassCurve
from engine.tools.bench.prompts import Prompt
from engine.trace.costs import CostModel
from engine.trace.load_schedule import LoadSchedule
from engine.trace.noise import Speedup

KINDS = replace(PLAN, texts=(Prompt("a", "SQL"), Prompt("b", "mails")))
TEXTS = (Prompt("the cat, the cat, the cat", "one"), Prompt("aa", "two"))


def test_a_plan_measures_the_loads_asked_for_and_one_between():
    loads = {users: replace(PLAN, users=(users,)).loads for users in (1, 2, 3, 8, 64)}
    assert loads == {1: (), 2: (2,), 3: (3,), 8: (3, 8), 64: (8, 64)}
    assert replace(PLAN, users=(1, 8, 32)).loads == (8, 32)
    assert replace(PLAN, place=ELSEWHERE).loads == ()


def test_an_answer_on_raw_text_says_so():
    raw = replace(CROWDED, about={"form": "raw"})
    assert "continued as raw text, because this model has no chat template" in sentences(raw)["sure"]
    assert to_dict(raw)["form"] == "raw" and "raw text" not in sentences(CROWDED)["sure"]


def test_the_answer_is_a_sentence_for_the_load_and_one_for_a_single_user():
    words = sentences(CROWDED)
    assert words["answer"] == "For 8 users at once do not draft: no setting was as fast as plain decoding."
    assert words["alone"] == "For one user use EAGLE head with γ 2: 1.43× (1.38–1.48)."
    assert "Brackets hold the true ratio 95 times in 100" in words["sure"]
    level = sentences(result(load(8, "eagle", 2, 1.02)))["answer"]
    assert level.startswith("For 8 users at once do not draft yet: no difference was certain. The nearest is")
    several = sentences(result(load(8, "eagle", 2, 1.3), load(8, "eagle", 1, 1.28)))["answer"]
    assert several.endswith("EAGLE head with γ 1 (1.28× (1.23–1.33)) may be as fast.")
    wide = replace(load(8, "eagle", 2, 1.3), setting=("ngram", 4), speedup=Speedup(1.6, 1.1, 1.9))
    three = sentences(result(load(8, "eagle", 2, 1.3), load(8, "eagle", 1, 1.28), wide))["answer"]
    assert three.endswith("N-gram lookup with γ 4 (1.60× (1.10–1.90)) and 1 other may be as fast.")


def test_an_answer_says_on_which_machine_and_when_it_was_measured():
    """It said here, though the page opens with one from another machine, and a saved one is read anywhere."""
    about = {"device": "cpu (x86_64, 2 threads)", "precision": "fp32", "measured": "2026-11-26T06:05:04Z"}
    where = "on cpu (x86_64, 2 threads), fp32 on 26 November 2026: 1 text"
    for plan, start in ((PLAN, "Measured"), (replace(PLAN, place=ELSEWHERE), "Counted with pair")):
        assert sentences(result(plan=plan, about=about))["sure"].startswith(f"{start} {where}")


def test_a_busy_machine_is_said_before_what_it_measured():
    busy = replace(load(8, "eagle", 1, 1.2), speedup=Speedup(1.2, 1.1, 1.3, 2.0, busy=0.5))
    found = result(busy, plan=replace(PLAN, users=(8,)))
    assert recommendation(found, 8).startswith("For 8 users at once the machine was too busy to judge. Its measurem")
    assert "too busy" not in recommendation(found, 1)


def test_nothing_is_said_of_a_load_that_was_not_measured():
    known = result(load(8, "eagle", 2, 1.3), plan=replace(PLAN, users=(32,)))
    assert recommendation(known, 32) == "For 32 users at once nothing is measured yet."
    found = schedule(known, "eagle")
    assert found == LoadSchedule(((1, 8, 2),), 8) and found.pays_to == 8
    assert found.words == (
        "Drafting was faster with up to 8 requests at once. More than 8 requests at once were not measured."
    )


def test_a_schedule_has_every_known_load_and_none_between_paying_and_not():
    assert schedule(CROWDED, "eagle") == LoadSchedule(((1, 1, 2), (2, 3, 1), (8, 8, 0)), 8, slower_from=8)
    words = schedule(CROWDED, "eagle").words
    assert "faster with up to 3" in words and "With 8 requests at once it was slower: leave it off from there" in words
    assert "Between these two loads nothing was measured" in words
    assert "More than" not in words, "beyond a load that was slower nothing is left to say"
    unsure = result(load(6, "eagle", 2, 1.3), load(32, "eagle", 2, 1.4, 0.45))
    found = schedule(unsure, "eagle")
    assert found.ranges == ((1, 6, 2),) and found.unsure == (32,)
    assert "With 32 at once no difference was certain." in found.words and "leave it off" not in found.words


def test_a_schedule_compares_a_method_with_plain_decoding_only():
    both = result(load(3, "eagle", 2, 1.2), load(3, "ngram", 4, 1.5))
    assert schedule(both, "eagle").ranges == ((1, 3, 2),), "n-gram lookup is faster there, which is another setting"


def test_noise_is_never_the_answer():
    noisy = (cell("none", 0, 1.0), cell("eagle", 2, 2.21, tau=1.4, busy=0.5), cell("ngram", 1, 1.2))
    found = result(cells=noisy, plan=replace(PLAN, users=(1,)))
    assert "2.21" not in json.dumps(to_dict(found))
    assert "too busy to judge. Its measurements say: use n-gram lookup" in sentences(found)["answer"]
    assert "One setting was faster than its tokens per pass allow" in sentences(found)["sure"]
    assert "Other programs took 50\u00a0% of the processor" in sentences(found)["sure"]
    assert [row["speedup"] for row in to_rows(found)] == [1.0, None, 1.2]


def test_each_kind_of_text_has_its_own_sentence():
    kinds = replace(KINDS, users=(1,))
    cells = (*CELLS, cell("none", 0, 1.0, category="SQL"), cell("eagle", 2, 3.38, 0.2, 4.5, "SQL"),
             cell("none", 0, 1.0, category="mails"), cell("eagle", 2, 0.8, 0.1, 1.1, "mails"))  # fmt: skip
    said = sentences(result(cells=cells, plan=kinds))["kinds"]
    assert said == "SQL: EAGLE head with γ 2, 3.38× (3.18–3.58). mails: drafting does not pay."
    noise = cell("eagle", 2, 3.1, 0.1, 1.1, "mails")  # above what 1.1 tokens per pass allow
    said = sentences(result(cells=(*cells[:-1], noise), plan=kinds))["kinds"]
    assert said.endswith(" mails: too noisy to tell.")
    assert sentences(result())["kinds"] == "", "one kind is the whole"


def test_the_cost_model_is_left_out_where_a_measurement_excludes_it():
    cells = (cell("none", 0, 1.0), cell("eagle", 2, 1.29))
    agrees = result(load(8, "eagle", 2, 0.75, 0.4), cells=cells)
    assert agrees.refuted_predictions() == [] and "By the cost model" in sentences(agrees)["change"]
    excluded = result(load(8, "eagle", 2, 1.7), cells=cells)
    ((users, setting, predicted, measured),) = excluded.refuted_predictions()
    assert (users, setting) == (8, ("eagle", 2)) and predicted < measured.low
    assert "By the cost model" not in sentences(excluded)["change"]
    assert f"predicts {predicted:.2f}×" in sentences(excluded)["sure"]
    assert "trust the measurement" in sentences(excluded)["sure"]


def test_another_server_gets_tokens_a_pass_and_no_speedup():
    kinds = replace(KINDS, place=ELSEWHERE, users=(64,))
    cells = (*CELLS, cell("eagle", 2, 3.38, 0.2, 4.5, "SQL"), cell("ngram", 2, 0.8, 0.1, 1.1, "mails"))
    words = sentences(result(cells=cells, plan=kinds))
    assert words["answer"] == (
        "On your texts, a pass writes 1.80 tokens with EAGLE head (γ 1) and 1.80 with n-gram lookup (γ 1)."
    )
    assert "×" not in json.dumps(words, ensure_ascii=False) and "No speedup is given" in words["change"]
    assert "SQL: up to 4.50" in words["kinds"] and "processor" not in words["sure"], "no program changes a count"
    told = to_dict(result(cells=cells, plan=kinds))
    assert told["answers"] == [] and all(row["speedup"] is None and row["tau"] for row in told["rows"])


def test_a_curve_of_another_machine_predicts_for_it_and_for_no_wider_pass():
    flat = PassCurve({1: 1.0, 2: 1.0, 8: 1.0, 16: 1.0}, "llama-bench", note="Left out: pp512.")
    elsewhere = replace(PLAN, place=ELSEWHERE, users=(4, 64))
    found = result(plan=elsewhere, curve=flat)
    settings = [setting for setting in found.alone if setting[0] != "none"]
    for setting in settings:
        gamma, cell = setting[1], found.alone[setting]
        predicted = found.predict_by_curve(setting, 1)
        assert predicted.value == pytest.approx(cell.tau / (1 + cell.drafting * gamma * 0.1)), (
            "every pass costs the same"
        )
        assert found.predict_by_curve(setting, 64) is None, "a pass wider than the curve"
    words = sentences(found)["curve"]
    assert words.startswith("Predicted with the costs of llama-bench and the tokens per pass of your texts here")
    assert "for one user EAGLE head with γ 1, 1.64×" in words and "for 4 users at once " in words
    assert "nothing for 64 users at once, because the curve ends at 16 rows" in words and words.endswith("pp512.")
    assert "No speedup is given" not in sentences(found)["change"]
    steep = replace(flat, v={1: 1.0, 2: 2.0, 4: 4.0}, c=1.0, fixed=1.0)
    words = sentences(replace(found, curve=steep))["curve"]
    assert "for one user do not draft" in words and "counts as the same part" not in words
    told = to_dict(found)["curve"]
    assert told["v"][8] == 1.0 and {row["users"] for row in told["predictions"]} == {1, 4}
    assert to_dict(result())["curve"] is None and sentences(result())["curve"] == ""


def test_prediction_past_the_widest_pass_never_exceeds_its_tokens():
    odd = {name: CostModel(0.1, {1: 1.0, 8: 1.2, 12: 1.3, 16: 1.2}, 256, 0.03) for name in COSTS}
    found = replace(result(), costs=odd)
    values = [found.predict(("eagle", 2), users).value for users in (1, 8, 64)]
    assert all(0 < value <= 1.8 for value in values) and values[-1] < values[0]


def test_the_longest_estimate_grows_with_all_that_is_measured():
    costs, alone = COSTS["none"], replace(PLAN, users=(1,))
    seconds = alone.most_seconds(costs)
    assert PLAN.runs == 3 * 7 and seconds == pytest.approx(1.4 * PLAN.runs * (48 + 1.05) * 0.03), "half a token to read"
    assert PLAN.most_seconds(costs) > seconds and replace(PLAN, tokens=96).most_seconds(costs) > 1.5 * seconds
    long = replace(alone, texts=(Prompt("x" * 4000, "chat"),))
    assert long.most_seconds(costs) > 3 * seconds, "a prompt of a thousand tokens takes longer to read than 48 to write"
    own = replace(PLAN, texts=(Prompt("Hi", "chat", settings=(("max_new_tokens", 480),)),))
    few, many, longer = (
        replace(plan, users=(users,)).steps_together(costs.v, 1, 1) for plan, users in ((PLAN, 2), (PLAN, 16), (own, 2))
    )
    assert few > 48 * costs.v[2], "plain decoding takes a pass for each token"
    assert many > 4 * few and longer > 9 * few, "the loads of 4 and 16, and the length that a row says itself"


def test_a_row_has_what_was_measured_and_the_interval_that_is_shown():
    wide = result(cells=(cell("none", 0, 1.0), cell("eagle", 2, 1.43, 1.0)), plan=replace(PLAN, users=(1,)))
    _, row = to_rows(wide)
    assert tuple(row) == COLUMNS and row["high"] == wide.alone["eagle", 2].measured.ends[1] < 2.43
    assert (row["kind"], row["alpha"], row["tau"], row["turns"]) == ("all", 0.5, 1.8, 3) and row["predicted"] > 0


@pytest.fixture
def question(engine, tmp_path):
    """``question(*users)``: a question to a tiny model, and the points that its answer needs."""

    def points(*users, texts=TEXTS, methods=("ngram", "lm"), **more) -> AnswerPoints:
        return AnswerPoints(engine, AnswerPlan(texts, methods, users, **{"tokens": 4, "repeats": 2} | more), tmp_path)

    return points


@pytest.fixture
def ask(question, monkeypatch):
    """Asks the question; however busy the machine is, nothing is noise, and no load gets more turns."""
    monkeypatch.setattr(answer, "_UNDECIDED", 1)
    for module in (sweep_results, users_results):
        monkeypatch.setattr(module, "ceiling", lambda tau: math.inf)
    return lambda *users, **more: question(*users, **more).run()


def test_a_question_is_measured_at_every_load_and_finds_earlier_ones(ask):
    first = ask(2)
    assert first.is_complete and {load.users for load in first.loads} == {2} and first.measured_loads == [1, 2]
    assert set(first.kinds) == {"one", "two"} and first.about["device"] and first.about["measured"]
    second = ask(1, 3)
    assert {load.users for load in second.loads} == {2, 3}, "the load of the first question is known"
    assert {load for load in second.loads if load.users == 2} == {*first.loads}
    assert {load.users for load in ask(3, temperature=0.5).loads} == {2, 3} - {2}, "another question knows none"
    told = to_dict(second)
    assert [each["users"] for each in told["answers"]] == [1, 3] and told["weights"] and told["costs"]["ngram"]["step"]
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize(("users", "kinds"), [(2, "ab"), (3, "abb"), (4, "aabb"), (6, "aaabbb")])
def test_a_load_takes_texts_of_every_kind(question, users, kinds):
    texts = tuple(Prompt(text, text[0]) for text in ("a one", "a two", "b three", "b four"))
    load = question(users, texts=texts, methods=("ngram",))._load_file(users, ("ngram", 2))
    assert "".join(config.prompt[0] for config in load.many.configs) == kinds


@pytest.mark.parametrize(("half", "more"), [(0.2, {("ngram", 2), ("ngram", 1)}), (0.05, set())])
def test_a_load_that_decides_nothing_gets_more_turns_once(question, monkeypatch, half, more):
    measured = {("ngram", 2): 1.1, ("ngram", 1): 1.12, ("lm", 2): 0.5, ("lm", 1): 0.5}
    monkeypatch.setattr(answer_points, "shortlist", lambda cells: [*measured])
    monkeypatch.setattr(answer_points, "_load", lambda file, _: load(2, *file.setting, measured[file.setting], half))
    points = question(2, repeats=1)
    points.run()
    turns = {file.setting: len(file.many.file.results) / 2 for file in points.loads}
    assert turns == {setting: 6 if setting in more else 2 for setting in measured}


def test_a_load_that_was_decided_is_not_looked_at_again(question, monkeypatch):
    points = question(2, repeats=2)
    monkeypatch.setattr(answer_points, "shortlist", lambda cells: [("ngram", 2), ("ngram", 1)])
    turns = points.sweep.benchmark.missing
    monkeypatch.setattr(answer_points, "_load", lambda file, _: load(2, *file.setting, 1.1, 0.05 if turns() else 0.2))
    points.run()
    assert {len(file.many.file.results) // 2 for file in points.loads} == {4}, "the last turns of one user change it"


def test_warming_up_serves_two_users_where_loads_are_measured(question, monkeypatch):
    served = []
    monkeypatch.setattr(answer_points.ManyUsers, "warm", lambda many, _: served.append(many.settings.methods))
    question(1).warm()
    assert not served
    question(3, methods=("ngram",)).warm()
    assert served == [("none", "ngram")]


def test_an_estimate_calibrates_nothing(question, calibrations):
    known = len(calibrations)
    assert question(3).work_left() > 0 and len(calibrations) == known


def test_another_server_is_counted_without_loads(ask):
    counted = ask(8, place=ELSEWHERE)
    assert counted.is_complete and not counted.loads and counted.speedups_at(8) == {NONE: counted.speedups_at(1)[NONE]}


def test_other_programs_count_where_the_answer_rests_on_them():
    busy = replace(load(8, "eagle", 1, 1.2), speedup=Speedup(1.2, 1.1, 1.3, 2.0, busy=0.9))
    found = result(load(3, "eagle", 1, 1.3), busy, plan=replace(PLAN, users=(3,)))
    assert found.busy == 0.9 and found.busy_at([1, 3]) is None
    both = to_dict(replace(found, plan=replace(PLAN, users=(3, 8))))
    assert [each["pays"] for each in both["answers"]] == [True, None]


def test_a_stopped_answer_counts_the_texts_that_had_a_turn():
    texts = tuple(Prompt("a", kind) for kind in ("chat", "chat", "copy", "copy"))
    each = (("none", 0, 1.0, "all"), ("none", 0, 1.0, "chat"), ("eagle", 1, 1.2, "all"), ("eagle", 1, 1.2, "chat"))
    cells = tuple(cell(*numbers, category=kind, half=None) for *numbers, kind in each)
    stopped = replace(result(cells=cells, plan=replace(PLAN, texts=texts)), is_complete=False)
    assert "2 of 4 texts, 3 turns for each setting" in sentences(stopped)["sure"]
    assert "4 texts, 3 turns" in sentences(replace(stopped, is_complete=True))["sure"]


def request(speedup, half=0.02, category="all", **more) -> Request:
    ends = speedup - half, speedup + half
    return Request("eagle", 2, category, speedup, *ends, 2.0 / speedup, 2.0, 0.9, 0.5, 24.0, **more)


def test_drafting_pays_for_one_user_only_if_whole_requests_are_faster():
    alone = replace(PLAN, users=(1,))
    cells = (cell("none", 0, 1.0), cell("eagle", 2, 1.43))
    for whole, pays, words in (
        (
            request(1.2),
            True,
            "use EAGLE head with γ 2: 1.43× (1.38–1.48). A whole request takes 1.67 s with",
        ),
        (
            request(0.8, pays_from=40),
            False,
            "do not draft: decoding is faster with drafts, but whole requests are",
        ),
        (
            request(1.01),
            False,
            "do not draft yet: no difference was certain. The nearest is EAGLE",
        ),
    ):
        found = result(cells=cells, plan=alone, requests=(whole,))
        said = sentences(found)["answer"]
        assert found.pays(1) is pays and to_dict(found)["answers"][0]["pays"] is pays and words in said
        assert "; 900 ms and 500 ms of it are over before drafts can help." in said
        assert ("So it pays for answers from 40 tokens on; these have 24." in said) == bool(whole.pays_from)
    mails = (*cells, cell("none", 0, 1.0, category="mails"), cell("eagle", 2, 1.4, category="mails"),
             cell("none", 0, 1.0, category="SQL"), cell("eagle", 2, 1.4, category="SQL"))  # fmt: skip
    kinds = result(cells=mails, plan=replace(KINDS, users=(1,)), requests=(request(0.8, category="mails"),))
    assert "mails: drafting does not pay." in sentences(kinds)["kinds"] and "SQL: EAGLE" in sentences(kinds)["kinds"]
    assert schedule(result(cells=cells, plan=alone, requests=(request(0.8),)), "eagle").ranges == ((1, 1, 0),)


def test_whole_requests_are_the_runs_own_seconds(ask):
    found = ask(1, methods=("lm",))
    assert {(r.gamma, r.category) for r in found.requests} == {(g, k) for g in (1, 2, 4) for k in ("all", "one", "two")}
    for each in found.requests:
        assert each.seconds > each.reading > 0 and each.plain > each.plain_reading > 0 and 1 < each.length <= 4
        assert each.speedup == pytest.approx(each.plain / each.seconds, rel=1e-6)
    json.dumps(to_dict(found), allow_nan=False)


def test_costs_are_measured_once_at_the_length_of_the_texts_and_kept(question, calibrations, monkeypatch):
    contexts, measure = [], calibration.measure
    monkeypatch.setattr(
        calibration, "measure", lambda *args, **more: contexts.append(more.get("context")) or measure(*args, **more)
    )
    texts = (Prompt("the cat " * 9, "long"), Prompt("a hat " * 9, "long"))
    monkeypatch.setattr(text_costs, "middle_of_an_answer", lambda *_: 300)
    points = question(1, texts=texts, methods=("ngram", "lm"))
    points.warm()
    assert contexts == [512, 512], "plain and the draft model; a lookup costs what plain decoding does"
    again = question(1, texts=texts, methods=("ngram", "lm"))
    again.run()
    assert len(contexts) == 2 and {*again.result().costs} == {"none", "ngram", "lm"}, "each run was given them"


def test_the_context_is_the_middle_of_an_answer_to_a_median_text(engine, question):
    points = question(1, tokens=8)
    configs = [turn.config for turn in points.sweep.benchmark.turns]
    lengths = sorted(len(encode_prompt(engine.target.tokenizer, each)) for each in configs)
    assert text_costs.middle_of_an_answer(engine, configs) == int(statistics.median(lengths) + 4)


def test_a_shared_system_prompt_is_measured_read_and_kept(question):
    system = "You answer for a bookshop, politely and in short sentences. " * 7
    rows = tuple(Prompt(text, "chat", settings=(("system", system),)) for text in ("the cat", "the hat", "a bat"))
    points = question(1, texts=rows, methods=("ngram",))
    assert points.missing()[-1][0] is points.kept_starts, "the starts come last and are counted before"
    found = points.run()
    kept = found.kept_request
    assert found.is_complete and kept.method == "ngram" and 400 < kept.tokens < 600, "all of it but its end"
    read = found.request((kept.method, kept.gamma))
    assert kept.seconds > kept.reading > 0 and kept.length == read.length
    words = recommendation(found, 1)
    assert f"With {kept.tokens} tokens of the shared system prompt kept, as servers keep it, that is " in words
    assert to_dict(found)["kept_request"]["tokens"] == kept.tokens
    again = question(1, texts=rows, methods=("ngram",))
    assert not again.missing() and again.result().kept_request == kept, "it is found again"
    others = (*rows[:2], Prompt("a bat", "chat"))
    assert [shared_system(texts) == system for texts in (rows, others, rows[:1])] == [True, False, True]
    assert question(1, texts=others, methods=("ngram",)).run().kept_request is None


def test_every_load_is_measured_early_and_the_first_turns_come_first(question, monkeypatch):
    monkeypatch.setattr(answer, "_UNDECIDED", 1)
    monkeypatch.setattr(answer_points, "shortlist", lambda cells: [("ngram", 2), ("ngram", 1)])
    texts = tuple(Prompt(text, text[0]) for text in ("a one", "a two", "b three", "b four"))
    points, seen = question(2, 4, texts=texts, methods=("ngram",), repeats=3), []
    while missing := points.missing():
        seen.append(missing[0])
        for _ in points.measure(missing[0]):
            pass
    names = [(p[1].users, p[1].repeat) if isinstance(p, tuple) else p.key[1:] for p in seen]
    assert names[:2] == [(0, 0), (2, 0)], "the first text of each kind"
    loads = [p[1] for p in seen if isinstance(p, tuple)]
    assert {each.users for each in loads[:8]} == {2, 4} and [each.repeat for each in loads] == sorted(
        each.repeat for each in loads
    )
    first = [isinstance(p, tuple) for p in seen]
    assert sum(first[: len(first) // 2]) > sum(first) / 4, "loads and turns side by side"
    pairs = zip(loads[::2], loads[1::2], strict=True)
    assert all((a.users, a.repeat) == (b.users, b.repeat) and a.method != b.method for a, b in pairs)


def test_minutes_are_a_budget_with_a_turn_of_every_load(question, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(answer_points.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sweep_results, "ceiling", lambda tau: math.inf)
    points = question(2, 3, methods=("ngram",), repeats=20)
    measure = points.measure

    def timed(point):
        clock[0] += 1.0
        yield from measure(point)

    points.measure = timed
    monkeypatch.setattr(answer_points.AnswerTime, "seconds", lambda self, point: (1.0, 1.0))
    points.warm()
    points.warm, shares = lambda: None, []
    found = points.run(lambda share, doing: shares.append(share), 12.2)
    assert 11 <= clock[0] <= 12.2 and not found.is_complete and {load.users for load in found.loads} == {2, 3}
    assert shares == sorted(shares) and shares[-1] > 0.9, "the share is of the time"
