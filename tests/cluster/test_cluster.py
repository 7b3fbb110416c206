"""The page on a Ray cluster of this machine: routing, Stop, an engine that dies, and starts that fail."""

import itertools
import os
import socket
import subprocess
import sys
from functools import partial

import fake_worker
import pytest
from api_request import Request
from gradio_client import Client
from paths import ROOT
from server import free_port, serving

pytest.importorskip("ray")
import psutil  # Ray brings it

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.xdist_group("cluster")]
CLUSTER = [sys.executable, "tests/cluster/braked_cluster.py", "--replicas", "2", "--at-least", "2", "--together", "2"]
LONG = 200  # tokens


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A file: while it exists, a long run does not end by itself (braked_cluster.py)."""
    return tmp_path_factory.mktemp("brake") / "held"


@pytest.fixture(scope="module")
def url(tmp_path_factory, held):
    """Two engines for a tiny pair, two runs on each."""
    from tiny_pairs import model_folder

    root = tmp_path_factory.mktemp("cluster")
    model_folder(root / "target", max_position_embeddings=1024)
    environment = {"SPECLENS_PAIRS": str(root / "target"), "SPECLENS_CACHE": str(root / "cache"), "BRAKE": str(held)}
    with serving(CLUSTER, root / "cluster.log", seconds=300, **environment) as url:
        yield url


@pytest.fixture(scope="module")
def clients(url):
    return [Client(url, verbose=False, httpx_kwargs={"timeout": 60}) for _ in range(5)]  # two cores do all of it


PROMPTS = (f"Prompt number {number}" for number in itertools.count())  # no two alike, whose results are cached


@pytest.fixture
def make_request(clients, held):
    """``asked(i, tokens)``: a request of the i-th client. Long runs are held until the file is gone."""
    held.touch()
    pair = clients[0].predict(api_name="/pairs")[0]["name"]
    yield lambda i, tokens, **options: Request(clients[i], next(PROMPTS), tokens, pair=pair, **options)
    held.unlink(missing_ok=True)


def engines() -> list[psutil.Process]:
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if "ServeReplica:speclens:Engine" in " ".join(one.info["cmdline"] or ())]


wait_for = partial(fake_worker.wait_for, seconds=60)


def is_running(request: Request) -> bool:
    return any(figures["status"] == "running" for _, figures, _ in request.updates)


def stop(requests) -> None:
    """Stops one after the other as they run, because Gradio cancels a request between two updates, and one that waits
    for an engine has none."""
    left = list(requests)
    while left:
        wait_for(lambda: any(map(is_running, left)))
        for request in filter(is_running, tuple(left)):
            request.job.cancel()
            left.remove(request)


def test_runs_go_to_both_engines_and_say_where_they_were(make_request, held):
    requests = [make_request(i, LONG, alone=True) for i in range(4)]
    wait_for(lambda: sum(map(is_running, requests)) == 2)  # each engine writes for one at a time
    held.unlink()
    for request in requests:
        request.join(60)
    assert [request.problem() for request in requests] == [None] * 4
    places = [request.updates[-1][2]["run"]["finished"]["extra"] for request in requests]
    assert len({place["replica"] for place in places}) == 2
    assert all(0 <= place["network_seconds"] < 5 for place in places)


def test_a_stop_frees_its_engine_within_a_round(make_request):
    """Long runs have both engines and would keep them; a short one gets its turn when they are stopped."""
    long = [make_request(i, LONG, alone=True) for i in range(4)]
    wait_for(lambda: sum(map(is_running, long)) == 2)
    short = make_request(4, 4)
    wait_for(lambda: short.places)
    stop(long)
    short.join(60)
    assert short.problem() is None


def test_dead_engine_is_reported_and_the_run_can_be_repeated(make_request):
    request = make_request(0, LONG)
    wait_for(lambda: is_running(request))
    for engine in engines():
        engine.kill()
    request.join(60)
    assert "has stopped in mid-run" in str(request.error) and "press Run" in str(request.error)
    again = make_request(0, 8)
    again.join(200)
    assert again.problem() is None


def test_a_start_that_fails_ends_in_a_sentence(tmp_path):
    def last_line(*options: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "app.cluster", *options], cwd=ROOT, env=os.environ | environment,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 1 and "Traceback" not in done.stderr
        return done.stderr.strip().splitlines()[-1]

    assert "No Ray cluster answers at 127.0.0.1:1" in last_line(RAY_ADDRESS="127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"The page cannot be served at port {port}: Failed to bind" in last_line("--port", str(port))
    environment = {"SPECLENS_PAIRS": "qwen3-8b", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    said = last_line("--port", str(free_port()), **environment)
    assert "The engines cannot start: Qwen/Qwen3-8B cannot be fetched while HF_HUB_OFFLINE is set" in said
