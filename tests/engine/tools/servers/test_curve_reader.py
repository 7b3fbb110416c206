"""What a pass costs is read from numbers, benchmarks of other programs and explain, or refused with the line."""

import json
from pathlib import Path

import pytest
from command_line import call
from paths import ROOT

from engine.errors import BadInput
from engine.tools.servers.curve_reader import read_curve

RECORDED = Path(__file__).parent / "recorded"
BATCHED = """main: n_kv_max = 4096, n_batch = 2048, is_pp_shared = 0, is_tg_separate = 0, n_gpu_layers = -1

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|   128 |     32 |    1 |    160 |    0.100 |  1280.00 |    0.320 |   100.00 |    0.420 |   380.95 |
|   128 |     32 |    2 |    320 |    0.200 |  1280.00 |    0.352 |   181.82 |    0.552 |   579.71 |
|   128 |     32 |    4 |    640 |    0.400 |  1280.00 |    0.416 |   307.69 |    0.816 |   784.31 |
|   128 |     32 |    8 |   1280 |    0.800 |  1280.00 |    0.576 |   444.44 |    1.376 |   930.23 |
"""
LINE = BATCHED.splitlines()[-1]
EXPLAINED = (
    "a plain step: 40.0 ms\nfixed cost of drafting: 8.0 ms\neach draft, drafted and scored: 6.0 ± 0.4 ms\n"
    "scoring its row alone: 2.0 ms\nacceptance: 0.75 for the first draft, 0.66 for each later one\n"
)
VLLM = "".join(
    f"vllm bench latency --model m --batch-size {rows} --input-len 32 --output-len=128\n"
    f"Avg latency: {seconds + 1} seconds\n10% percentile latency: 0.5 seconds\n"
    f"50% percentile latency: {seconds} seconds\n"
    for rows, seconds in ((1, 1.0), (2, 1.1), (8, 1.8))
)


def llama_test(rows: int, milliseconds: float, **more) -> dict:
    """A test of llama-bench: a prompt of ``rows`` tokens, or an answer for one row."""
    lengths = {"n_prompt": rows if rows > 1 else 0, "n_gen": 0 if rows > 1 else 32, "n_depth": 0}
    speed = 1000 * rows / milliseconds
    own = {"test_time": f"{rows}", "avg_ts": speed, "stddev_ts": 0.1, "samples_ts": [speed]}
    return {"build_commit": "0c1e570", "model_type": "llama 8B", "n_ubatch": 512} | lengths | own | more


TESTS = [llama_test(rows, cost) for rows, cost in ((2, 11), (4, 13), (8, 18), (512, 300), (1, 10))]
COSTS = {1: 1.0, 2: 1.1, 4: 1.3, 8: 1.8}


def costs_of(text: str, digits: int = 3) -> dict:
    return {rows: round(cost, digits) for rows, cost in read_curve(text).v.items()}


@pytest.mark.parametrize(
    "text",
    ["1 1.1 1.3 1.8 3", "12, 13.2, 15.6, 21.6, 36", "10 ms\n11 ms\n13 ms\n18 ms\n30 ms\n",
     "1: 10\n2: 11\n\n4: 13 ms\n8 = 18\n16; 30"],
)  # fmt: skip
def test_numbers_are_costs_of_one_to_sixteen_rows_in_any_unit(text):
    assert costs_of(text) == COSTS | {16: 3.0}


def test_outputs_of_the_real_programs_are_read_and_a_disturbed_one_refused():
    """llama.cpp 0c1e570 on two cores that others used, too; only the model's folder was taken out."""
    read = lambda name: read_curve((RECORDED / f"llama_0c1e570_{name}").read_text(encoding="utf-8"))  # noqa: E731
    batched, table, lines = map(read, ("batched_bench.txt", "bench.md", "bench.jsonl"))
    csv, listed = map(read, ("bench.csv", "bench.json"))
    assert [*batched.v] == [*table.v] == [1, 2, 4, 8, 16] and 1.5 < batched.v[2] < 2 and 1.5 < table.v[2] < 2
    assert table.v == pytest.approx(lines.v, rel=1e-3) and csv == listed and 0.01 < table.step < 0.02
    with pytest.raises(BadInput, match=r"^Line 5: a pass over 16 rows takes 84\.1 times as long.*on a quiet machine"):
        read("batched_bench.jsonl")


def test_batched_bench_is_read_as_a_table_and_as_json_lines():
    rows = [(1, 100.0), (2, 181.8182), (4, 307.6923), (8, 444.4444)]
    lines = [{"pp": 128, "tg": 32, "pl": rows, "is_pp_shared": 0, "speed_tg": speed} for rows, speed in rows]
    for text in (BATCHED, "\n".join(map(json.dumps, lines))):
        curve = read_curve(text)
        assert costs_of(text) == COSTS and curve.step == pytest.approx(0.01, rel=1e-4)
        assert curve.source == "llama-batched-bench, prompts of 128 and answers of 32 tokens"


def test_llama_bench_is_read_in_its_four_forms():
    names = [*TESTS[0]]
    csv = ",".join(names) + "\n" + "\n".join(",".join(f'"{test[name]}"' for name in names) for test in TESTS)
    tests = [f"pp{t['n_prompt']}" if t["n_prompt"] else f"tg{t['n_gen']}" for t in TESTS]
    table = "| model | threads | test | t/s |\n| --- | --: | ---: | ---: |\n" + "\n".join(
        f"| llama 8B | 2 | {test} | {t['avg_ts']:.2f} ± 0.10 |" for test, t in zip(tests, TESTS, strict=True)
    )
    for text in (csv, table, json.dumps(TESTS, indent=2), "\n".join(map(json.dumps, TESTS))):
        assert costs_of(text, 2) == COSTS | {512: 30.0}
        assert "last row alone" in read_curve(text).note and "llama 8B" in read_curve(text).source


