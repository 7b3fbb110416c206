"""The answer: plans, the sentence at each load, the configuration for it, and a question asked of a tiny model."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lab_pages import VISITOR
from tiny_pairs import model_folder

from app.jobs.engine_facade import EngineFacade
from app.jobs.service import Service
from app.lab.answer import plan, view
from app.lab.answer.handlers import AnswerHandlers
from app.lab.answer.plan import PLACES, AnswerPlan, AnswerResult, Load, of_whole_answers, schedule
from app.lab.experiment import PageState
from app.server.limits import Limits
from engine.bench import sweep_results
from engine.bench.sweep_results import Cell
from engine.errors import BadInput
from engine.runtime.worker import Worker
from engine.trace.events import CostModel
from engine.trace.noise import Speedup

COSTS = {name: CostModel(0.1, {1: 1.0, 2: 1.1, 16: 2.5}, 256, 0.03) for name in ("none", "eagle", "ngram")}
PLAN = AnswerPlan((("chat", "Hi"),), ("eagle", "ngram"), users=8)


def cell(method, gamma, speedup, half=0.05, tau=1.8, **more) -> Cell:
    ends = (None, None) if half is None else (speedup - half, speedup + half)
    return Cell(method, gamma, 0.0, "all", 3, speedup, *ends, 20 * speedup, 0.5, tau, **more)


CELLS = (cell("none", 0, 1.0), cell("eagle", 1, 1.2), cell("eagle", 2, 1.43), cell("ngram", 1, 0.9),
         cell("ngram", 4, 1.05, 0.1))  # fmt: skip


def load(users, method, gamma, speedup, half=0.05) -> Load:
    return Load(users, (method, gamma), Speedup(speedup, speedup - half, speedup + half, 2.0))


def result(*loads: Load, cells=CELLS, plan=PLAN, **more) -> AnswerResult:
    return AnswerResult("pair", plan, cells, loads, COSTS, True, **more)


CROWDED = result(
    load(3, "eagle", 2, 1.1), load(3, "eagle", 1, 1.15), load(8, "eagle", 2, 0.8), load(8, "eagle", 1, 0.9)
)


def models(method):
    return SimpleNamespace(target="big", draft="head", gguf=None, translated=False, eagle=None)


def test_a_plan_measures_the_load_and_one_number_between():
    loads = {users: replace(PLAN, users=users).loads for users in (1, 2, 3, 8, 64)}
    assert loads == {1: (), 2: (2,), 3: (3,), 8: (3, 8), 64: (6, 32)}
    assert replace(PLAN, place="h100-8b").loads == (), "a prediction needs no further measurement"


def test_the_answer_is_a_sentence_for_the_load_and_one_for_a_single_user():
    words = view.sentences(CROWDED)
    assert words["answer"] == "For 8 users at once do not draft: no setting was as fast as plain decoding."
    assert words["alone"] == "For one user use EAGLE head with γ 2: 1.43× (1.38–1.48)."
    assert "Brackets hold the true ratio 95 times in 100" in words["sure"] and "50% of the tested" in words["change"]
    assert f"over the first {plan.TOKENS_OF_A_LOAD} tokens" in words["sure"]
    assert "over the first" not in view.sentences(result(plan=replace(PLAN, users=1)))["sure"]
    level = view.sentences(result(load(8, "eagle", 2, 1.02)))["answer"]
    assert level.startswith("For 8 users at once do not draft yet: no difference that was certain. The nearest is")
    several = view.sentences(result(load(8, "eagle", 2, 1.3), load(8, "eagle", 1, 1.28)))["answer"]
    assert several.endswith("EAGLE head with γ 1 may be as fast.")


def test_noise_is_never_the_answer():
    noisy = (cell("none", 0, 1.0), cell("eagle", 2, 2.21, tau=1.4, busy=0.5), cell("ngram", 1, 1.2))
    found = result(cells=noisy, plan=replace(PLAN, users=1))
    shown = json.dumps(view.sentences(found)) + view.picture(found) + view.recipes(found, models)
    assert "2.21" not in shown and "For one user use n-gram lookup" in shown
    assert "One setting came out faster than the tokens a pass allow" in shown
    assert "Other programs took 50% of the processor" in shown and view.to_rows(found)[0][3] is None


def test_the_configuration_is_for_the_load_with_a_schedule_where_an_engine_has_one():
    assert schedule(CROWDED, "eagle") == ((1, 1, 2), (2, 3, 1), (4, 512, 0))
    told = json.loads(view.recipes(CROWDED, models))
    by_name = {engine["name"]: engine for engine in told["engines"]}
    assert '"num_speculative_tokens_per_batch_size": [[1, 1, 2], [2, 3, 1], [4, 512, 0]]' in by_name["vLLM"]["code"]
    assert "--speculative-adaptive" in by_name["SGLang"]["code"] and len(by_name) == 7
    assert "leave drafting off where 4 or more" in by_name["LMDeploy"]["note"]
    assert "for 8 users at once leave drafting off" in told["lead"]
    plain = result(load(8, "eagle", 2, 0.8), cells=(cell("none", 0, 1.0), cell("eagle", 2, 0.7)))
    assert json.loads(view.recipes(plain, models))["engines"] == []
    for engine in json.loads(view.recipes(result(plan=replace(PLAN, users=1)), models))["engines"]:
        assert "batch_size" not in engine.get("code", ""), "one user needs no schedule"


def test_a_load_timed_over_the_beginnings_promises_no_more_tokens_a_pass_than_whole_answers_have():
    beginnings = Speedup(2.76, 2.72, 2.82, 4.4, 0.3)  # where four tokens a pass came out
    whole = of_whole_answers(beginnings, 4.0, 2.0)
    assert (whole.value, whole.low, whole.busy) == (1.38, 1.36, 0.3) and whole.ceiling < 2.3
    assert of_whole_answers(Speedup(1.2), 2.0, 2.0).low is None
    assert not of_whole_answers(Speedup(5.0, ceiling=4.4), 4.0, 2.0).is_possible, "noise stays noise"


def test_an_engine_without_a_schedule_gets_the_length_for_the_load():
    loads = (load(3, "eagle", 2, 1.1), load(3, "eagle", 1, 1.3), load(8, "eagle", 2, 1.0), load(8, "eagle", 1, 1.2))
    told = json.loads(view.recipes(result(*loads), models))
    code = {engine["name"]: engine.get("code", "") for engine in told["engines"]}
    assert "[[1, 1, 2], [2, 8, 1], [9, 512, 0]]" in code["vLLM"]
    assert "speculative-num-draft-tokens 1\n" in code["LMDeploy"] + "\n"


def test_a_load_that_is_not_measured_yet_is_predicted_but_never_above_a_smaller_one_that_was_measured():
    assert "(predicted)" in view.sentences(result())["answer"]
    partly = result(load(3, "eagle", 2, 0.8), load(3, "eagle", 1, 0.85))
    assert "do not draft: with fewer users no setting was as fast" in view.sentences(partly)["answer"]
    once = result(cells=(cell("none", 0, 1.0), cell("eagle", 1, 1.2, None), cell("eagle", 2, 1.43, None)))
    assert "do not draft yet: with fewer users no difference was certain" in view.sentences(once)["answer"]
    few = replace(PLAN, users=64, place="h100-8b")
    nearly = result(cells=(cell("none", 0, 1.0), cell("ngram", 1, 1.0, tau=1.004)), plan=few)
    assert nearly.predicted(("ngram", 1), 1).tone == "level", "a prediction a hair above 1"
    assert schedule(partly, "eagle") == ((1, 1, 2), (2, 512, 0))


@pytest.mark.parametrize("place", PLACES)
def test_another_place_is_predicted_and_says_so(place):
    found = result(plan=replace(PLAN, place=place, users=64))
    words = view.sentences(found)
    assert "(predicted)" in words["answer"] and words["sure"].startswith(f"Predicted for {PLACES[place].title}, never")
    assert found.at(1)["eagle", 2].value == pytest.approx(1.8 / (1 + 2 * PLACES[place].head), rel=0.02)
    assert found.at(64)["ngram", 4].value < found.at(1)["ngram", 4].value <= 1.8
    assert PLACES[place].names[0] in view.recipes(found, models) and '"x":[1' in view.picture(found)
    assert plan.NONE in found.at(64)


def test_a_prediction_far_past_the_widest_pass_measured_is_never_more_than_the_tokens_allow():
    odd = {name: CostModel(0.1, {1: 1.0, 8: 1.2, 12: 1.3, 16: 1.2}, 256, 0.03) for name in COSTS}
    found = replace(result(plan=replace(PLAN, users=64)), costs=odd)
    values = [found.predicted(("eagle", 2), users).value for users in view.CURVE]
    assert all(0 < value <= 1.8 for value in values) and values[-1] < values[0]


def form(**changes) -> list:
    return list(({"own": "", "kind": "chat", "users": 1, "place": "tiny"} | changes).values())


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    model_folder(root / "target", max_position_embeddings=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(root / "cache"))
        engine = EngineFacade(Worker("cpu"))
        yield AnswerHandlers(Service(engine, Limits(pairs=(str(root / "target"),), new_tokens=6)))
        engine.worker.close()


def test_a_question_is_stopped_gone_on_with_and_answered_with_files_and_a_configuration(served, monkeypatch):
    monkeypatch.setattr(sweep_results, "ceiling", lambda tau: math.inf)  # however busy the machine is, nothing is noise
    handlers, state, updates = served, PageState(), []
    values = form(place=handlers.service.offer.pair, users=2, own="the cat\n---\nthe hat")
    _, plan = handlers.parse(values)
    assert [text for _, text in plan.texts] == ["the cat", "the hat"] and plan.loads == (2,)
    handlers.begin(VISITOR, state)
    for update in handlers.run(VISITOR, state, *values):
        updates.append(update)
        if state.result:
            handlers.stop(VISITOR)
    assert not state.result.is_complete and "Not everything is measured yet" in json.loads(updates[-1].answer)["sure"]
    handlers.begin(VISITOR, state)
    *_, last = handlers.run(VISITOR, state, *values)
    assert state.result.is_complete and {load.users for load in state.result.loads} == {2}
    assert json.loads(last.answer)["answer"].startswith("For 2 users at once")
    _, _, table, numbers, _, recipes = handlers.end(state)
    assert table["value"].endswith(".csv") and numbers["value"].endswith(".json") and json.loads(recipes)["lead"]
    again = PageState()
    handlers.begin(VISITOR, again)
    list(handlers.run(VISITOR, again, *values))
    assert again.result.loads == state.result.loads, "an equal question finds what was measured"


def test_a_question_that_makes_no_sense_is_refused_in_words(served):
    for changes, words in (
        ({"kind": "songs"}, "choose a kind of text"),
        ({"users": 65}, "choose from 1 to 64"),
        ({"own": "\n---\n".join("abcde")}, "give up to 4"),
    ):
        with pytest.raises(BadInput, match=words):
            served.parse(form(**{"place": served.service.offer.pair} | changes))
