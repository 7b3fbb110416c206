"""The load test itself: every user is counted once, and a failed run is a problem."""

import load
import pytest

pytestmark = pytest.mark.browser  # it shares their server


def test_a_few_users_are_all_served_and_a_broken_run_is_told(fake_server, fake):
    fake(step=0.01)
    before = load.numbers(fake_server)
    requests = load.drive(fake_server, 3, 8)
    after = load.numbers(fake_server)
    assert load.uncounted(before, after, requests) == []
    assert len(load.uncounted(before, before, requests)) == 3, "runs, tokens and passes are missing"
    lines, problems = load.report(requests, 2.0)
    assert problems == [] and lines[0] == "3 users, 0 failed, all done after 2.0 s"
    assert all(0 < request.first_token <= request.seconds for request in requests)
    assert len({request.updates[-1][2]["run"]["started"]["config"]["prompt"] for request in requests}) == 3
    requests[0].updates[-1][2]["run"]["started"]["config"]["prompt"] = "another's"
    lines, problems = load.report(requests, 2.0)
    assert len(problems) == 1 and "somebody else" in problems[0] and "1 failed" in lines[0]
