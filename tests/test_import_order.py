"""Imports flow one way, lazy ones included; the order is the list in helpers/import_map.py."""

import subprocess
import sys

import import_map
import pytest
from paths import ROOT

BOUNDS = {  # (entries, arrows)
    "engine": (17, 59),
    "engine/models": (5, 10),
    "engine/tools": (6, 10),
    "app": (14, 42),
    "assets/web": (7, 13),
    "assets/web/lessons": (7, 15),
}
CORE_LINES = 17_450
NEVER = {
    "engine": ("gradio", "app", "lessons", "plotly"),
    "app": ("torch", "transformers"),
    "lessons": ("app", "gradio"),
}
LESSONS_MAY = tuple(
    f"engine.{name}" for name in ("config", "constraint", "errors", "files", "trace", "tools.exactness")
)
RECORDERS = ("__main__.py", "wrong_copy.py")  # what runs the engine for a recording; no page imports it
# What calls the engine itself: everything else of the page goes through these.
LABS = ("answer", "distribution", "sweep", "theory")
CALLERS = ("app/jobs/", "app/cluster/", "app/tab/", *(f"app/lab/{name}/work.py" for name in LABS))
EXACTNESS = {path.stem for path in (ROOT / "engine" / "tools" / "exactness").glob("*.py")} - {"results"}
BENCH = ("benchmark", "comparison", "fixed_acceptance", "sweep", "systems")
ENGINE_PARTS = (
    *("engine.weights", "engine.sampling", "engine.models", "engine.drafters", "engine.decoding", "engine.runtime"),
    *("engine.tools.training", "engine.tools.cli"),
    *(f"engine.tools.bench.{name}" for name in BENCH),
    *(f"engine.tools.exactness.{name}" for name in EXACTNESS),
)
TAB_MAKER = "app/tab/model.py"  # which describes a model for a browser
# What each visitor sees. It does without tools and the parts beside it: ORDER has the Lab, lessons and tab above it.
PAGE = ("app/form.py", *(f"app/{name}/" for name in ("server", "views", "jobs", "ui", "playground")))
# Another way to transformers than the engine thread's own would meet it half imported.
ONLY_BY_RUNTIME = ("engine.models.loader", "engine.models.decoder.runner", "engine.drafters", "engine.decoding")
# The command line first, and then modules that also do without numpy: what each imports stays imported.
LIGHT = """
    engine.tools.cli.main engine.config engine.settings engine.errors engine.files
    engine.trace.events engine.trace.trace engine.trace.engine_recipes
    engine.trace.metrics engine.trace.speedup_model engine.weights.catalogue engine.weights.preflight
    engine.tools.bench.prompts engine.tools.bench.sample engine.tools.bench.sweep_results engine.tools.bench.result_file
    app.views.player_feed app.views.tiles app.views.run_charts app.views.lanes
    app.views.token_csv app.playground.trace_files app.jobs.service app.jobs.visitor
"""
TRACE = sorted((ROOT / "assets" / "data" / "traces").glob("*.json"))[0]


def violations(path: str, source: str) -> list[str]:
    """Imports that the file at ``path`` (relative to the root) must not have."""
    package, name = path.split("/")[0], path.rsplit("/", 1)[-1]
    found = import_map.modules(source)

    def uses(*parts: str) -> set[str]:
        return {module for module in found if any(f"{module}.".startswith(f"{part}.") for part in parts)}

    wrong = uses(*NEVER[package]) if path != TAB_MAKER else set()
    if path.startswith(PAGE):
        wrong |= uses("engine.tools")
    if package == "app" and path != TAB_MAKER:
        wrong |= uses(*(ONLY_BY_RUNTIME if path.startswith(CALLERS) else ENGINE_PARTS))
        if path.startswith(("app/views/", "app/jobs/")) or name in ("view.py", "work.py", "request.py"):
            wrong |= uses("gradio")
        if path.startswith("app/ui/"):
            wrong |= uses("app.jobs", "engine.trace")
    if package == "lessons" and name not in RECORDERS:
        wrong |= uses("engine") - uses(*LESSONS_MAY) - {"engine"}
    return sorted(f"{path} imports {module}" for module in wrong)


