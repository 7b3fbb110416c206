"""The site opened from disk, with the network cut off: lessons, theory, a run, text without JavaScript, the sheets."""

import re

import pytest
from page_actions import OVERFLOW, open_lesson, violations, wait_for, walk_through
from playwright.sync_api import expect

from app import static_site
from lessons.loader import lessons

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]


@pytest.fixture
def opened(open_offline, site):
    return lambda **options: open_offline(site, several=True, **options)


def test_lessons_theory_and_runs_work_from_disk(opened):
    page = opened()
    page.locator(".sl-lesson-card").nth(2).click()
    expect(page.locator("#sl-lesson-title")).to_have_text("2. Draft, then verify")
    expect(page.get_by_role("button", name="Run it live")).to_be_hidden()
    page.keyboard.press("n")
    expect(page.locator(".sl-lesson-where")).to_contain_text("Step 2")
    expect(page.locator("#lesson .sl-row").first).to_be_visible()
    page.get_by_role("button", name="All lessons").click()
    page.locator(".sl-lesson-card").nth(2).click()
    expect(page.locator(".sl-lesson-where")).to_contain_text("Step 2")  # the progress is there
    page.evaluate("location.hash = '#lesson-5'")
    page.locator('.sl-dot[title="From α to τ"]').click()
    expect(page.locator(".sl-over").first).to_have_css("display", "inline-grid")  # a fraction has two lines
    page.get_by_role("link", name="Theory", exact=True).click()
    page.locator("input[name=alpha]").focus()
    before = page.locator(".sl-theory-sentence").text_content()
    page.keyboard.press("End")
    expect(page.locator(".sl-theory-sentence")).not_to_have_text(before)
    page.get_by_role("link", name="Recorded runs").click()
    page.locator("main a").first.click()
    expect(page.locator(".sl-place")).to_have_text(re.compile("^Round [1-9]"))  # the new page has started
    page.keyboard.press("Home")
    expect(page.locator(".sl-place")).to_have_text(re.compile("^Round 0 of"))


def test_lessons_from_disk_are_presented(opened):
    page = opened(viewport={"width": 1366, "height": 768})
    presenting = page.locator("body.sl-present")
    page.get_by_role("button", name="Present", exact=True).click()
    expect(presenting.get_by_role("button", name="Leave presentation")).to_be_visible()
    page.keyboard.press("Escape")
    expect(presenting).to_have_count(0)
    open_lesson(page, "draft_then_verify")
    page.keyboard.press("p")
    expect(presenting.locator(".sl-lesson-body")).to_have_css("font-size", "22px")
    expect(page.locator(".sl-heading")).to_be_hidden()
    assert page.evaluate(OVERFLOW) <= 0 and violations(page) == []
    page.keyboard.press("p")
    expect(presenting).to_have_count(0)
    page.locator(".sl-lesson-teacher summary").click()
    with page.context.expect_page() as projector:
        page.get_by_role("link", name="Open it for the projector").click()
    expect(projector.value.locator("body.sl-present #sl-lesson-title")).to_have_text("2. Draft, then verify")


def test_a_presentation_from_disk_begins_at_the_title(opened):
    page = opened(viewport={"width": 1280, "height": 720})
    open_lesson(page, "accept_reject_resample")
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.keyboard.press("p")
    for part in ("#sl-lesson-title", ".sl-lesson-nav", ".sl-lesson-keys"):
        expect(page.locator(f"body.sl-present {part}")).to_be_in_viewport(ratio=1)


def test_phones_get_the_address_of_the_open_lesson_where_they_can_reach_it(opened):
    page = opened()
    open_lesson(page, "many_users")
    page.get_by_role("button", name="QR code").click()
    dialog = page.get_by_role("dialog", name="The link for phones")
    expect(dialog).to_contain_text("Put its folder on a web host")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_students_copy_collects_no_reports(opened, open_offline, tmp_path):
    collect = "Collect reports"
    page = opened(viewport={"width": 1366, "height": 768})
    page.locator(".sl-lesson-papers > summary").click()
    expect(page.get_by_text(collect)).to_be_in_viewport()  # above the minute, which a first visit opens
    content = next(text for name, text in static_site.files(has_solutions=False) if name == "index.html")
    (tmp_path / "index.html").write_text(content, encoding="utf-8", newline="\n")
    bare = open_offline(tmp_path / "index.html")
    expect(bare.get_by_text("My report", exact=True)).to_be_visible()
    expect(bare.get_by_text(collect)).to_have_count(0)
    expect(bare.locator(".sl-collect")).to_have_count(0)


