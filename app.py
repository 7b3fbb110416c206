"""Launch SpecLens. PORT and HOST choose where it listens; a hosted Space listens on every address."""

import os
import sys

from engine.runtime.huge_pages import restart_with_huge_pages

if __name__ == "__main__":
    restart_with_huge_pages()  # before the other imports, which would be made twice

from gradio import http_server

from app.jobs.run_numbers import log_to_stdout
from app.jobs.service import Service
from app.page import ready_to_serve
from app.server.address import address_from, bypass_proxy, check_free, check_root
from engine.errors import EngineError
from engine.models.onnx.session import threads
from engine.tools.own_models.report import check


def main() -> None:
    address = address_from(os.environ)
    check_free(address)
    check_root(os.environ)
    threads()  # refuses a wrong setting now, not in the first run
    bypass_proxy(os.environ, address.host)
    http_server.LOCALHOST_NAME = "127.0.0.1"  # gradio 6.31 tries the port there, and could not at an IPv6 address
    service = Service(check_model=check)
    if service.limits.log:
        log_to_stdout()
    page, options = ready_to_serve(service)
    page.launch(server_name=address.server_name, server_port=address.port, **options)


if __name__ == "__main__":
    if sys.argv[1:]:  # such as --help
        sys.exit(__doc__)
    try:
        main()
    except EngineError as error:
        sys.exit(str(error))
