"""Serves a static site with an engine, as a host would: with or without isolation, and with weights that go wrong."""

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


class _Handler(SimpleHTTPRequestHandler):
    """``faults`` of the server: paths whose files come ``cut``, ``changed`` or ``slow``. ``asked``: paths, in order."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript", ".js": "text/javascript"}

    def do_GET(self):
        self.server.asked.append(self.path)
        fault = self.server.faults.get(self.path)
        if fault is None:
            super().do_GET()
            return
        data = bytearray(Path(self.translate_path(self.path)).read_bytes())
        if fault == "changed":
            data[-1] ^= 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data if fault == "changed" else data[: len(data) // 2])
        if fault == "slow":  # the other half never comes
            self.server.is_over.wait()

    def end_headers(self):
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def serving_site(folder: Path, isolated: bool = False) -> Iterator[ThreadingHTTPServer]:
    """Yields the server; ``url`` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
    server.faults, server.asked, server.headers = {}, [], ISOLATED if isolated else {}
    server.is_over = threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