@pytest.mark.slow
def test_a_wheel_scrolls_each_kind_of_page(opened):
    page = opened(viewport={"width": 800, "height": 300})
    for name in ("index.html", "runs/opening.html", "sheets/teacher-7.html"):
        page.goto(page.home.replace("index.html", name))
        page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
        page.mouse.move(20, 150)
        page.mouse.wheel(0, 100)
        wait_for(page, "scrollY > 0")


@pytest.mark.slow
def test_without_javascript_every_lesson_is_text(opened):
    page = opened(java_script_enabled=False)
    links = page.locator("noscript a, p + ul a")
    expect(links).to_have_count(len(lessons()))
    links.nth(3).click()
    expect(page.locator("h1")).to_contain_text("3. ")


@pytest.mark.slow
def test_every_step_works_from_disk_and_plays_a_text_of_ones_own(opened):
    """It is typed once, in the first lesson; the drawer of each further lesson has it."""
    text = "one two three four. one two three four. one two three four. one two three four."
    page = opened(viewport={"width": 390, "height": 800}, color_scheme="dark")
    views = set()
    for lesson in lessons():
        open_lesson(page, lesson.slug)
        assert violations(page) == [], lesson.title
        walk_through(page, lesson.slug)
        drawer = page.locator(".sl-lesson-own")
        drawer.locator("summary").click()
        if lesson.slug == "in_five_minutes":
            drawer.locator("textarea").fill(text)
        expect(drawer.locator("textarea")).to_have_value(text)
        drawer.get_by_role("button", name="All of it").click()
        tau = float(drawer.locator(".sl-result").get_attribute("data-tau"))
        assert tau == 1 if lesson.own.gamma == 0 else tau > 2
        if lesson.own.view == "lengths":
            assert int(drawer.locator("[data-best]").get_attribute("data-best")) >= 4
        if lesson.own.view == "users":
            drawer.get_by_label("Users with texts like this").fill("256")
            assert float(drawer.locator("[data-gain]").get_attribute("data-gain")) <= 1  # a full pass has no free rows
        page.wait_for_function(f"{OVERFLOW} <= 0")
        if lesson.own.view not in views:
            views.add(lesson.own.view)
            assert violations(page, ".sl-lesson-own") == [], lesson.title


@pytest.mark.slow
def test_a_class_sheet_is_one_page(opened):
    page = opened()
    for lesson in lessons():
        page.goto(page.home.replace("index.html", f"sheets/class-{lesson.number}.html"))
        assert pages_of(page) == 1, lesson.title


def pages_of(page) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))


def test_a_part_of_the_papers_is_shown_and_printed_alone(opened):
    page = opened()
    papers = page.home.replace("index.html", "")
    parts, contents = page.locator("section:visible"), page.get_by_role("navigation", name="Contents")
    page.goto(f"{papers}teacher.html")
    expect(page.get_by_role("button", name="Print")).to_be_visible()
    count = len(lessons()) + 2  # two plans
    expect(parts).to_have_count(count)
    for name in ("45 minutes: One period", "90 minutes: A double period", "4. Is it really lossless?"):
        contents.get_by_role("link", name=name).click()
        expect(parts.locator("h2")).to_have_text([name])
        assert pages_of(page) == 1, name
    contents.get_by_role("link", name="Everything").click()
    expect(parts).to_have_count(count)
    page.goto(f"{papers}tickets.html")
    expect(page.locator(".sl-ticket:visible")).to_have_count(len(lessons()))
    for lesson in lessons():
        title = f"{lesson.number}. {lesson.title}"
        contents.get_by_role("link", name=title).click()
        expect(page.locator(".sl-ticket:visible h2")).to_have_text([title] * 4)
        assert pages_of(page) == 1, title
    assert violations(page) == []


def test_paper_is_white_and_splits_neither_plans_nor_drawings(opened):
    page = opened()
    page.goto(page.home.replace("index.html", "teacher.html"))
    page.emulate_media(media="print")
    expect(page.locator("body")).to_have_css("background-color", "rgba(0, 0, 0, 0)")
    plans = page.locator("section[id^=plan]")
    expect(plans).to_have_count(2)
    for plan in plans.all():
        expect(plan).to_have_css("break-after", "page")
    drawings = page.locator("section > div:has(> h2):has(> pre)")
    expect(drawings).to_have_count(len(lessons()))
    expect(drawings.first).to_have_css("break-inside", "avoid")
    page.goto(page.home.replace("index.html", "sheets/class-3.html"))
    expect(page.locator("dl")).to_contain_text("draft: A token")
