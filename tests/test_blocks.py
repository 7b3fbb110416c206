"""Outputs that are skipped: the same answer as gradio's own, without the work."""

import asyncio
import copy
from collections import Counter

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from app.blocks import SKIP, Blocks

ANSWERS = {
    "one": [SKIP, "words", SKIP, SKIP],
    "one update": [gr.update(value="Stop", interactive=False), SKIP, SKIP, SKIP],
    "a state": [SKIP, SKIP, SKIP, {"kept": 1}],
    "several": [SKIP, "words", gr.update(visible=False), {"kept": 2}],
    "a tuple": (gr.update(value="Go"), "words", SKIP, SKIP),
    "all": [gr.update(value="Go"), "words", gr.update(value="a"), {}],
    "none": [SKIP, SKIP, SKIP, SKIP],
    "a single skip": SKIP,
}


def page(kind):
    with kind(analytics_enabled=False) as demo:
        outputs = [gr.Button("Run", elem_id="run"), gr.HTML("", elem_id="said"), gr.Textbox("x"), gr.State({})]
        outputs[0].click(lambda: None, None, outputs)
    return demo, next(iter(demo.fns.values()))


def answered(kind, *answers):
    demo, function = page(kind)
    state = SessionState(demo)
    made = [asyncio.run(demo.postprocess_data(function, copy.deepcopy(answer), state)) for answer in answers]
    for value in (value for answer in made for value in answer if isinstance(value, dict)):
        if value.get("props") == SKIP:  # an HTML that is skipped
            del value["props"]
    return made, state[function.outputs[0]._id].value, state[function.outputs[3]._id]


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_answer_is_gradios_own(answer):
    assert answered(Blocks, answer, ANSWERS["several"]) == answered(gr.Blocks, answer, ANSWERS["several"])


def test_a_wrong_number_of_answers_is_refused_as_ever():
    demo, function = page(Blocks)
    with pytest.raises(ValueError, match="enough output values"):
        asyncio.run(demo.postprocess_data(function, ["a", "b"], SessionState(demo)))


def test_what_is_skipped_is_not_made_anew(monkeypatch):
    demo, function = page(Blocks)
    made, begin = Counter(), gr.components.Component.__init__

    def counting(self, *args, **more):
        made[type(self).__name__] += 1
        begin(self, *args, **more)

    monkeypatch.setattr(gr.components.Component, "__init__", counting)
    asyncio.run(demo.postprocess_data(function, [SKIP, "words", SKIP, SKIP], SessionState(demo)))
    assert not made
    asyncio.run(demo.postprocess_data(function, [gr.update(value="Go"), SKIP, SKIP, SKIP], SessionState(demo)))
    assert made == {"Button": 1}
