"""Collect reports: the reports of a class become a table and a CSV in the browser, and a bad file is named."""

import csv
import io
import json

import pytest
from page_actions import OVERFLOW, downloaded, violations, wait_for
from player_page import page_with
from playwright.sync_api import expect
from reported_visit import NAME, RULE, make_guess, write_rules

from lessons.schema import TRACES

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("static-site")]
RUN = TRACES / "code_lm.json"
REPORT = {
    "kind": "speclens-report", "version": 1, "at": "2026-11-30 08:00 UTC", "name": "Ada",
    "words": "It's\nclear, \"now\"",
    "lessons": [
        {"title": "3. Accept, reject", "isOver": True, "guesses": [{"isRight": True}, {"isRight": False}],
         "quiz": {"first": 2, "of": 3}},
        {"title": "4. Lossless?", "steps": 3, "of": 8, "isOver": False, "guesses": [{"isRight": True}], "quiz": None},
        {"title": "12. Trees", "isOver": True, "guesses": [], "quiz": {"first": 1, "of": 1}},
    ],
    "exercises": {"best_gamma": {"right": 2, "first": 1, "tries": 5}, "tree": {"right": 1, "first": 1, "tries": 1}},
    "sets": [{"seed": 417, "answers": {}}, {"seed": 5946, "answers": {}}],
    "rules": [{"rule": "One", "texts": ["</script><!-- p"], "isRight": True},
              {"rule": "Two", "texts": [], "isRight": False}],
    "runs": [],
}  # fmt: skip
FORMULAS = ("=1+1", "+1", "-1", "@A1", "  =1", "|x", "%x", "＝1", "\t=1")


@pytest.fixture(scope="module")
def table(browser):
    with page_with(browser, "lessons/report/report_table.js", "lessons/report/report_file.js") as page:
        yield page


def read(page, *reports: dict) -> list[list]:
    return page.evaluate(
        "texts => texts.map(text => readReport('a.json', text).row)", [json.dumps(each) for each in reports]
    )


def test_a_report_is_counted_into_its_row_and_sums(table):
    (row,) = read(table, REPORT)
    assert row == [
        ["Ada"], [2], ["3, 12"], ["lesson 4: 3 of 8"], [2, 3], [3, 4], [3], [2], [6], ["417, 5946"], [1, 2], [0],
        ["2026-11-30 08:00 UTC"], [REPORT["words"]],
    ]  # fmt: skip
    sums = table.evaluate("rows => sumsOf(rows)", [row, row])
    assert sums == [[], [4], [], [], [4, 6], [6, 8], [6], [4], [12], [], [2, 4], [0], [], []]


def test_a_report_as_a_page_is_the_same_row_as_its_data(table):
    written = {"question": "<b>", "guess": "</script>", "isRight": True, "step": 1}
    lessons = [each | {"guesses": [written] * len(each["guesses"])} for each in REPORT["lessons"]]
    lessons = [{"steps": 4, "of": 4} | each for each in lessons]
    texts = dict.fromkeys(("file", "settings", "at", "prompt", "text"), "a.json")
    run = texts | {"tokens": 1, "alpha": None, "tau": None, "tokensPerSecond": None, "isShared": False}
    report = REPORT | {"name": "</script><b>Ada", "lessons": lessons, "runs": [run]}
    whole = report | {"runs": [run | {"trace": {"started": "<"}}]}
    page = table.evaluate("data => reportPage(data, [])", whole)
    assert page.count("</script>") == 1
    first, second = table.evaluate("texts => texts.map(text => readReport('a', text))", [page, json.dumps(whole)])
    assert first == second and first["row"][0] == [report["name"]] and json.loads(first["data"]) == report


def test_rows_are_sorted_by_name_and_by_number(table):
    runs = {"Zoë": 1, "émile": 3, "Bo 10": 0, "Bo 9": 2}
    rows = read(table, *(REPORT | {"name": name, "runs": [{}] * count} for name, count in runs.items()))

    def names(column: int, is_reversed: bool) -> list[str]:
        return [row[0][0] for row in table.evaluate("of => sortRows(...of)", [rows, column, is_reversed])]

    assert names(0, False) == ["Bo 9", "Bo 10", "émile", "Zoë"] and names(0, True) == names(0, False)[::-1]
    assert names(11, False) == ["émile", "Bo 9", "Zoë", "Bo 10"]


def test_a_csv_keeps_every_text_and_runs_none_as_a_formula(table):
    rows = read(table, REPORT, *(REPORT | {"words": f"{each} and more"} for each in FORMULAS[:-1]))
    text = table.evaluate("rows => csvText(rows)", rows)
    assert text.startswith("\ufeff") and text.endswith("\r\n")
    heads, first, *others = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    assert len(heads) == len(set(heads)) == len(first) == 17 and heads[4:6] == ["First guesses right", "First guesses"]
    assert first[0] == "Ada" and first[4:8] == ["2", "3", "3", "4"] and first[-1] == REPORT["words"]
    assert [row[-1] for row in others] == [f"'{each.strip()} and more" for each in FORMULAS[:-1]]
    cells = table.evaluate("texts => texts.map(text => csvText([[[text]]]).split('\\r\\n')[1])", list(FORMULAS))
    assert cells == [f'"\'{each}"' for each in FORMULAS]


