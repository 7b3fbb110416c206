"""Modules joined into one script: each once, after those it imports; what the joiner does not know is refused."""

import re

import pytest

from app.ui.html_component import PARTS, WEB, bundle
from app.ui.js_bundle import bundle as bundle_below

ONE = "export const one = 1;\n"


@pytest.fixture
def join_files(tmp_path):
    """``joined(files)`` writes them and joins them from a.js on."""

    def join(files: dict[str, str]) -> str:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return bundle_below(tmp_path, ["a.js"])

    return join


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("\nimport b from './b.js';", "a.js:2: js_bundle.py does not know this form"),
        ("let a = 1;\n\nexport { a };", "a.js:3: js_bundle.py does not know this form"),
        ("import { one } from './b.js';\nimport { two } from './b.js';", "a.js:2: b.js does not export two"),
        ("import { one } from './c.js';", "a.js:1: there is no ./c.js"),
        ("import D from './d.json' with { type: 'json' };", "a.js:1: there is no ./d.json"),
        ("import { back } from './circle.js';", "circle.js:1: a.js → circle.js → a.js is a circle"),
    ],
)
def test_joiner_refuses_unknown_forms_and_circles_with_file_and_line(join_files, module, problem):
    circle = "import { a } from './a.js';\nexport const back = a;\n"
    with pytest.raises(ValueError) as refused:
        join_files({"a.js": f"{module}\n", "b.js": ONE, "circle.js": circle})
    assert problem in str(refused.value)


def test_every_module_belongs_to_a_part_or_to_a_file_of_its_own():
    files = [path.relative_to(WEB).as_posix() for path in WEB.rglob("*.js")]
    alone = [name for name in files if name.startswith("offline/")]
    alone += ["tab/worker.js", "tab/tab.js", "tab/service_worker.js"]
    code = bundle(*(f"{path}.js" for path in PARTS.values()), *alone)
    assert len(re.findall(r"^const m\d+ = \(", code, re.MULTILINE)) == len(files), "else a module is in no script"


def test_script_gives_the_exports_of_the_modules_asked_for_alone(join_files):
    script = join_files({"a.js": "import { one } from './b.js';\nexport const two = one + one;\n", "b.js": ONE})
    assert script.endswith("const modules = { 'a.js': m1 };") and "b.js" not in script


def test_data_is_joined_on_one_line_in_which_no_tag_ends_the_script(join_files):
    code = "import DATA from './d.json' with { type: 'json' };\nexport const one = DATA.one;\n"
    script = join_files({"d.json": '{\n  "one": "</script>"\n}', "a.js": code})
    assert 'const DATA = {"one": "\\u003c/script>"};\nconst one' in script


def test_joined_script_leaves_out_comments_and_indentation(join_files):
    code = "// Says it.\nexport function say() {\n  const at = 'https://a.b // c';  // its place\n  return at;\n}\n"
    assert "{\nfunction say() {const at = 'https://a.b // c';\nreturn at;\n}\n" in join_files({"a.js": code})
    kept = join_files({"a.js": "export const all = [\n  1, // the server's, too,\n  2,\n];\n"})
    assert "const all = [1, // the server's, too,\n2,];\n" in kept, "the break after a comment that is left"
