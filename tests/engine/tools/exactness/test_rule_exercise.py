"""A learner's rule is graded by what it does: a right one passes in any writing, a wrong one is named."""

import itertools
import random
import time

import command_line
import pytest
import torch
from learner_rules import RIGHT, RIGHT_WRITINGS, WRONG, source, with_holes

from engine import reference
from engine.config import ACCEPTANCE
from engine.sampling.rejection import verify_chain
from engine.tools.exactness import known_rules, rule_exercise
from engine.tools.exactness.known_rules import DRAFTS, RIGHT_RULE, START, TARGET, WRONG_RULES, decide, law_of, rows
from engine.tools.exactness.mutants import MUTANTS
from engine.tools.exactness.results import MISTAKES

MUTANTS_BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def call(*args):
    return command_line.call("exercise", "rule", *args)


@pytest.fixture
def graded(tmp_path):
    """``graded(text)`` is what the command answers to a file with this text."""

    def grade(text: str | bytes, name: str = "my_rule.py"):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return call(file)

    return grade


def few_rounds(monkeypatch, count: int = 300):
    monkeypatch.setattr(rule_exercise, "ROUNDS", count)


@pytest.mark.parametrize("holes", [python for python, _ in RIGHT_WRITINGS], ids=lambda holes: holes[0])
def test_a_right_rule_passes_however_it_is_written(graded, holes, monkeypatch):
    few_rounds(monkeypatch)
    result = graded(source(*holes))
    assert result.exit_code == 0 and "Your rule is right." in result.stdout and "WRONG" not in result.stdout, (
        result.output
    )


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_named_by_its_law(graded, name, monkeypatch):
    few_rounds(monkeypatch, 3_000)
    result = graded(source(*with_holes(RIGHT, WRONG[name][0])))
    assert result.exit_code == 3 and f"the known mistake {name}: {WRONG_RULES[name].words}" in result.stdout


def test_a_decision_is_graded_with_its_numbers(graded, monkeypatch):
    few_rounds(monkeypatch)
    said = graded(source("True", "p[i]", "q[N - 1]")).stdout
    assert (
        "WRONG  token 2, “sun”: you accepted it at u = 0.69; the rule rejects it, because p/q = 0.50 is not above u."
        in said
    )
    assert (
        "WRONG  token 6, after the full round: you draw from sun 0.40, rain 0.40 and wind 0.20; the rule draws" in said
    )
    said = graded(source(RIGHT[0], "p[i]", RIGHT[2])).stdout
    assert (
        "WRONG  token 2, after the rejection: you draw from sun 0.20, rain 0.50 and wind 0.30; the rule draws " in said
    )


@pytest.mark.slow
def test_another_exact_rule_and_a_small_mistake_are_told_from_the_rule(graded):
    """Plain decoding is exact; so small a mistake needs more rounds. Neither is called the rule."""
    for holes in (("False", "p[i]", "p[N]"), ("u[i] < p[i][token] / q[i][token] + 0.01", *RIGHT[1:])):
        result = graded(source(*holes))
        assert result.exit_code == 0 and "lossless, as far as so many can tell. But " in result.stdout
        assert "decided otherwise" in result.stdout and "is right" not in result.stdout
    result = graded(source("u[i] < 0.5", "p[i] * q[i]", RIGHT[2]))
    assert result.exit_code == 3 and "No single mistake that we know" in result.stdout


def test_one_that_prints_is_heard_for_the_recorded_run_alone(graded, monkeypatch):
    few_rounds(monkeypatch)
    told = graded(source(*RIGHT).replace("    N = len", "    print('here')\n    N = len")).stdout
    assert told.count("here") == len(known_rules.RECORDED)


BAD = [  # (a file, the sentence about it)
    (source("...", *RIGHT[1:]), "still has ... in line 16"),
    (source("...", "...", "..."), "still has ... in line 16, 18 and 20"),
    (source("u[i] <", *RIGHT[1:]), "line 16: Python cannot read this"),
    (source("u[i] < P[i]", *RIGHT[1:]), "line 16: NameError: name 'P' is not defined"),
    (source("p[9][token] > 0", *RIGHT[1:]), "line 16: IndexError"),
    (source(RIGHT[0], "1 / 0", RIGHT[2]), "line 18: ZeroDivisionError"),
    (source(RIGHT[0], "p[i] - q[i]", RIGHT[2]), "line 19: the row has -0.20 for “sun”, which is no probability. p − q"),
    (source(RIGHT[0], "p[i] * float('nan')", RIGHT[2]), "line 19: the row has nan for “sun”"),
    (source(RIGHT[0], "p[i] * float('inf')", RIGHT[2]), "line 19: the row has inf for “sun”"),
    (source(RIGHT[0], "0 * p[i]", RIGHT[2]), "line 19: the row is 0 for every word"),
    (source(*RIGHT[:2], "p"), "line 21: the row must have 3 numbers"),
    (source(*RIGHT[:2], "p[N][0]"), "line 21: the row must have 3 numbers"),
    (source(*RIGHT[:2], "'sun'"), "line 21: this must return how many drafts are accepted, and a row"),
    (source(*RIGHT[:2], "None"), "line 21: this must return"),
    (source(*RIGHT).replace("return N, row", "return row"), "line 21: this must return"),
    (source(*RIGHT).replace("return N, row", "return 7, row"), "line 21: 7 drafts cannot be accepted"),
    (source(*RIGHT).replace("return N, row", "return 1.5, row"), "line 21: this must return"),
    (source(*RIGHT).replace("return N, row", "pass"), "this must return"),
    (source(*RIGHT).replace("return N, row", "yield nothing"), "this must return"),
    (source(*RIGHT).replace("return N, row", "exit()"), "line 21: SystemExit"),
    (source(*RIGHT).replace("(p, q, drafts, u)", "(p, q)"), "line 12: TypeError: accept_and_close() takes 2"),
    (source(*RIGHT).replace("accept_and_close", "accept"), "has no function accept_and_close(p, q, drafts, u)"),
    (source(*RIGHT).replace("N = len(drafts)", "return accept_and_close(p, q, drafts, u)"), "line 14: RecursionError"),
    ("import nosuchmodule\n", "line 1: ModuleNotFoundError: No module named 'nosuchmodule'"),
    ("x = 1\x00", "Python cannot read this"),
    (b"\xff\xd8\xff\xe0 a picture", "is no text"),
    ("", "has no function"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), BAD, ids=[words[:40] for _, words in BAD])
