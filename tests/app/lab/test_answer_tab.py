"""The answer on the page: texts in, refusals in words, the configuration, and a question asked of a tiny model."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from answers import CROWDED, PLAN, cell, load, result
from lab_pages import VISITOR, form
from tiny_pairs import model_folder

from app.jobs.engine_facade import EngineFacade
from app.jobs.service import Service
from app.lab.answer import view
from app.lab.answer.page import MOST_TEXTS, Answer
from app.lab.experiment import PageState
from app.server.limits import Limits
from app.ui.widgets import SKIP
from engine.constraint import Constraint
from engine.errors import BadInput
from engine.runtime.worker import Worker
from engine.tools.bench import sweep_results, users_results
from engine.tools.bench.answer import ELSEWHERE, AnswerResult, Load
from engine.tools.bench.answer_rule import RuleCell
from engine.trace.costs import CostModel
from engine.trace.noise import Speedup


def models(method):
    return SimpleNamespace(target="big", draft="head", gguf=None, translated=False, eagle=None)


def recipes(found: AnswerResult, model="") -> tuple[str, dict]:
    told = json.loads(view.recipes(found, models, model))
    return told["lead"], {engine["name"]: engine for engine in told["engines"]}


def test_the_configuration_has_a_schedule_of_the_loads_that_were_measured():
    lead, by_name = recipes(CROWDED)
    assert '"num_speculative_tokens_per_batch_size": [[1, 1, 2], [2, 3, 1], [8, 8, 0]]' in by_name["vLLM"]["code"]
    assert "--speculative-adaptive" in by_name["SGLang"]["code"] and len(by_name) == 9
    assert "for 8 users at once leave it off" in lead
    for name in ("vLLM", "SGLang", "LMDeploy"):
        assert "With 8 requests at once it was slower" in by_name[name]["note"]


def test_the_rules_table_leaves_unmeasured_cells_empty_and_is_saved():
    cells = (RuleCell("code", 0, 2000, 1, 6, True, "eagle", 2, 1.43, 1.38, 1.48, 1.43), RuleCell("code", 2000, 8000, 1),
             RuleCell("all", 32000, None, 8, 4, False, "eagle", 2, 0.8, 0.75, 0.85, 1.25),
             RuleCell("all", 0, None, 8, 4, None, "ngram", 1, 1.0, 0.9, 1.1))  # fmt: skip
    found = replace(result(), rule=cells, about={"device": "cpu", "measured": "2026-11-26T06:05:04Z"})
    rows = [[text for text, _ in row] for row in json.loads(view.rule_table(found))["rows"]]
    assert rows == [
        ["code", "up to 2,000", "1", "on", "EAGLE head with γ 2", "1.43× (1.38–1.48)", "1.43× as long", "6"],
        ["code", "2,000 to 8,000", "1", "", "", "", "", ""],
        ["all kinds", "from 32,000", "8", "off", "EAGLE head with γ 2", "0.80× (0.75–0.85)", "1.25× as long", "4"],
        ["all kinds", "any", "8", "not certain", "n-gram lookup with γ 1", "1.00× (0.90–1.10)", "", "4"],
    ]
    saved = json.loads(view.files(found, {})["speclens-answer.json"])
    assert [RuleCell(**cell) for cell in saved["rule"]] == [*cells]
    assert json.loads(view.rule_table(result()))["rows"] == [], "an older answer has none"


def test_no_configuration_speaks_of_a_load_that_was_not_measured():
    """It said to leave drafting off from one more than the load in question."""
    paying = result(load(8, "eagle", 2, 1.46))
    _, by_name = recipes(paying)
    for engine in by_name.values():
        assert "512" not in engine.get("code", "") and "leave it off" not in engine["note"]
    assert "More than 8 requests at once were not measured." in by_name["vLLM"]["note"]
    assert "num_speculative_tokens_per_batch_size" not in by_name["vLLM"]["code"], "one length for all that is known"
    _, alone = recipes(result(plan=replace(PLAN, users=(1,))))
    assert "More than one request at once was not measured." in alone["vLLM"]["note"]


def test_drafting_that_nowhere_pays_has_no_configuration():
    slower = result(load(8, "eagle", 2, 0.8), cells=(cell("none", 0, 1.0), cell("eagle", 2, 0.7)))
    assert recipes(slower) == ("Leave drafting off: no setting was as fast, and plain decoding is what every engine "
                               "does by itself.", {})  # fmt: skip
    unsure = result(cells=(cell("none", 0, 1.0), cell("eagle", 2, 1.1, 0.3)), plan=replace(PLAN, users=(1,)))
    lead, by_name = recipes(unsure)
    assert "to try, because it came nearest; no difference was certain here" in lead and "vLLM" in by_name


def test_the_readers_own_model_is_in_the_commands():
    code = recipes(CROWDED, "us/theirs")[1]["vLLM"]["code"]
    assert "us/theirs" in code and "DRAFT_OF_theirs" in code and "big" not in code
    lead, by_name = recipes(result(plan=replace(PLAN, place=ELSEWHERE)), "us/theirs")
    assert "needs no draft model" in lead and '"method": "ngram"' in by_name["vLLM"]["code"]
    assert "us/theirs" in by_name["vLLM"]["code"]


def test_lookup_that_copied_nothing_is_not_proposed():
    idle = result(cells=(cell("none", 0, 1.0), cell("ngram", 1, 1.0, tau=1.0)), plan=replace(PLAN, place=ELSEWHERE))
    lead, by_name = recipes(idle)
    assert lead.startswith("Lookup found next to nothing to copy in these texts") and by_name == {}


def test_the_picture_has_points_and_a_dashed_line_to_compare_them_with():
    figure = json.loads(view.picture(CROWDED))["figures"][view.PICTURE]
    titles = [line["name"] for line in figure["data"]]
    assert "EAGLE head with γ 2" in titles and "EAGLE head with γ 2, predicted" in titles
    assert figure["data"][0]["x"] == [1, 3, 8]
    counted = json.loads(view.picture(result(plan=replace(PLAN, place=ELSEWHERE))))["figures"][view.PICTURE]
    assert [line["name"] for line in counted["data"]] == ["EAGLE head", "n-gram lookup"]
    assert counted["layout"]["yaxis"]["title"]["text"] == "tokens per pass"


def test_the_picture_has_no_line_over_a_load_without_a_point():
    noise = Load(3, ("eagle", 2), Speedup(2.2, 2.1, 2.3, 2.0))
    known = result(load(3, "eagle", 1, 1.15), load(8, "eagle", 2, 0.8))
    figure = json.loads(view.picture(replace(known, loads=(*known.loads, noise))))["figures"][view.PICTURE]
    line = next(each for each in figure["data"] if each["name"] == "EAGLE head with γ 2")
    assert (line["x"], line["y"]) == ([1, 3, 8], [1.43, None, 0.8])
    assert line["error_y"]["array"] == pytest.approx([0.05, 0, 0.05])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    root = tmp_path_factory.mktemp("asked")
    model_folder(root / "target", max_position_embeddings=4096)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(root / "cache"))
        engine = EngineFacade(Worker("cpu"))
        yield Answer(Service(engine, Limits(pairs=(str(root / "target"),), new_tokens=16, prompt_chars=900)))
        engine.worker.close()


def ask(served, **changes):
    return served.parse(form(served, **changes))[1]


def test_json_lines_are_texts_of_their_kinds(served):
    lines = "\n".join(json.dumps({"prompt": f"text {i}", "kind": "SQL" if i % 2 else "mail"}) for i in range(10))
    plan = ask(served, own=lines, users=3, temperature=0.7)
    assert len(plan.texts) == 10 and [(row.category, row.text) for row in plan.texts[:2]] == [
        ("mail", "text 0"),
        ("SQL", "text 1"),
    ]
    assert plan.temperature == 0.7 and plan.loads == (3,)
    assert [row.text for row in ask(served, own="the cat\r\n---\r\nthe hat").texts] == ["the cat", "the hat"]


def test_what_a_row_says_of_its_request_is_measured(served):
    row = {"prompt": "a", "regex": "[ab]+", "system": "be brief", "temperature": 0.5, "max_tokens": 99}
    config, plan = served.parse(form(served, own=json.dumps(row)))
    assert plan.texts[0].own == {"system": "be brief", "temperature": 0.5, "max_new_tokens": 99} and not plan.is_greedy
    assert plan.texts[0].constraint == Constraint("regex", "[ab]+") == config.constraint
    assert (config.max_new_tokens, config.system) == (99, "be brief"), "which the page's limits are checked against"


@pytest.mark.parametrize(
    ("own", "texts"),
    [
        ("---\nthe cat\n---\nthe hat\n---", ["the cat", "the hat"]),
        ("the cat \n --- \nthe hat\n---\t\n\n---\n", ["the cat", "the hat"]),
        ("a --- b\n----", ["a --- b\n----"]),
    ],
)
def test_a_line_of_three_dashes_separates_texts_wherever_it_stands(served, own, texts):
    """Such a line at either end of the field, or with a blank after it, was part of a text that was then measured."""
    assert [row.text for row in ask(served, own=own).texts] == texts
    counted = json.loads(served.size(*form(served, own=own)))["text"]
    assert counted.startswith(f"{len(texts)} text")


def test_separators_alone_are_no_text(served):
    assert {row.category for row in ask(served, own="   \n---\n").texts} == {"chat"}


def test_a_question_that_makes_no_sense_is_refused_in_words(served):
    for changes, words in (
        ({"kind": "songs"}, "choose a kind of text"),
        ({"users": 65}, "choose from 1 to 64"),
        ({"tokens": 3}, "choose from 16 to 16"),
        ({"own": "\n---\n".join("abcde" * 13)}, f"up to {MOST_TEXTS}: leave some out"),
        ({"own": '{"prompt": "a"}\n{"text": "b"}'}, "Line 2 of your text is no JSON object"),
        ({"own": '{"prompt": "a", "seed": 3}'}, "Line 1 of your text has seed, which is not used here"),
        ({"own": json.dumps({"prompt": "a", "system": "x" * 901})}, "Text 1 of 1 has 902 characters"),
        ({"own": f"short\n---\n{'x' * 901}"}, "Text 2 of 2 has 901 characters.*Nothing was cut"),
    ):
        with pytest.raises(BadInput, match=words):
            ask(served, **changes)


def test_an_uploaded_file_is_never_cut(served, tmp_path):
    (tmp_path / "long.txt").write_text("x" * 5000)
    for _ in range(2):  # two visitors with equal files, which gradio stores at one path
        assert len(served.read_file(str(tmp_path / "long.txt"))) == 5000


def test_the_form_says_how_much_work_it_is_and_how_long_it_takes(served, monkeypatch):
    served_pair, values = served.service.offer.pair, form(served, users=8)
    assert "then 3 and 8 users at once, longer where that decides nothing." in json.loads(served.size(*values))["text"]
    costs = CostModel(0.0, {1: 1.0, 16: 2.0}, 256, 0.5)
    monkeypatch.setattr(served.service.offer, "plain_costs", lambda pair: costs if pair == served_pair else None)
    assert "That takes up to" in json.loads(served.size(*values))["text"]


def test_a_curve_that_is_given_predicts_and_a_wrong_one_changes_nothing(served):
    def give(text, before=None):
        return served.take_curve(SimpleNamespace(_data={"text": text, "at": 1}), PageState(result=ELSE), before)

    ELSE = replace(CROWDED, pair=served.service.offer.pair, plan=replace(PLAN, place=ELSEWHERE))
    value, curve, answer, charts = give("1 1 1.1 1.2 1.4")
    assert json.loads(value)["words"].startswith("your numbers: v(2) = 1.00") and curve.widest == 16
    assert "for one user EAGLE head" in json.loads(answer)["curve"] and "predicted" in charts.lower()
    value, same, *skipped = give("1 1 0.5 1 1", curve)
    assert "Line 1" in json.loads(value)["error"] and same == curve and skipped == [SKIP, SKIP]
    _, gone, answer, _ = give("", curve)
    assert gone is None and json.loads(answer)["curve"] == ""
    drawn = served.draw(ELSE, [curve, *form(served)])
    assert json.loads(drawn.answer)["curve"] and not json.loads(served.draw(ELSE, form(served)).answer)["curve"]
    assert served.take_curve(SimpleNamespace(_data={"text": "1 1 1 1 1"}), PageState(), None)[1].v[16] == 1


@pytest.mark.slow
def test_a_stop_within_the_first_turn_says_that_nothing_is_kept(served):
    """Only "Stopped." was said, above the recorded answer to another question."""
    state, texts = PageState(), form(served, own="the dog\n---\nthe log")
    assert "Stop keeps every finished turn, which is one text with all 4 settings." in served.size(*texts)
    served.begin(VISITOR, state)
    for update in served.press()(VISITOR, state, *texts):
        told = json.loads(update.notice)["text"]
        if told.startswith("Part 2 of"):
            served.stop(VISITOR)
    assert told == (
        "Stopped before every setting had run once, so nothing is kept of it. Below is still the recorded example."
    )
    again = PageState()
    served.begin(VISITOR, again)
    words = [json.loads(update.notice)["text"] for update in served.press()(VISITOR, again, *texts)]
    assert any(each.startswith("Part 1 of") for each in words), "as it says, the turn begins again"


@pytest.mark.slow
def test_a_stopped_question_goes_on_to_files_and_a_configuration(served, monkeypatch):
    monkeypatch.setattr("engine.tools.bench.answer._UNDECIDED", 1)
    for module in (sweep_results, users_results):  # however busy the machine is, nothing is noise
        monkeypatch.setattr(module, "ceiling", lambda tau: math.inf)
    handlers, state, updates = served, PageState(), []
    values = form(served, users=2, own="the cat\n---\nthe hat")
    handlers.begin(VISITOR, state)
    for update in handlers.press()(VISITOR, state, *values):
        updates.append(update)
        if state.result:
            handlers.stop(VISITOR)
    assert not state.result.is_complete and "Not everything is measured yet" in json.loads(updates[-1].answer)["sure"]
    handlers.begin(VISITOR, state)
    *_, last = handlers.press()(VISITOR, state, *values)
    assert state.result.is_complete and {load.users for load in state.result.loads} == {2}
    assert json.loads(last.answer)["answer"].startswith("For 2 users at once")
    _, _, table, numbers, rule, _ = handlers.end(state)
    assert json.loads(Path(rule["value"]).read_text(encoding="utf-8"))["cells"] and json.loads(last.rule)["rows"]
    assert table["value"].endswith(".csv") and numbers["value"].endswith(".json")
    told = json.loads(Path(numbers["value"]).read_text(encoding="utf-8"))
    assert told["device"] and told["precision"] and told["measured"] and told["rows"] and told["costs"]
    assert json.loads(last.recipes)["lead"] and json.loads(handlers.name_model(state, "us/theirs"))["lead"]
    again = PageState()
    handlers.begin(VISITOR, again)
    list(handlers.press()(VISITOR, again, *values))
    assert again.result.loads == state.result.loads, "an equal question finds what was measured"