@pytest.mark.parametrize("package", import_map.ORDER)
def test_imports_flow_one_way(package):
    found = import_map.arrows(package)
    assert {name for row in import_map.ORDER[package] for name in row} == set(import_map.entries(package))
    upwards = {
        f"{a} → {b}": [path.relative_to(ROOT).as_posix() for path in paths]
        for (a, b), paths in found.items()
        if import_map.level(package, b) > import_map.level(package, a)
    }
    assert upwards == {} and import_map.circles(found) == []
    entries, arrows = BOUNDS[package]
    assert len(import_map.entries(package)) <= entries and len(found) <= arrows


def test_scripts_import_in_a_circle_nowhere_and_fit_the_eye():
    scripts = sorted((ROOT / "assets" / "web").rglob("*.js"))
    pairs = {
        (path.relative_to(ROOT).as_posix(), other) for path in scripts for other in import_map.script_imports(path)
    }
    assert len(pairs) > 200 and import_map.circles(pairs) == []
    assert import_map.circles({("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")}) == ["b", "c"]
    assert [path.name for path in scripts if path.read_text(encoding="utf-8").count("\n") > 250] == []


def test_the_engine_imports_neither_of_the_others_and_the_lessons_no_app():
    assert import_map.packages_arrows() == {("app", "engine"), ("app", "lessons"), ("lessons", "engine")}


def test_the_core_stays_small_enough_to_own():
    assert import_map.core_size() <= CORE_LINES


def test_no_file_imports_what_its_place_forbids():
    files = [path for folder in NEVER for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 100, "the walk found too little to mean anything"
    assert [v for p in files for v in violations(p.relative_to(ROOT).as_posix(), p.read_text("utf-8"))] == []


def test_no_test_file_imports_another():
    """What they share is in a file of its own, whose name says what it holds."""
    found = {path: import_map.modules(path.read_text("utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    tests = {path.stem for path in found if path.stem.startswith("test_")}
    assert import_map.modules("from test_main import call") & tests
    assert {path.name: modules & tests for path, modules in found.items() if modules & tests} == {}


@pytest.mark.parametrize(("path", "source"), [
    ("engine/decoding/loop.py", "def f():\n    from app.views import player_feed"),
    ("app/views/tiles.py", "from torch import nn"),
    ("app/playground/page.py", "def f():\n    import engine.weights.catalogue"),
    ("app/lab/sweep/view.py", "import gradio"),
    ("app/views/figures.py", "from engine.tools.bench.sample import Sample"),
    ("lessons/loader.py", "from engine.decoding.loop import SpeculativeDecoder"),
])  # fmt: skip
def test_a_planted_violation_is_found(path, source):
    assert violations(path, source)


def test_light_modules_need_no_torch():
    """One process imports them in turn, so that what each of them adds is seen, and then replays a trace."""
    code = (
        "import importlib, sys\n"
        f"for name in {LIGHT.split()}:\n"
        "    importlib.import_module(name)\n"
        "    heavy = ['torch', 'transformers', 'gradio']\n"
        "    heavy += ['numpy'] * name.startswith(('engine.trace', 'engine.weights'))\n"
        "    heavy += ['pydantic'] * (name == 'engine.tools.cli.main')\n"
        "    assert not set(heavy) & set(sys.modules), (name, set(heavy) & set(sys.modules))\n"
        "from typer.testing import CliRunner\n"
        f"replayed = CliRunner().invoke(sys.modules['engine.tools.cli.main'].app, ['replay', {str(TRACE)!r}])\n"
        "assert replayed.exit_code == 0 and not {'torch', 'transformers'} & set(sys.modules), replayed.output"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
