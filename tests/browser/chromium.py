"""Finds a Chromium, or installs one: Debian's where that is allowed, else Playwright's own.

python tests/browser/chromium.py [--install]
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
# In a container, and without a request to any other server.
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    on_path = filter(None, map(shutil.which, NAMES))
    known = (place for place in PLACES if Path(place).exists())
    return next(on_path, None) or next(known, None) or _playwrights_own()


def _playwrights_own() -> str | None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def _is_debian() -> bool:
    release = Path("/etc/os-release")
    return release.exists() and "ID=debian" in release.read_text().splitlines()


def install() -> None:
    """Tries both ways. A failure is printed, not raised, because the tests then name the missing browser."""
    if _is_debian() and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        _try(["apt-get", "update", "--quiet"], environment)
        _try(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "chromium"], environment)
    if not find():
        _try([sys.executable, "-m", "playwright", "install", "chromium"], None)


def _try(command: list[str], environment) -> None:
    print("$", *command, flush=True)
    try:
        subprocess.run(command, env=environment, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"That did not work: {error}", flush=True)


if __name__ == "__main__":
    if not find() and "--install" in sys.argv:
        install()
    print(f"Browser for the tests: {find() or 'none; browser tests will be skipped'}")
