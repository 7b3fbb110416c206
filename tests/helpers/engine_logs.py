"""Texts in every form that the readers of engines' figures know, with the figures that a reader must find.

Both readers, the one in Python and the one in the browser, are tested with these.
"""

import json
from pathlib import Path

CASES = {each["name"]: each for each in json.loads(Path(__file__).with_name("acceptance_texts.json").read_text())}


def text_of(name: str) -> str:
    return "\n".join(CASES[name]["lines"])
