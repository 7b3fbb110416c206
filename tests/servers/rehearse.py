"""Rehearses `python -m engine server` with a real vLLM (plain, n-gram, the shipped EAGLE head) and a real llama-server
(plain, n-gram, a draft model), on a CPU if need be (vLLM may want VLLM_TARGET_DEVICE=cpu there).

    PYTHONPATH=.:tests/helpers python tests/servers/rehearse.py [--vllm PATH] [--llama-server PATH] [--work DIR]

Each recording must have the server's own counts to the token and add up to its stream; the first tokens of a long
prompt must be the server's own within 5 % and the way there, and its cached tokens the same. `check` must pass, and
must find three faults that a proxy plants: two tokens swapped, a piece dropped, an answer cut short. Exits with 1 for a
miss.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import torch
from paths import ROOT
from stand_in_server import serving

from engine.errors import EngineError
from engine.models.decoder.transformers_runner import load_transformers
from engine.tools.servers.client import Client
from engine.tools.servers.findings import Subject, check
from engine.tools.servers.log_reader import report
from engine.tools.servers.prompt_cache import TEXT, read_prompt
from engine.tools.servers.recording import Recorder
from engine.tools.servers.server_request import ServerRequest
from engine.tools.training.stored_bits import convert
from engine.trace.trace import Trace
from engine.weights.catalogue import get_pair
from engine.weights.store import locate

PAIR = get_pair("smollm2-135m")
QUESTIONS = ("Count from 1 to 20.", "Write a haiku about snow.", "Repeat after me, three times: the sky is blue.")
VLLM = {
    "plain": None,
    "n-gram": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 2},
    "EAGLE": {"method": "eagle3", "model": "eagle", "num_speculative_tokens": 3},
}
NGRAM = ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4"]
DRAFT = ["--spec-type", "draft-simple", "--spec-draft-n-max", "4"]
LLAMA = {"llama plain": [], "llama n-gram": NGRAM, "llama draft model": DRAFT}
START = 300  # seconds
WAY = 0.05  # seconds that a request may spend on its way, which the server does not count
PLANTED = {"swapped": "greedy text", "dropped": "stream", "cut": "stream"}  # fault of the proxy → who finds it
# On a CPU vLLM 0.32.0 samples beside drafts at a temperature that it never sets: _expand_kernel_impl in its
# cpu_triton_utils.py fills a copy. So above temperature 0 its text is not the model's, and `check` must say so.
# llama-server gives every token of a round with drafts the log-probability 0 (ggml-org/llama.cpp#27972).
KNOWN = {("EAGLE", "distribution"), *((name, "log-probabilities") for name in list(LLAMA)[1:])}


def prepare(work: Path) -> None:
    """Writes the embedded target as safetensors, and the shipped EAGLE head in 16 bits."""
    if not (work / "target").is_dir():
        folder = Path(locate(PAIR.target))
        model = load_transformers(folder, torch.float32, "cpu").to(torch.bfloat16)
        model.save_pretrained(work / "target")
        for file in folder.glob("*token*.json"):
            (work / "target" / file.name).write_bytes(file.read_bytes())
        (work / "target" / "chat_template.jinja").write_bytes((folder / "chat_template.jinja").read_bytes())
    if not (work / "eagle").is_dir():
        convert(ROOT / "assets" / "drafts" / "smollm2-135m-eagle", work / "eagle", 16)


def vllm(program: str, work: Path, name: str) -> list[str]:
    command = [program, "serve", str(work / "target"), "--served-model-name", "m", "--dtype", "bfloat16"]
    command += ["--max-model-len", "2048", "--max-num-seqs", "4", "--enforce-eager"]
    command += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    if drafting := VLLM[name]:
        own = drafting | ({"model": str(work / drafting["model"])} if "model" in drafting else {})
        command += ["--per-request-spec-decode-metrics", "detailed", "--speculative-config", json.dumps(own)]
    return command


def llama(program: str, work: Path, name: str) -> list[str]:
    """Returns the command of llama-server. Its draft model is the target itself, for lack of a smaller one."""
    file = str(Path(locate(PAIR.target)) / "model.gguf")
    more = ["--model-draft", file] if LLAMA[name] is DRAFT else []
    command = [program, "--model", file, "--alias", "m", "--ctx-size", "8192", "--parallel", "4", "--metrics"]
    return [*command, *LLAMA[name], *more]


@contextmanager
def running(command: list[str], work: Path, port: int):
    """The address of a server that the command starts."""
    own = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    own |= {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # whose packages are not vLLM's
    command = [*command, "--host", "127.0.0.1", "--port", str(port)]
    with open(work / f"{port}.log", "w") as log:
        process = subprocess.Popen(command, env=own, stdout=log, stderr=log, start_new_session=True)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(process, f"{address}/health", Path(log.name))
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _wait(process: subprocess.Popen, address: str, log: Path) -> None:
    end = time.monotonic() + START
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(1)
    sys.exit(f"The server did not start: {log.read_text()[-2000:]}")


def faults_of(trace: Trace, drafts: bool) -> list[str]:
    """The ways in which a recording does not fit what the server counted and streamed; empty if it does."""
    counts, rounds = trace.started.server.counters, [r for r in trace.rounds if r.parents]
    accepted = sum(t.status == "accepted" for r in rounds for t in r.tokens)
    beyond = counts.get("accepted", 0) - accepted  # accepted in the last round, past the token limit
    end = trace.finished.ttft + trace.finished.decode_seconds
    wrong = {
        f"{len(rounds)} rounds with drafts, counted {counts}": len(rounds) != counts.get("rounds", len(rounds)),
        f"{accepted} accepted, counted {counts}": not 0 <= beyond <= (len(rounds[-1].parents) if rounds else 0),
        "drafts that were not drafted": sum(len(r.parents) for r in rounds) != counts.get("drafted"),
        "rounds that do not add up to the stream": abs(trace.rounds[-1].end - end) > 1e-6,
        "a gap between two rounds": any(a.end != b.start for a, b in zip(trace.rounds, trace.rounds[1:], strict=False)),
        "no drafts at all": drafts and not rounds,
    }
    return [name for name, is_wrong in wrong.items() if is_wrong]


def passed_on(address: str, fault: str):
    """Returns the answers of a proxy in front of the server, with a fault planted in its completions."""
    host = address.removeprefix("http://")

    def fetch(method: str, path: str, body: dict | None):
        connection = HTTPConnection(host, timeout=120)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        return connection.getresponse()

    def completions(asked: dict):
        if not asked.get("stream"):
            answer = json.loads(fetch("POST", "/v1/completions", asked).read())
            numbers = answer["choices"][0].get("logprobs")
            tokens = (numbers or {}).get("content") or (numbers or {}).get("tokens") or []
            if fault == "swapped" and len(tokens) > 5:
                tokens[3:5] = tokens[4:2:-1]
                texts = [each["token"] if isinstance(each, dict) else each for each in tokens]
                answer["choices"][0]["text"] = "".join(texts)
            return json.dumps(answer)
        lines = fetch("POST", "/v1/completions", asked).read().split(b"\n\n")
        if fault == "dropped":
            del lines[2]
        return b"\n\n".join(lines[:4] if fault == "cut" else lines)

    def passing(path: str, method: str):
        return lambda asked: fetch(method, path, asked or None).read()

    paths = {path: passing(path, "GET") for path in ("/v1/models", "/version", "/metrics", "/props")}
    posts = {path: passing(path, "POST") for path in ("/v1/chat/completions", "/detokenize")}
    return paths | posts | {"/v1/completions": completions}


def findings(address: str, plain: str) -> dict:
    subjects = [Subject(Client(each), "m", 32, 60) for each in (address, plain)]
    return {finding.name: finding for finding in check(*subjects, lambda fraction, message: None)}


def rehearse(program: str, work: Path, command: Callable, settings: dict) -> list[str]:
    """The misses, in words."""
    misses, (first, *_, last) = [], settings
    with running(command(program, work, first), work, 8031) as plain:
        for name in settings:
            with running(command(program, work, name), work, 8032) as address:
                misses += recording(address, name, drafts=name == last) + prompt_reading(address, name)
                if name != first:
                    misses += checking(address, plain, name, has_faults=name == last)
    return misses


def recording(address: str, name: str, drafts: bool) -> list[str]:
    """The misses of recorded answers beside the server's own counts, of each and on /metrics."""
    recorder, misses, traces = Recorder(Client(address)), [], []
    for text in QUESTIONS:
        trace, fault = recorder.record(ServerRequest("m", text, 64))
        notes = trace.started.server.notes
        print(f"{name}: {text} {len(trace.emitted)} tokens, {trace.started.server.counters} {notes}")
        misses += [f"{name}, {text}: {each}" for each in (*faults_of(trace, drafts), fault) if each]
        traces.append(trace)
    rounds = sum(bool(r.parents) for trace in traces for r in trace.rounds)
    counted = sum(reading.rounds or 0 for reading in report(Client(address).get("/metrics")).readings)
    return misses + ([f"{name}: {rounds} rounds, and {counted:g} on /metrics"] if rounds != counted else [])


