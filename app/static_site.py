"""Writes the lessons, their runs, the theory and the printed pages as files that need no server.

`python -m app.static_site OUT`. Any web host or a USB stick can serve them: links are relative, and no other server
gets a request. With `--weights hub` or `beside` the site also has a page that runs the model in the visitor's own tab,
which needs a web host; with `hub` that page asks the Hugging Face hub for the model's file, and says so before.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from app.lab.theory import view as theory
from app.lab.theory.work import PointSet
from app.lessons_tab import handlers, practice, sheets, view
from app.lessons_tab import page as lessons_page
from app.playground import html_export, tab_link
from app.playground.startup_run import load_recorded
from app.tab import page as tab_page
from app.tab.package import BESIDE, WEIGHTS, BrowserEngine, browser_engine
from app.ui.html_component import template
from app.ui.static_page import document, heading, mount
from app.views.safe_json import encode
from engine.config import DEFAULT_PAIR
from engine.errors import BadInput, EngineError
from engine.files import ASSETS
from lessons.loader import glossary, lessons, run

PAGES = {"index.html": "Lessons", "theory.html": "Theory", "runs.html": "Recorded runs", "sheets.html": "To take away"}
TAB = {tab_link.NAME: tab_page.TITLE}  # where the site has an engine
MINUTE = "minute.html"
SCRIPT = ASSETS.parent / "engine" / "tools" / "servers" / "check_server.py"
PRACTICE = "practice.html"  # the address that assets/web/lessons/page/lesson.js has, too
CHECKING = "one_token_differs"  # the lesson that explains it
LESSON_STYLES = (*html_export.STYLES, *lessons_page.STYLES, "present.css", "lib/code_dialog.css")
THEORY_STYLES = (*html_export.STYLES, "playground/charts.css", "lab/lab.css", "lab/theory.css")
NOT_LIVE = (
    "This copy runs no model. Its runs are recorded; the live page runs your own prompts and measures this machine."
)

WITH_TAB = "“Run it here” runs the model in your own browser. Everything else on this site is recorded."
PRESENT = (
    '<div class="sl-share-bar"><button type="button" class="sl-button" data-share="present" aria-pressed="false"'
    ' title="Presentation (P)">Present</button>'
    '<button type="button" class="sl-button" data-share="qr">QR code</button></div>'
)
SHEETS = {"teacher": "whole text", "class": "one page"}
Pages = dict[str, str]  # titles by the file's name


def write(folder: Path, engine: BrowserEngine | None = None, has_solutions: bool = True) -> int:
    """Writes every file of the site below ``folder`` and returns their bytes. BadInput where it cannot be written."""
    size = 0
    for name, content in files(engine, has_solutions):
        path, data = folder / name, content.encode() if isinstance(content, str) else content
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        size += len(data)
    if engine and engine.weights:
        with _writing(folder / BESIDE):
            shutil.copyfile(engine.weights, folder / BESIDE)
        size += engine.weights.stat().st_size
    return size


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}. Name a folder that is yours.") from error


def files(engine: BrowserEngine | None = None, has_solutions: bool = True) -> Iterator[tuple[str, str | bytes]]:
    """Each file's path below the site's folder, and its content; with the files of ``engine``, if the site has one.
    Without solutions it lacks the notes for teachers, and each lesson's text is its sheet for the class."""
    pages = PAGES | TAB if engine else PAGES
    if engine:
        yield from tab_page.files(engine, _head(tab_link.NAME, pages))
    rendered: list[dict] = []
    runs: dict[str, Any] = {"opening": ("The run of the playground’s first page", *load_recorded())}
    for lesson in lessons():
        traces = {scenario.name: run(scenario) for scenario in lesson.scenarios}
        rendered.append(view.page(lesson, traces, glossary(), has_solutions))
        for scenario in lesson.scenarios:
            if scenario.trace:
                runs[scenario.trace] = (scenario.title, traces[scenario.name], None)
    papers = {f"{name}.html": title for name, title in handlers.titles(has_solutions).items()}
    yield "index.html", _lessons(rendered, pages, papers)
    yield MINUTE, handlers.minute_alone("index.html")
    yield PRACTICE, practice.sheet(glossary(), has_solutions)
    yield "check_server.py", SCRIPT.read_text(encoding="utf-8")
    yield "theory.html", _theory(pages)
    first, *_ = runs["opening"]
    yield "runs.html", _list("runs.html", pages, {"runs/opening.html": first}, ("Lesson", "Its runs"), _run_rows())
    number = next(lesson.number for lesson in lessons() if lesson.slug == CHECKING)
    script = {"check_server.py": f"A script that tests whether a server is lossless (lesson {number})"}
    exercises = {PRACTICE: "Exercises with new numbers"}
    if has_solutions:
        exercises[f"{PRACTICE}#1-key"] = "Exercises with new numbers, and their key"
    links = papers | script | exercises
    kinds = {"teacher": "The teacher’s", "class": "The class’s"} if has_solutions else {"class": "The class’s"}
    rows = [(escape(_title(each)), *(_link(_sheet(kind, each), SHEETS[kind]) for kind in kinds)) for each in rendered]
    yield "sheets.html", _list("sheets.html", pages, links, ("Lesson", *kinds.values()), rows)
    for name, (_, trace, baseline) in runs.items():
        yield f"runs/{name}.html", html_export.page(trace, baseline)
    for name in papers:
        yield name, handlers.paper(name.removesuffix(".html"), "index.html")
    for lesson in rendered:
        if lesson["teacher"]:
            yield f"sheets/teacher-{lesson['number']}.html", sheets.teacher(lesson)
        yield f"sheets/class-{lesson['number']}.html", sheets.class_sheet(lesson)


