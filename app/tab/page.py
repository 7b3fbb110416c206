"""Writes the page that runs the model in the visitor's tab: its document, its worker, and what keeps both for a visit
without a network. Serves them beside the page, too."""

import hashlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from string import Template

from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.form import CONTROLS
from app.playground.html_export import STYLES
from app.playground.tab_link import FIELDS, NAME, SERVED
from app.tab.offer import TabOffer
from app.tab.package import BESIDE, FOLDER, BrowserEngine
from app.ui.html_component import bundle, read_asset
from app.ui.static_page import document, heading, mount
from app.views.figures import TITLES
from app.views.safe_json import encode
from lessons.examples import EXAMPLES

TITLE = "Run it here"
TAB_METHODS = ("ngram", "none")  # for a link with another method the page takes the first
SERVICE_WORKER = "service_worker.js"  # at the top, because it answers for nothing outside its own folder
# The page's script starts both workers; the policy knows no other address. A service worker reads what it keeps.
RULES = {"worker-src": "'self'", "trusted-types": "speclens-engine"}
BACK = '<a href="../" data-tab="back">Back to the page, with these settings</a>'
NOTE = "The model runs in your own browser here, without the queue. A run that you save opens on the page under Files."
ABSENT = "This page does not offer “Run it here”."
TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".txt": "text/plain"}
# The first two isolate the page, which is what browsers ask for before they give it threads.
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # so that a browser never mixes the files of two versions
}


def files(engine: BrowserEngine, head: str) -> Iterator[tuple[str, str | bytes]]:
    """Each file's path below the site's folder, and its content. ``head``: HTML above the form."""
    worker = f"import * as ort from './ort.mjs';\nglobalThis.ort = ort;\n{bundle('tab/worker.js')}"
    content = engine.files | {f"{FOLDER}/worker.js": worker, NAME: _page(engine, head)}
    yield from content.items()
    yield SERVICE_WORKER, _service_worker(content)


def route(offer: TabOffer) -> Route:
    """Serves the files below SERVED, once the engine is ready. The model's own file comes from the disk."""
    contents: dict[str, str | bytes] = {}

    def answer(request: Request) -> Response:  # in a thread, because the first one makes the files
        engine, name = offer.engine, request.path_params["name"]
        if engine is None:
            return PlainTextResponse(ABSENT, 404, HEADERS)
        if engine.weights and name == BESIDE:
            return FileResponse(engine.weights, headers=HEADERS, media_type="application/octet-stream")
        if not contents:
            contents.update(dict(files(engine, heading(BACK, NOTE))))  # whole, because others ask meanwhile
        if name not in contents:
            return PlainTextResponse("There is no such file.", 404, HEADERS)
        kind = TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")
        return Response(contents[name], headers=HEADERS, media_type=kind)

    return Route(f"/{SERVED}/{{name:path}}", answer)


def _page(engine: BrowserEngine, head: str) -> str:
    data = engine.page | {
        "titles": TITLES,
        "methods": TAB_METHODS,
        "examples": {
            name: {"prompt": example.prompt, "temperature": example.temperature} for name, example in EXAMPLES.items()
        },
        "absent": {control.name: control.label for control in CONTROLS if control.name not in FIELDS},
    }
    form = Template(read_asset("tab/tab.html")).substitute(
        stage=mount("stage", look="sl-stage"), most=engine.page["mostTokens"]
    )
    return document(f"SpecLens: {TITLE}", head + form, (*STYLES, "tab/tab.css"), "tab/tab.js", data, RULES)


def _service_worker(content: dict[str, str | bytes]) -> str:
    """Another site has another version, so that a browser never mixes the files of two."""
    contents = (data.encode() if isinstance(data, str) else data for data in content.values())
    version = hashlib.sha256(b"".join(hashlib.sha256(data).digest() for data in contents)).hexdigest()[:16]
    script = bundle("tab/service_worker.js")
    return f"{script}\nmodules['tab/service_worker.js'].serve({encode(version)}, {encode(list(content))});\n"
