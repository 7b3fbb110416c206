"""Lines of other engines' logs as they print them, with the figures that a reader must find: both readers, the one in
Python and the one in the browser, are tested with these."""

from typing import NamedTuple


class Log(NamedTuple):
    """``tau``: tokens a round; ``gamma``: drafts a round; None where the lines leave it open."""

    engine: str
    text: str
    tau: float | None
    gamma: int | None
    per_drafted: float | None


LOGS = {
    # vLLM 0.32.0 itself wrote this about 18 rounds of γ = 3.
    "vLLM 0.32": Log(
        "vLLM",
        "INFO 11-25 21:23:40 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 1.28, "
        "Accepted throughput: 0.10 tokens/s, Drafted throughput: 1.05 tokens/s, Accepted: 5 tokens, "
        "Drafted: 54 tokens, Per-position acceptance rate: 0.222, 0.056, 0.000, Avg Draft acceptance rate: 9.3%",
        1.28, 3, 5 / 54,
    ),
    # The shorter words of llama.cpp since July 2026: "mean len" and "acc per pos".
    "llama.cpp mean len": Log(
        "llama.cpp",
        "slot print_timing: id 0 | draft acceptance = 0.66000 (  165 accepted /   250 generated), mean len =  4.30",
        4.30, 5, 165 / 250,
    ),
    "llama.cpp older": Log(
        "llama.cpp",
        "slot print_timing: id 0 | draft acceptance = 0.66237 (  257 accepted /   388 generated), "
        "mean acceptance length =  3.65, acceptance rate per position = (0.804, 0.701, 0.629, 0.515)",
        3.65, 4, 257 / 388,
    ),
    "SGLang with a zero": Log(
        "SGLang",
        "Decode batch, #running-req: 1, accept len: 2.20, accept rate: 0.40, gen throughput (token/s): 80\n"
        "Decode batch, #running-req: 1, accept len: 1.00, accept rate: 0.00, gen throughput (token/s): 50",
        1.60, 3, 0.2,
    ),
    "SGLang with zeros alone": Log(
        "SGLang", "Decode batch, #running-req: 1, accept len: 1.00, accept rate: 0.00, cuda graph", 1.0, None, None
    ),
}  # fmt: skip
