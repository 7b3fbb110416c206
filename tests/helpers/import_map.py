"""Maps which packages import which, and how large each is: from the syntax trees, so that lazy imports count too.

`python tests/helpers/import_map.py` prints the map of the top level and of each package in ORDER (`make map`).
"""

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from paths import ROOT

# Lowest first: an entry may import those in the lines above its own.
ORDER = {
    "engine": [
        ["errors", "files", "device", "constraint", "config", "settings", "reference"],
        ["trace"],
        ["weights"],
        ["sampling"],
        ["models"],
        ["drafters"],
        ["decoding"],
        ["runtime"],
        ["tools"],
        ["bench", "__main__"],
    ],
    "engine/models": [["tensors"], ["decoder"], ["heads"], ["onnx"], ["loader"]],
    "engine/tools": [["exactness", "bench", "own_models"], ["servers", "training"], ["cli"]],
    "app": [
        ["server", "views"],
        ["form"],
        ["jobs", "ui"],
        ["playground"],
        ["lab", "lessons_tab", "tab"],
        ["api", "static_site", "publish"],
        ["page"],
        ["cluster"],
    ],
    "assets/web": [["lib"], ["player", "playground"], ["lab", "lessons"], ["offline"], ["tab"]],
    "assets/web/lessons": [["progress", "widgets"], ["rule"], ["tools"], ["practice", "report"], ["page"]],
}


@cache  # several claims are checked on the same files
def modules(source: str) -> frozenset[str]:
    """Every module that ``source`` imports, at any depth; ``from a import b`` counts as both a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module comes from"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def entries(package: str) -> list[str]:
    """The modules and packages at the top of ``package``; of scripts, the folders."""
    paths = (ROOT / package).iterdir()
    names = {
        path.stem for path in paths if path.suffix == ".py" or any(path.glob("__init__.py")) or any(path.rglob("*.js"))
    }
    return sorted(names - {"__init__"})


def script_imports(path: Path) -> set[str]:
    """The scripts that the script at ``path`` imports, below the root."""
    found = re.findall(
        r"^\s*(?:import|export)\b[^'\"]*['\"]([^'\"]+\.js)['\"]", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {(path.parent / name).resolve().relative_to(ROOT).as_posix() for name in found}


def imported(package: str, path: Path) -> set[str]:
    """The entries of ``package`` that the file at ``path`` imports."""
    if path.suffix == ".js":
        found = script_imports(path)
    else:
        found = {name.replace(".", "/") for name in modules(path.read_text(encoding="utf-8"))}
    start = f"{package}/"
    return {name.removeprefix(start).split("/")[0] for name in found if name.startswith(start)}


def arrows(package: str) -> dict[tuple[str, str], list[Path]]:
    """(importing entry, imported entry) → the files in which that import stands."""
    names, found = set(entries(package)), {}
    for path in sorted((ROOT / package).rglob("*.js" if package.startswith("assets/") else "*.py")):
        here = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for entry in imported(package, path) & names - {here, "__init__"} if here != "__init__" else ():
            found.setdefault((here, entry), []).append(path)
    return dict(sorted(found.items()))


def level(package: str, entry: str) -> int:
    return next(i for i, row in enumerate(ORDER[package]) if entry in row)


def circles(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The entries that import themselves by way of others."""
    reached = {a: {b for x, b in pairs if x == a} for a, _ in pairs}
    while True:
        grown = {a: bs.union(*(reached.get(b, set()) for b in bs)) for a, bs in reached.items()}
        if grown == reached:
            return sorted(a for a, bs in reached.items() if a in bs)
        reached = grown


def size(package: str, entry: str) -> int:
    """The lines of an entry's files."""
    path = ROOT / package / entry
    files = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else path.rglob("*.[pj][ys]")
    return sum(file.read_text(encoding="utf-8").count("\n") for file in files)


def core_size() -> int:
    """The lines of what decodes: engine/ without its tools and the old name of one."""
    return sum(size("engine", entry) for entry in entries("engine") if entry not in ("tools", "bench"))


def packages_arrows() -> set[tuple[str, str]]:
    """(importing package, imported package) at the top level."""
    names = ("engine", "lessons", "app")
    found = {
        (a, m.split(".")[0]) for a in names for p in (ROOT / a).rglob("*.py") for m in modules(p.read_text("utf-8"))
    }
    return {(a, b) for a, b in found if b in names and a != b}


def main() -> None:
    print("top level:", ", ".join(f"{a} ← {b}" for a, b in sorted(packages_arrows())))
    for package in ORDER:
        found = arrows(package)
        print(f"{package}/: {len(entries(package))} entries, {len(found)} arrows, circles: {circles(found) or 'none'}")
        for row in ORDER[package]:
            for entry in row:
                below = ", ".join(b for a, b in found if a == entry) or "–"
                print(f"  {size(package, entry):6,} {entry:12} ← {below}")
    print(f"The core, engine/ without tools/: {core_size():,} lines")


if __name__ == "__main__":
    main()