def _lessons(rendered: list[dict], pages: Pages, papers: Pages) -> str:
    name = next(name for name in ("tab.html", "runs.html") if name in pages)
    has_solutions = bool(rendered[0]["teacher"])
    value = handlers.value(has_solutions)
    value |= {
        "minute": value["minute"] | {"alone": MINUTE},
        "papers": papers,
        "pages": {str(lesson["number"]): lesson for lesson in rendered},
        "playground": {"href": name, "title": pages[name]},
    }
    kind = "teacher" if has_solutions else "class"
    text = "".join(f"<li>{_link(_sheet(kind, lesson), _title(lesson))}</li>" for lesson in rendered)
    without = (
        f"<noscript><p>Each lesson as text, because JavaScript is switched off here:</p><ul>{text}</ul></noscript>"
    )
    body = PRESENT + without + mount("lesson", player=template("stage", id="lesson-player"))
    return _page("index.html", pages, body, LESSON_STYLES, "lesson", encode(value))


def _theory(pages: Pages) -> str:
    without = "<noscript><p>The sliders need JavaScript, which is switched off here.</p></noscript>"
    value = theory.curves(*load_recorded(), False, PointSet())
    return _page("theory.html", pages, without + mount("theory"), THEORY_STYLES, "theory", value)


def _page(name: str, pages: Pages, body: str, styles: tuple[str, ...], part: str, value: str) -> str:
    head, title = _head(name, pages), f"SpecLens: {pages[name]}"
    return document(title, head + body, styles, f"offline/{part}.js", {"values": {part: value}})


def _list(name: str, pages: Pages, links: Pages, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a page of ``links`` above a table of HTML with a row for each lesson."""
    items = "".join(f"<li>{_link(target, title)}</li>" for target, title in links.items())
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>' for first, *rest in rows
    )
    table = f'<table class="sl-site-table"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>'
    body = f'{_head(name, pages)}<main class="sl-site-list"><ul>{items}</ul>{table}</main>'
    return document(f"SpecLens: {pages[name]}", body, ("offline/site.css",))


def _sheet(kind: str, lesson: dict) -> str:
    return f"sheets/{kind}-{lesson['number']}.html"


def _title(lesson: dict) -> str:
    return f"{lesson['number']}. {lesson['title']}"


def _run_rows() -> Iterator[tuple[str, str]]:
    """Yields each lesson that has runs from files and links to those that no lesson before it has."""
    seen: set[str] = set()
    for lesson in lessons():
        runs = {each.trace: each.title for each in lesson.scenarios if each.trace and each.trace not in seen}
        seen.update(runs)
        if runs:
            links = "".join(f"<li>{_link(f'runs/{name}.html', title)}</li>" for name, title in runs.items())
            yield f"{lesson.number}. {escape(lesson.title)}", f"<ul>{links}</ul>"


def _head(name: str, pages: Pages) -> str:
    current = {page: ' aria-current="page"' if page == name else "" for page in pages}
    links = " ".join(_link(page, title, current[page]) for page, title in pages.items())
    return heading(links, WITH_TAB if pages.keys() >= TAB.keys() else NOT_LIVE)


def _link(target: str, title: str, more: str = "") -> str:
    return f'<a href="{target}"{more}>{escape(title)}</a>'


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.static_site", description=__doc__.split("\n")[0])
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder to write; files of that name are replaced")
    where = "add an engine for the visitor's tab, which gets the model from there (by default none)"
    parser.add_argument("--weights", choices=WEIGHTS, default="none", help=where)
    parser.add_argument("--no-solutions", action="store_true", help="leave out the notes and solutions for teachers")
    parser.add_argument("--pair", default=DEFAULT_PAIR, help="the pair whose target the tab runs")
    options = parser.parse_args()
    out = options.out
    try:
        engine = browser_engine(options.pair, options.weights) if options.weights != "none" else None
        size = write(out, engine, not options.no_solutions)
    except EngineError as error:
        sys.exit(str(error))
    with_tab = "Serve this folder over http, and open index.html"  # a page from disk may start no engine
    how = f"Open {out / 'index.html'}" if options.weights == "none" else with_tab
    print(f"{size / 1e6:.1f} MB in {out}. {how}.")


if __name__ == "__main__":
    main()
