"""Lays out the Lessons tab and wires "Run it live", which fills the playground's controls."""

import gradio as gr

from app.jobs.service import Service
from app.lessons_tab.handlers import LessonHandlers, contents
from app.ui.html_component import component, template
from app.ui.widgets import QUIET

STYLED_TOOLS = (  # each has a style beside its module
    "budget", "bursts", "drafters", "duel", "experts", "float_sums", "formula_blocks", "grow_tree", "guess_words",
    "heat", "json_masks", "kinds_of_text", "overlap", "own_numbers", "own_text", "parting", "pass_picture",
    "pass_places", "prompt_bar", "rejection_demo", "reports", "ruler", "tokenizer_mismatch",
)  # fmt: skip
_STYLED = ("page/lessons", "page/questions", "widgets/widgets", *(f"tools/{name}" for name in STYLED_TOOLS))
_OTHERS = ("rule/write_rule", "page/minute", "practice/practice", "report/report")
STYLES = tuple(f"lessons/{name}.css" for name in (*_STYLED, *_OTHERS))


def lessons(service: Service, tabs: gr.Tabs, stage: gr.HTML, controls: list) -> None:
    """Lays out the tab. ``stage``: the playground's; ``controls``: all of them, in the order of form.NAMES."""
    shown = component("lesson", contents(service.limits.solutions), player=template("stage", id="lesson-player"))
    filled = shown.live(LessonHandlers(service).live, None, [stage, *controls], **QUIET)
    filled.then(lambda: gr.Tabs(selected="playground"), None, tabs, **QUIET)
