"""Writes the page that runs the model in the visitor's tab: its document, its worker, and what keeps both for a visit
without a network."""

import hashlib
from collections.abc import Iterator
from string import Template

from app.jobs.browser_engine import FOLDER, HEAD, BrowserEngine
from app.playground.html_export import STYLES
from app.ui.html_component import bundle, read
from app.ui.static_page import document, mount
from app.views.figures import TITLES
from app.views.safe_json import encode
from lessons.examples import EXAMPLES

NAME, TITLE = "tab.html", "Run it here"
SERVICE_WORKER = "service_worker.js"  # at the top, because it answers for nothing outside its own folder
# The page's script starts both workers; the policy knows no other address. A service worker reads what it keeps.
RULES = {"worker-src": "'self'", "trusted-types": "speclens-engine"}


def files(engine: BrowserEngine, head: str) -> Iterator[tuple[str, str | bytes]]:
    """Each file's path below the site's folder, and its content. ``head``: HTML above the form."""
    worker = f"import * as ort from './ort.mjs';\nglobalThis.ort = ort;\n{bundle('engine/worker.js')}"
    content = engine.files | {f"{FOLDER}/worker.js": worker, NAME: _page(engine, head)}
    yield from (content | engine.stored).items()
    yield SERVICE_WORKER, _service_worker(content)


def _page(engine: BrowserEngine, head: str) -> str:
    methods = ("ngram", *([HEAD] if engine.page["head"] else []), "none")
    data = engine.page | {
        "titles": {method: TITLES[method] for method in methods},
        "examples": {
            name: {"prompt": example.prompt, "temperature": example.temperature} for name, example in EXAMPLES.items()
        },
    }
    form = Template(read("offline/tab.html")).substitute(
        stage=mount("stage", look="sl-stage"), most=engine.page["mostTokens"]
    )
    return document(f"SpecLens: {TITLE}", head + form, (*STYLES, "offline/tab.css"), "offline/tab.js", data, RULES)


def _service_worker(content: dict[str, str | bytes]) -> str:
    """Another site has another version, so that a browser never mixes the files of two."""
    contents = (data.encode() if isinstance(data, str) else data for data in content.values())
    version = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in contents)).hexdigest()[:16]
    script = bundle("offline/service_worker.js")
    return f"{script}\nmodules['offline/service_worker.js'].serve({encode(version)}, {encode(list(content))});\n"
