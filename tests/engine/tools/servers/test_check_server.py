"""The script that tests other people's servers, against small servers that are right, lossy, or no servers at all."""

import json
import math
import random
import subprocess
import sys
from contextlib import ExitStack

import pytest
from paths import ROOT
from scipy.stats import chi2
from stand_in_server import serving

from engine.tools.servers.check_server import NEAR_TIE, base, chi_squared, movement, widest_tie

LAW = {" upon": 0.5, " a": 0.3, " the": 0.2}


def server(law: dict[str, float], favourite: str = " upon", gap: float = 2.0, as_content: bool = False) -> dict:
    """The answers of a server that draws each token from ``law``; greedy it writes ``favourite``, ``gap`` ahead of " a"
    and " upon". ``as_content``: in llama.cpp's form."""

    def answer(asked):
        draw, count = random.Random(asked["seed"]), asked["max_tokens"]
        words = [favourite] * count
        if asked["temperature"]:
            words = draw.choices(list(law), list(law.values()), k=count)
        tops = [{" a": -0.1 - gap, " upon": -0.1 - gap, " far": -9.0} | {word: -0.1} for word in words]
        numbers = {"tokens": words, "token_logprobs": [-0.1] * count, "top_logprobs": tops}
        if as_content:
            several = [[{"token": word, "logprob": own} for word, own in top.items()] for top in tops]
            entries = zip(words, several, strict=True)
            numbers = {"content": [{"token": word, "logprob": -0.1, "top_logprobs": top} for word, top in entries]}
        return json.dumps({"choices": [{"logprobs": numbers}]})

    return {"/v1/completions": answer, "/v1/chat/completions": answer}


def script(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "engine/tools/servers/check_server.py", "--model", "m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)


@pytest.fixture
def check():
    def run(*sides, draws: int = 10, more: tuple[str, ...] = (), end: str = "/v1") -> subprocess.CompletedProcess:
        with ExitStack() as stack:
            urls = [stack.enter_context(serving(server(*side), run.requests)) + end for side in sides]
            return script(*urls, "--tokens", "5", "--draws", str(draws), *more)

    run.requests = []
    return run


def test_a_right_server_passes(check):
    done = check((LAW,), (LAW,))
    assert done.returncode == 0 and "No difference found" in done.stdout, done.stderr
    assert "Greedy, with drafts: 0 of 5 texts differ; none." in done.stdout


def test_counts_that_are_off_are_found(check):
    done = check(({" upon": 0.8, " a": 0.15, " the": 0.05},), (LAW,), draws=200)
    assert done.returncode == 1 and done.stdout.endswith("Not lossless.\n")
    assert "0 of 5 texts differ" in done.stdout


@pytest.mark.parametrize(("drafts", "plain", "code", "gap"), [
    ((" a", 0.02), (" upon", 0.02), 0, "0.020"),
    ((" a", 1.5, True), (" upon", 1.5), 1, "1.500"),  # in llama.cpp's form
    ((" a", 1.5), (" upon", 0.02), 0, "0.020"),  # by the server without drafts
    ((" never", 2.0), (" upon", 0.02), 1, ""),  # among no candidates
])  # fmt: skip
def test_texts_may_part_where_the_two_tokens_written_are_a_near_tie(check, drafts, plain, code, gap):
    done = check((LAW, *drafts), (LAW, *plain))
    assert done.returncode == code and f"5 of 5 texts differ; token 0: gap {gap}" in done.stdout


def test_every_request_has_the_options_and_no_penalty(check, tmp_path):
    (tmp_path / "mine.jsonl").write_text('{"prompt": "One."}\n{"prompt": "Two."}\n')
    more = ("--chat", "--api-key", "secret", "--extra", '{"top_k": 0, "repetition_penalty": null}',
            "--prompts", str(tmp_path / "mine.jsonl"))  # fmt: skip
    done = check((LAW, " upon", 2.0, True), (LAW, " upon", 2.0, True), more=more, end="/v1/")
    assert done.returncode == 0 and "0 of 2 texts differ" in done.stdout, done.stderr
    assert "26 of 26 requests" in done.stderr
    for path, headers, body in check.requests:
        assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
        assert body["messages"][0]["content"] in ("One.", "Two.") and body["top_k"] == 0
        assert body["repeat_penalty"] == 1 and "repetition_penalty" not in body


@pytest.mark.parametrize("status", [301, 302, 303, 307])
def test_a_redirect_is_not_followed_with_the_key(status):
    asked = []
    with serving({}, asked) as other, serving({"/v1/completions": (status, f"{other}/v1/completions")}) as address:
        done = script(address, address, "--api-key", "secret")
    assert done.returncode == 1 and f"answered {status}" in done.stderr and not asked


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/v1/completions", "/v1/chat/completions/", "/v1/models"])
def test_an_address_may_end_in_any_path_of_the_api(tail):
    assert base(f" http://h:1{tail}") == "http://h:1/v1"


def test_no_server_is_a_sentence():
    done = script(*["http://127.0.0.1:9/v1"] * 2)
    assert done.returncode == 1 and done.stderr.startswith("A server did not answer as expected")


def test_the_p_value_is_scipys_within_a_tenth():
    for ones, others in (((50, 30, 20), (60, 20, 20)), ((500, 300, 200), (430, 320, 250))):
        rows = [[word for word, n in zip("abc", counts, strict=True) for _ in range(n)] for counts in (ones, others)]
        statistic, freedom, p = chi_squared(*rows)
        assert freedom == 2 and math.isclose(p, chi2.sf(statistic, freedom), rel_tol=0.1)
    assert chi_squared("aaaa", "aaaa") == chi_squared("", "") == (0.0, 0, 1.0)


def test_an_engine_that_strays_further_by_itself_gets_a_wider_tie():
    """A server that rounds to eight bits moves by 0.4 without drafts, so a gap of 0.7 says nothing against it."""
    plain = [[("a", -0.5, {}), ("b", -1.0, {})]]
    for change, tie in ((0.0, NEAR_TIE), (0.4, 0.8)):
        moved = [[("a", -0.5 - change, {}), ("b", -1.0, {})]]
        assert widest_tie(plain, moved) == (pytest.approx(change), pytest.approx(tie))
    parted = [[("a", -0.5, {}), ("c", -1.1, {})]]
    assert widest_tie([[("a", -0.5, {}), ("b", -1.0, {"c": -1.9})]], parted) == (0.0, pytest.approx(0.9))
    assert movement(plain, [[("a", None, {}), ("b", -1.25, {})]]) == 0.25, "None is unknown"
