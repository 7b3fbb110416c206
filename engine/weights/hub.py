"""Downloads models from the Hugging Face hub into its own cache, and reports its errors as sentences."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import Unavailable
from engine.files import ProgressCallback, cache_root, disk_errors, gigabytes, need_disk, read_json
from engine.weights.checkpoint_dir import AGAIN, damage, missing
from engine.weights.gguf.file import CutOff, GgufHeader
from engine.weights.gguf.folder import header_of
from engine.weights.specs import ModelSpec

# Safetensors weights and tokenizer files at the top of the repository: no pickles, no code.
_ALLOWED = ["*.safetensors", "*.json", "tokenizer.model", "merges.txt", "chat_template.jinja"]
_IGNORED = ["*/*", "consolidated*"]
_STARTS = (1 << 23, 1 << 25, 1 << 27)  # bytes of a GGUF file that its header is looked for in, one after the other


def cached_folder(model: ModelSpec) -> Path | None:
    """Returns the model's snapshot folder; None unless all of it is in the hub's cache."""
    from huggingface_hub import snapshot_download

    cache_root()  # refuses a user without a home folder, for whom the hub's client raises a RuntimeError
    try:
        return Path(snapshot_download(**_snapshot(model), local_files_only=True))
    except OSError:  # base class of the hub's errors for absent and incomplete snapshots
        return None


def _snapshot(model: ModelSpec) -> dict[str, Any]:
    patterns = {"allow_patterns": _ALLOWED, "ignore_patterns": _IGNORED}
    return {"repo_id": model.repo, "revision": model.revision, **patterns}


def download(model: ModelSpec, say: ProgressCallback, again: bool) -> Path:
    from huggingface_hub import constants, snapshot_download

    message = f"Downloading {model.repo}"
    say(0.0, message)
    with _errors_as_sentences(model, Path(constants.HF_HUB_CACHE)):
        _probe(model, "config.json")
        files = snapshot_download(**_snapshot(model), dry_run=True, tqdm_class=_bar(lambda done: None))
        if not any(f.filename.endswith(".safetensors") for f in files):
            raise Unavailable(f"{model.repo} has no safetensors weights, the only kind loaded; choose another pair.")
        needed = sum(f.file_size or 0 for f in files if f.will_download or again)
        need_disk(Path(constants.HF_HUB_CACHE), needed, model.name)
        bar = _bar(lambda done: say(done / max(needed, 1), f"{message} ({gigabytes(needed)})"))
        folder = Path(snapshot_download(**_snapshot(model), force_download=again, tqdm_class=bar))
    if problem := missing(folder) or damage(folder):
        raise Unavailable(f"{problem} {AGAIN}")
    say(1.0, f"{model.name} is here")
    return folder


def describe(model):
    """Asks for a repository's description: commit, files, licence. ``model``: anything with a repo, a revision and a
    licence. Raises Unavailable."""
    from huggingface_hub import HfApi, constants

    with _errors_as_sentences(model, Path(constants.HF_HUB_CACHE)):
        return HfApi().model_info(model.repo, revision=model.revision, timeout=10, files_metadata=True)


def read_config(model, files: Mapping[str, int], most_bytes: int) -> dict:
    """Fetches a repository's config.json; empty where it has none. Raises Unavailable."""
    from huggingface_hub import constants, hf_hub_download

    if "config.json" not in files:
        return {}
    if not 0 < files["config.json"] <= most_bytes:
        raise Unavailable(f"The config.json of {model.repo} is empty or too large; name another model.")
    with _errors_as_sentences(model, Path(constants.HF_HUB_CACHE)):
        _probe(model, "config.json")
        path = hf_hub_download(model.repo, "config.json", revision=model.revision)
    config = read_json(Path(path))
    if not config:
        raise Unavailable(f"The config.json of {model.repo} cannot be read; name another model.")
    return config


