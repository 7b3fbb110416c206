"""The Lab tab: five experiments, each in a tab of its own."""

import gradio as gr

from app.service import Service
from app.tabs.lab_compare import compare
from app.tabs.lab_distribution import distribution
from app.tabs.lab_sweep import sweep
from app.tabs.lab_synthetic import synthetic
from app.tabs.lab_theory import theory

TABS = {
    "theory": ("Theory", "What draft length should pay, for any α and any device?"),
    "sweep": ("Sweep", "What does pay here: which method, how many drafts, on which text?"),
    "compare": ("Compare", "Two to four ways to write the same answer, round beside round."),
    "distribution": ("Is it lossless?", "Many seeded runs against the target's own distribution; then break the rule."),
    "synthetic": ("Any α", "Set the acceptance by hand: how does this device's speedup follow?"),
}


def lab(service: Service, session: gr.State) -> None:
    """``session``: what the visitor last ran in the playground."""
    make = {
        "theory": lambda: theory(service, session), "sweep": lambda: sweep(service),
        "compare": lambda: compare(service), "distribution": lambda: distribution(service),
        "synthetic": lambda: synthetic(service),
    }  # fmt: skip
    with gr.Tabs(elem_id="lab-tabs"):
        for name, (title, question) in TABS.items():
            with gr.Tab(title, id=f"lab-{name}", elem_id=f"lab-{name}"):
                gr.HTML(f'<h2 class="sl-lab-question">{question}</h2>', apply_default_css=False)
                make[name]()
