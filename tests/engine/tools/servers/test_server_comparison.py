"""Two stand-in servers of known speeds: the speedup comes back, the texts are compared, and the verdict follows."""

import time
from contextlib import contextmanager
from itertools import takewhile

import pytest
from stand_in_server import DONE, event, serving

from engine.errors import Unavailable
from engine.tools.bench.prompts import Prompt
from engine.tools.servers.client import Client
from engine.tools.servers.comparison import Arm, compare, compare_reading, verdict
from engine.tools.servers.server_request import ServerRequest

pytestmark = pytest.mark.timing
PROMPTS = [Prompt(f"prompt {i}", "code" if i % 2 else "chat") for i in range(4)]


def paced(size: int, pause: float, text: str = "abcdefghijklmnopqrstuvwxyz", reading: float = 0.0, caches=True):
    """``size`` tokens a piece, a piece every ``pause`` seconds; of γ = 3 with size − 1 accepted, or without drafts. It
    reads a character of a prompt in ``reading`` seconds, unless it ``caches`` what earlier prompts began with."""
    read: list[str] = []

    def answer(asked):
        prompt, most = "\n".join(each["content"] for each in asked["messages"]), min(25, asked["max_tokens"])
        same = [sum(1 for _ in takewhile(lambda ab: ab[0] == ab[1], zip(prompt, each, strict=False))) for each in read]
        cached = max(same, default=0) if caches else 0
        read.append(prompt)
        time.sleep(reading * (len(prompt) - cached))
        pieces = [text[:1], *(text[i : min(i + size, most)] for i in range(1, most, size))]
        for piece in pieces:
            time.sleep(pause)
            yield event(choices=[{"delta": {"content": piece}, "token_ids": [ord(c) for c in piece]}])
        if size > 1:
            told = {"num_spec_steps": len(pieces) - 1, "num_draft_tokens": 3 * (len(pieces) - 1),
                    "num_accepted_draft_tokens": most - len(pieces), "num_spec_tokens": 3,
                    "per_step_accepted": [len(piece) - 1 for piece in pieces[1:]],
                    "per_step_drafted": [3] * (len(pieces) - 1)}  # fmt: skip
            yield event(choices=[], metrics={"speculative_decoding": told})
        usage = {"prompt_tokens": len(prompt), "prompt_tokens_details": {"cached_tokens": cached}}
        yield event(choices=[], usage=usage) + DONE

    def text_of(asked):
        time.sleep(0.01)
        return f'{{"prompt": "{chr(asked["tokens"][0])}"}}'

    return {
        "/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/version": '{"version": "0.32.0"}', "/metrics": "vllm:x 1\n",
        "/v1/chat/completions": answer, "/detokenize": text_of,
    }  # fmt: skip


@contextmanager
def measured(on, off, users=(1,), repeats=2, prompts=PROMPTS):
    with serving(on) as one, serving(off) as other:
        arms = {side: Arm(Client(address), ServerRequest("m", "")) for side, address in (("on", one), ("off", other))}
        yield list(compare(arms, prompts, users, repeats, lambda fraction, message: None))


def test_the_speedup_of_known_servers_comes_back():
    with measured(paced(3, 0.012), paced(1, 0.008)) as (load,):
        speedup = load.speedup()
        assert 1.6 < speedup.value < 2.4 and speedup.low < speedup.value < speedup.high
        assert load.tau() == 3 and load.acceptance() == 2 / 3 and load.tau("code") == 3
        assert load.by_place() == {1: (32, 32), 2: (32, 32), 3: (0, 32)} and load.differing() == []
        assert verdict([load]).startswith("Drafting pays: decoding ") and " for one user. A whole" in verdict([load])


def test_drafting_that_is_slower_says_so_and_texts_that_differ_are_named():
    on, off = paced(2, 0.03, "abcdXfghijklmnopqrstuvwxyz"), paced(1, 0.004)
    with measured(on, off, users=(1, 2), repeats=1) as (load, several):
        assert load.speedup().high < 1 and "slower" in verdict([load, several]) and "smaller γ" in verdict([load])
        assert verdict([load]).endswith("; `server explain` says what a step costs.") and several.users == 2
        assert load.differing() == [("chat", 4), ("code", 4), ("chat", 4), ("code", 4)]


def test_every_load_is_measured_once_however_little_time_there_is():
    with serving(paced(3, 0.002)) as on, serving(paced(1, 0.002)) as off:
        arms = {side: Arm(Client(address), ServerRequest("m", "")) for side, address in (("on", on), ("off", off))}
        loads = [*compare(arms, PROMPTS, (1, 4), 9, lambda fraction, message: None, limit_seconds=1e-3)]
    assert [(load.users, len(load.seconds["on"]), len(load.seconds["off"])) for load in loads] == [(1, 1, 1), (4, 1, 1)]


