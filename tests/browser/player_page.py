"""The page's modules without gradio and without a server: the player alone, or functions for a test to call."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from fake_worker import recorded
from playwright.sync_api import Browser, Page

from app.ui.html_component import bundle, read_asset, template
from engine.trace.trace import Trace

TOOLS = """acceptance_log batching budget bursts cost drafter_kinds drafters experts float_sums grow_tree guess_share
    guess_words json_masks log_reader lookup_rounds merges overlap own_numbers pass_picture pass_places place_memory
    prompt_bar reports ruler temperature tokenizer_mismatch unknown_runs"""
RULES = "gamma_grade rule_expression rule_grade sibling_grade"
_ROOMS = {"tools": TOOLS, "rule": RULES}
LESSON_MODULES = [
    "lib/speedup_model.js",
    *(f"lessons/{room}/{name}.js" for room, names in _ROOMS.items() for name in names.split()),
]
STYLES = (
    "colours.css",
    "page.css",
    "playground/results.css",
    "player/player.css",
    "player/branch.css",
    "player/stage.css",
)


@contextmanager
def page_with(browser: Browser, *paths: str) -> Iterator[Page]:
    """An empty page in which all that these modules export is global."""
    page = browser.new_page()
    page.add_script_tag(content=bundle(*paths))
    page.evaluate("paths => paths.forEach(path => Object.assign(window, modules[path]))", paths)
    yield page
    page.close()


def literal(text: str) -> str:
    """A JavaScript string in which no tag can end the script."""
    return json.dumps(text).replace("<", "\\u003c")


def page(value: str = "", dark: bool = False) -> str:
    """HTML with the player in it, fed with ``value``; ``feed(text)`` in the page hands it the next."""
    styles = "\n".join(map(read_asset, STYLES))
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>The player</title>
<style>body {{ margin: 12px; font: 15px/1.5 system-ui;
background: var(--body-background-fill); color: var(--body-text-color) }} {styles}</style></head>
<body class="gradio-container{" dark" if dark else ""}">
<textarea id="typing" rows="1"></textarea><div id="stage"></div><script>
{bundle("player/stage.js")}
const element = document.getElementById('stage'), props = {{ value: {literal(value)} }};
const watchers = [], asked = [];
const watch = (name, callback) => watchers.push(callback), trigger = (name, data) => asked.push(
  data ? {{ name, ...data }} : name);
const feed = value => {{ props.value = value; for (const callback of watchers) callback(); }};
element.innerHTML = {literal(template("stage", id="player", look="sl-stage"))};
modules['player/stage.js'].mount({{ element, props, watch, trigger }});
</script></body></html>"""


# The stages of the first row after each of some steps by hand.
STEPS = """count => Array.from({ length: count }, () => {
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', bubbles: true }));
  const tokens = document.querySelector('.sl-row').querySelectorAll('.sl-token:not([hidden])');
  return [...tokens].map(node => node.dataset.stage);
})"""


def make_trace(tokens=60, gamma=4, temperature=0.8, method="ngram") -> Trace:
    return recorded(method, gamma, tokens, temperature)


def place(page: Page) -> str:
    return page.locator(".sl-place").inner_text()


def stages(page: Page, row: int = -1) -> list[str]:
    script = f"rows => [...rows.at({row}).querySelectorAll('.sl-token:not([hidden])')].map(node => node.dataset.stage)"
    return page.locator(".sl-row").evaluate_all(script)
