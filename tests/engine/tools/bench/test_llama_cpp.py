"""llama.cpp in its process, where its package is installed: tokens, times, passes, and a file that it cannot read."""

import pytest

from engine.errors import Unavailable
from engine.runtime.engine import load_engine
from engine.tools.bench import llama_cpp


@pytest.mark.real_weights
@pytest.mark.skipif(not llama_cpp.is_installed(), reason="node-llama-cpp is not installed")
def test_llama_cpp_continues_the_embedded_file(tmp_path):
    process = llama_cpp.LlamaCpp(load_engine("smollm2-135m", "cpu", "int4").gguf, 64)
    written = process.ask(ids=[504, 3575, 282, 4649, 314], eos=[2], most=4)  # "The capital of France is"
    assert len(written["tokens"]) == 4 and written["times"] == sorted(written["times"]) and written["accepted"] == 0
    assert process.ask(kept=3, ids=[282, 4649], scored=True)["seconds"] > 0
    with pytest.raises(Unavailable, match="ended without an answer; leave it out"):
        (tmp_path / "no.gguf").write_bytes(b"GGUF")
        llama_cpp.LlamaCpp(tmp_path / "no.gguf", 64).ask(ids=[3], eos=[], most=1)
