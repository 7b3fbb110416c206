"""Launch SpecLens. PORT and HOST choose where it listens; a hosted Space listens on every address."""

import os
import socket
import sys

from app.jobs.run_numbers import log_to_stdout
from app.jobs.service import Service
from app.page import build, launch_options
from app.ui import temp_folder
from engine.errors import BadInput, EngineError


def main() -> None:
    everywhere = "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1"
    host = os.environ.get("HOST") or os.environ.get("GRADIO_SERVER_NAME") or everywhere
    try:
        port = free_port(host, os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or "7860")
        temp_folder.choose()
        service = Service()
    except EngineError as error:
        sys.exit(str(error))
    if service.limits.log:
        log_to_stdout()
    build(service).launch(server_name=host, server_port=port, **launch_options(service))


def free_port(host: str, text: str) -> int:
    """Returns the port. Raises BadInput, before a model is touched, for another text or a port in use."""
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise BadInput(f"PORT={text[:40]} is not a port; name a number from 1 to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # otherwise a server that has just ended counts
        try:
            probe.bind((host, int(text)))
        except OSError as error:
            raise BadInput(
                f"Port {text} on {host} cannot be used ({error.strerror}); name another with PORT."
            ) from error
    return int(text)


if __name__ == "__main__":
    main()
