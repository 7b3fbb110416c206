"""Maps which packages import which, from the syntax trees, so that lazy imports count too.

`python tests/helpers/import_map.py` prints the map of engine/ and app/ (`make map`).
"""

import ast
from collections.abc import Iterable
from pathlib import Path

from paths import ROOT

# Lowest first: an entry may import those in the lines above its own.
ORDER = {
    "engine": [
        ["errors", "files", "device", "config"],
        ["trace"],
        ["weights", "sampling"],
        ["models"],
        ["drafters"],
        ["decoding"],
        ["runtime"],
        ["exactness", "bench"],
        ["training"],
        ["cli"],
        ["__main__"],
    ],
    "app": [
        ["limits", "form", "server", "views"],
        ["jobs", "ui"],
        ["playground", "lab", "lessons_tab"],
        ["api", "static_site"],
        ["page"],
        ["cluster"],
    ],
}


def modules(source: str) -> set[str]:
    """Every module that ``source`` imports, at any depth; ``from a import b`` counts as both a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module comes from"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def entries(package: str) -> list[str]:
    """The modules and packages at the top of ``package``."""
    paths = (ROOT / package).iterdir()
    names = {path.stem for path in paths if path.suffix == ".py" or (path / "__init__.py").exists()}
    return sorted(names - {"__init__"})


def arrows(package: str) -> dict[tuple[str, str], list[Path]]:
    """(importing entry, imported entry) → the files in which that import stands."""
    names, found = set(entries(package)), {}
    for path in sorted((ROOT / package).rglob("*.py")):
        here = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        for module in modules(path.read_text(encoding="utf-8")):
            parts = module.split(".")
            if parts[0] == package and len(parts) > 1 and parts[1] in names - {here} and here != "__init__":
                found.setdefault((here, parts[1]), []).append(path)
    return {arrow: sorted(set(paths)) for arrow, paths in sorted(found.items())}


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


def main() -> None:
    for package in ORDER:
        found = arrows(package)
        print(f"{package}/: {len(entries(package))} entries, {len(found)} arrows, circles: {circles(found) or 'none'}")
        for row in ORDER[package]:
            for entry in row:
                print(f"  {entry:12} ← {', '.join(b for a, b in found if a == entry) or '–'}")


if __name__ == "__main__":
    main()
