"""The site without a server: every link leads to a file, nothing leaves it, and answers stay off the class's page."""

import re
from html import unescape
from pathlib import PurePosixPath

import pytest

from app import static_site
from app.lessons_tab import practice
from app.lessons_tab.page import STYLES
from app.ui.html_component import WEB
from lessons.loader import lessons

pytestmark = pytest.mark.xdist_group("static-site")


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    return dict(static_site.files())


def test_every_link_leads_to_a_file_and_nothing_is_asked_of_others(site):
    pages = {name: re.sub(r"<script.*?</script>", "", text, flags=re.S) for name, text in site.items()}
    target_of = re.compile(r'\b(?:href|src)="([^"#][^"]*)"')
    links = [(name, link) for name, text in pages.items() for link in target_of.findall(text)]
    assert len(links) > 50
    for name, link in links:
        target = (PurePosixPath(name).parent / link.split("#")[0]).as_posix()
        assert target in site, f"{name} links to {link}"
    assert sum(len(text.encode()) for text in site.values()) < 11_000_000  # bytes, for a slow network
    assert all("default-src 'none'" in unescape(text) for name, text in site.items() if name.endswith(".html"))


def test_every_style_of_the_lessons_is_loaded():
    files = {path.relative_to(WEB).as_posix() for path in (WEB / "lessons").rglob("*.css")}
    assert files == {*STYLES, *practice.STYLES}


def test_site_without_engine_has_no_page_for_it(site):
    assert "tab.html" not in site and "tab.html" not in site["index.html"]


def test_a_site_without_solutions_has_no_word_for_teachers(site):
    bare = dict(static_site.files(has_solutions=False))
    papers = {f"sheets/teacher-{lesson.number}.html" for lesson in lessons()}
    assert site.keys() - bare.keys() == papers | {"teacher.html", "tickets.html"}
    links = re.findall(r'href="(sheets/[^"]*)"', bare["index.html"] + bare["sheets.html"])
    assert len(links) == 2 * len(lessons()) and set(links) <= bare.keys()
    assert "Common misunderstanding" in site["index.html"]
    assert "Common misunderstanding" not in bare["index.html"]


def test_sheets_and_runs_have_a_row_for_each_lesson(site):
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', site["sheets.html"])
    assert [unescape(title) for title, _ in rows] == [f"{each.number}. {each.title}" for each in lessons()]
    for lesson, (_, cells) in zip(lessons(), rows, strict=True):
        sheets = [f"sheets/{kind}-{lesson.number}.html" for kind in ("teacher", "class")]
        assert re.findall(r'<td><a href="([^"]*)"', cells) == sheets
    runs = re.findall(r'href="(runs/[^"]*)"', site["runs.html"])
    assert sorted(runs) == sorted(name for name in site if name.startswith("runs/"))  # each of them once


def test_printed_lesson_has_every_question_and_no_answer(site):
    for lesson in lessons():
        whole, sheet = (site[f"sheets/{kind}-{lesson.number}.html"] for kind in ("teacher", "class"))
        asked = [step.ask for step in lesson.steps if step.ask]
        assert re.findall(r"<h2>\d+\. (.*?)</h2>", unescape(whole)) == [step.title for step in lesson.steps]
        assert whole.count('class="sl-question"') == len(asked) + len(lesson.quiz)
        assert whole.count('class="sl-right"') == len(lesson.quiz) + sum(ask.kind != "number" for ask in asked)
        assert sheet.count('class="sl-boxes"') + sheet.count('class="sl-blank"') == len(asked) + len(lesson.quiz)
        body = sheet[sheet.index("<main") :]
        assert "sl-right" not in body and "<em>" not in body.split("Guess first")[-1].split("Check yourself")[-1]
        assert "<script" not in whole + sheet


@pytest.mark.slow
def test_the_command_writes_it_or_says_why_not(tmp_path, monkeypatch, capsys):
    def command(folder: str, *options: str) -> None:
        monkeypatch.setattr("sys.argv", ["static_site", str(tmp_path / folder), *options])
        static_site.main()

    command("new/site")
    assert f"Open {tmp_path / 'new' / 'site' / 'index.html'}." in capsys.readouterr().out
    assert (tmp_path / "new" / "site" / "sheets" / "class-3.html").is_file()
    (tmp_path / "file").write_text("taken")
    with pytest.raises(SystemExit, match="cannot be written"):
        command("file")
    # A page from disk may start no engine.
    monkeypatch.setattr(static_site, "browser_engine", lambda *_: None)
    command("tab", "--weights", "hub")
    assert "Serve this folder over http, and open index.html." in capsys.readouterr().out
