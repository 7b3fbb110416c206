"""Does what the learner did whose report is tested."""

from page_actions import open_lesson
from playwright.sync_api import Page

from lessons.loader import lessons

# The first step that asks for a number.
LESSON, STEP = next(
    (lesson.slug, i)
    for lesson in lessons()
    for i, step in enumerate(lesson.steps)
    if step.ask and step.ask.kind == "number"
)
RULE = ("p / q", "max(p - q, 0)", "p")
NAME = '<script>pwned=1</script> Ada & "Co"'


def make_guess(page: Page) -> None:
    open_lesson(page, LESSON, STEP)
    page.locator(".sl-guess input").fill("20")
    page.get_by_role("button", name="Reveal").click()


def write_rules(page: Page, *rules: tuple[str, str, str]) -> None:
    page.evaluate("location.hash = '#rule'")
    box = page.locator(".sl-rule-boxes section").first
    for texts in rules:
        for field, text in zip(box.get_by_role("textbox").all(), texts, strict=True):
            field.fill(text)
        box.get_by_role("button", name="Check it").click()
    page.get_by_role("button", name="All lessons").click()
