"""Writes the lessons, their runs, the theory and the printed pages as files that need no server.

`python -m app.static_site OUT`. Any web host or a USB stick can serve them: links are relative, and no other server
gets a request.
"""

import argparse
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from app.lab.theory import view as theory
from app.lab.theory.request import PointSet
from app.lessons_tab import sheets, view
from app.playground import html_export
from app.playground.startup_run import recorded
from app.ui.html_component import template
from app.ui.static_page import document, mount
from app.views.safe_json import encode
from engine.errors import BadInput, EngineError
from lessons.loader import FOLDER, glossary, lessons, run

PAGES = {"index.html": "Lessons", "theory.html": "Theory", "runs.html": "Recorded runs", "sheets.html": "To take away"}
LESSON_STYLES = (*html_export.STYLES, "lessons/lessons.css")
THEORY_STYLES = (*html_export.STYLES, "playground/charts.css", "lab/lab.css", "lab/theory.css")
NOT_LIVE = (
    "This copy runs no model. Its runs are recorded; the live page runs your own prompts and measures this machine."
)


def write(folder: Path) -> int:
    """Writes every file of the site below ``folder`` and returns their bytes. BadInput where it cannot be written."""
    size = 0
    for name, text in files():
        path, data = folder / name, text.encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise BadInput(f"{path} cannot be written: {error.strerror}. Name a folder that is yours.") from error
        size += len(data)
    return size


def files() -> Iterator[tuple[str, str]]:
    """Each file's path below the site's folder, and its text."""
    rendered: list[dict] = []
    runs: dict[str, Any] = {"opening": ("The run of the playground’s first page", *recorded())}
    for lesson in lessons():
        traces = {scenario.name: run(scenario) for scenario in lesson.scenarios}
        rendered.append(view.page(lesson, traces, glossary()))
        for scenario in lesson.scenarios:
            if scenario.trace:
                runs[scenario.trace] = (scenario.title, traces[scenario.name], None)
    yield "index.html", _lessons(rendered)
    yield "check_server.py", (FOLDER / "check_server.py").read_text(encoding="utf-8")
    yield "theory.html", _theory()
    yield "runs.html", _list("runs.html", {f"runs/{name}.html": title for name, (title, *_) in runs.items()})
    papers = {"check_server.py": "A script that tests whether a server is lossless (lesson 5)"} | dict(
        _sheet_links(rendered)
    )
    yield "sheets.html", _list("sheets.html", papers)
    for name, (_, trace, baseline) in runs.items():
        yield f"runs/{name}.html", html_export.page(trace, baseline)
    for lesson in rendered:
        yield f"sheets/teacher-{lesson['number']}.html", sheets.teacher(lesson)
        yield f"sheets/class-{lesson['number']}.html", sheets.class_sheet(lesson)


def _lessons(rendered: list[dict]) -> str:
    value = {"lessons": view.contents(lessons()), "pages": {str(lesson["number"]): lesson for lesson in rendered}}
    text = "".join(f"<li>{_link(name, title)}</li>" for name, title in _sheet_links(rendered) if "teacher" in name)
    without = (
        f"<noscript><p>Each lesson as text, because JavaScript is switched off here:</p><ul>{text}</ul></noscript>"
    )
    body = without + mount("lesson", player=template("stage", id="lesson-player"))
    return _page("index.html", body, LESSON_STYLES, "lesson", encode(value))


def _theory() -> str:
    without = "<noscript><p>The sliders need JavaScript, which is switched off here.</p></noscript>"
    value = theory.curves(*recorded(), False, PointSet())
    return _page("theory.html", without + mount("theory"), THEORY_STYLES, "theory", value)


def _page(name: str, body: str, styles: tuple[str, ...], part: str, value: str) -> str:
    return document(
        f"SpecLens: {PAGES[name]}", _head(name) + body, styles, f"offline/{part}.js", {"values": {part: value}}
    )


def _list(name: str, links: dict[str, str]) -> str:
    items = "".join(f"<li>{_link(target, title)}</li>" for target, title in links.items())
    body = f'{_head(name)}<main><ul class="sl-site-list">{items}</ul></main>'
    return document(f"SpecLens: {PAGES[name]}", body, ())


def _sheet_links(rendered: list[dict]) -> Iterator[tuple[str, str]]:
    for lesson in rendered:
        title = f"{lesson['number']}. {lesson['title']}"
        yield f"sheets/teacher-{lesson['number']}.html", f"{title}: the whole text, for the teacher"
        yield f"sheets/class-{lesson['number']}.html", f"{title}: one page for the class"


def _head(name: str) -> str:
    current = {page: ' aria-current="page"' if page == name else "" for page in PAGES}
    links = " ".join(_link(page, title, current[page]) for page, title in PAGES.items())
    return f'<header class="sl-heading"><h1>SpecLens</h1><nav class="sl-site">{links}</nav><p>{NOT_LIVE}</p></header>'


def _link(target: str, title: str, more: str = "") -> str:
    return f'<a href="{target}"{more}>{escape(title)}</a>'


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.static_site", description=__doc__.split("\n")[0])
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder to write; files of that name are replaced")
    out = parser.parse_args().out
    try:
        size = write(out)
    except EngineError as error:
        sys.exit(str(error))
    print(f"{size / 1e6:.1f} MB in {out}. Open {out / 'index.html'}.")


if __name__ == "__main__":
    main()
