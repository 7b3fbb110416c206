"""The answer in a browser: JSON lines in, sentences by load and kind, the picture, commands with one's own model."""

import json
import re

import pytest
from page_actions import choose
from playwright.sync_api import expect

from engine.tools.bench.answer_recipes import LEAST_TAU

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.xdist_group("tiny server")]
LINES = [{"prompt": "the cat, the cat, the cat", "kind": "repeats"}, {"prompt": "a hat", "kind": "other"}]


def test_a_question_of_two_kinds_is_answered(open_page, tiny_server):
    page = open_page(tiny_server)
    page.get_by_role("tab", name="Lab").click()
    page.locator("#answer-own textarea").fill("\n".join(map(json.dumps, LINES)))
    page.locator("#answer-tokens input[type=number]").fill("16")
    page.locator("#answer-users input[type=number]").fill("2")
    expect(page.locator("#answer-notice")).to_contain_text("2 texts: about")
    page.locator("#answer-run").click()
    expect(page.locator("#answer-notice .sl-notice[data-kind=progress]")).to_be_visible()
    expect(page.locator("#answer-stop")).to_be_in_viewport()
    expect(page.locator("#answer-notice")).to_contain_text("Done", timeout=240_000)
    expect(page.locator(".sl-answer-main")).to_contain_text("For 2 users at once")
    expect(page.locator(".sl-answer-alone")).to_contain_text("For one user")
    expect(page.locator(".sl-answer-kinds")).to_contain_text("repeats: ")
    expect(page.locator("#answer-charts")).to_contain_text("users at once")
    expect(page.locator("#answer-json")).to_be_enabled()
    choose(page, "answer-place", "Another server (tokens per pass only)")
    page.locator("#answer-run").click()
    expect(page.locator("#answer-notice")).to_contain_text("Done", timeout=240_000)
    main = page.locator(".sl-answer-main")
    expect(main).to_contain_text(re.compile(r"[\d.]+(?: tokens)? with n-gram"))  # no longer the answer for two users
    model = page.locator("#answer-model input, #answer-model textarea").first
    with page.expect_request(lambda request: "us/theirs" in (request.post_data or "")):
        model.fill("us/theirs")
        model.blur()
    counted = re.search(r"([\d.]+)(?: tokens)? with n-gram", main.inner_text())
    words = "us/theirs" if float(counted[1]) >= LEAST_TAU else "Lookup found next to nothing"
    expect(page.locator("#answer-production")).to_contain_text(words)
