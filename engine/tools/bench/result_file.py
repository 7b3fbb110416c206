"""Keeps results by key, in memory or as lines of a JSON file that a later call resumes. Imports no torch."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from engine.errors import BadInput
from engine.files import disk_errors, write_file

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def file_of(folder: Path, kind: str, about: dict, again: bool = False) -> Path:
    """Returns the file of a folder that is named after everything in ``about``, so that an equal measurement finds it
    again; ``again`` deletes it."""
    path = Path(folder) / f"{kind}-{hashlib.sha256(json.dumps(about).encode('utf-8')).hexdigest()[:16]}.jsonl"
    if again:
        with disk_errors(path.parent):
            path.unlink(missing_ok=True)
    return path


def parse_values(kind: type[T], values: Any) -> T:
    """Makes a dataclass, or a collection of some, of JSON values; keys that it has no field for are left out. Raises
    ValueError for values of another type."""
    return _reader(kind).validate_json(json.dumps(values), strict=True)


@cache
def _reader(kind: Any) -> "TypeAdapter":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


class ResultFile:
    """``results``: key (a tuple of JSON values) → result. With ``path`` each is a line as soon as it is added, and the
    lines of earlier calls are read first.

    ``about``: everything that must be equal for two results to be comparable; the file's first line holds it. BadInput
    where the file is of something else or damaged. ``encode`` and ``decode`` turn a result into JSON and back.
    """

    def __init__(
        self,
        path: Path | None = None,
        about: dict | None = None,
        encode: Callable[[Any], Any] = lambda result: result,
        decode: Callable[[Any], Any] = lambda saved: saved,
    ):
        self.path = path
        self.encode, self.decode = encode, decode
        self.header = json.loads(json.dumps(about or {})) | {"time": time.strftime(_TIME, time.gmtime())}
        self.results: dict[tuple, Any] = {}
        if path is not None:
            self._open(path)

    @property
    def newest(self) -> str:
        """The time of the newest result, in ISO 8601."""
        if self.path is None or not self.path.exists():
            return self.header["time"]
        return time.strftime(_TIME, time.gmtime(self.path.stat().st_mtime))

    def _open(self, path: Path) -> None:
        try:
            lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
        except FileNotFoundError:
            lines = [""]
        except OSError as error:
            raise BadInput(f"The results {path} cannot be read: {error.strerror}.") from error
        complete, rest = lines[:-1], lines[-1]  # a line without its end was cut short, so it is measured again
        if complete:
            self._check_header(complete[0])
        for number, line in enumerate(complete[1:], 2):
            try:
                row = json.loads(line)
                self.results[tuple(row["key"])] = self.decode(row["result"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BadInput(f"Line {number} of {path} is damaged; delete that line or the file.") from error
        if not complete or rest:
            write_file(path, "".join(f"{line}\n" for line in complete or [json.dumps(self.header)]))

    def _check_header(self, line: str) -> None:
        try:
            header = json.loads(line)
            changed = [name for name in self.header if name != "time" and header.get(name) != self.header[name]]
        except (ValueError, AttributeError) as error:
            raise BadInput(f"{self.path} holds no results of this kind; name another file.") from error
        if changed:
            raise BadInput(
                f"{self.path} was measured with another {changed[0]}; name another file, or delete it to measure "
                "everything here."
            )
        self.header = header

    def remove(self, keys: Iterable[tuple]) -> None:
        """Forgets these results, in the file too, so that they are measured again."""
        unwanted = {key for key in keys if key in self.results}
        if not unwanted:
            return
        self.results = {key: result for key, result in self.results.items() if key not in unwanted}
        if self.path is not None:
            lines = [json.dumps(self.header), *(self._line(key, result) for key, result in self.results.items())]
            write_file(self.path, "".join(f"{line}\n" for line in lines))

    def add(self, key: tuple, result: Any) -> None:
        self.results[key] = result
        if self.path is not None:
            with disk_errors(self.path.parent), open(self.path, "a", encoding="utf-8") as file:
                file.write(self._line(key, result) + "\n")

    def _line(self, key: tuple, result: Any) -> str:
        return json.dumps({"key": key, "result": self.encode(result)}, allow_nan=False)
