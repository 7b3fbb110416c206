"""The Markdown files: links lead somewhere, the README is short, settings and speeds are those of code and records."""

import doctest
import json
import re
import subprocess
from importlib import import_module

import api_table
import pytest
from paths import ROOT
from sample_traces import small
from tiny_pairs import model_folder

from app.api.endpoints import _figures
from app.api.openapi import ARGUMENTS

LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")  # not https: and the like
LINES = 130  # at most, in the README
NAMES = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, text=True)
# Lessons have a grammar of their own, which lessons/test_lessons.py checks.
FILES = [name for name in NAMES.splitlines() if (ROOT / name).exists() and not re.match(r"lessons/\d", name)]


def anchors(text: str) -> set[str]:
    """Returns the anchors of a file's headings, by GitHub's rule: lower case, only letters, digits and hyphens."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(name: str) -> list[str]:
    text, broken = (ROOT / name).read_text(encoding="utf-8"), []
    for path, anchor in LINK.findall(text):
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(f"{path}#{anchor}")
    return broken


def table(name: str) -> dict[str, list[str]]:
    """The cells of each row that begins with a method's name, those of a file's first table of tokens/s."""
    text = (ROOT / name).read_text(encoding="utf-8")
    rows = re.search(r"^\| method \|.*tokens/s.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M)[1]
    return {row.split("`")[1]: [cell.strip() for cell in row.split("|")[2:-1]] for row in rows.splitlines()}


@pytest.mark.parametrize("name", FILES)
def test_every_link_leads_to_a_file_and_a_heading(name):
    assert broken_links(name) == []


def test_a_broken_link_or_heading_is_noticed_and_the_readme_is_short(tmp_path, monkeypatch):
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= LINES
    monkeypatch.setattr("test_documents.ROOT", tmp_path)
    (tmp_path / "a.md").write_text("# What now?\n[x](a.md#what-now) [y](a.md#gone) [z](b.md) [w](https://a.b/c)")
    assert broken_links("a.md") == ["a.md#gone", "b.md#"]


def missing_modules(text: str) -> list[str]:
    """The modules of the project that a text names in backticks, as `engine.device`, and that do not exist. The last
    part may be a name of the module."""
    named = re.findall(r"`((?:engine|app|lessons)(?:\.[a-z_0-9]+)+)(?:\.[A-Z]\w*)?`", text)
    paths = [ROOT.joinpath(*name.split(".")) for name in named]
    return [
        name for name, path in zip(named, paths, strict=True)
        if not (path.is_dir() or any(each.with_suffix(".py").exists() for each in (path, path.parent)))
    ]  # fmt: skip


def test_every_module_that_is_named_exists():
    listed = subprocess.check_output(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, text=True).splitlines()
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in listed if (ROOT / name).exists()}
    assert {name: missing for name, text in texts.items() if (missing := missing_modules(text))} == {}
    named = "`engine.device.to_host` and `engine.runtime.nowhere" + ".CPU`"  # in two parts: this file is read, too
    assert missing_modules(named) == ["engine.runtime.nowhere"]


FOREIGN = {"Node.js", "plotly.js", "zero_to_fp32.py", "cpu_triton_utils.py"}
FOREIGN |= {"engine/worker.js", "engine/drafters/echo.py", "my_rule.py"}  # of the tab's site, a recipe, a learner


def missing_files(text: str, known: set[str]) -> list[str]:
    """The scripts and styles that a text names and that do not exist. ``known``: paths, and every end of one."""
    named = re.findall(r"(?<![\w*./-])((?:[\w-]+/)*[\w-]+\.(?:js|py|css))\b", text)
    return [name for name in named if name not in known | FOREIGN and "NAME" not in name]


def test_every_script_and_style_that_is_named_exists():
    listed = subprocess.check_output(
        ["git", "ls-files", "engine", "app", "lessons", "assets/web", "tests", "*.py", "*.md"], cwd=ROOT, text=True
    )
    paths = [path for path in listed.splitlines() if (ROOT / path).exists()]
    known = {"/".join(parts[i:]) for parts in (path.split("/") for path in paths) for i in range(len(parts))}
    texts = {
        path: (ROOT / path).read_text("utf-8")
        for path in paths
        if path.endswith(".md") or (path.endswith((".js", ".py", ".css")) and not path.startswith("tests/"))
    }
    assert {path: missing for path, text in texts.items() if (missing := missing_files(text, known))} == {}
    named = "as gone.js, lessons/config.py, engine/config.py and config.py do"
    assert missing_files(named, known) == ["gone.js", "lessons/config.py"]


SOURCES = ("*.py", "*.js", "*.html", "*.css", "*.toml", "*.yaml", "*.txt", "Makefile", ":(glob)assets/data/*.json")


def unknown_names(text: str, words: set[str]) -> list[str]:
    """Returns the names in backticks, as `verify_chain` or `Job.end`, that have a part which no source has. A name
    that ends with "_" is the beginning of several."""
    named = re.findall(r"`([A-Za-z_][\w.]*\w)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    return [name for name in named if not name.endswith("_") and not words.issuperset(name.split("."))]


def test_every_name_in_backticks_is_one_of_the_sources():
    listed = subprocess.check_output(["git", "ls-files", *SOURCES], cwd=ROOT, text=True).splitlines()
    texts = [path.read_text(encoding="utf-8") for path in map(ROOT.joinpath, listed) if path.exists()]
    words = set(re.findall(r"\w+", "\n".join([*listed, *texts])))
    documents = [name for name in FILES if not name.startswith("assets/")]  # those name torch's functions
    assert {name: bad for name in documents if (bad := unknown_names((ROOT / name).read_text("utf-8"), words))} == {}
    assert unknown_names("`Job.end`, `Job.gone`, `gone`, `is_`", {"Job", "end"}) == ["Job.gone", "gone"]


def test_every_setting_is_described_and_every_description_is_a_setting():
    code = [path.read_text(encoding="utf-8") for folder in ("app", "engine") for path in (ROOT / folder).rglob("*.py")]
    described = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(SPECLENS_[A-Z_]+)`", described, re.M)
    assert len(rows) == len(set(rows)), "a setting has one row"
    assert set(re.findall(r"SPECLENS_[A-Z_]+", described)) == set(re.findall(r"SPECLENS_[A-Z_]+", "\n".join(code)))


def test_the_speeds_are_those_of_the_recorded_benchmark():
    recorded = json.loads((ROOT / "assets/data/benchmarks/laptop.json").read_text())["rows"]
    shown = table("docs/measurements.md")
    overall = [row for row in recorded if row["category"] == "all"]
    assert set(shown) == {row["method"] for row in overall}
    for row in overall:
        speed, speedup, predicted, tau, alpha = shown[row["method"]][:5]
        assert speed == f"{row['tokens_per_second']:.1f}" and tau == f"{row['tau']:.2f}"
        assert speedup.split(" ")[0] == f"{row['speedup']:.2f}"
        if row["method"] != "none":
            assert speedup.split(" ")[1] == "({:.2f}–{:.2f})".format(*row["ci95"])
        assert predicted in ("–", f"{row['predicted_speedup'] or 0:.2f}")
        assert alpha in ("–", f"{row['acceptance'] or 0:.2f}")
    for method, cells in table("README.md").items():
        assert cells[-2:] == shown[method][:2]


EXAMPLES = [
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for folder in ("app", "engine", "lessons")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if re.search(r">>> [^#]", path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings_are_true(module):
    found = doctest.testmod(import_module(module))
    assert found.attempted and not found.failed


def code_of(name: str, language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.S)[1]


@pytest.mark.slow
def test_the_python_example_runs_as_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    model_folder(tmp_path / "target")
    code = code_of("docs/python.md", "python").replace('PAIR = "smollm2-135m"', f"PAIR = {str(tmp_path / 'target')!r}")
    exec(compile(code, "docs/python.md", "exec"), {})
    assert "tokens per pass" in capsys.readouterr().out


def test_bench_is_still_imported_by_its_name_from_before_the_tools():
    from engine.bench.answer_points import AnswerPlan, AnswerPoints

    assert AnswerPlan.__name__ in (ROOT / "docs/python.md").read_text(encoding="utf-8") and AnswerPoints.run


def test_the_table_of_arguments_is_the_list_of_settings():
    assert api_table.FILE.read_text(encoding="utf-8") == api_table.text(), "run `python tests/helpers/api_table.py`"


def test_every_argument_and_figure_of_the_api_is_described():
    described = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    example = json.loads(re.search(r"-d '(.*)'", described)[1])
    assert all(f"`{name}`" in described for name in ARGUMENTS) and example.keys() <= ARGUMENTS.keys()
    trace = small()
    assert all(f"`{name}`" in described for name in _figures(trace, trace))
