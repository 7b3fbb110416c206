"""Checks what would be published: a clean tree's tracked files, their size, and the front matter. Uses no network."""

import importlib.metadata
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import BadInput, Unavailable
from engine.files import gigabytes

CPU_ONLY = "pre-requirements.txt"  # a Space installs it before requirements.txt: torch without CUDA
PUSH_LIMIT = 10 * 2**20  # bytes; a git push of a larger file is refused, the hub's own client stores it apart
MOST_BYTES = 10**9  # of a Space's repository
MOST_FILES = 10_000  # in one folder, as the hub counts
LONGEST_DESCRIPTION = 60
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
NEEDED = ("title", "sdk", "sdk_version", "app_file", "python_version")


@dataclass(frozen=True)
class File:
    """A tracked file: its path in the repository and its bytes. ``is_large``: too large for a git push."""

    path: str
    size: int

    @property
    def is_large(self) -> bool:
        return self.size > PUSH_LIMIT


def tracked(root: Path, gpu: bool = False) -> list[File]:
    """The files that a Space gets: those that git tracks, for a GPU without CPU_ONLY. BadInput unless the tree is
    clean; Unavailable without git."""
    if changes := _git(root, "status", "--porcelain"):
        raise BadInput(f"{changes[0][3:]} is not as it was committed; commit or stash it, then publish again.")
    if ignored := _git(root, "ls-files", "--cached", "--ignored", "--exclude-standard"):
        raise BadInput(f"{ignored[0]} is tracked, but .gitignore names it, so that the hub would leave it out.")
    files = []
    for path in _git(root, "ls-files"):
        if (root / path).is_symlink() or not (root / path).is_file():
            raise BadInput(f"{path} is a link or a submodule, which a Space does not get; put a file in its place.")
        if not (gpu and path == CPU_ONLY):
            files.append(File(path, (root / path).stat().st_size))
    return files


def _git(root: Path, *command: str) -> list[str]:
    """What git prints, split at its NUL bytes."""
    try:
        done = subprocess.run(["git", "-C", str(root), *command, "-z"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{root} is not a git checkout that git can read; clone the repository again.") from error
    return [line for line in done.stdout.split("\0") if line]


def problems(root: Path, files: Sequence[File]) -> list[str]:
    """Why a Space of these files would be refused or would not start, each a sentence."""
    total = sum(file.size for file in files)
    sentences = front_matter_problems(root)
    if pinned(root, "torch", CPU_ONLY) != f"{pinned(root, 'torch')}+cpu":
        sentences.append(f"{CPU_ONLY} and requirements.txt name different versions of torch; make them equal.")
    if total > MOST_BYTES:
        sentences.append(f"The files are {gigabytes(total)} together; a Space takes {gigabytes(MOST_BYTES)}.")
    folders = [file.path.rpartition("/")[0] for file in files]
    sentences += [
        f"The folder {folder or '.'} holds more than {MOST_FILES:,} files, the most that the hub takes."
        for folder in sorted(set(folders))
        if folders.count(folder) > MOST_FILES
    ]
    return sentences


def front_matter(root: Path) -> dict:
    """The settings at the top of README.md. BadInput where there are none."""
    import yaml

    try:
        text = (root / "README.md").read_text(encoding="utf-8")
        top: Any = re.match(r"---\n(.*?)\n---\n", text, re.S)
        settings = yaml.safe_load(top[1])
    except (OSError, TypeError, yaml.YAMLError) as error:
        raise BadInput("README.md does not begin with a Space's settings between two lines of ---.") from error
    if not isinstance(settings, dict):
        raise BadInput("The settings at the top of README.md are not a list of names and values.")
    return settings


def front_matter_problems(root: Path) -> list[str]:
    """What a Space would not accept in the front matter, and where it differs from requirements.txt or from the
    gradio that is installed here, with which this tree was tested."""
    settings = front_matter(root)
    sentences = [f"README.md gives no {name} in its settings." for name in NEEDED if not settings.get(name)]
    versions = {"requirements.txt": pinned(root, "gradio"), "this environment": importlib.metadata.version("gradio")}
    chosen = str(settings.get("sdk_version"))
    sentences += [
        f"README.md asks for gradio {chosen}, but {where} has {version}; make them equal."
        for where, version in versions.items()
        if version != chosen
    ]
    if len(settings.get("short_description", "")) > LONGEST_DESCRIPTION:
        sentences.append(f"short_description in README.md is longer than {LONGEST_DESCRIPTION} characters.")
    for name in ("colorFrom", "colorTo"):
        if settings.get(name) not in COLOURS:
            sentences.append(f"{name} in README.md must be one of {', '.join(sorted(COLOURS))}.")
    if not (root / str(settings.get("app_file"))).is_file():
        sentences.append(f"README.md starts {settings.get('app_file')}, which is not there.")
    return sentences


def pinned(root: Path, package: str, file: str = "requirements.txt") -> str | None:
    """The version that a requirements file pins; None where it pins none."""
    match = re.search(rf"^{re.escape(package)}==(\S+)", (root / file).read_text(encoding="utf-8"), re.M)
    return match and match[1]
