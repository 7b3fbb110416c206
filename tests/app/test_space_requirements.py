"""What a Space installs: torch without CUDA on a CPU, with CUDA on a GPU. pip itself resolves both, from indexes of
tiny wheels on this machine; `make rehearse-space` resolves them from the real ones."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
from paths import ROOT

from app.publish.checks import CPU_ONLY, pinned

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH = pinned(ROOT, "torch")


def wheel(index, name, version, requires=()):
    """A wheel without contents in a simple index; its file is named as pip expects it."""
    folder = index / name
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    file, info = folder / f"{stem}-py3-none-any.whl", f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    links = "".join(f'<a href="{each.name.replace("+", "%2B")}">{each.name}</a>' for each in folder.glob("*.whl"))
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")


@pytest.fixture
def space(tmp_path):
    """A Python environment, and a function that runs pip in it as a Space's build does: from a registry whose torch
    needs CUDA's libraries, and an index of torch without."""
    indexes = tmp_path / "indexes"
    wheel(indexes / "registry", "torch", TORCH, ["nvidia-cublas"])
    wheel(indexes / "registry", "nvidia-cublas", "13.1")
    wheel(indexes / "cpu", "torch", f"{TORCH}+cpu")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv" / "bin" / "python"), "install", "--quiet"]
    pip += ["--index-url", (indexes / "registry").as_uri()]

    def install(*names, options=()):
        """Of the repository's own files the lines on torch, with the index of this test in place of the real one."""
        for name in names:
            lines = (ROOT / name).read_text().replace(CPU_INDEX, (indexes / "cpu").as_uri()).splitlines()
            (tmp_path / name).write_text("\n".join(line for line in lines if line.startswith(("torch", "--"))))
        files = [word for name in names for word in ("-r", str(tmp_path / name))]
        done = subprocess.run([*pip, *options, *files], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def resolve(*names):
        report = json.loads(install(*names, options=("--dry-run", "--report", "-")))["install"]
        return {each["metadata"]["name"]: each["metadata"]["version"] for each in report}

    return install, resolve


def test_a_space_gets_cuda_with_a_gpu_and_none_on_a_cpu_and_the_container_as_it_is_built(space):
    install, resolve = space
    cuda = {"torch": TORCH, "nvidia-cublas": "13.1"}
    assert resolve("requirements.txt") == cuda
    assert CPU_INDEX in (ROOT / CPU_ONLY).read_text()
    assert resolve(CPU_ONLY) == resolve(CPU_ONLY, "requirements.txt") == {"torch": f"{TORCH}+cpu"}
    assert resolve("requirements.txt", "requirements.txt") == cuda, "with --build-arg TORCH=requirements.txt"
    install(CPU_ONLY)
    assert resolve("requirements.txt") == {}, "torch without CUDA is there, and satisfies requirements.txt"
