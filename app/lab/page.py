"""Lays out the Lab tab: the answer first, then the experiments to look closer, each in a tab of its own."""

import gradio as gr

from app.jobs.service import Service
from app.lab.answer.page import Answer
from app.lab.compare.page import Compare
from app.lab.distribution.page import Distribution
from app.lab.experiment import Experiment
from app.lab.layout import Layout
from app.lab.sweep.page import Sweep
from app.lab.theory.page import Theory
from app.lab.users.page import Users
from lessons.schema import LABS

QUESTIONS = {
    "answer": "Your text, your load: does drafting pay, and how do you switch it on?",
    "theory": "Which draft length should pay, for any α? And does it, on this machine?",
    "sweep": "Which method and draft length pay here, and on which kind of text?",
    "compare": "Two to four ways to write the same answer, round by round.",
    "distribution": "Many seeded runs against the target's own distribution; then break the rule.",
    "users": "Many users share each pass. How much do they get together, and does drafting still pay?",
}
EXPERIMENTS: dict[str, type[Experiment]] = {  # in the order of LABS
    "answer": Answer, "theory": Theory, "sweep": Sweep, "compare": Compare, "distribution": Distribution,
    "users": Users,
}  # fmt: skip


def lab(service: Service, session: gr.State) -> None:
    """Lays out the Lab. ``session``: what the visitor last ran in the playground."""
    with gr.Tabs(elem_id="lab-tabs", overflow_behavior="wrap"):
        for name, title in LABS.items():
            with gr.Tab(title, id=f"lab-{name}", elem_id=f"lab-{name}"):
                gr.HTML(f'<h2 class="sl-lab-question">{QUESTIONS[name]}</h2>', apply_default_css=False)
                experiment = EXPERIMENTS[name](service)
                experiment.lay_out(Layout(experiment, session))
