"""Hubs on this machine, to which the real client speaks: one has a model, the other takes uploads to Spaces."""

import base64
import hashlib
import json
import re
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

LIMIT = 2**16  # bytes of a file that a commit may hold; the real hub's is 10 MiB, which would take longer
TOKEN = "hf_rehearsal"


class Answer(NamedTuple):
    status: int
    value: object = b""
    code: str = ""
    headers: dict[str, str] | None = None
    is_cut: bool = False


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def _reply(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, hub = self.path.split("?")[0], self.server
        hub.asked.append(path)
        hub.ranges.append(self.headers.get("Range"))
        refusal = hub.refusal or (None if hub.accepts(path, self.headers) else (401, ""))
        given = Answer(refusal[0], {"error": "refused"}, refusal[1]) if refusal else hub.answer(path, body)
        if given is None:
            return self.connection.shutdown(socket.SHUT_RDWR)
        data = given.value if isinstance(given.value, bytes) else json.dumps(given.value).encode()
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part and given.status == 200 and self.command == "GET":
            data, given = data[int(part[1]) : int(part[2] or len(data)) + 1], given._replace(status=206)
        self.send_response(given.status)
        fields = {"Content-Type": "application/json", "Content-Length": str(len(data)), "X-Error-Code": given.code}
        for name, text in (fields | (given.headers or {})).items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if given.is_cut else data)

    do_GET = do_HEAD = do_POST = do_PUT = _reply


class _Hub(ThreadingHTTPServer):
    """``refusal``: (status, code) for every request. ``asked``: all paths; ``ranges``: each one's Range header."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.refusal, self.asked, self.ranges = None, [], []

    def accepts(self, path: str, headers) -> bool:
        return True

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    @classmethod
    @contextmanager
    def serving(cls, patch):
        """Takes the real hub's place."""
        from huggingface_hub import constants

        hub = cls()
        threading.Thread(target=hub.serve_forever, args=(0.01,), daemon=True).start()
        patch.setattr(constants, "ENDPOINT", hub.url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield hub
        hub.close()


class ModelHub(_Hub):
    """``files`` of us/remote; ``cut``: one of which only a part arrives."""

    def __init__(self):
        super().__init__()
        self.files, self.cut = {}, None

    def answer(self, path: str, body: bytes) -> Answer:
        oids = {name: hashlib.sha1(data).hexdigest() for name, data in self.files.items()}
        if "/tree/" in path:
            files = self.files.items()
            return Answer(200, [{"type": "file", "path": n, "size": len(d), "oid": oids[n]} for n, d in files])
        if path.startswith("/api/models/"):
            files = [
                {"rfilename": name, "size": len(data)}
                | ({"lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 1}}
                   if name.endswith(".gguf") else {})
                for name, data in self.files.items()
            ]  # fmt: skip
            about = {"id": "us/remote", "sha": "c" * 40, "gated": False, "cardData": {"license": "mit"}}
            return Answer(200, about | {"siblings": files})
        name = path.split("/resolve/")[-1].partition("/")[2]
        if name not in self.files:
            return Answer(404, code="EntryNotFound")
        headers = {"ETag": f'"{oids[name]}"', "X-Repo-Commit": "c" * 40}
        return Answer(200, self.files[name], headers=headers, is_cut=name == self.cut)


class SpaceHub(_Hub):
    """Refuses a login it does not know and names of others. ``spaces``: files of each Space by name, a large one as its
    SHA-256. ``store``: large files by SHA-256. ``cut_after``: large files that still arrive before the line breaks."""

    def __init__(self):
        super().__init__()
        self.spaces: dict[str, dict[str, bytes | str]] = {}
        self.store: dict[str, bytes] = {}
        self.received: list[str] = []
        self.cut_after: int | None = None
        self.lock = threading.Lock()

    def accepts(self, path: str, headers) -> bool:
        return path.startswith("/put/") or headers.get("authorization") == f"Bearer {TOKEN}"

    def answer(self, path: str, body: bytes) -> Answer | None:
        match = re.search(r"/spaces/([^/]+/[^/]+?)(\.git/info/lfs/objects/batch|/\w+/main.*)?$", path)
        name, part = match.groups("") if match else ("", "")
        if path.startswith("/put/"):
            return self.receive(path.removeprefix("/put/"), body)
        if part.startswith("/commit"):
            return self.commit(name, [json.loads(line) for line in body.splitlines()])
        if part.startswith("/tree"):
            return Answer(200, [{"type": "file", "path": p, "size": 1, "oid": "0" * 40} for p in self.spaces[name]])
        given = json.loads(body or "{}")
        if path == "/api/validate-yaml":
            return Answer(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self.create(given["organization"] or "alice", given["name"])
        if path == "/verify":
            return Answer(200 if given["oid"] in self.store else 404, {})
        if part.startswith("/preupload"):
            modes = {file["path"]: "lfs" if file["size"] > LIMIT else "regular" for file in given["files"]}
            files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
            return Answer(200, {"files": files})
        if part.endswith("batch"):  # a file that arrived before gets no address to send it to
            files = [each | self.actions(each["oid"]) for each in given["objects"]]
            return Answer(200, {"transfer": "basic", "objects": files})
        return Answer(404, {})

    def create(self, owner: str, name: str) -> Answer:
        if owner != "alice":
            return Answer(403, {"error": "You don't have the rights to create a space under that namespace"})
        about = {"url": f"{self.url}/spaces/{owner}/{name}"}
        if f"{owner}/{name}" in self.spaces:
            return Answer(409, about | {"error": "You already created this space repo"})
        self.spaces[f"{owner}/{name}"] = {".gitattributes": b""}
        return Answer(200, about)

    def actions(self, oid: str) -> dict:
        to = {"upload": {"href": f"{self.url}/put/{oid}"}, "verify": {"href": f"{self.url}/verify"}}
        return {} if oid in self.store else {"actions": to}

    def receive(self, digest: str, data: bytes) -> Answer | None:
        with self.lock:
            left = self.cut_after
            self.cut_after = left and left - 1
        if left == 0:
            return None
        assert hashlib.sha256(data).hexdigest() == digest
        self.store[digest] = data
        self.received.append(digest)
        return Answer(200, {})

    def commit(self, name: str, lines: list[dict]) -> Answer:
        for value, kind in ((line["value"], line["key"]) for line in lines):
            if kind == "file":
                self.spaces[name][value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                self.spaces[name][value["path"]] = value["oid"]
            elif kind == "deletedFile":
                del self.spaces[name][value["path"]]
        url = f"{self.url}/spaces/{name}/commit/{'2' * 40}"
        return Answer(200, {"success": True, "commitUrl": url, "commitOid": "2" * 40})


@pytest.fixture
def hub(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_TOKEN", "")
    with ModelHub.serving(monkeypatch) as server:
        yield server
