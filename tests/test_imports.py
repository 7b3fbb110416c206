"""Imports flow one way (DESIGN.md, Folders). Checked on the syntax tree, so that lazy imports count too."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIGHT = ["engine.config", "engine.errors", "engine.events", "engine.trace", "engine.statistics", "engine.theory"]
VIEWS = [f"app.views.{name}" for name in ("ribbon", "summary", "charts", "race", "production", "table")]
LESSONS_MAY = {"engine.config", "engine.trace", "engine.toy", "engine.broken"}


def imported(source: str) -> set[str]:
    """Every module a source imports, at any depth; ``from a import b`` counts as both a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module comes from"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def violations(path: str, source: str) -> list[str]:
    """What this file imports but must not. ``path`` is relative to the root."""
    modules = imported(source)

    def uses(*packages: str) -> list[str]:
        return [f"{path} imports {m}" for m in sorted(modules) if any(within(m, package) for package in packages)]

    found: list[str] = []
    if path.startswith("engine/"):
        found += uses("gradio", "app", "lessons", "plotly")
    if path.startswith("app/"):
        found += uses("torch", "transformers")
        if path not in ("app/service.py", "app/door.py", "app/lent.py") and not path.startswith("app/experiments/"):
            heavy = ("engine.worker", "engine.catalogue", "engine.fetch", "engine.loading", "engine.decode")
            lab = ("engine.lab.sweep", "engine.lab.distribution", "engine.lab.synthetic", "engine.lab.cli")
            found += uses(*heavy, *lab, "engine.toy", "engine.broken", "engine.bench")
    if path.startswith("app/views/"):
        found += uses("gradio", "app.handlers", "app.service", "app.tabs", "app.components")
    if path.startswith("app/components/"):
        found += uses("engine", "app.handlers", "app.service", "app.tabs")
    if path in ("app/service.py", "app/door.py", "app/lent.py") or path.startswith("app/experiments/"):
        found += uses("gradio", "app.handlers", "app.lab", "app.tabs", "app.views")
        # Another way to transformers than the engine thread's own would meet it half imported (see its Engine).
        found += uses("engine.models", "engine.runner", "engine.universal", "engine.text")
    if path == "app/handlers.py" or path.startswith("app/lab/"):
        found += uses("app.tabs", "app.components", "app.build")
    if path.startswith("lessons/"):
        engine = [m for m in modules if within(m, "engine") and m != "engine"]
        allowed = [m for m in engine if any(within(m, name) for name in LESSONS_MAY)]
        found += [f"{path} imports {m}" for m in sorted(set(engine) - set(allowed))]
        found += uses("app", "gradio")
    return found


def sources() -> list[Path]:
    return sorted(path for folder in ("engine", "app", "lessons") for path in (ROOT / folder).rglob("*.py"))


def test_imports_flow_one_way():
    files = sources()
    assert len(files) > 20, "the walk found too little to mean anything"
    found = [v for path in files for v in violations(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("engine/decode.py", "import gradio as gr"),
        ("engine/decode.py", "def f():\n    from app.views import ribbon"),
        ("app/views/ribbon.py", "import gradio"),
        ("app/views/ribbon.py", "from torch import nn"),
        ("app/handlers.py", "from engine.worker import get_worker"),
        ("app/handlers.py", "from engine import worker"),
        ("app/tabs/playground.py", "def f():\n    import engine.catalogue"),
        ("app/service.py", "import gradio"),
        ("app/service.py", "def f():\n    from engine.models import choose_device"),
        ("lessons/loader.py", "from engine.decode import Decoding"),
        ("lessons/loader.py", "from app.views import ribbon"),
    ],
)
def test_a_planted_violation_is_found(path, source):
    assert violations(path, source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("app/service.py", "def f():\n    from engine.worker import get_worker"),
        ("app/views/ribbon.py", "from engine.trace import Trace"),
        ("lessons/loader.py", "from engine.trace import Trace\nfrom engine import toy"),
    ],
)
def test_what_is_allowed_passes(path, source):
    assert violations(path, source) == []


def test_app_is_a_package():
    """Without app/__init__.py, `import app` would find app.py."""
    assert (ROOT / "app" / "__init__.py").exists()


@pytest.mark.parametrize("module", [*LIGHT, *VIEWS, "app.files", "app.service", "app.session"])
def test_light_modules_need_no_torch(module):
    heavy = "{'torch', 'transformers', 'gradio'}"
    code = f"import sys, {module}; found = {heavy} & set(sys.modules); assert not found, found"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
