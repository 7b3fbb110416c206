"""Starts the page and its engines on a Ray cluster: on this machine, or on the one that RAY_ADDRESS names.

python -m app.cluster --replicas 2 [--port 7860] [--together 8] [--cpus 1] [--gpus 0]
"""

import argparse
import os
import socket
import sys

try:
    import ray
    from ray import serve
except ImportError:
    sys.exit("Ray is not installed: pip install -r requirements-cluster.txt")

from pydantic import ValidationError

from app.cluster.deployments import APPLICATION, Size, application


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.cluster", description=__doc__.split("\n")[0])
    for name, field in Size.model_fields.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=field.annotation, default=field.default, help=field.description
        )
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "7860")))
    options = parser.parse_args()
    try:
        size = Size(**{name: getattr(options, name) for name in Size.model_fields})
    except ValidationError as error:
        parser.error(", ".join(f"{'.'.join(e['loc']) or 'size'}: {e['msg']}" for e in error.errors()))
    address = os.environ.get("RAY_ADDRESS")
    try:
        _check(address)
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"No Ray cluster answers at {address}: {str(error)[:200]}")
    serve.start(http_options={"host": os.environ.get("HOST", "127.0.0.1"), "port": options.port})
    print(f"Loading up to {size.replicas} engines; the page will be at port {options.port}.", flush=True)
    try:
        serve.run(application(size), name=APPLICATION, route_prefix="/", blocking=True)
    except KeyboardInterrupt:
        serve.shutdown()


def _check(address: str | None) -> None:
    """Raises OSError where nothing listens at "HOST:PORT", because Ray 2.60 goes on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=5).close()


if __name__ == "__main__":
    main()