def test_llama_bench_leaves_out_what_is_no_single_pass_and_says_so():
    more = [*TESTS, llama_test(1024, 500), llama_test(2, 100, n_gen=32)]
    curve = read_curve(json.dumps(more))
    assert 1024 not in curve.v and curve.note.endswith("Left out: pp1024 and pp2+tg32, which are no single passes.")


def test_vllm_latency_counts_its_middle_run_at_each_batch_size():
    assert costs_of(VLLM) == {1: 1.0, 2: 1.1, 8: 1.8}
    results = [{"avg_latency": s, "latencies": [s], "percentiles": {"10": 0.1, "50": s}} for s in (1.0, 1.1, 1.3)]
    text = "\n".join(f"--batch-size {n}\n{json.dumps(r, indent=4)}" for n, r in zip((1, 2, 4), results, strict=True))
    assert costs_of(text) == {1: 1.0, 2: 1.1, 4: 1.3}
    args = "Namespace(input_len=32, batch_size={}, n=1)\nAvg latency: {} seconds\n"
    assert costs_of("".join(args.format(*each) for each in ((1, 2.0), (2, 2.2), (4, 2.6)))) == {1: 1.0, 2: 1.1, 4: 1.3}


def test_explain_tells_the_row_the_draft_step_and_the_fixed_cost():
    curve = read_curve(EXPLAINED)
    assert curve.v == pytest.approx({rows: 1 + (rows - 1) * 0.05 for rows in (1, 2, 4, 8, 16)})
    assert (curve.c, curve.fixed, curve.step) == pytest.approx((0.1, 0.2, 0.04))
    assert curve.round_costs[1] == 1 and curve.round_costs[2] == pytest.approx(1.25)
    points = ["0:25", "1:30:1.75", "3:40:2.5", "--lookup", "2:50:2.2"]
    printed = call("server", "explain", *points).output
    assert read_curve(printed).source == "server explain", "what the command prints today"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Give five numbers"), ("Hello there", "No curve was recognised"),
        ("1 2 3", "Give five numbers.*these are 3"), ("1 1.1 1.3 x 3", "^Line 1: “8 x”"),
        ("1 1\n2 1.1 7\n4 1.3", "^Line 2: give the rows of a pass and its cost"),
        ("1 0 1 1 1", "^Line 1: 0 cannot be the cost"), ("1 1e999 1 1 1", "^Line 1: inf cannot be"),
        ("1 -1 1 1 1", "^Line 1: -1 cannot be"), ("1 1\n2 1.1\n9999 3", "^Line 3: a pass has from 1 to 4,096 rows"),
        ("1\n1.2\n1.1\n1.5\n2", "^Line 3: a pass over 4 rows takes 0.92 times as long as one over 2"),
        ("100 2000 4000 8000 9000", "^Line 1: a pass over 2 rows takes 20 times.*not tokens per second"),
        ("2 1\n4 1.1\n8 1.2", "no pass over one row"), ("1 1\n64 9\n512 50", "one of them over 2 to 8 rows"),
        (BATCHED + LINE.replace("444.44", "2000.0").replace("|    8 |", "|   16 |"), "^Line 9: a pass over 16 rows"),
        (BATCHED + LINE.replace("|     32 |", "|     64 |"), "^Line 9: TG is 64, and 32 in the first row"),
        (BATCHED + LINE.replace("444.44", "?"), "^Line 9: S_TG t/s is '\\?'"),
        (BATCHED + LINE[:-12] + "|", "^Line 9: it has 9 cells, and the table has 10 columns"),
        (BATCHED.replace("is_tg_separate = 0", "is_tg_separate = 1"), "With -tgs"),
        (json.dumps([*TESTS, llama_test(16, 30, model_type="other")]), "^Entry 6: model_type is other, and llama 8B"),
        (json.dumps([*TESTS, llama_test(16, 30, n_depth=512)]), "^Entry 6: depth is 512, and 0"),
        (json.dumps([*TESTS, llama_test(16, 3)]), "^Entry 4: a pass over 512|^Entry 6: a pass over 16"),
        (json.dumps(TESTS)[:-1], "not whole JSON"), (json.dumps([llama_test(1024, 9)]), "No test of this llama-bench"),
        (VLLM.replace("--batch-size 1", ""), "^Line 2: vLLM does not say for which batch size"),
        (VLLM.replace("len=128", "len=64", 1), "^Line 5: --output-len is 128, and 64 before"),
        (VLLM.replace("1.8 seconds", "0.8 seconds"), "^Line 12: a pass over 8 rows takes 0.73"),
        (EXPLAINED.replace("scoring its row alone: 2.0 ms\n", ""), "does not say the time of “scoring its row alone”"),
        (EXPLAINED.replace("alone: 2.0", "alone: -2.0"), "^Line 4: by these points this part takes less than no time"),
        ("1 " * 600_000, "up to 1,000,000"),
    ],
)  # fmt: skip
def test_wrong_and_decreasing_curves_are_refused_with_the_line(text, words):
    with pytest.raises(BadInput, match=words):
        read_curve(text)


def test_a_dip_within_a_clocks_error_is_level():
    assert read_curve("1 1 0.99 1.2 2").v == {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.2, 16: 2.0}


def test_what_is_read_is_listed_where_servers_are_described():
    guide = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
    for name in ("llama-batched-bench", "llama-bench", "vllm bench latency", "server explain"):
        assert name in guide
