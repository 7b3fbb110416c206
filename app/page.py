"""Puts the page together: theme, heading, tabs. app.py only launches what this returns."""

import json

import gradio as gr
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from app.api.endpoints import Api
from app.api.http import http_routes
from app.jobs.service import Service
from app.lab.page import lab
from app.lessons_tab import handlers as lessons_tab
from app.lessons_tab.page import STYLES as LESSON_STYLES
from app.lessons_tab.page import lessons
from app.playground import engine_status, share_panel
from app.playground.page import playground
from app.playground.run_handlers import RunHandlers
from app.server import health
from app.server.middleware import PageMiddleware
from app.server.own_site import OwnSite
from app.tab import page as tab_page
from app.tab.offer import TabOffer
from app.ui import temp_folder
from app.ui.html_component import WEB, page_script, script_path
from engine.trace.trace import MAX_BYTES
from lessons.schema import LABS

STYLES = [
    "colours.css",
    "page.css",
    "playground/controls.css",
    "playground/results.css",
    "player/player.css",
    "player/branch.css",
    "player/stage.css",
    "player/tree_tab.css",
    "playground/charts.css",
    "playground/files.css",
    "playground/share_dialog.css",
    "lib/code_dialog.css",
    *LESSON_STYLES,
    "lab/lab.css",
    "lab/answer.css",
    "lab/compare.css",
    "lab/distribution.css",
    "lab/own_curve.css",
    "lab/sweep.css",
    "lab/theory.css",
    "lab/users.css",
    "present.css",
]
# A link to a lesson, or to the page before them, opens their tab, which then opens it and writes its own address. The
# lab's tab has one, too, and so has each tab in it (#lab-sweep), so that a reload comes back to it, and so does Back.
# The lab is drawn when its tab is first opened.
OPEN_NAMED_TAB = """() => {
  const labs = LABS, find = query => document.querySelector(query);
  const tab = name => document.getElementById(`${name}-tab-button`);
  const openLab = (name, tries = 100) => {
    const inner = find(`#lab-${name}-button`);
    if (inner) inner.click();
    else if (tries) setTimeout(openLab, 50, name, tries - 1);
  };
  const open = () => {
    if (!location.hash && tab('playground')?.ariaSelected === 'false') tab('playground').click();
    if (/^#(lesson|minute|practice|rule)/.test(location.hash)) tab('lessons')?.click();
    if (/^#lab\\b/.test(location.hash)) tab('lab')?.click();
    const name = location.hash.slice('#lab-'.length);
    if (location.hash.startsWith('#lab-') && labs.includes(name)) openLab(name);
  };
  const write = hash => {
    if (location.hash !== hash) history.pushState(history.state, '', location.pathname + location.search + hash);
  };
  const writeLab = button => {
    const name = labs.find(each => button?.id === `lab-${each}-button`);
    if (name) write(name === 'answer' ? '#lab' : `#lab-${name}`);
  };
  window.addEventListener('popstate', open); // also where only the hash changes
  document.addEventListener('click', ({ isTrusted, target }) => {
    const buttons = '#playground-tab-button, #lab-tab-button, #lab-tabs .tab-wrapper button';
    const button = isTrusted && target.closest?.(buttons);
    if (button === tab('playground')) write('');
    else if (button) writeLab(button === tab('lab') ? find('#lab-tabs [role=tab][aria-selected=true]') : button);
  });
  open();
}""".replace("LABS", json.dumps(list(LABS)))
HEADING = """<header class="sl-heading"><h1>SpecLens</h1>
<a class="sl-skip" href="#stage-rows">To the rounds</a></header>"""


def ready_to_serve(service: Service) -> tuple[gr.Blocks, dict]:
    """Returns the page and its launch options. Its temporary files have a folder from then on."""
    temp_folder.choose()  # before components are made
    return build(service), launch_options(service)


def build(service: Service) -> gr.Blocks:
    hourly = (3600, 3600)  # files of ended runs are deleted after an hour
    with gr.Blocks(title="SpecLens", analytics_enabled=False, fill_width=True, delete_cache=hourly) as demo:
        Api(service).expose()  # first; otherwise the page's own handlers would take the names
        gr.HTML(HEADING, apply_default_css=False)
        with gr.Row(elem_classes="sl-top"):
            state, shared = engine_status.engine_status(), share_panel.bar(service)
        with gr.Tabs(elem_id="tabs") as tabs:
            with gr.Tab("Playground", id="playground", elem_id="playground-tab"):
                stage, controls, session = playground(service, state, shared)
            with gr.Tab("Lessons", id="lessons", elem_id="lessons-tab"):  # drawn when first opened
                lessons(service, tabs, stage, controls)
            with gr.Tab("Lab", id="lab", elem_id="lab-tab"):
                lab(service, session)
        demo.load(None, None, None, js=OPEN_NAMED_TAB, api_visibility="private")
        demo.unload(RunHandlers(service).leave)
    demo.queue(max_size=2 * service.runs.most_requests, default_concurrency_limit=8)
    service.state.warm(service.offer.pair)
    return demo


def script_route() -> Route:
    """Serves the modules of assets/web/; PageMiddleware compresses them and lets browsers cache them."""
    return Route(f"/{script_path()}", lambda _: Response(page_script(), media_type="text/javascript"))


def operator_routes(service: Service) -> list[Route]:
    """Makes the routes for an operator. The page takes runs once it has loaded its first model, unless its weights are
    damaged or its disk takes no files."""

    def state() -> tuple[str, str | None]:
        problem = "The first model is being loaded." if service.state.is_warming_up else None
        problem = problem or temp_folder.problem() or service.engine.storage_problem(service.offer.pair)
        return service.state.now().kind, problem

    return health.routes(service.runs.numbers.text, state)


def theme() -> gr.themes.Base:
    """Returns the theme, in fonts of the reader's own system, because no browser request may leave this server."""
    return gr.themes.Default(
        primary_hue="indigo",
        neutral_hue="slate",
        font=["ui-sans-serif", "system-ui", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Menlo", "monospace"],
    ).set(
        block_radius="12px",
        input_radius="8px",
        button_large_radius="10px",
        button_small_radius="8px",
        # White on the default indigo falls short of 4.5 : 1.
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        # The defaults are too pale to read from the back of a room.
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
    )


def launch_options(service: Service) -> dict:
    """Returns what Gradio needs to serve the page, and begins to prepare the engine for visitors' own tabs."""
    tab = TabOffer(service.engine, service.offer.pair, service.limits.tab)
    tab.prepare()
    return {
        "app_kwargs": {
            "title": "SpecLens",
            "routes": [
                engine_status.route(service, tab.is_ready),
                *http_routes(service),
                script_route(),
                tab_page.route(tab),
                *operator_routes(service),
                *lessons_tab.routes(service.limits.solutions),
            ],
            # The script loads beside gradio's own; its ``head`` option would come after those have run.
            "middleware": [
                Middleware(OwnSite, names=service.limits.hosts),
                Middleware(PageMiddleware, head=f'<link rel="modulepreload" href="{script_path()}">'),
            ],
        },
        "max_threads": 40 + service.runs.most_requests,  # every visitor who runs or waits holds one
        "theme": theme(),
        "css_paths": [WEB / name for name in STYLES],
        "ssr_mode": False,
        "run_history": False,
        "footer_links": [],
        "share": False,
        "max_file_size": MAX_BYTES,
    }
