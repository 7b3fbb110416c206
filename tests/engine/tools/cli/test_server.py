"""`python -m engine server` as people use it, against stand-in servers."""

import json

import command_line
import pytest
from engine_logs import text_of
from stand_in_server import DONE, event, serving, vllm

from engine.trace.trace import load


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def call(*args):
    return command_line.call("server", *args)


@pytest.fixture
def record(tmp_path):
    """``record(answers, *options)`` keeps run.json of a server that gives these answers, to one prompt unless told
    otherwise."""

    def run(answers: dict, *options):
        prompt = () if "--prompts" in options else ("--prompt", "Count.")
        with serving(answers) as address:
            return call("record", address, "--model", "m", "--out", tmp_path / "run.json", *prompt, *options)

    return run


@pytest.fixture
def rows(tmp_path):
    """A file of two prompts."""
    file = tmp_path / "prompts.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": text, "category": "chat"}) + "\n" for text in ("Count.", "Count on."))
    )
    return file


def test_record_keeps_a_trace_that_replay_shows(record, tmp_path):
    result = record(vllm())
    assert result.exit_code == 0, result.stderr
    assert "vLLM 0.32.0" in result.stdout and "17 rounds, 51 drafted, 22 accepted" in result.stdout
    assert "22 of 35 tested drafts" in result.stdout and result.stdout.count("γ=3") == 17
    again = command_line.call("replay", tmp_path / "run.json")
    assert again.exit_code == 0 and again.stdout == result.stdout


def test_record_of_several_prompts_prints_the_totals(record, rows, tmp_path):
    result = record(vllm(), "--prompts", rows)
    assert result.exit_code == 0 and "78 in 34 passes" in result.stdout and "2.294" in result.stdout
    assert [len(load(tmp_path / f"run-{n}.json").rounds) for n in (1, 2)] == [18, 18]


def test_record_of_several_prompts_has_no_tau_where_tokens_are_hidden(record, rows):
    body = b"".join(event(choices=[{"text": word}]) for word in "ab")
    answers = {"/v1/completions": body + event(choices=[], usage={"completion_tokens": 9}) + DONE}
    made, one = record(answers, "--raw", "--prompts", rows), record(answers, "--raw")
    assert made.exit_code == 0 and "τ" not in made.stdout and "16 in 2 passes" in made.stdout
    assert "τ, tokens per pass  unknown" in one.stdout and "showed 2, so tokens per pass are unknown" in one.stdout


def test_record_keeps_what_came_before_a_fault_and_exits_with_1(record, tmp_path):
    result = record({"/v1/completions": event(choices=[{"text": "a"}])}, "--raw")
    assert result.exit_code == 1 and "cut before the end" in result.stderr and "run.json" in result.stderr
    assert load(tmp_path / "run.json").text == "a"


@pytest.mark.parametrize(("status", "said"), [(429, "too many requests"), (401, "SPECLENS_SERVER_KEY")])
def test_record_keeps_the_prompts_before_a_refusal(record, rows, tmp_path, status, said):
    answers = iter([event(choices=[{"text": "a"}]) + DONE])
    result = record({"/v1/completions": lambda _: next(answers, (status, "no"))}, "--raw", "--prompts", rows)
    assert result.exit_code == 1 and said in result.stderr.split("\n")[-2] and "1 of 2" in result.stderr
    assert load(tmp_path / "run-1.json").text == "a" and not (tmp_path / "run-2.json").exists()


def test_both_sides_are_asked_for_their_own_model(rows):
    good = event(choices=[{"delta": {"content": "a"}}]) + event(choices=[], usage={"completion_tokens": 2}) + DONE
    for command in (("compare", "--prompts", rows, "--repeats", 1), ("check",)):
        asked = {"m": [], "plain": []}
        with serving({"/v1/chat/completions": good}, asked["m"]) as on, serving({}, asked["plain"]) as off:
            call(command[0], on, off, "--model", "m", "--off-model", "plain", *command[1:])
        names = {side: {body["model"] for *_, body in rows if "model" in body} for side, rows in asked.items()}
        assert names == {side: {side} for side in names}, command


def test_compare_shows_what_it_measured_before_a_fault(rows):
    good = b"".join(event(choices=[{"delta": {"content": word}}]) for word in "abcd")
    good += event(choices=[], usage={"completion_tokens": 4}) + DONE
    chat, answers = "/v1/chat/completions", iter([good] * 4)
    with serving({chat: lambda _: next(answers, (503, ""))}) as on, serving({chat: good}) as off:
        result = call("compare", on, off, "--model", "m", "--prompts", rows, "--users", "1,2")
    assert result.exit_code == 1 and result.stdout.startswith("1 at once: ") and "2 at once" not in result.stdout
    assert "is not ready" in result.stderr and "measured before is above" in result.stderr


