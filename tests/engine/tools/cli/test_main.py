"""The command line as people use it: every command, and what bad input gets."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import count

import pytest
from command_line import call
from gguf_files import WORDS, write_gguf
from paths import ROOT
from tiny_models import write
from tiny_pairs import model_folder
from unlike_tokenizers import letters, sentence_piece

from engine.runtime import calibration
from engine.trace.costs import CostModel
from engine.trace.metrics import compute_metrics
from engine.trace.trace import load
from engine.weights.catalogue import load_catalogue
from engine.weights.checkpoint_dir import MANIFEST, weights_hash


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("COLUMNS", "200")
        yield


def run(tiny_pair, *args):
    return call("run", "abcabcabc", "--pair", tiny_pair, "--max-new-tokens", 24, *args)


def test_run_shows_tokens_answer_and_summary_and_keeps_the_trace(tiny_pair, tmp_path):
    file = tmp_path / "t.json"
    assert "is ready" in call("fetch", tiny_pair).stderr
    result = run(tiny_pair, "--gamma", 3, "--trace", file)
    assert result.exit_code == 0, result.stderr
    trace = load(file)
    numbers = compute_metrics(trace)
    assert f"{numbers.tokens} in {numbers.passes} target passes" in result.stdout
    assert result.stdout.count("γ=3") == numbers.gammas[3]
    assert all(
        words in result.stdout
        for words in ("acceptance α", "wasted work", "first token after", "further rounds", "v(16)")
    )
    assert "\x1b" not in result.stdout, "no escape sequences through a pipe"
    again = call("replay", file)
    assert again.exit_code == 0 and again.stdout == result.stdout


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="only Linux can make a pipe smaller than the output")
def test_a_pipe_that_closes_early_ends_a_replay_without_a_word():
    trace = ROOT / "assets/data/traces/lessons/code_lookahead.json"  # prints more than the pipe holds
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "engine", "replay", trace]
    assert len(subprocess.run(command, cwd=ROOT, capture_output=True).stdout) > size
    replay = subprocess.Popen(command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert os.read(reader, 16)
    os.close(reader)
    assert replay.communicate(timeout=60)[1] == "" and replay.returncode == -signal.SIGPIPE


def test_a_gguf_file_is_checked_and_run_by_its_name(tmp_path):
    settings = {"vocab_size": len(WORDS), "intermediate_size": 64, "bos_token_id": 1, "eos_token_id": 0}
    file = write_gguf(tmp_path / "a.gguf", write(tmp_path / "model", "llama-tied", **settings))
    checked = call("check", file)
    assert checked.exit_code == 0 and f"--pair {file}" in checked.stderr, checked.stderr
    done = call("run", "ab 12", "--pair", file, "--method", "ngram", "--max-new-tokens", 6)
    assert done.exit_code == 0 and "ngram on" in done.stdout, done.stderr
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    damaged = call("check", tmp_path / "b.gguf")
    assert damaged.exit_code == 1 and "b.gguf is damaged, or is no GGUF file" in damaged.stderr


def test_fetch_finds_a_changed_file(tmp_path):
    folder = tmp_path / "model"
    model_folder(folder)
    (folder / MANIFEST).write_text(json.dumps({"weights": weights_hash(folder)}))
    assert call("fetch", folder).exit_code == 0
    file = next(folder.glob("*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    found = call("fetch", folder)
    assert found.exit_code == 1 and "is ready" not in found.stderr
    assert found.stderr.endswith("are damaged; delete that folder and fetch the pair again.\n")


@pytest.mark.slow
def test_a_branch_of_a_saved_run_is_shown_and_kept_beside_it(tiny_pair, tmp_path):
    file, both = tmp_path / "t.json", tmp_path / "both.json"
    assert run(tiny_pair, "--gamma", 3, "--trace", file).exit_code == 0
    result = call("branch", file, "--force", "4:70", "--trace", both)
    assert result.exit_code == 0, result.stderr
    kept = load(both)
    assert kept.rounds == load(file).rounds and kept.branch.output[:5] == [*kept.output[:4], 70]
    forced = kept.branch.started.prefix[-1]
    assert f"At place 4 the token {forced.text or forced.label!r} was forced" in result.stdout
    assert result.stdout in call("replay", both).stdout.replace(call("replay", file).stdout, "")
    for force in ("4", "x:1", "99:1", "4:9999"):
        refused = call("branch", file, "--force", force)
        assert refused.exit_code == 2 and refused.stderr.strip().endswith(".") and "Traceback" not in refused.stderr


def test_compare_measures_the_baseline_and_keeps_both_traces(tiny_pair, tmp_path):
    result = run(tiny_pair, "--compare", "--method", "lm", "--gamma", 2, "--trace", tmp_path / "one.json")
    assert result.exit_code == 0, result.stderr
    assert re.search(r"measured speedup +\d\.\d\d×", result.stdout) and "first divergence" in result.stdout
    assert "none, the same tokens" in result.stdout or "gap" in result.stdout
    assert call("replay", tmp_path / "one.json").stdout == result.stdout
    kept, baseline = (load(tmp_path / name) for name in ("one.json", "one-baseline.json"))
    assert kept.started.config["method"] == "lm" and baseline.started.config["method"] == "none"
    assert [t.id for t in kept.emitted] == [t.id for t in baseline.emitted] and baseline.finished is not None
    sampled = run(tiny_pair, "--compare", "--temperature", 1, "--seed", 3, "--top-k", 20, "--top-p", 0.9)
    assert sampled.exit_code == 0 and "draw differently" in sampled.stdout


def test_all_settings_reach_the_engine(tiny_pair, tmp_path):
    file = tmp_path / "t.json"
    options = "--method none --gamma 2 --temperature 0.7 --top-k 5 --top-p 0.8 --min-p 0.05 --repetition-penalty 1.1"
    more = "--seed 7 --stop zz --stop yy --system Be --device cpu --precision fp32 --no-thinking --acceptance block"
    assert run(tiny_pair, *options.split(), *more.split(), "--trace", file).exit_code == 0
    sampling = {"temperature": 0.7, "top_k": 5, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.1}
    assert load(file).started.config.items() >= {
        "sampling": sampling, "stop": ["zz", "yy"], "system": "Be", "method": "none", "gamma": 2, "seed": 7,
        "thinking": False, "chat": True, "acceptance": "block",
    }.items()  # fmt: skip
    raw = run(tiny_pair, "--raw", "--trace", file)
    assert raw.exit_code == 0 and len(load(file).started.prompt) == len("abcabcabc")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send there")
def test_ctrl_c_keeps_the_partial_result(tmp_path):
    model_folder(tmp_path / "big", num_hidden_layers=12, max_position_embeddings=9000, eos_token_id=999)  # never ends
    args = ("--pair", tmp_path / "big", "--method", "none", "--max-new-tokens", 8000, "--trace", tmp_path / "t.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "run", "hi", *map(str, args)], cwd=ROOT, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.readline(), process.stdout.read(20)  # the legend, then the first tokens
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "ended by cancelled" in out and "Traceback" not in err
    trace = load(tmp_path / "t.json")
    assert trace.finished.reason == "cancelled" and 0 < len(trace.rounds) < 8000


def test_pairs_lists_everything():
    shown = call("pairs")
    assert shown.exit_code == 0
    for name, pair in load_catalogue().items():
        line = next(line for line in shown.stdout.splitlines() if line.split()[:1] == [name])
        assert pair.target.name in line and pair.target.licence in line and "GB" in line
        assert re.search(r"(yes|no) +(ready|to fetch|damaged)", line)


def test_pairs_report_what_works_by_translation(tiny_pair, tmp_path):
    target = tiny_pair.partition("+")[0]
    for name, tokenizer in (("pieces", sentence_piece()), ("nothing", letters(*"αβγ"))):
        model_folder(tmp_path / name, tokenizer=tokenizer, template=None, vocab_size=400)
    shown = call("pairs", f"{target}+{tmp_path / 'pieces'}", f"{target}+{tmp_path / 'nothing'}", tiny_pair)
    assert shown.exit_code == 0
    said = shown.stdout.splitlines()[-2:]
    assert "The lm draft has a tokenizer of its own: its tokens are translated, so fewer are accepted." in said[0]
    assert "no token in common with the target's" in said[1]
    result = run(f"{target}+{tmp_path / 'pieces'}", "--method", "lm", "--raw", "--temperature", 1)
    assert re.search(r"by tokens that both have; \d+ in common, of the target's 261 and the draft's", result.stdout)


@pytest.mark.slow
def test_calibrate_measures_and_remembers(tiny_pair, monkeypatch):
    """Steps have a made-up length, because a busy machine's costs are measured again."""
    steps = count(1)

    def measure(target, drafter=None, widths=calibration.WIDTHS, **settings):
        return CostModel(0.25 if drafter else 0.0, {w: 1 + 0.1 * (w - 1) for w in widths}, 256, next(steps) / 1000)

    monkeypatch.setattr(calibration, "measure", measure)
    first, second = (call("calibrate", "--pair", tiny_pair) for _ in range(2))
    assert first.exit_code == 0, first.stderr
    assert re.search(r"^ngram: c 0\.000, v\(1\) 1\.00", first.stdout, re.M)
    assert re.search(r"^lm: c \d\.\d+", first.stdout, re.M)
    assert second.stdout == first.stdout
    assert call("calibrate", "--pair", tiny_pair, "--again").stdout != first.stdout