def page_of(data: str) -> str:
    block = data.replace("<", "\\u003c")
    return f'<!doctype html><script type="application/json" id="speclens-report">{block}</script></html>'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("<!doctype html><title>A page</title>", "is a page without a report’s data. Ask for the file"),
        (page_of("{"), "is a damaged report."),
        (page_of("null"), "is a damaged report."),
        (page_of(json.dumps(REPORT))[:-20], "is a page without a report’s data."),
        (page_of(json.dumps(REPORT | {"kind": "x"})), "isn’t a report."),
        ("{", "isn’t a report."),
        ("null", "isn’t a report."),
        ('{"started": {}, "rounds": []}', "is the trace of a run, not a report."),
        (json.dumps(REPORT | {"version": 2}), "is a report of another version of this page."),
        *(
            (json.dumps(REPORT | {name: value}), "is a damaged report.")
            for name, value in (
                ("name", {"a": 1}), ("lessons", "x"), ("lessons", [None]), ("lessons", [{"guesses": [None]}]),
                ("runs", None), ("exercises", None),
                ("exercises", {"tree": {"right": "3"}}), ("exercises", {"tree": {"right": -1}}),
            )
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_no_report_is_refused_with_the_reason(table, content, words):
    with pytest.raises(Exception, match=f"a.json {words[:20]}") as refused:
        table.evaluate("text => readReport('a.json', text)", content)
    assert words in str(refused.value)


def test_hostile_numbers_and_texts_are_cut(table):
    (row,) = read(
        table,
        REPORT
        | {"name": "x" * 10_000, "words": "y" * 10_000, "lessons": [{"title": "=1+1", "isOver": True, "guesses": []}]},
    )
    assert len(row[0][0]) == 80 and len(row[-1][0]) == 2000 and row[2] == [""]
    assert read(table, REPORT | {"name": " "})[0][0] == ["no name (a.json)"]


def test_a_teacher_gets_a_table_of_the_reports_that_the_page_made(open_offline, site, tmp_path):
    page = open_offline(site, several=True)
    make_guess(page)
    write_rules(page, RULE)
    own = page.locator(".sl-own-report")
    own.locator("summary").click()
    own.get_by_label("My runs").set_input_files(RUN)
    expect(own.locator("li")).to_have_count(1)
    files = []
    for i, name in enumerate((NAME, "Zoë", "=1+1", "Zoë")):  # two students of one name
        own.get_by_label("Name").fill(name)
        own.get_by_label("In my own words").fill(f"Text {i} {'x' * 150}")
        files.append(tmp_path / f"{i}.json")
        files[-1].write_text(downloaded(own.get_by_role("button", name="Save it as data")), encoding="utf-8")
    own.get_by_label("Name").fill("Bo")
    html = tmp_path / "report.html"
    html.write_text(downloaded(own.get_by_role("button", name="Save my report")), encoding="utf-8")

    page.locator(".sl-lesson-papers > summary").click()
    box = page.locator(".sl-collect")
    box.locator("summary").focus()
    page.keyboard.press("Enter")
    box.get_by_label("Reports").set_input_files([files[0], html, RUN, *files[1:], files[1]])
    expect(box.get_by_role("status")).to_contain_text("5 reports.")
    expect(box.locator("li")).to_have_text(
        [
            "code_lm.json is the trace of a run, not a report.",
            "1.json is in the table already.",
        ]
    )
    names = box.locator("tbody th")
    sorted_names = names.all_inner_texts()
    assert sorted(sorted_names) == sorted([NAME, "Bo", "Zoë", "=1+1", "Zoë"]) and sorted_names[-2:] == ["Zoë", "Zoë"]
    guesses, rules, runs = ("1 of 1", "5 of 5"), ("1 of 1", "5 of 5"), ("1", "5")
    for line, place in ((box.locator("tbody tr").first, 0), (box.locator("tfoot tr"), 1)):
        cells = line.locator("td").all_inner_texts()
        assert (cells[3], cells[9], cells[10]) == (guesses[place], rules[place], runs[place]), cells
    box.get_by_role("button", name="Name").focus()
    page.keyboard.press("Enter")
    assert names.all_inner_texts() == sorted_names[::-1]
    expect(box.get_by_role("button", name="Name")).to_be_focused()
    expect(box.locator("th[aria-sort=descending]")).to_have_count(1)
    heads, *rows = csv.reader(io.StringIO(downloaded(box.get_by_role("button", name="Save as CSV"))))
    assert [row[0] for row in rows] == [f"'{name}" if name[0] == "=" else name for name in sorted_names[::-1]]
    assert all(dict(zip(heads, row, strict=True))["First guesses"] == "1" for row in rows)
    assert all(row[-1].endswith("x" * 150) for row in rows), "words that are cut on screen are whole here"
    assert page.evaluate("window.pwned") is None and box.locator("script").count() == 0
    page.set_viewport_size({"width": 1366, "height": 768})
    wait_for(
        page,
        "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.querySelector('.sl-report-table'))",
    )
    for scheme, width in (("light", 1280), ("dark", 390)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        wait_for(page, f"{OVERFLOW} <= 0")
        assert violations(page, ".sl-collect") == [], scheme
    box.get_by_role("button", name="Clear the table").click()
    expect(box.locator("table")).to_have_count(0)
    page.evaluate(
        """([name, text]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], name));
          document.querySelector('.sl-collect').dispatchEvent(
            new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""",
        ["0.json", files[0].read_text(encoding="utf-8")],
    )
    expect(names).to_have_text([NAME])