def test_rows_bring_their_system_prompts_and_lengths(tmp_path):
    """`compare` and `record` send them, and `compare` reads the longest text of the rows as its long prompt."""
    rows, asked = [{"prompt": "a", "system": "Be brief. " * 500, "max_new_tokens": 3}, {"prompt": "b"}], []
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "own.txt").write_text("Be kind.")
    usage = {"completion_tokens": 1, "prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 300}}
    answers = {"/v1/chat/completions": event(choices=[{"delta": {"content": "x"}}]) + event(usage=usage) + DONE}
    options = ("--model", "m", "--prompts", tmp_path / "p.jsonl")
    with serving(answers, asked) as on, serving(answers) as off:
        result = call("compare", on, off, *options, "--system", tmp_path / "own.txt", "--repeats", 1)
        bodies = [body for path, _, body in asked if path.endswith("completions")]
        recorded = call("record", on, *options, "--out", tmp_path / "run.json")
        raw = call("record", on, *options, "--out", tmp_path / "run.json", "--raw")
    assert "first token with drafts, a prompt of 900 tokens: for the first time" in result.stdout
    assert result.stdout.count("(300 tokens cached)") == 6 and recorded.exit_code == 0
    systems = [body["messages"][0]["content"] for body in bodies[1:3]]
    assert systems == [rows[0]["system"], "Be kind."] and [body["max_tokens"] for body in bodies[:3]] == [3, 3, 128]
    long = [body["messages"][0] for body in bodies[3:]]
    assert len(long) == 3 and all(each["role"] == "user" and rows[0]["system"] in each["content"] for each in long)
    assert load(tmp_path / "run-1.json").started.config["system"] == rows[0]["system"]
    assert raw.exit_code and "no place" in raw.stderr


def test_the_key_comes_from_the_environment_and_goes_into_no_file(record, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_SERVER_KEY", "sk-very-secret")
    result = record({"/v1/completions": event(choices=[{"text": "a"}]) + DONE}, "--raw")
    assert result.exit_code == 0
    text = (tmp_path / "run.json").read_text()
    assert "sk-very-secret" not in text + result.output and "127.0.0.1" not in text


def test_check_names_an_address_where_nobody_answers():
    with serving(vllm()) as address:
        result = call("check", address, "http://127.0.0.1:9", "--model", "m")
    assert result.exit_code == 1 and "No server answers at http://127.0.0.1:9" in result.stderr and not result.stdout


def test_explain_prints_the_parts_and_refuses_what_is_no_point():
    result = call("explain", "0:26.5", "1:17.7:1.747", "7:12.2:3.107")
    assert result.exit_code == 0 and "fixed cost of drafting: 35.0 ms" in result.stdout
    assert "γ = 7: 3.11 tokens a round, 12.2 tokens/s" in result.stdout and "No draft length pays" in result.stdout
    for wrong in ("x", "1.5:3:2", "1:2:3:4", "7:12:9"):
        refused = call("explain", "0:26.5", wrong)
        assert refused.exit_code == 2 and "GAMMA:TOKENS_PER_SECOND:LENGTH" in refused.stderr, wrong


@pytest.mark.parametrize(("arguments", "words"), [
    (("compare", "http://a", "http://b", "--model", "m", "--prompts", "rows", "--users", "1,65"), "--users is '1,65'"),
    (("compare", "http://a", "http://b", "--model", "m", "--prompts", "r", "--users", "one"), "numbers from 1 to 64"),
    (("explain", "0:26.5", "1:17.7:1.747", "--users", "0"), "numbers from 1 to 64"),
    (("explain", "0:26.5", "1:17.7:1.747", "--users", "4"), "--lookup"),
])  # fmt: skip
def test_numbers_of_users_are_checked(arguments, words):
    refused = call(*arguments)
    assert refused.exit_code == 2 and words in refused.stderr


def test_read_says_what_it_found_and_what_it_left_out(tmp_path):
    file = tmp_path / "log"
    file.write_text("\n".join([text_of("llama.cpp with several drafters"), text_of("SGLang with a zero")]))
    result = call("read", file)
    assert result.exit_code == 0 and "draft-simple: γ = 3, 1 read" in result.stdout
    assert "τ 7.00, 75\u00a0% of all drafts accepted (from the server’s numbers)" in result.stdout
    assert "α by place: 0.75, 0.67, 0.50 (derived)" in result.stdout
    assert "Not used: SGLang, accept len of its log (0.5): not added" in result.stdout
    piped = command_line.call("server", "read", "-", input=file.read_bytes() + b"\xff")
    assert piped.stdout == result.stdout


@pytest.mark.parametrize(("text", "said"), [
    ("hello", "No acceptance figures"), (None, "cannot be read"), ("\n", "is empty"), ("GGUF\0\3", "is not a text"),
    ("eval count:  9 token(s)\neval rate:  61.2 tokens/s\n", "Since 0.30 its log"), ('{"eval_count": 9}', "Ollama"),
])  # fmt: skip
def test_read_refuses_a_file_without_figures(tmp_path, text, said):
    if text is not None:
        (tmp_path / "log").write_text(text)
    result = call("read", tmp_path / "log")
    assert result.exit_code == (2 if text is None else 1) and said in result.stderr and not result.stdout


@pytest.mark.parametrize("given", [(), ("--prompt", "a", "--prompts", "b.jsonl")])
def test_record_wants_one_kind_of_prompt(given, tmp_path):
    result = call("record", "http://127.0.0.1:9", "--model", "m", "--out", tmp_path / "run.json", *given)
    assert result.exit_code == 2 and "either --prompt or --prompts" in result.stderr