def prompt_reading(address: str, name: str) -> list[str]:
    """The misses of a long prompt's three first tokens, and of its cached tokens, beside the server's own sums."""
    client = Client(address)
    before, visits = _own_sums(client), read_prompt(Recorder(client), ServerRequest("m", "", 4), TEXT)
    time.sleep(0.5)
    seconds, cached = (now - then for now, then in zip(_own_sums(client), before, strict=True))
    ours = sum(each.first for each in visits.values()), sum(each.cached or 0 for each in visits.values())
    print(f"{name}: first tokens {visits}; all {ours[0]:.3f} s, {ours[1]} cached; its own {seconds:.3f}, {cached:.0f}")
    is_right = seconds <= ours[0] <= 1.05 * seconds + len(visits) * WAY and ours[1] == cached
    return [] if is_right else [f"{name}: first tokens {ours}, its own {seconds:.3f} s and {cached:.0f} cached"]


def _own_sums(client: Client) -> list[float]:
    """The seconds to first tokens and the cached tokens of all requests so far, by the counters of either engine."""
    names = "(?:vllm:time_to_first_token|llamacpp:prompt)_seconds_(?:sum|total)", "[a-z]+:prompt_tokens_cached_total"
    rows = [re.findall(rf"(?m)^{each}(?:{{.*}})? (\S+)$", client.get("/metrics")) for each in names]
    return [sum(map(float, row)) for row in rows]


