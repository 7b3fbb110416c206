"""The QR code of a link: module by module the one that another encoder makes, and as large as a link may be."""

import hashlib

import pytest
from page_actions import violations
from player_page import page_with
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
# Hashes of codes that the Python package qrcode 8.2 makes of the same bytes with the same mask.
KNOWN = {
    "http://192.168.1.5:7860/?prompt=Hello": (29, "15d820c16ec292d5"),
    60 * "é": (41, "c07be82dc5b91dde"),
    1200 * "z": (117, "292c3e5556471fdc"),
}


def test_codes_are_those_of_another_encoder(browser):
    with page_with(browser, "lib/qr_code.js") as page:
        for text, (size, known) in KNOWN.items():
            rows = page.evaluate("text => qrCode(text).map(row => row.map(Number).join(''))", text)
            assert len(rows) == size
            assert hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16] == known, text
        assert page.evaluate("qrCode('x'.repeat(1273)) !== null && qrCode('x'.repeat(1274)) === null")


def test_share_dialog_shows_the_code_of_its_newest_link(visit):
    page = visit()
    page.locator('[data-share="open"]').click()
    expect(page.locator('[data-share="copy"]')).to_be_enabled()
    page.get_by_role("button", name="QR code").click()
    code = page.get_by_role("img", name="QR code of the link")
    expect(code).to_be_visible()
    assert violations(page, ".sl-share") == []
    drawn = code.inner_html()
    page.keyboard.press("Escape")
    expect(code).to_be_hidden()
    page.locator(".sl-share details summary").first.click()
    page.locator("[name=present]").check()
    page.get_by_role("button", name="Hide all but the prompt").click()
    page.get_by_role("button", name="QR code").click()
    expect(code).to_be_in_viewport(ratio=1)
    assert code.inner_html() != drawn, "the link has changed"
