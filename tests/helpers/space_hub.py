"""A hub on this machine that takes uploads to Spaces from the real client, and refuses what the hub refuses: a login it
does not know, names of others, files over 10 MiB as a part of a commit, large files that never arrived."""

import base64
import hashlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LIMIT = 10 * 2**20
TOKEN = "hf_rehearsal"


class SpaceHub(ThreadingHTTPServer):
    """``spaces``: files of each Space by name, a large one as its SHA-256. ``store``: large files by SHA-256.
    ``refusal``: the status of every answer. ``cut_after``: large files that still arrive before the line breaks."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answers)
        self.spaces: dict[str, dict[str, bytes | str]] = {}
        self.store: dict[str, bytes] = {}
        self.received: list[str] = []
        self.refusal: int | None = None
        self.cut_after: int | None = None
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        if not self.refused():
            if path == "/api/whoami-v2":
                self.answer(200, {"type": "user", "name": "alice"})
            elif match := re.fullmatch(r"/api/spaces/([^/]+/[^/]+)(/tree/main.*)?", path):
                self.show(*match.groups())
            else:
                self.answer(404, {})

    def show(self, name: str, tree: str | None) -> None:
        files = self.server.spaces.get(name)
        if files is None:
            self.answer(404, {"error": "Repository not found"}, "RepoNotFound")
        elif tree:
            self.answer(200, [{"type": "file", "path": path, "size": 1, "oid": "0" * 40} for path in files])
        else:
            self.answer(200, {"id": name, "sha": "1" * 40, "private": False, "tags": [], "siblings": []})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.refused():
            return
        path = self.path.split("?")[0]
        match = re.search(r"/spaces/([^/]+/[^/]+?)(\.git/info/lfs/objects/batch|/preupload/main|/commit/main)$", path)
        if path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self.create(json.loads(body))
        elif path == "/verify":
            self.answer(200 if json.loads(body)["oid"] in self.server.store else 404, {})
        elif match and match[2].endswith("batch"):
            self.batch(json.loads(body)["objects"])
        elif match and match[2].startswith("/preupload"):
            files = json.loads(body)["files"]
            modes = [{"path": f["path"], "uploadMode": mode(f), "shouldIgnore": False} for f in files]
            self.answer(200, {"files": modes})
        elif match:
            self.commit(match[1], [json.loads(line) for line in body.splitlines()])
        else:
            self.answer(404, {})

    def create(self, wanted: dict) -> None:
        owner = wanted["organization"] or "alice"
        if owner != "alice":
            self.answer(403, {"error": "You don't have the rights to create a space under that namespace"})
        else:
            self.server.spaces[f"{owner}/{wanted['name']}"] = {".gitattributes": b""}
            self.answer(200, {"url": f"{self.server.url}/spaces/{owner}/{wanted['name']}"})

    def batch(self, objects: list[dict]) -> None:
        """A file that arrived before gets no address to send it to."""
        to = {"upload": {"href": self.server.url + "/put/"}, "verify": {"href": self.server.url + "/verify"}}
        answers = []
        for each in objects:
            here = each["oid"] in self.server.store
            upload = {"upload": {"href": to["upload"]["href"] + each["oid"]}, "verify": to["verify"]}
            answers.append({**each, **({} if here else {"actions": upload})})
        self.answer(200, {"transfer": "basic", "objects": answers})

    def do_PUT(self):
        with self.server.lock:
            left = self.server.cut_after
            self.server.cut_after = left and left - 1
        if left == 0:
            self.rfile.read(1000)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = self.rfile.read(int(self.headers["Content-Length"]))
        digest = self.path.rsplit("/", 1)[1]
        assert hashlib.sha256(data).hexdigest() == digest
        self.server.store[digest] = data
        self.server.received.append(digest)
        self.answer(200, {})

    def commit(self, name: str, lines: list[dict]) -> None:
        files = dict(self.server.spaces[name])
        for line in lines:
            value, kind = line["value"], line["key"]
            if kind == "file":
                content = base64.b64decode(value["content"])
                if len(content) > LIMIT:
                    return self.answer(400, {"error": f"{value['path']} is larger than 10 MiB"})
                files[value["path"]] = content
            elif kind == "lfsFile":
                if value["oid"] not in self.server.store:
                    return self.answer(400, {"error": f"{value['path']} has not been uploaded"})
                files[value["path"]] = value["oid"]
            elif kind == "deletedFile":
                del files[value["path"]]
        self.server.spaces[name] = files
        url = f"{self.server.url}/spaces/{name}/commit/{'2' * 40}"
        return self.answer(200, {"success": True, "commitUrl": url, "commitOid": "2" * 40})

    def refused(self) -> bool:
        status = self.server.refusal or (401 if self.headers.get("authorization") != f"Bearer {TOKEN}" else None)
        if status:
            self.answer(status, {"error": "refused"})
        return bool(status)

    def answer(self, status: int, value: object, code: str = "") -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for header, text in {"Content-Type": "application/json", "Content-Length": str(len(body))}.items():
            self.send_header(header, text)
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        self.wfile.write(body)


def mode(file: dict) -> str:
    return "lfs" if file["size"] > LIMIT else "regular"
