"""A hub on this machine, from which the real client downloads models, and the fixture that puts it into its place."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Hub(ThreadingHTTPServer):
    """As much of the hub's protocol as a download needs. ``refusal``: (status, error code) for every request.
    ``cut``: a file of which only a part arrives."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.files, self.refusal, self.asked, self.cut = {}, None, [], None


class _Answers(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.asked.append(self.path)
        path, files = self.path.split("?")[0], self.server.files
        if self.server.refusal:
            return self.answer(self.server.refusal[0], b"", {"X-Error-Code": self.server.refusal[1]})
        if "/tree/" in path:
            tree = [{"type": "file", "path": n, "size": len(d), "oid": folder_oid(d)} for n, d in files.items()]
            return self.answer(200, json.dumps(tree).encode(), {"Content-Type": "application/json"})
        if path.startswith("/api/models/"):
            files = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            about = {
                "id": "us/remote",
                "sha": "c" * 40,
                "gated": False,
                "siblings": files,
                "cardData": {"license": "mit"},
            }
            return self.answer(200, json.dumps(about).encode(), {"Content-Type": "application/json"})
        name = path.split("/resolve/")[-1].partition("/")[2]
        if name not in files:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{folder_oid(files[name])}"', "X-Repo-Commit": "c" * 40}
        return self.answer(200, files[name], headers, cut=name == self.server.cut)

    def answer(self, status, body, headers, cut=False):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)


def folder_oid(data):
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    from huggingface_hub import constants

    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setenv("HF_TOKEN", "")
    yield server
    server.shutdown()
    server.server_close()