def test_several_users_are_measured_together():
    with measured(paced(3, 0.03), paced(1, 0.03), users=(4,), repeats=3) as (load,):
        assert load.speed("off") > 1.5 / 0.03, "one user gets a token every 0.03 seconds"
        assert 2.2 < load.speedup().value < 3.0, "25 pieces against 9; texts of tokens are asked for off the clock"


def test_counts_of_a_group_are_not_those_of_each_answer():
    asked, uncounted = [], paced(1, 0.001)
    counts = "".join(f"vllm:spec_decode_num_{name}_total 9\n" for name in ("drafts", "draft_tokens", "accepted_tokens"))
    with serving(uncounted | {"/metrics": lambda _: (asked.append(1), counts)[1]}) as address:
        arm = Arm(Client(address), ServerRequest("m", ""))
        several, _ = arm.answer_all(PROMPTS, 2)
        assert not asked and not any(trace.started.server.counters for trace in several)
        alone, _ = arm.answer_all(PROMPTS, 1)
        assert len(asked) == 2 * len(PROMPTS) and all(trace.started.server.counters for trace in alone)


def test_a_server_that_counts_no_tokens_is_not_measured():
    uncounted = {"/v1/chat/completions": event(choices=[{"delta": {"content": "a"}}]) + DONE}
    with pytest.raises(Unavailable, match="does not count its tokens"), measured(uncounted, paced(1, 0.001)):
        pass


def test_tokens_that_no_piece_shows_count_as_speed_and_leave_tau_unknown():
    def several(size: int):
        def answer(_):
            for text in "abcde":
                time.sleep(0.004)
                yield event(choices=[{"delta": {"content": text * size}}])
            yield event(choices=[], usage={"completion_tokens": 5 * size}) + DONE

        return {"/v1/chat/completions": answer}

    with measured(several(3), several(1), users=(1, 2), repeats=1) as loads:
        assert [load.tau() for load in loads] == [None, None]
        assert 2 < loads[0].speed("on") / loads[0].speed("off") < 5
        assert loads[1].rates("on")[0] > 1.7 * loads[1].rates("off")[0]


def test_half_an_answer_is_no_measurement():
    cut = paced(3, 0.001)
    cut["/v1/chat/completions"] = b"".join([event(choices=[{"delta": {"content": "a"}}])])
    with pytest.raises(Unavailable, match="cut before the end"), measured(cut, paced(1, 0.001)):
        pass


SHORT, LONG = (("max_new_tokens", 7), ("system", "s" * 300)), (("max_new_tokens", 25),)
MIX = [Prompt(f"prompt {i}", "short answer", settings=SHORT) for i in range(3)]
MIX += [Prompt(f"prompt {i}", "long answer", settings=LONG) for i in range(3)]


def test_a_lost_prompt_cache_loses_for_long_prompts_and_short_answers():
    """A system prompt takes 0.06 s to read, and drafts save 4 ms a token: they pay from 15 tokens on."""
    on, off = paced(3, 0.012, reading=2e-4, caches=False), paced(1, 0.008, reading=2e-4)
    with measured(on, off, prompts=MIX[:3]) as (short,), measured(on, off, prompts=MIX[3:]) as (long,):
        assert short.speedup().low > 1.4 and verdict([short]).startswith("Drafting loses for one user, although")
        assert 11 <= short.request_of().pays_from <= 20 and "pays for answers from" in verdict([short])
        assert "; these have 7." in verdict([short]) and verdict([long]).startswith("Drafting pays")
    with measured(on, off, prompts=MIX) as (both,):
        kinds = {name: both.request_of(name).request.tone for name in ("short answer", "long answer", "")}
        assert kinds["short answer"] == "slower" and kinds["long answer"] == "faster"
        assert ("It pays for long answer (" in verdict([both])) == (both.request_of().request.tone != "faster")


def test_a_long_prompt_is_read_new_again_and_with_another_end():
    sides = {"on": paced(3, 0.001, reading=2e-5, caches=False), "off": paced(1, 0.001, reading=2e-5)}
    with serving(sides["on"]) as one, serving(sides["off"]) as other:
        arms = {side: Arm(Client(at), ServerRequest("m", "")) for side, at in (("on", one), ("off", other))}
        read = compare_reading(arms, "long " * 1000, 2)
    for name, cached in {"new": 0, "again": 5000, "other end": 4900}.items():
        assert read["on"][name].cached == 0 and read["on"][name].first > 0.1
        assert read["off"][name].cached >= cached and (read["off"][name].first > 0.1) == (name == "new")
