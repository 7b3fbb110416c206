"""Runs requests on llama.cpp, by the npm package node-llama-cpp: plain, or with its own prompt lookup.

It reads the very GGUF file of the pair, gets the same ids and as many threads, and ends at the same ids. It works in a
process of its own (llama_cpp.mjs), which takes the times.
"""

import json
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from engine.config import RunConfig
from engine.decoding.tokenization import encode_prompt
from engine.device import peak_memory
from engine.errors import BadInput, Unavailable
from engine.files import cache_root
from engine.models.onnx.session import threads
from engine.runtime.engine import Engine
from engine.tools.bench.benchmark import Cancelled, never
from engine.tools.bench.sample import Sample

LLAMA_CPP = ("llama-cpp", "llama-cpp-lookup")
PACKAGE = "node-llama-cpp@3.22.1"
_SPINNING = 0.1  # seconds after which our threads surely sleep
_LOOKUP_ROOM = 16  # tokens of the context that a lookup may draft beyond the last one


@dataclass
class LlamaCppSystem:
    engine: Engine
    name: str
    setting: str | None = None  # it has none; every system says
    _process: "LlamaCpp | None" = None

    def __post_init__(self):
        if self.engine.gguf is None:
            raise BadInput(f"{self.name} reads GGUF files, but {self.engine.pair.name} has none; leave it out.")

    def run(self, config: RunConfig, cancelled: Cancelled = never) -> Sample:
        """Runs greedy requests only, because its samplers draw other numbers."""
        if not config.sampling.greedy or config.sampling.repetition_penalty != 1.0:
            raise BadInput(f"{self.name} is compared at temperature 0 without a penalty; set --temperature 0.")
        prompt, eos = encode_prompt(self.engine.target.tokenizer, config), self.engine.target.eos
        process = self._with_room(len(prompt) + config.max_new_tokens + _LOOKUP_ROOM)
        with cores_for_others():
            answer = process.ask(ids=list(prompt), eos=sorted(eos), most=config.max_new_tokens)
        ids, times = answer["tokens"], answer["times"]
        # As with transformers: the first token comes out of the pass over the prompt.
        return Sample(
            tokens=len(ids), seconds=times[-1], decode_seconds=times[-1] - times[0], decode_tokens=len(ids) - 1,
            ttft=times[0], passes=len(ids) - answer["accepted"], peak_memory=peak_memory("cpu"), ids=tuple(ids),
        )  # fmt: skip

    def _with_room(self, context: int) -> "LlamaCpp":
        if self._process is None or self._process.context < context:
            self._process = LlamaCpp(cast(Path, self.engine.gguf), context, self.name == "llama-cpp-lookup")
        return self._process


class LlamaCpp:
    """llama.cpp with a model, in a process of its own, which ends with this object. Raises Unavailable where Node or
    the package is missing, or the file cannot be read."""

    def __init__(self, gguf: Path, context: int, lookup: bool = False):
        if not is_installed():
            command = f"npm install --ignore-scripts --prefix '{cache_root() / 'llama-cpp'}' {PACKAGE}"
            raise Unavailable(f"llama-cpp needs Node.js and a package (0.7 GB); run `{command}` or leave it out.")
        self.context = -(-context // 512) * 512
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (it is open as long as the process)
        kind = "lookup" if lookup else "plain"
        script = Path(__file__).with_suffix(".mjs")
        self._process = subprocess.Popen(
            ["node", str(script), str(_package()), str(gguf), str(self.context), str(threads()), kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip

    def ask(self, **request) -> dict[str, Any]:
        """Sends a request and waits for its answer."""
        stdin, stdout = cast(Any, self._process.stdin), cast(Any, self._process.stdout)
        try:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._errors.seek(0)
            message = " ".join(self._errors.read().split()).partition("Error: ")[2][:200]
            raise Unavailable(f"llama-cpp ended without an answer; leave it out. It said: {message or 'nothing'}")
        return json.loads(line)

    def __del__(self):
        if process := getattr(self, "_process", None):
            process.kill()
            process.wait()


def is_installed() -> bool:
    return shutil.which("node") is not None and _package().is_dir()


def _package() -> Path:
    return cache_root() / "llama-cpp/node_modules/node-llama-cpp"


@contextmanager
def cores_for_others():
    """Leaves the cores to another runtime while the block runs: torch has its threads, and ours no longer spin, as they
    do for 30 to 50 ms after a pass (onnxruntime 1.32)."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads())
    time.sleep(_SPINNING)
    try:
        yield
    finally:
        torch.set_num_threads(before)
