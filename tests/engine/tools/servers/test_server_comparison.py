"""Two stand-in servers of known speeds: the speedup comes back, the texts are compared, and the verdict follows."""

import time
from contextlib import contextmanager

import pytest
from stand_in_server import DONE, event, serving

from engine.errors import Unavailable
from engine.tools.bench.prompts import Prompt
from engine.tools.servers.client import Client
from engine.tools.servers.comparison import Arm, compare, verdict
from engine.tools.servers.streamed_answer import ServerRequest

pytestmark = pytest.mark.timing
PROMPTS = [Prompt(f"prompt {i}", "code" if i % 2 else "chat") for i in range(4)]


def paced(size: int, pause: float, text: str = "abcdefghijklmnopqrstuvwxyz"):
    """``size`` tokens a piece, a piece every ``pause`` seconds; of γ = 3 with size − 1 accepted, or without drafts."""

    def answer(_):
        pieces = [text[:1], *(text[i : i + size] for i in range(1, 25, size))]
        for piece in pieces:
            time.sleep(pause)
            yield event(choices=[{"delta": {"content": piece}, "token_ids": [ord(c) for c in piece]}])
        if size > 1:
            told = {"num_spec_steps": len(pieces) - 1, "num_draft_tokens": 3 * (len(pieces) - 1),
                    "num_accepted_draft_tokens": 24 - len(pieces) + 1, "num_spec_tokens": 3,
                    "per_step_accepted": [len(piece) - 1 for piece in pieces[1:]],
                    "per_step_drafted": [3] * (len(pieces) - 1)}  # fmt: skip
            yield event(choices=[], metrics={"speculative_decoding": told})
        yield DONE

    def text_of(asked):
        time.sleep(0.01)
        return f'{{"prompt": "{chr(asked["tokens"][0])}"}}'

    return {
        "/v1/models": '{"data": [{"owned_by": "vllm"}]}', "/version": '{"version": "0.32.0"}', "/metrics": "vllm:x 1\n",
        "/v1/chat/completions": answer, "/detokenize": text_of,
    }  # fmt: skip


@contextmanager
def measured(on, off, users=(1,), repeats=2):
    with serving(on) as one, serving(off) as other:
        arms = {side: Arm(Client(address), ServerRequest("m", "")) for side, address in (("on", one), ("off", other))}
        yield list(compare(arms, PROMPTS, users, repeats, lambda fraction, message: None))


def test_the_speedup_of_known_servers_comes_back():
    with measured(paced(3, 0.012), paced(1, 0.008)) as (load,):
        speedup = load.speedup()
        assert 1.6 < speedup.value < 2.4 and speedup.low < speedup.value < speedup.high
        assert load.tau() == 3 and load.acceptance() == 2 / 3 and load.tau("code") == 3
        assert load.by_place() == {1: (32, 32), 2: (32, 32), 3: (0, 32)} and load.differing() == []
        assert verdict([load]).startswith("Drafting pays") and verdict([load]).endswith(") for one user.")


def test_drafting_that_is_slower_says_so_and_texts_that_differ_are_named():
    on, off = paced(2, 0.03, "abcdXfghijklmnopqrstuvwxyz"), paced(1, 0.004)
    with measured(on, off, users=(1, 2), repeats=1) as (load, several):
        assert load.speedup().high < 1 and "slower" in verdict([load, several]) and "smaller γ" in verdict([load])
        assert verdict([load]).endswith("; `server explain` says what a step costs.") and several.users == 2
        assert load.differing() == [("chat", 4), ("code", 4), ("chat", 4), ("code", 4)]


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
