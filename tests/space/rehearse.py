"""Rehearses the first minute of a Space: installs as its build does, starts as it starts, and measures.

    PYTHONPATH=.:tests/helpers:tests/browser python tests/space/rehearse.py [--out FILE]

A fresh Python 3.11 environment, the committed files read-only, a home of its own, a Space's variables, and, where this
is run as root, a user without rights. Prints a table, and exits with 1 where a goal is missed.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import psutil
from api_request import Request
from gradio_client import Client
from huggingface_hub import metadata_load
from paths import ROOT
from server import free_port

from app.playground import startup_run
from app.publish import CPU_ONLY
from engine.weights.catalogue import get_pair

USER = 1000  # a Space's own
VISITORS = 4
GOALS = {
    "page, weights to be fetched": 40.0,
    "page, weights preloaded": 15.0,
    "page, weights prepared": 15.0,
    "resident while four run, GB": 2.0,
}
PROMPTS = ("Why is the sky blue?", "List four facts on tea.", "Write a haiku about snow.", "Explain clocks to a child.")


def interpreter() -> str:
    """Finds Python 3.11, which the front matter asks for, preferably in no folder that belongs to one user."""
    candidates = [
        shutil.which("python3.11", path=folder) for folder in ("/usr/bin", "/usr/local/bin", os.environ["PATH"])
    ]
    python = next(filter(None, candidates), None)
    return python or sys.exit("The rehearsal needs Python 3.11.")


def install(work: Path, checkout: Path) -> dict[str, float]:
    """The steps of a Space's build, each timed. Where an index cannot be reached pip goes on without it."""
    subprocess.run([interpreter(), "-m", "venv", str(work / "venv")], check=True)
    pip = [str(work / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-cache-dir", "--retries", "0"]
    gradio = f"gradio[oauth]=={metadata_load(checkout / 'README.md')['sdk_version']}"
    steps = {
        CPU_ONLY: ["-r", str(checkout / CPU_ONLY)],
        "gradio": [gradio, "uvicorn>=0.14.0", "spaces"],
        "requirements.txt": ["-r", str(checkout / "requirements.txt")],
    }
    seconds = {}
    for name, arguments in steps.items():
        began = time.monotonic()
        subprocess.run([*pip, *arguments], check=True, stderr=subprocess.DEVNULL)
        seconds[f"install {name}, s"] = time.monotonic() - began
    return seconds


def cuda_packages(work: Path, requirements: list[str]) -> list[str]:
    """The packages of CUDA that pip would install, by their metadata; nothing is downloaded."""
    pip = [str(work / "venv" / "bin" / "python"), "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    report = work / "report.json"
    done = subprocess.run([*pip, "--report", str(report), *requirements], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    names = [each["metadata"]["name"] for each in json.loads(report.read_text())["install"]]
    return sorted(name for name in names if name.startswith(("nvidia-", "cuda-")))


def installed_cuda(work: Path) -> list[str]:
    frozen = subprocess.check_output([str(work / "venv" / "bin" / "python"), "-m", "pip", "freeze"], text=True)
    return [line for line in frozen.splitlines() if line.startswith(("nvidia-", "cuda-"))]


def size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def preload(home: Path, prepared: Path) -> None:
    """Puts the embedded pair's file into the hub's cache, as the build does for preload_from_hub. ``prepared``: a home
    whose page has fetched it."""
    model = get_pair("smollm2-135m").target
    (file,) = (prepared / ".cache" / "speclens" / "models").glob(f"{model.name}-*/model.gguf")
    repo = home / ".cache" / "huggingface" / "hub" / f"models--{model.repo.replace('/', '--')}"
    folder = repo / "snapshots" / model.revision
    folder.mkdir(parents=True)
    shutil.copy(file, folder / model.gguf.file)


@contextmanager
def space(work: Path, home: Path, log: Path):
    """Starts app.py; yields (process, port). As user 1000 where this is run as root."""
    port = free_port()
    variables = {
        "HOME": str(home), "PATH": f"{work / 'venv' / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(work / "app"),
        "PYTHONUNBUFFERED": "1", "SYSTEM": "spaces", "SPACE_ID": "alice/lens", "SPACE_HOST": "alice-lens.hf.space",
        "SPACE_AUTHOR_NAME": "alice", "SPACE_REPO_NAME": "lens", "GRADIO_SERVER_NAME": "0.0.0.0",
        "GRADIO_ALLOW_FLAGGING": "never", "GRADIO_NUM_PORTS": "1", "GRADIO_THEME": "huggingface", "PORT": str(port),
    }  # fmt: skip
    variables |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    as_user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    if as_user:
        for path in (home, *home.rglob("*")):
            os.lchown(path, USER, USER)
    with log.open("w") as out:
        command = [str(work / "venv" / "bin" / "python"), "app.py"]
        process = subprocess.Popen(
            command, cwd=work / "app", env=variables, stdout=out, stderr=subprocess.STDOUT, **as_user
        )
        try:
            yield process, port
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def visit(process: subprocess.Popen, port: int, began: float) -> tuple[float, float, bytes]:
    """Seconds from the process's start to a page, then to a visitor's first token; and the page."""
    url = f"http://127.0.0.1:{port}"
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                page = answer.read()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() - began > 120:
                raise AssertionError("the page never came") from None
            time.sleep(0.05)
    to_page = time.monotonic() - began
    request = Request(Client(url, verbose=False), PROMPTS[0], 32)
    request.join()
    assert not request.problem(), request.problem()
    return to_page, request.began + request.first_token - began, page


def crowd(process: subprocess.Popen, port: int) -> dict[str, float]:
    """GB resident of the page's process and its children while visitors run at once: the median over their time, and
    the most, which is while the graph of several sequences is made."""
    url, sizes = f"http://127.0.0.1:{port}", []
    requests = [Request(Client(url, verbose=False), prompt, 64) for prompt in PROMPTS[:VISITORS]]
    while any(request.is_alive() for request in requests):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        sizes.append(sum(each.memory_info().rss for each in family) / 1e9)
        time.sleep(0.1)
    assert not (problems := [problem for request in requests if (problem := request.problem())]), problems
    return {"resident while four run, GB": statistics.median(sizes), "resident at most, GB": max(sizes)}


def starts(work: Path) -> dict[str, float]:
    """A Space's three first minutes: weights to be fetched, in the hub's cache as a build leaves them, and prepared."""
    figures, opening = {}, json.dumps(startup_run.opening()[0])[1:500].encode()
    bare, home = work / "bare", work / "home"
    bare.mkdir()
    home.mkdir()
    for name, folder in (("weights to be fetched", bare), ("weights preloaded", home), ("weights prepared", home)):
        if name == "weights preloaded":
            preload(home, bare)
        began = time.monotonic()
        with space(work, folder, work / "app.log") as (process, port):
            try:
                figures[f"page, {name}"], figures[f"first token, {name}"], page = visit(process, port, began)
                assert opening in page, "the page does not open with its recorded run"
                if name == "weights prepared":
                    figures |= crowd(process, port)
            except BaseException:
                print((work / "app.log").read_text()[-3000:], file=sys.stderr)
                raise
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work, checkout = Path(folder), Path(folder) / "app"
        work.chmod(0o755)
        checkout.mkdir()
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(checkout)], input=archive, check=True)
        subprocess.run(["chmod", "-R", "a-w,a+rX", str(checkout)], check=True)
        try:
            figures = install(work, checkout)
            figures["installed, GB"] = size(work / "venv") / 1e9
            figures["CUDA packages on a CPU"] = len(installed_cuda(work))
            torch = next(line for line in (checkout / "requirements.txt").read_text().splitlines() if "torch==" in line)
            # "===" refuses a build without CUDA, where one lies on this machine.
            figures["CUDA packages with a GPU"] = len(cuda_packages(work, [torch.replace("==", "===")]))
            figures |= starts(work)
        finally:
            subprocess.run(["chmod", "-R", "u+w", str(checkout)], check=True)
    print("| | measured | goal |\n|---|---|---|")
    for name, value in figures.items():
        print(f"| {name} | {value:.2f} | {GOALS.get(name, '')} |")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1))
    missed = [name for name, goal in GOALS.items() if figures[name] > goal]
    if figures["CUDA packages on a CPU"] or not figures["CUDA packages with a GPU"]:
        missed.append("CUDA on a GPU, and only there")
    sys.exit(f"Missed: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
