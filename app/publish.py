"""Publishes this checkout as a Hugging Face Space: `python -m app.publish OWNER/NAME`. static_site.py makes the site
without a server, which is uploaded by hand (docs/serving.md).

The hub's own client does the work. It checks the front matter, sends files over 10 MiB to the store for large files
first, and then makes one commit. So an upload that breaks off changes nothing on the Space, and the next one sends only
the large files that have not arrived.
"""

import argparse
import importlib.metadata
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.errors import BadInput, EngineError, Unavailable
from engine.files import gigabytes

ROOT = Path(__file__).resolve().parents[1]
CPU_ONLY = "pre-requirements.txt"  # a Space installs it before requirements.txt: torch without CUDA
_NO_FILES = {"120000": "a link", "160000": "a submodule"}  # git's mode → what the hub would not get whole
LOGIN = "Log in first: `hf auth login`, with a token that may write."


def copy_committed(root: Path, folder: Path, gpu: bool = False) -> list[Path]:
    """Copies the files of the last commit into ``folder``, for a GPU without CPU_ONLY, and returns them. BadInput
    unless the tree is clean and the hub would take every tracked file; Unavailable without git."""
    if changes := _git(root, "status", "--porcelain").splitlines():
        raise BadInput(f"{changes[0][3:]} is not as it was committed; commit or stash it, then publish again.")
    if ignored := _git(root, "ls-files", "--cached", "--ignored", "--exclude-standard").splitlines():
        raise BadInput(f"{ignored[0]} is tracked, but .gitignore names it, so that the hub would leave it out.")
    for line in _git(root, "ls-files", "--stage").splitlines():
        if kind := _NO_FILES.get(line.split()[0]):
            raise BadInput(f"{line.split(maxsplit=3)[3]} is {kind}; put files in its place.")
    _git(root, "checkout-index", "--all", f"--prefix={folder}/")
    if gpu:
        (folder / CPU_ONLY).unlink()
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _git(root: Path, *command: str) -> str:
    try:
        return subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"{root} is not a git checkout that git can read; clone the repository again.") from error


def check_versions(root: Path) -> None:
    """Raises BadInput where README.md, the requirements and this environment disagree, or name an app that is not
    there. The hub checks the rest of the front matter, but it does not know what this tree was tested with."""
    chosen, app = _first(root, "README.md", r"sdk_version: (\S+)"), _first(root, "README.md", r"app_file: (\S+)")
    versions = {"requirements.txt": _first(root, "requirements.txt", r"gradio==(\S+)")}
    for where, version in (versions | {"this environment": importlib.metadata.version("gradio")}).items():
        if version != chosen:
            raise BadInput(f"README.md asks for gradio {chosen}, but {where} has {version}; make them equal.")
    if _first(root, CPU_ONLY, r"torch==(\S+)\+cpu") != _first(root, "requirements.txt", r"torch==(\S+)"):
        raise BadInput(f"{CPU_ONLY} and requirements.txt name different versions of torch; make them equal.")
    if not (root / str(app)).is_file():
        raise BadInput(f"README.md starts {app}, which is not there.")


def _first(root: Path, file: str, pattern: str) -> str | None:
    """Returns the first match at the beginning of a line."""
    match = re.search(f"^{pattern}", (root / file).read_text(encoding="utf-8"), re.M)
    return match and match[1]


def publish(name: str, folder: Path, update: bool = False, private: bool = False) -> str:
    """Makes the Space with the files of ``folder``, or with ``update`` replaces all its files. Returns its address.
    Raises EngineError."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HFValidationError

    if not get_token():
        raise Unavailable(LOGIN)
    api = HfApi()
    try:
        space = api.create_repo(
            name, repo_type="space", space_sdk="gradio", private=private or None, exist_ok=update
        ).repo_id
        update = True  # from here on there is a Space to replace
        api.upload_folder(
            repo_id=space, folder_path=folder, repo_type="space", commit_message="SpecLens", delete_patterns="*"
        )
    except HFValidationError as error:
        raise BadInput(
            f"{name[:80]!r} cannot name a Space; use OWNER/NAME of letters, digits, dots, dashes and underscores."
        ) from error
    except Exception as error:  # the HTTP library and its exceptions change with the version of huggingface_hub
        raise _as_sentence(name, error, update) from error
    return f"{api.endpoint}/spaces/{space}"


def _as_sentence(name: str, error: Exception, update: bool) -> EngineError:
    """Words an error of the hub. ``update``: whether the next try needs --update."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    reason = str(getattr(error, "server_message", None) or error or type(error).__name__).strip().splitlines()[-1][:200]
    if status == 409:
        return BadInput(f"The Space {name} exists already; choose another name, or replace it with --update.")
    again = f"run the command again{' with --update' * update}"
    if status is None:
        advice = f"{again}: large files that have arrived are not sent again"
        return Unavailable(f"The upload to {name} broke off ({reason}); {advice}.")
    sentences = {
        401: f"The hub does not accept this login. {LOGIN}",
        403: f"This login may not write to the Space {name}; use a name of your own, or a token that may write.",
        429: f"The hub takes no more requests from this login for now; {again} in some minutes.",
    }
    answered = f"The hub answered {status} for the Space {name} ({reason}); nothing on it has changed."
    return Unavailable(sentences.get(status, answered))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.publish", description=__doc__.split("\n")[0])
    parser.add_argument("name", help="OWNER/NAME of the Space, or NAME for one of your own")
    parser.add_argument("--dry-run", action="store_true", help="check and list the files; upload nothing")
    parser.add_argument("--update", action="store_true", help="replace the files of a Space that exists")
    parser.add_argument("--private", action="store_true", help="only you may see it")
    parser.add_argument("--gpu", action="store_true", help="for a Space with a GPU or ZeroGPU: torch with CUDA")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            files = copy_committed(ROOT, Path(folder), options.gpu)
            check_versions(ROOT)
            if options.dry_run:
                print("\n".join(f"{file.stat().st_size:>12,}  {file.relative_to(folder)}" for file in files))
            print(f"{len(files)} files, {gigabytes(sum(file.stat().st_size for file in files))}.", flush=True)
            if options.dry_run:
                return
            address = publish(options.name, Path(folder), options.update, options.private)
    except EngineError as error:
        sys.exit(str(error))
    print(f"The Space is at {address}; it builds for some minutes before it opens.")


if __name__ == "__main__":
    main()
