"""Renders tests of rules: the law beside the seen shares, their distance, one rule beside another, and files.

A real model's text goes into tables only. The charts number the outcomes, because Plotly reads some HTML in its texts.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from app.lab.distribution.work import REVEALING, TOY_PROMPT, RuleReport, RuleTest, Tested, rules_of
from app.lab.recorded import Recorded
from app.views.figures import Figure, axes, encode_figures, fill, points, whiskers
from app.views.safe_json import short
from app.views.table import csv_text, sheet
from engine.config import RunConfig, SamplingParams
from engine.errors import quantity
from engine.tools.exactness.results import JSON_TOY, MISTAKES, RIGHT, TOYS, Draws, Outcome, RuleTestResult
from engine.trace.noise import Z95
from engine.trace.speedup_words import DASH, number

BUTTONS = {
    RIGHT: "The right rule",
    "raw-q": "q before temperature",
    "argmax-drafts": "Favourites tested as draws",
    "no-residual": "Replacement from p",
    "u-reused-for-closing": "One u, used twice",
    "sibling-q": "The first sibling's q",
}
FIRST_MASK = "mask-stays"  # the rule that is chosen with the JSON toy
NAMED = 6  # points of a chart that have their names beside them
MOST_OUTCOMES = 20  # that a chart and its table show
CHARTS = {
    "lossless-law": "Seen outcomes and the exact law",
    "lossless-distance": "How far off, and how far chance alone goes",
    "lossless-rules": "Acceptance against distance, rule by rule",
}
VERDICTS = {
    "right": "lossless, as far as this can tell",
    "wrong": "not the target's distribution",
    "open": "cannot tell",
}
READING = "Each mark is a rule. Further right: further from the target. Higher: more drafts are accepted."
HIDDEN = " These settings hide the mistake, or it needs more runs to show. Such bugs survive that way."
LARGER = 0.01  # how much α must rise to be called higher; less is luck
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ── charts ──


def draw(results: Tested, at_work: str = "") -> dict[str, str]:
    """Returns the charts, and the tables of the rules and of the newest rule's outcomes. ``at_work``: the rule whose
    runs are still coming in."""
    newest = [*results.values()][-1]
    drawn = _law(newest), _distance(newest.result), _rules(results)
    charts = encode_figures(dict(zip(CHARTS, drawn, strict=True)))
    return {"charts": charts, "rules": rules(results, at_work), "outcomes": outcomes(newest)}


def outcomes_to_show(report: RuleReport) -> list[Outcome]:
    """Returns the outcomes that were seen although the target never writes them, then the likeliest ones."""
    possible = [outcome for outcome, mass in report.result.law.items() if mass > 0]
    likeliest = sorted(possible, key=lambda outcome: -report.result.law[outcome])
    return [*report.impossible[: MOST_OUTCOMES // 2], *likeliest][:MOST_OUTCOMES]


def _names(report: RuleReport, outcomes: Sequence[Outcome]) -> list[str]:
    if report.test.is_toy:
        return [" ".join(report.words.get(outcome, ())) or "nothing" for outcome in outcomes]
    return [str(rank) for rank in range(1, len(outcomes) + 1)]


def _law(report: RuleReport) -> Figure:
    outcomes, runs = outcomes_to_show(report), report.result.runs
    names, masses = _names(report, outcomes), [report.mass(outcome) for outcome in outcomes]
    noise = [(mass, Z95 * math.sqrt(mass * (1 - mass) / runs)) for mass in masses]
    reaches = [min(reach, 1 - mass) for mass, reach in noise], [min(reach, mass) for mass, reach in noise]
    bars = {
        "type": "bar", "name": "seen", "x": names, "y": [short(report.count(each) / runs) for each in outcomes],
        "marker": fill("@accepted"), "hovertemplate": "%{x}: seen %{y:.2%}<extra></extra>",
    }  # fmt: skip
    law = points(
        "the target's own, ± noise", names, masses, mode="markers", marker=fill("@rejected", symbol="diamond", size=9),
        error_y=whiskers(*reaches, color="@ink", thickness=2, width=6),
        hovertemplate="%{x}: exactly %{y:.2%}<extra></extra>",
    )  # fmt: skip
    words = "the tokens of an answer" if report.test.is_json else "the words that a run begins with"
    layout = axes(words if report.test.is_toy else "outcome, by rank", "share of runs")
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"tickformat": ".0%"}
    return Figure([bars, law], layout, _law_note(report, outcomes))


def _law_note(report: RuleReport, outcomes: Sequence[Outcome]) -> str:
    possible, impossible = sum(mass > 0 for mass in report.result.law.values()), len(report.impossible)
    note = "Bars: how often each came. Diamonds: the target's own probabilities, computed exactly. Whiskers: 95 % of a "
    note += f"lossless engine's shares with {quantity(report.result.runs, 'run')}."
    if impossible:
        drawn = sum(report.mass(outcome) <= 0 for outcome in outcomes)
        first = "The first bar is" if impossible == 1 else f"The first {drawn} bars are"
        note += f" {first} text that the target never writes."
    if possible + impossible > len(outcomes):
        note += f" {len(outcomes)} of {possible + impossible:,} outcomes are drawn; all of them count."
    return note if report.test.is_toy else f"{note} The table below has the texts."


def _distance(result: RuleTestResult) -> Figure:
    (low, high), at = result.band, result.distance
    bar = {
        "type": "bar", "orientation": "h", "y": ["these runs"], "x": [short(at)], "width": 0.35, "text": [f"{at:.4f}"],
        "textposition": "outside", "textfont": {"color": "@ink", "size": 16}, "hoverinfo": "skip",
        "marker": fill("@rejected", pattern="/") if result.verdict == "wrong" else fill("@accepted"),
    }  # fmt: skip
    band = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": short(low), "x1": short(high), "y0": 0.05, "y1": 0.95,
        "fillcolor": "@plain", "opacity": 0.35, "line": {"width": 2, "color": "@ink"}, "layer": "below",
    }  # fmt: skip
    layout = axes("distance, 0 to 1", "", showlegend=False, shapes=[band])
    layout["xaxis"] |= {"range": [0, short(1.25 * max(at, high))]}
    where = "inside" if low <= at <= high else "above" if at > high else "below"
    note = f"Distance {at:.4f}, {where} the grey box. The box, {low:.4f} to {high:.4f}, is the noise: it holds "
    note += f"95 % of lossless engines with {quantity(result.runs, 'run')}. A sample is never exactly its law."
    return Figure([bar], layout, note)


def _rules(results: Tested) -> Figure:
    drawn, data = {rule: each.result for rule, each in results.items() if each.result.alpha is not None}, []
    if not drawn:
        return Figure(note="Nothing was drafted, so there is no acceptance to draw.")
    more = {
        "textposition": "top center", "mode": "markers+text" if len(drawn) <= NAMED else "markers",
        "hovertemplate": "%{text}: α %{y:.3f}, distance %{x:.4f}<extra></extra>",
    }  # fmt: skip
    for name, is_wrong, colour, symbol in (
        ("lossless", False, "@accepted", "circle"), ("not lossless", True, "@rejected", "x"),
    ):  # fmt: skip
        if group := {rule: each for rule, each in drawn.items() if (each.verdict == "wrong") is is_wrong}:
            x, y = [short(each.distance) for each in group.values()], [each.alpha for each in group.values()]
            mark = fill(colour, symbol=symbol, size=13)
            data.append(points(name, x, y, text=[*map(_name, group)], marker=mark, **more))
    layout = axes("distance from the target", "acceptance α")
    layout["yaxis"] |= {"range": [0, 1.15]}
    layout["xaxis"] |= {"range": [0, short(1.2 * max(each.distance for each in drawn.values()) or 1)]}
    return Figure(data, layout, _rules_note(results))


def _rules_note(results: Tested) -> str:
    right = results[RIGHT].result.alpha if RIGHT in results else None
    if right is None:
        return "Run the right rule as well, to see which mistakes accept more than it does."
    wrong = {rule: each.result for rule, each in results.items() if each.result.verdict == "wrong"}
    tempting = [rule for rule, result in wrong.items() if (result.alpha or 0) > right + LARGER]
    if not tempting:
        return READING
    accept = "rule accepts" if len(tempting) == 1 else "rules accept"
    return (
        f"{READING} {len(tempting)} wrong {accept} more drafts than the right one (α = {right:.3f}). Acceptance or "
        f"speed alone would call that an improvement: {_quotes(tempting)}."
    )


# ── words ──


def verdict(results: Tested) -> str:
    return tally([*results.values()], len(results))


def judge(report: RuleReport) -> tuple[str, str]:
    """Returns the kind of notice, and the verdict in sentences."""
    result, is_right = report.result, report.rule == RIGHT
    rule = "" if is_right else f" On purpose: {MISTAKES[report.rule].words}"
    early = "" if report.is_complete else f" Stopped early: {result.runs:,} of {quantity(report.test.runs, 'run')}."
    accepted = "nothing was drafted" if result.alpha is None else f"α = {result.alpha:.3f}"
    alarm, runs = f"a correct engine fails once in {1 / result.false_alarm:,.0f} times", quantity(result.runs, "run")
    numbers = f"χ² = {result.statistic:.1f} with {quantity(result.freedom, 'degree')} of freedom"
    if math.isinf(result.statistic):
        numbers = "it wrote something that the target never writes, so χ² is infinite"
    numbers += f", p = {_p(result.p_value)}"
    match result.verdict:
        case "wrong":
            words = "Not lossless: the output is not the target's distribution. "
            words += f"{numbers} after {runs} ({alarm}); {accepted}.{_about_broken_json(report)}"
            return "slow", f"{words}{rule}{early}"
        case "right":
            words = f"Lossless, as far as {runs} can tell. {numbers}; called wrong under p = "
            words += f"{result.false_alarm:g} ({alarm}); {accepted}.{'' if is_right else HIDDEN}"
            return "good" if is_right else "quiet", f"{words}{rule}{early}"
    few = "too few runs for any outcome to be expected five times, or only one outcome is possible"
    return "quiet", f"This cannot tell: {few}. Raise the runs.{rule}{early}"


def _about_broken_json(report: RuleReport) -> str:
    """Says how many answers of the JSON toy are broken, and shows the most frequent one beside what it should be."""
    if not (report.test.is_json and report.impossible):
        return ""
    count, first = sum(map(report.count, report.impossible)), report.impossible[0]
    words = f"{count:,} of {report.result.runs:,} answers are broken JSON"
    return f" {words}, most often “{report.json(first)}” instead of “{report.right_json(first)}”."


def doubts(results: Tested) -> str:
    return ""  # nothing is timed


def tally(results: Sequence[RuleReport], of: int) -> str:
    """Sums up several rules in a sentence: how many of the mistakes were noticed, and whether the right rule passed."""
    verdicts = {each.rule: each.result.verdict for each in results}
    right = verdicts.pop(RIGHT, None)
    hidden = [rule for rule, each in verdicts.items() if each != "wrong"]
    words = f"{len(verdicts) - len(hidden)} of {len(verdicts)} mistakes were noticed"
    if not verdicts:
        words = "No mistake was tried yet"
    if right:
        words += f"; the right rule {'failed, which happens once in 1,000 times' if right == 'wrong' else 'passed'}"
    words += f". Not noticed with these settings: {_quotes(hidden)}." if hidden else "."
    if offered := [rule for rule in hidden if rule in REVEALING and not _reveals(results[0].test, rule)]:
        words += f" Buttons above load settings that show {' and '.join(f'“{BUTTONS[rule]}”' for rule in offered)}."
    if len(results) < of or not all(each.is_complete for each in results):
        words += f" Stopped early, in rule {len(results)} of {of}."
    return words


def _reveals(test: RuleTest, rule: str) -> bool:
    """Returns whether a test has the very settings that reveal a mistake."""
    settings = test.as_dict | asdict(test.config.sampling)
    return all(settings[name] == value for name, value in REVEALING[rule].items())


def _p(value: float) -> str:
    """Words a p-value as a person writes it: powers of ten only where no other digits would be left."""
    if value == 0 or value >= 1e-4:
        return f"{value:.2g}"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}·10{str(int(power)).translate(_RAISED)}"


def progress(report: RuleReport, nth: int, of: int) -> str:
    which = f"Rule {nth} of {of}, {_name(report.rule)}: " if of > 1 else ""
    return f"{which}{report.result.runs:,} of {quantity(report.test.runs, 'run')}"


def _name(rule: str) -> str:
    return "the right rule" if rule == RIGHT else BUTTONS.get(rule, rule.replace("-", " "))


def _quotes(rules: Sequence[str]) -> str:
    return ", ".join(f"“{_name(rule)}”" for rule in rules)


def rule_choices(pair: str) -> list[tuple[str, str]]:
    """Returns (label, rule) of the rules that this model can show."""
    right = "Each row has its own mask." if pair == JSON_TOY else "Rejection sampling as the papers have it."
    return [(right if rule == RIGHT else f"Mistake {rule}: {MISTAKES[rule].words}", rule) for rule in rules_of(pair)]


# ── tables ──


def outcomes(report: RuleReport) -> str:
    rows, drawn, runs, test = [], outcomes_to_show(report), report.result.runs, report.test
    for name, outcome in zip(_names(report, drawn), drawn, strict=True):
        mass, count = report.mass(outcome), report.count(outcome)
        text = name if test.is_toy else f"{name}: {_visible(report.words.get(outcome, ()))}"
        expected = f"{mass:.4f}" if mass > 0 else "never"
        rows.append([text, expected, f"{count / runs:.4f}", f"{mass * runs:.1f}", f"{count}"])
        if test.is_json:
            rows[-1].append(DASH if mass > 0 else report.right_json(outcome))
    heads = ["Outcome", "Exact probability", "Share seen", "Expected count", "Seen"]
    if test.is_json:
        return sheet("Broken answers, then the likeliest right ones", [*heads, "What it should have been"], rows)
    length = "token" if test.length == 1 else f"{test.length} tokens"
    return sheet(f"The likeliest outcomes: the first {length} of a run", heads, rows)


def _visible(words: Sequence[str]) -> str:
    """Makes spaces and line breaks of tokens visible, with a bar between two tokens."""
    return " | ".join(word.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") for word in words)


def rules(results: Tested, at_work: str = "") -> str:
    """Writes the table of the rules. ``at_work``: the rule whose runs are still coming in. A verdict before the end
    would be another, weaker test."""
    rows = []
    for rule, report in results.items():
        result, early = report.result, "" if report.is_complete else " (stopped early)"
        chi = "∞" if math.isinf(result.statistic) else f"{result.statistic:.1f}"
        rows.append([
            _name(rule), number(result.alpha, 3), f"{result.distance:.4f}", "{:.4f}–{:.4f}".format(*result.band),
            f"{chi} ({result.freedom})", _p(result.p_value), f"{result.runs:,}",
            "being counted" if rule == at_work else (VERDICTS[result.verdict] + early, result.verdict),
            DASH if rule == RIGHT else MISTAKES[rule].words,
        ])  # fmt: skip
    heads = ("Rule", "α", "Distance", "A lossless engine shows", "χ² (degrees)", "p-value", "Runs", "Verdict",
             "What is wrong with it")  # fmt: skip
    return sheet("Every rule tried with these settings", heads, rows)


# ── files ──


def files(results: Tested, where: Mapping[str, str]) -> dict[str, str]:
    """Returns the files by name: everything, the rules, and the outcomes of the newest rule. ``where``: device,
    precision, version and time."""
    newest = [*results.values()][-1]
    content = {"speclens": "rules", **where, "tests": [_content(report) for report in results.values()]}
    return {
        "speclens-lossless.json": json.dumps(content, allow_nan=False, indent=1),
        "speclens-lossless-rules.csv": rules_csv(results, where),
        f"speclens-lossless-outcomes-{newest.rule}.csv": outcomes_csv(newest, where),
    }


def outcomes_csv(report: RuleReport, where: Mapping[str, str]) -> str:
    """Writes every outcome of the law, and any other that was seen."""
    rows, between = [], " " if report.test.is_toy else ""
    for outcome in report.outcomes:
        mass, ids = report.mass(outcome), " ".join(map(str, outcome))
        text = between.join(report.words.get(outcome, ()))
        rows.append((report.rule, ids, text, mass, mass * report.result.runs, report.count(outcome)))
    return csv_text(("rule", "tokens", "text", "probability", "expected", "seen"), rows, where)


def rules_csv(results: Tested, where: Mapping[str, str]) -> str:
    heads, rows = ("rule", "mistake", "method", "alpha", "distance", "band_low", "band_high", "chi_squared", "freedom",
                   "p_value", "runs", "verdict"), []  # fmt: skip
    for rule, report in results.items():
        result, mistake = report.result, "" if rule == RIGHT else MISTAKES[rule].words
        numbers = (result.alpha, result.distance, *result.band, result.statistic, result.freedom, result.p_value)
        rows.append((rule, mistake, report.test.method, *numbers, result.runs, result.verdict))
    return csv_text(heads, rows, where)


def _content(report: RuleReport) -> dict:
    """Returns settings, numbers, and every outcome. An infinite χ² is null, which JSON has."""
    result = report.result
    names = ("runs", "freedom", "p_value", "false_alarm", "distance", "band", "verdict")
    return {name: getattr(result, name) for name in names} | {
        "asked": report.test.as_dict, "accepted": result.draws.accepted, "tested": result.draws.tested,
        "chi_squared": None if math.isinf(result.statistic) else result.statistic,
        "outcomes": [
            {"tokens": list(outcome), "text": list(report.words.get(outcome, ())),
             "probability": report.mass(outcome), "seen": report.count(outcome)}
            for outcome in report.outcomes
        ],
    }  # fmt: skip


def read_saved(saved: bytes) -> Recorded:
    content = json.loads(saved)
    reports = [_report(test) for test in content["tests"]]
    return Recorded.from_file({report.rule: report for report in reports}, content)


def _report(test: Mapping) -> RuleReport:
    form, outcomes = test["asked"], {tuple(each["tokens"]): each for each in test["outcomes"]}
    prompt = TOY_PROMPT if form["pair"] in TOYS else form["prompt"]
    config = RunConfig(
        prompt, form["pair"], form["method"], form["gamma"], SamplingParams(**form["sampling"]), form["length"],
        form["first"], chat=False,
    )  # fmt: skip
    counts = Counter({outcome: each["seen"] for outcome, each in outcomes.items() if each["seen"]})
    law = {outcome: each["probability"] for outcome, each in outcomes.items()}
    statistic = math.inf if test["chi_squared"] is None else test["chi_squared"]
    result = RuleTestResult(
        law, Draws(counts, test["accepted"], test["tested"]), statistic, test["freedom"], test["p_value"],
        test["distance"], tuple(test["band"]), test["false_alarm"],
    )  # fmt: skip
    words = {outcome: tuple(each["text"]) for outcome, each in outcomes.items()}
    return RuleReport(RuleTest(config, form["rule"], form["runs"]), result, words)