def fetch_header(model, file: str, path: Path) -> GgufHeader:
    """Fetches the header of a GGUF file from as much of its start as it needs; ``path`` is where the start is kept.
    Raises Unavailable."""
    path.write_bytes(b"")
    for length in _STARTS:
        with _errors_as_sentences(model, path.parent):
            _append(model, file, path, length)
        try:
            return header_of(path)
        except Unavailable as error:
            if path.stat().st_size < length or not isinstance(error.__cause__, CutOff):
                raise
    raise Unavailable(
        f"The header of {file} in {model.repo} is longer than {gigabytes(_STARTS[-1])}; name another file."
    )


def _append(model, file: str, path: Path, length: int) -> None:
    """Fetches the missing part of the first ``length`` bytes."""
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    headers = build_hf_headers() | {"Range": f"bytes={path.stat().st_size}-{length - 1}"}
    address = hf_hub_url(model.repo, file, revision=model.revision)
    with get_session().stream("GET", address, headers=headers, follow_redirects=True) as response:
        response.raise_for_status()
        with open(path, "ab" if response.status_code == 206 else "wb") as out:  # else the hub sends all of the file
            for part in response.iter_bytes():
                out.write(part[: length - out.tell()])
                if out.tell() >= length:
                    break


def cached_file(model: ModelSpec, file: str) -> Path | None:
    """Returns a file of the model from the hub's cache, such as the config.json that `describe` fetched, or the GGUF
    file that a hosted page is built with; None if it is not there."""
    from huggingface_hub import constants, try_to_load_from_cache

    path = try_to_load_from_cache(model.hub_repo, file, constants.HF_HUB_CACHE, model.revision)
    return Path(path) if isinstance(path, str) else None


def download_file(model: ModelSpec, work: Path, say: ProgressCallback) -> Path:
    from huggingface_hub import hf_hub_download

    message = f"Downloading {model.gguf_source.file} ({gigabytes(model.gguf_source.size)}) from the hub"
    say(0.0, message)
    with _errors_as_sentences(model, work):
        _probe(model, model.gguf_source.file)
        bar = _bar(lambda done: say(done / model.gguf_source.size, message))
        at: dict[str, Any] = {"revision": model.revision, "local_dir": work / "hub", "tqdm_class": bar}
        return Path(hf_hub_download(model.hub_repo, model.gguf_source.file, **at))


def _probe(model, file: str) -> None:
    """Sends one request that fails at once. Otherwise the download would retry for half a minute before it fails."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    get_hf_file_metadata(hf_hub_url(model.repo, file, revision=model.revision), timeout=10)


def _bar(report: Callable[[int], None]) -> Any:
    """Returns a progress bar class for the hub that draws nothing and reports the bytes written so far."""
    from tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args, **kwargs):
            kwargs.pop("name", None)
            self.bytes = kwargs.get("unit") == "B" and not str(kwargs.get("desc", "")).startswith("Downloading bytes")
            super().__init__(*args, **(kwargs | {"disable": True}))

        def update(self, n=1):
            self.n += n or 0
            if self.bytes:
                report(self.n)

    return Bar


@contextmanager
def _errors_as_sentences(model: ModelSpec, folder: Path) -> Iterator[None]:
    try:
        with disk_errors(folder):
            yield
    except Unavailable:
        raise
    except Exception as error:  # the HTTP library and its exceptions change with the version of huggingface_hub
        raise Unavailable(_sentence(model, error)) from error


def _sentence(model: ModelSpec, error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{model.repo} is gated: accept its licence ({model.licence}) on its hub page, log in with `hf auth login` "
            "or set HF_TOKEN, and try again."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"The hub has no public repository {model.repo}; if it is private, log in with `hf auth login`."
    if isinstance(error, errors.RevisionNotFoundError | errors.RemoteEntryNotFoundError):
        return f"{model.repo} no longer has the revision in the catalogue ({model.revision}); choose another pair."
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{model.repo} cannot be fetched while HF_HUB_OFFLINE is set; unset it and try again."
    if isinstance(error, errors.HfHubHTTPError) and error.response is not None:
        return f"The hub answered {error.response.status_code} for {model.repo}; try again later."
    first = str(error).strip().splitlines()[:1] or [type(error).__name__]
    return f"The hub cannot be reached for {model.repo} ({first[0][:200]}); check the connection and try again."