def test_bench_writes_numbers_and_prints_a_table(tiny_pair, tmp_path):
    prompts, out = tmp_path / "p.jsonl", tmp_path / "b.json"
    prompts.write_text("".join(json.dumps({"prompt": t, "category": c}) + "\n" for t, c in [("aa", "x"), ("bb", "y")]))
    args = ("--prompts", prompts, "--methods", "none,ngram,hf", "--max-new-tokens", 6, "--limit", 2, "--out", out)
    result = call("bench", "--pair", tiny_pair, *args, "--gamma", 2, "--no-trace")
    assert result.exit_code == 0, result.stderr
    assert "| ngram-untraced |" in result.stdout and "| speedup by category | x | y |" in result.stdout
    saved = json.loads(out.read_text())
    assert len(saved["rows"]) == 5 * 3 and saved["environment"]["settings"]["gamma"] == 2


@pytest.mark.slow
def test_bench_with_many_users_counts_what_all_get_together(tiny_pair, tmp_path):
    prompts, out = tmp_path / "p.jsonl", tmp_path / "b.json"
    prompts.write_text("".join(json.dumps({"prompt": t}) + "\n" for t in ("aa", "bb", "a longer one")))
    args = ("--pair", tiny_pair, "--prompts", prompts, "--max-new-tokens", 5, "--out", out)
    result = call("bench", *args, "--methods", "ngram", "--users", "3,1")
    assert result.exit_code == 0 and "| users | method | total tokens/s |" in result.stdout, result.stderr
    rows = json.loads(out.read_text())["rows"]
    assert [(r["users"], r["method"]) for r in rows] == [(1, "ngram"), (1, "none"), (3, "ngram"), (3, "none")]
    for r in rows:
        assert r["tokens"] == 15 and r["total_tokens_per_second"] == pytest.approx(15 / r["seconds"])
        assert r["tokens_per_second"] == pytest.approx(r["total_tokens_per_second"] / r["users"])
        assert r["differs"] == 0 and 0 < r["ttft"] < r["seconds"]
    for users, methods, words in (
        ("1,4", "none", "numbers from 1 to 3: each"), ("x", "none", "users is 'x'"), ("1", "hf", "with many users"),
    ):  # fmt: skip
        refused = call("bench", *args, "--methods", methods, "--users", users)
        assert refused.exit_code == 2 and words in refused.stderr