def test_a_fault_of_the_file_is_a_sentence_with_its_line(graded, text, words):
    result = graded(text)
    assert result.exit_code == 2 and words in result.stderr and "Traceback" not in result.stderr, result.output


def test_a_loop_without_an_end_is_ended_and_its_line_named(graded, monkeypatch):
    monkeypatch.setattr(rule_exercise, "_LONGEST_CALL", 0.2)
    for line in ("while True: pass", "x = sum(1 for _ in iter(int, 1))"):
        begin = time.monotonic()
        result = graded(source(*RIGHT).replace("N = len(drafts)", f"N = len(drafts)\n    {line}"))
        assert result.exit_code == 2 and "line 15: this had not ended" in result.stderr
        assert time.monotonic() - begin < 30


def test_start_writes_the_file_and_replaces_none(tmp_path):
    file = tmp_path / "mine.py"
    assert call("--start", file).exit_code == 0 and "exercise rule mine.py" in file.read_text(encoding="utf-8")
    assert "still has ... in line 15, 17 and 19" in call(file).stderr
    again = call("--start", file)
    assert again.exit_code == 2 and "exists already" in again.stderr
    assert "folder that exists" in call("--start", tmp_path / "none" / "x.py").stderr
    assert call(tmp_path / "nosuch.py").exit_code == call(tmp_path).exit_code == 2
    assert call().exit_code == 2


def test_files_of_other_editors_are_read(graded, monkeypatch):
    few_rounds(monkeypatch)
    for text in (
        source(*RIGHT).encode("utf-16"),
        source(*RIGHT).encode("utf-8-sig"),
        source(*RIGHT).replace("\n", "\r\n").encode(),
    ):
        assert graded(text).exit_code == 0


def test_the_file_with_its_lines_decides_as_the_reference_does():
    names, numbers = {}, torch.Generator().manual_seed(0)
    exec(source("not u[i] * q[i][token] >= p[i][token]", RIGHT[1], RIGHT[2]), names)
    for _ in range(200):
        p, q = (torch.rand(n, 4, generator=numbers).softmax(-1) for n in (4, 3))
        drafts, u = torch.randint(4, (3,), generator=numbers).tolist(), torch.rand(3, generator=numbers)
        accepted, row = names[rule_exercise.FUNCTION](p, q, drafts, u)
        assert accepted == reference.count_accepted(p, list(q), drafts, u)
        wanted = reference.residual(p[accepted], q[accepted]) if accepted < 3 else p[3]
        torch.testing.assert_close(row / row.sum(), wanted)


def test_laws_add_up_and_lie_far_apart():
    """Draws of one law would have a chi-squared above 200 against any other, where 26 is usual."""
    laws = {"right": law_of()} | {name: law_of(rule) for name, rule in WRONG_RULES.items()}
    for outcome, mass in laws["right"].items():
        before = (START, *outcome)
        assert mass == pytest.approx(
            TARGET[before[0]][before[1]] * TARGET[before[1]][before[2]] * TARGET[before[2]][before[3]]
        )
    for (name, law), (other, its) in itertools.permutations(laws.items(), 2):
        apart = sum((law[outcome] - its[outcome]) ** 2 / max(its[outcome], 1e-9) for outcome in law)
        assert sum(law.values()) == pytest.approx(1) and rule_exercise.ROUNDS * apart > 200, (name, other)


@pytest.mark.parametrize("name", ["right", *(name for name in WRONG_RULES if name in MISTAKES)])
def test_a_known_rule_decides_as_the_engines_or_the_mutant_of_its_name(name):
    chain, numbers = ACCEPTANCE["token"].chain, random.Random(1)
    verify = MUTANTS_BY_NAME[name].rules.verdicts[chain] if name in MISTAKES else verify_chain
    for _ in range(300):
        drafts, u = [numbers.randrange(3) for _ in range(DRAFTS)], [numbers.random() for _ in range(DRAFTS)]
        p, q = rows(START, drafts)
        accepted, row = decide(WRONG_RULES.get(name, RIGHT_RULE), p, q, drafts, u)
        tensors = [torch.tensor(each, dtype=torch.float64) for each in (p, q, u)]
        closing = torch.full((DRAFTS + 1,), 0.5, dtype=torch.float64)
        verdict = verify(tensors[0], tensors[1], torch.tensor(drafts), tensors[2], closing)
        assert int(verdict.path.sum()) == accepted
        torch.testing.assert_close(verdict.row / verdict.row.sum(), torch.tensor(row, dtype=torch.float64))


@pytest.mark.parametrize("name", WRONG_RULES)
def test_draws_of_each_known_rule_give_it_its_name(name):
    grade = rule_exercise.grade(lambda *round_: decide(WRONG_RULES[name], *round_))
    assert not grade.result.lossless and grade.name == name and grade.others
