"""Launch SpecLens. PORT and HOST choose where it listens; a hosted Space listens on every address."""

import os

from app.jobs.run_numbers import log_to_stdout
from app.jobs.service import Service
from app.page import build, launch_options


def main() -> None:
    everywhere = "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1"
    host = os.environ.get("HOST") or os.environ.get("GRADIO_SERVER_NAME") or everywhere
    port = os.environ.get("PORT") or os.environ.get("GRADIO_SERVER_PORT") or "7860"
    service = Service()
    if service.limits.log:
        log_to_stdout()
    build(service).launch(server_name=host, server_port=int(port), **launch_options(service))


if __name__ == "__main__":
    main()
