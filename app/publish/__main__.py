"""Publishes this checkout as a Hugging Face Space: checks it, lists its files, uploads them.

python -m app.publish OWNER/NAME [--dry-run] [--update] [--private] [--gpu]
"""

import argparse
import sys
from pathlib import Path

from app.publish import checks, upload
from engine.errors import EngineError
from engine.files import gigabytes

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m app.publish", description=__doc__.split("\n")[0])
    parser.add_argument("name", help="OWNER/NAME of the Space, or NAME for one of your own")
    parser.add_argument("--dry-run", action="store_true", help="check and list the files; upload nothing")
    parser.add_argument("--update", action="store_true", help="replace the files of a Space that exists")
    parser.add_argument("--private", action="store_true", help="only you may see it")
    parser.add_argument("--gpu", action="store_true", help="for a Space with a GPU or ZeroGPU: torch with CUDA")
    options = parser.parse_args()
    try:
        files = checks.tracked(ROOT, options.gpu)
        if sentences := checks.problems(ROOT, files):
            sys.exit("\n".join(sentences))
        if options.dry_run:
            print("\n".join(f"{file.size:>12,}  {file.path}" for file in files))
        _report(files)
        if options.dry_run:
            return
        name = upload.full_name(options.name)
        print(f"Uploading to {name} …", flush=True)
        address = upload.publish(name, ROOT, files, options.update, options.private)
    except EngineError as error:
        sys.exit(str(error))
    print(f"The Space is at {address}; it builds for some minutes before it opens.")


def _report(files: list[checks.File]) -> None:
    large = [file.path for file in files if file.is_large]
    print(f"{len(files)} files, {gigabytes(sum(file.size for file in files))}; too large for a git push: {len(large)}.")


if __name__ == "__main__":
    main()
