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

QUESTIONS = {  # each with a line that says whom it is for
    "answer": ("Your text, your load: does drafting pay, and how do you switch it on?",
               "For those who run a model for others: it times your texts, and ends with a command to copy. If you're "
               "here to learn, begin with Theory."),
    "theory": ("Which draft length should pay, for any α? And does it, on this machine?",
               "For learners: drag the numbers and see when guessing ahead makes a model faster. No model has to run."),
    "sweep": ("Which method and draft length pay here, and on which kind of text?",
              "For those who choose a method: all of them are timed on the same texts, with a range for each result."),
    "compare": ("Which way of guessing writes the same answer in the fewest rounds?",
                "For learners who want to watch: two to four runs of one prompt side by side, round by round."),
    "distribution": ("Does guessing ahead change what the model would write?",
                     "For those who doubt the promise: count many short runs, then break the rule on purpose."),
    "users": ("Many users share each pass. How much do they get together, and does drafting still pay?",
              "For those who serve many people at once. For learners: lesson 15, with what it says measured."),
}  # fmt: skip
EXPERIMENTS: dict[str, type[Experiment]] = {  # in the order of LABS
    "answer": Answer, "theory": Theory, "sweep": Sweep, "compare": Compare, "distribution": Distribution,
    "users": Users,
}  # fmt: skip


def lab(service: Service, session: gr.State) -> None:
    """Lays out the Lab. ``session``: what the visitor last ran in the playground."""
    with gr.Tabs(elem_id="lab-tabs", overflow_behavior="wrap"):
        for name, title in LABS.items():
            with gr.Tab(title, id=f"lab-{name}", elem_id=f"lab-{name}"):
                question, audience = QUESTIONS[name]
                lines = f'<h2 class="sl-lab-question">{question}</h2><p class="sl-lab-lead sl-lab-for">{audience}</p>'
                gr.HTML(lines, apply_default_css=False)
                experiment = EXPERIMENTS[name](service)
                experiment.lay_out(Layout(experiment, session))
