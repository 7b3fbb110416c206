"""The page's modules without gradio and without a server: the player alone, or functions for a test to call."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page

from app.ui.html_component import bundle, read, template

STYLES = ("colours.css", "page.css", "playground/results.css", "player/player.css", "player/stage.css")


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
    styles = "\n".join(map(read, STYLES))
    shades = (
        "--body-text-color: #f1f5f9; --body-background-fill: #0f172a;"
        if dark
        else "--body-text-color: #1e293b; --body-background-fill: #f8fafc;"
    )
    return f"""<!doctype html><html lang="en" class="{"dark" if dark else ""}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>The player</title>
<style>body {{ margin: 12px; font: 15px/1.5 system-ui; {shades} --color-accent: #6366f1;
background: var(--body-background-fill); color: var(--body-text-color) }} {styles}</style></head>
<body class="gradio-container"><textarea id="typing" rows="1"></textarea><div id="stage"></div><script>
{bundle("player/stage.js")}
const element = document.getElementById('stage'), props = {{ value: {literal(value)} }};
const watchers = [], asked = [];
const watch = (name, callback) => watchers.push(callback), trigger = (name, data) => asked.push(
  data ? {{ name, ...data }} : name);
const feed = value => {{ props.value = value; for (const callback of watchers) callback(); }};
element.innerHTML = {literal(template("stage", id="player", look="sl-stage"))};
modules['player/stage.js'].mount({{ element, props, watch, trigger }});
</script></body></html>"""
