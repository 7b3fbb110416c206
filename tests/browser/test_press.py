"""A press of Run as the network sees it: three events, and a second press that takes the first one's place."""

import json

import pytest
from page_actions import event_numbers, fill, run
from playwright.sync_api import Request, expect

pytestmark = pytest.mark.browser
# Presses Stop until nothing runs, because on a busy machine it may overtake a press of Run that is still on its way.
STOP = "() => { const stop = document.querySelector('#stop'); stop.click(); return stop.disabled; }"


def event(request: Request) -> int | None:
    """The number of Gradio's event that a request begins."""
    is_event = request.method == "POST" and any(way in request.url for way in ("/queue/join", "/run/predict"))
    return json.loads(request.post_data)["fn_index"] if is_event else None


def test_a_press_of_run_is_three_events_and_its_files_come_with_the_last(visit, fake):
    fake(step=0.01)
    page, events = visit(), []
    fill(page, prompt="Three events", tokens="12", temperature="0")
    with page.expect_response("**/_state"):  # by its next look the controls' own events are sent
        pass
    page.on("request", lambda request: events.append(event(request)))
    run(page, tokens="12")
    # The page sends these without a visitor: to reopen a lost stream (heartbeat.js), and once the engine can answer
    # (engine_status.js), which on a busy machine is late.
    assert len([each for each in events if each not in {None} | event_numbers(page, "unheard", "settled")]) == 3


@pytest.mark.slow
def test_many_clicks_are_one_run_and_a_second_press_replaces_it(visit, fake):
    fake(step=0.5)
    page = visit()
    fill(page, prompt="The first", tokens="200")
    page.locator("#run").dblclick()
    expect(page.locator("#stage-notice")).to_contain_text("of up to 200 tokens")
    page.locator("#prompt textarea").fill("The second")
    for _ in range(4):
        page.locator("#run").click(delay=0)
    expect(page.locator(".sl-asked").first).to_contain_text("The second")
    expect(page.locator("#stage-notice")).to_contain_text("of up to 200 tokens")
    expect(page.locator("#run")).to_have_text("Running…")
    page.wait_for_function(STOP, polling=500)
    expect(page.locator("#stage-notice")).to_contain_text("Stopped")
    expect(page.locator("#stage .sl-rows")).to_be_focused()  # the button is gone
    expect(page.locator("#run")).to_have_text("Run")
    expect(page.locator(".sl-alert")).to_be_empty()