def checking(address: str, plain: str, name: str, has_faults: bool) -> list[str]:
    """The misses of `check`: a fault that is none, a known one that it passes, a planted one that it passes."""
    misses, found = [], findings(address, plain)
    for each in found.values():
        print(f"{name}: {each.state} {each.sentence}")
        if (each.state == "wrong") != ((name, each.name) in KNOWN):
            misses.append(f"{name}, check, {each.state}: {each.sentence}")
    for fault, check_name in PLANTED.items() if has_faults else ():
        with serving(passed_on(address, fault)) as proxy:
            finding = findings(proxy, plain)[check_name]
        print(f"planted, {fault}: {finding.state} {finding.sentence}")
        misses += [f"planted, {fault}: not found"] if finding.state != "wrong" else []
    return misses


def chosen(settings: dict, only: str | None) -> dict:
    """The plain setting, and all or one of the others."""
    return {name: value for i, (name, value) in enumerate(settings.items()) if i == 0 or only in (None, name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--vllm", help="the program, of version 0.32 or newer")
    parser.add_argument("--llama-server", help="the program, of August 2026 or newer")
    parser.add_argument("--work", type=Path, help="a folder for the models, kept for the next time")
    parser.add_argument("--only", help="one drafting setting beside the plain server, as in 'llama n-gram'")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        misses = [] if options.vllm or options.llama_server else ["Name --vllm or --llama-server."]
        try:
            if options.vllm:
                prepare(work)
                misses += rehearse(options.vllm, work, vllm, chosen(VLLM, options.only))
            if options.llama_server:
                misses += rehearse(options.llama_server, work, llama, chosen(LLAMA, options.only))
        except EngineError as error:
            misses.append(str(error))
    sys.exit("\n".join(["Missed:", *misses]) if misses else 0)


if __name__ == "__main__":
    main()