# Every other bad setting, prompt and checkpoint: engine/runtime/test_bad_requests.py.
BAD = {
    ("run", ""): "prompt is empty",
    ("run", "hi", "--gamma", "many"): "gamma is 'many'",
    ("run", "hi", "--pair", "./nowhere"): "no folder",
    ("run", "hi", "--method", "psychic"): "no method 'psychic'",
    ("run", "hi", "--method", "lookahead", "--window", "16", "--ngram-size", "8"): "make 147 rows a round",
    ("run", "hi", "--trace", "nowhere/t.json"): "cannot be written",
    ("run", "hi", "--trace", "/proc/t.json"): "cannot be written",
    ("run", "hi", "--trace", "/dev/null"): "is no file that can be replaced",
    ("lab", "sweep", "--prompts", "assets/data/prompts.jsonl", "--csv", "/proc/t.csv"): "cannot be written",
    ("lab", "sweep", "--prompts", "assets/data/prompts.jsonl", "--out", "/proc/t.jsonl"): "cannot be written",
    ("lab", "exits", "--prompts", "assets/data/prompts.jsonl", "--out", "/proc/t.json"): "cannot be written",
    ("lab", "precisions", "--prompts", "assets/data/prompts.jsonl", "--out", "/proc/t.json"): "cannot be written",
    ("run", "hi", "--pair", "TINY", "--device", "abacus"): "'abacus' cannot be used",
    ("run", "hi", "--pair", "TINY", "--precision", "int3"): "Unknown precision 'int3'",
    ("replay", "nowhere.json"): "cannot be read",
    ("fetch", "nonsense"): "There is no pair",
    ("calibrate", "--pair", "nonsense"): "There is no pair",
    ("bench", "--prompts", "nowhere.jsonl"): "cannot be read",
    ("bench", "--prompts", "nowhere.jsonl", "--out", "nowhere/b.json"): "cannot be written",
}


def sentence(result, words: str):
    code = 1 if "abacus" in words else 2  # what a machine has is not the request's fault
    assert result.exit_code == code and isinstance(result.exception, SystemExit), result.output
    lines = [line for line in result.stderr.splitlines() if not line.startswith(("Loading", "Calibrating"))]
    assert len(lines) == 1 and words in lines[0] and lines[0].endswith("."), result.stderr


@pytest.mark.parametrize(("args", "words"), BAD.items(), ids=lambda value: str(value)[:60])
def test_bad_input_is_one_sentence_and_exit_code_2(tiny_pair, args, words):
    sentence(call(*(tiny_pair if each == "TINY" else each for each in args)), words)
