"""What a teacher takes to class: plans that add up, a handout for each lesson, and tickets without their answers."""

import json
import re
from html import unescape

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import static_site
from app.lessons_tab.handlers import TITLES, contents, page, paper, routes
from app.lessons_tab.teaching import COPIES
from lessons import loader
from lessons.loader import lessons, teaching
from lessons.schema import Lesson, LessonError


def words(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", page[page.index("<main") :]))


def test_every_lesson_has_a_handout_in_the_order_of_the_list():
    heads = re.findall(r"<h2>(\d+)\. ", paper("teacher"))
    assert heads == [str(lesson.number) for lesson in lessons()]
    for handout in teaching().lessons.values():
        assert max(map(len, handout.board.splitlines())) <= 80  # letters that fit on paper
        assert len({each.wrong for each in handout.misconceptions}) == 3


def test_a_plan_takes_its_lessons_no_longer_than_the_school_hour():
    assert [plan.minutes for plan in teaching().plans] == [45, 90]
    for plan in teaching().plans:
        named = [part.lesson for part in plan.parts if part.lesson]
        order = [lesson.slug for lesson in lessons()]
        assert named == sorted(named, key=order.index)


def test_tickets_have_every_question_and_no_answer():
    tickets, plans = words(paper("tickets")), words(paper("teacher"))
    assert "25: each pass reads 16 GB." in plans and "25: each pass" not in tickets
    count = sum(len(handout.ticket) for handout in teaching().lessons.values())
    assert paper("teacher").count("<br><em>") == count
    assert paper("tickets").count("class='sl-lines'") == COPIES * count
    assert "Misconceptions" not in tickets


SCREEN = re.compile(r"\b(press(?! Enter)|drag|dots?|dial|bars|slider|click|turn the|move the)\b|“Best shape”", re.I)
RUN = re.compile(r"\b(this run|this pass|in round (one|two|\d+)|the rejected draft|all three|these \d+ rounds)\b")


def questions(lesson: Lesson) -> list[tuple[str, str]]:
    """What the class page shows before each question, and the question."""
    sheet = page(lesson.number, "class")
    items = re.split(r"<ol><li>|</ul></li><li>|</p></li><li>", sheet)[1:]
    pairs = (re.fullmatch(r'(?:<div class="sl-context">(.*?)</div>)?(.*)', item, re.S).groups("") for item in items)
    return [(words(f"<main>{context}"), words(f"<main>{text}")) for context, text in pairs]


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: str(lesson.number))
def test_a_class_page_asks_only_what_paper_shows(lesson):
    found = questions(lesson)
    assert len(found) == len(lesson.quiz) + sum(bool(step.ask) for step in lesson.steps)
    for context, text in found:
        assert not SCREEN.search(context + text), text
        assert context or not RUN.search(text.split("(step")[0]), text


def test_a_class_page_has_the_numbers_of_its_questions():
    def sheet(number: int) -> str:
        return page(number, "class")

    assert "<td>sun</td><td>rain</td><td>wind</td>" in sheet(3)
    assert "<td>p</td><td>0.2</td><td>0.5</td><td>0.3</td></tr><tr><td>q</td><td>0.4</td><td>0.4</td>" in sheet(3)
    assert "phenomenon known as Rayleigh</td>" in sheet(5)
    assert re.search(r"Drafts in each round: (\d ){40}\d\.", sheet(6))
    assert "rewriting</td><td>head" in sheet(9) and re.search(r"copying</td><td>(\d\.\d\d ?){8}</td>", sheet(9))
    assert "<td>5</td><td>rain</td><td>draft 2</td>" in sheet(12)
    assert "<td>with drafts</td><td>1,654</td><td>61.0</td>" in sheet(14)


def test_the_whole_lesson_has_its_drawing_and_says_what_the_screen_has():
    for lesson in lessons():
        text = unescape(page(lesson.number, "teacher"))
        assert teaching().lessons[lesson.slug].board.strip("\n") in text
    text = page(3, "teacher")
    where = text.index("3. The chance to be accepted")
    assert text[where:].index("On screen: numbers to drag.") < text[where:].index("Drag both")
    assert "<td>q</td><td>0.4</td>" in text


def test_a_site_without_solutions_has_neither_tickets_nor_plans():
    site = dict(static_site.files(has_solutions=False))
    assert not {"tickets.html", "teacher.html"} & site.keys()
    assert "25: each pass" not in "".join(site.values()) and "Exit ticket" not in "".join(site.values())
    assert json.loads(contents(has_solutions=False))["papers"] == {}


def test_lessons_of_a_plan_are_links_to_them():
    for address, plans in (("../../", paper("teacher")), ("index.html", paper("teacher", "index.html"))):
        for plan in teaching().plans:
            for part in plan.parts:
                assert not part.lesson or f'<td><a href="{address}#lesson-{part.lesson}">' in plans


def test_served_pages_are_those_of_the_site():
    client = TestClient(Starlette(routes=routes()))
    for name, title in TITLES.items():
        assert f"<title>SpecLens: {title}</title>" in client.get(f"/speclens/papers/{name}").text
    assert client.get("/speclens/papers/nothing").status_code == 404


def test_a_served_page_without_solutions_answers_nothing_of_theirs():
    client = TestClient(Starlette(routes=routes(has_solutions=False)))
    open_to_all = TestClient(Starlette(routes=routes()))
    for hidden in ("papers/teacher", "papers/tickets", "lessons/1/teacher"):
        assert open_to_all.get(f"/speclens/{hidden}").status_code == 200
        assert client.get(f"/speclens/{hidden}").status_code == 404
    for shown in ("lessons/1/class", "practice"):
        assert client.get(f"/speclens/{shown}").status_code == 200
    assert client.get("/speclens/lessons/1").json()["teacher"] == []
    assert client.get("/speclens/practice").text != open_to_all.get("/speclens/practice").text  # which has the key


@pytest.mark.parametrize(("old", "new", "said"), [
    ("minutes = 45", "minutes = 44", "its parts take 45 minutes, not 44"),
    ("[lessons.many_users]", "[lessons.nothing]", "there is no lesson 'nothing'"),
    ("{8} billion", "8 billion", "8 is neither evaluated"),
])  # fmt: skip
def test_a_mistake_is_reported_with_its_place(monkeypatch, tmp_path, old, new, said):
    source = (loader.FOLDER / "teaching.toml").read_text(encoding="utf-8")
    assert old in source
    (tmp_path / "teaching.toml").write_text(source.replace(old, new), encoding="utf-8")
    lessons(), loader.glossary()  # from their own folder
    monkeypatch.setattr(loader, "FOLDER", tmp_path)
    with pytest.raises(LessonError, match=said):
        teaching.__wrapped__()
