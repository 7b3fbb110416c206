"""Starts the page and its engines on a Ray cluster: on this machine, or on the one that RAY_ADDRESS names.

python -m app.cluster --replicas 2 [--port 7860] [--together 8] [--cpus 1] [--gpus 0]
"""

import argparse
import os
import re
import socket
import sys
from contextlib import suppress
from typing import Any, cast

try:
    import ray
    from ray import serve
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException
except ImportError:
    sys.exit("Ray is not installed: pip install -r requirements-cluster.txt")

from pydantic import ValidationError

from app.cluster.deployments import APPLICATION, Size, application

_FAILURES = (OSError, ValueError, RuntimeError, RayError, RayServeException)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.cluster", description=__doc__.split("\n")[0])
    for name, field in Size.model_fields.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=cast(Any, field.annotation),
            default=field.default,
            help=field.description,
        )
    parser.add_argument("--port", type=int, default=os.environ.get("PORT", "7860"))
    options = parser.parse_args()
    try:
        size = Size(**{name: getattr(options, name) for name in Size.model_fields})
    except ValidationError as error:
        parser.error(", ".join(f"{'.'.join(map(str, e['loc'])) or 'size'}: {e['msg']}" for e in error.errors()))
    address = os.environ.get("RAY_ADDRESS")
    try:
        _check(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"No Ray cluster answers at {address}: {str(error)[:200]}")
    try:
        serve.start(http_options={"host": os.environ.get("HOST", "127.0.0.1"), "port": options.port})
    except _FAILURES as error:
        sys.exit(f"The page cannot be served at port {options.port}: {_last_sentence(str(error))}")
    print(f"Loading up to {size.replicas} engines; the page will be at port {options.port}.", flush=True)
    try:
        serve.run(application(size), name=APPLICATION, route_prefix="/", blocking=True)
    except KeyboardInterrupt:
        serve.shutdown()
    except _FAILURES as error:
        reason = _start_problem() or _last_sentence(str(error))
        with suppress(*_FAILURES):  # otherwise a shared cluster goes on serving a page without engines
            serve.delete(APPLICATION)
        sys.exit(f"The engines cannot start: {reason}")


def _start_problem() -> str:
    """Says why a deployment failed, because `serve.run` of Ray 2.60 only says which one; empty where not known."""
    try:
        ours = serve.status().applications[APPLICATION]
    except (KeyError, *_FAILURES):
        return ""
    failed = [each for each in ours.deployments.values() if each.status in ("DEPLOY_FAILED", "UNHEALTHY")]
    return _last_sentence(failed[0].message) if failed else ""


def _last_sentence(text: str) -> str:
    """Returns the message at the end of a traceback, without the name of its class."""
    return re.sub(r"^[\w.]+: ", "", (text.strip().splitlines() or ["no reason was given"])[-1])[:300]


def _check(address: str | None) -> None:
    """Raises OSError where nothing listens at "HOST:PORT", because Ray 2.60 goes on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


if __name__ == "__main__":
    main()
