"""Renders tests of rules: the law beside the seen shares, their distance, and one rule beside another.

A real model's text goes into tables only. The charts number the outcomes, because Plotly reads some HTML in its texts.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict

from app.lab.distribution.request import REVEALING, RuleReport, RuleTest, Tested, rules_of
from app.views.figures import Figure, axes, encode_figures, fill, points, whiskers
from app.views.safe_json import short
from app.views.table import empty, sheet
from engine.errors import quantity
from engine.tools.exactness.results import JSON_TOY, MISTAKES, RIGHT, Outcome, RuleTestResult
from engine.trace.noise import Z95
from engine.trace.speedup_words import DASH, number

BUTTONS = {
    "raw-q": "q before temperature",
    "argmax-drafts": "Favourites tested as draws",
    "no-residual": "Replacement from p",
    "u-reused-for-closing": "One u, used twice",
    "sibling-q": "The first sibling's q",
}
FIRST_MASK = "mask-stays"  # the rule that is chosen with the JSON toy
NAMED = 6  # points of a chart that have their names beside them
MOST_OUTCOMES = 20  # that a chart and its table show
TITLES = {
    "lossless-law": "Seen outcomes and the exact law",
    "lossless-distance": "How far off, and how far chance alone goes",
    "lossless-rules": "Acceptance against distance, rule by rule",
}
VERDICTS = {
    "right": "lossless, as far as this can tell",
    "wrong": "not the target's distribution",
    "open": "cannot tell",
}
LARGER = 0.01  # how much α must rise to be called higher; less is luck
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# ── charts ──


def charts(report: RuleReport, results: Tested) -> str:
    """``results``: ``tested`` and the other rules with the same settings."""
    drawn = _law(report), _distance(report.result), _rules(results)
    return encode_figures(dict(zip(TITLES, drawn, strict=True)))


def outcomes_to_show(report: RuleReport) -> list[Outcome]:
    """Returns the outcomes that were seen although the target never writes them, then the likeliest ones."""
    possible = [outcome for outcome, mass in report.result.law.items() if mass > 0]
    likeliest = sorted(possible, key=lambda outcome: -report.result.law[outcome])
    return [*report.impossible[: MOST_OUTCOMES // 2], *likeliest][:MOST_OUTCOMES]


def _law(report: RuleReport) -> Figure:
    outcomes, runs = outcomes_to_show(report), report.result.runs
    names = _names(report, outcomes)
    masses = [report.mass(outcome) for outcome in outcomes]
    seen = [report.count(outcome) / runs for outcome in outcomes]
    noise = [Z95 * math.sqrt(mass * (1 - mass) / runs) for mass in masses]
    up = [min(reach, 1 - mass) for reach, mass in zip(noise, masses, strict=True)]
    down = [min(reach, mass) for reach, mass in zip(noise, masses, strict=True)]  # no share is below 0
    bars = {
        "type": "bar", "name": "seen", "x": names, "y": [short(share) for share in seen],
        "marker": fill("@accepted"), "hovertemplate": "%{x}: seen %{y:.2%}<extra></extra>",
    }  # fmt: skip
    law = points(
        "the target's own, ± noise", names, masses, mode="markers",
        marker=fill("@rejected", symbol="diamond", size=9),
        error_y=whiskers(up, down, color="@ink", thickness=2, width=6),
        hovertemplate="%{x}: exactly %{y:.2%}<extra></extra>",
    )  # fmt: skip
    words = "the tokens of an answer" if report.test.is_json else "the words that a run begins with"
    layout = axes(words if report.test.toy else "outcome, by rank", "share of runs")
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"tickformat": ".0%"}
    return Figure([bars, law], layout, _law_note(report, outcomes))


def _names(report: RuleReport, outcomes: Sequence[Outcome]) -> list[str]:
    if report.test.toy:
        return [" ".join(report.words.get(outcome, ())) or "nothing" for outcome in outcomes]
    return [str(rank) for rank in range(1, len(outcomes) + 1)]


def _law_note(report: RuleReport, outcomes: Sequence[Outcome]) -> str:
    possible = sum(mass > 0 for mass in report.result.law.values())
    note = (
        "Diamonds: the target's own probabilities, computed exactly. Whiskers: 95 % of a lossless engine's shares "
        f"with {quantity(report.result.runs, 'run')}."
    )
    if impossible := len(report.impossible):
        drawn = sum(report.mass(outcome) <= 0 for outcome in outcomes)
        first = "The first bar is" if impossible == 1 else f"The first {drawn} bars are"
        note += f" {first} text that the target never writes."
    if possible + impossible > len(outcomes):
        note += f" {len(outcomes)} of {possible + impossible:,} outcomes are drawn; all of them count."
    return note if report.test.toy else f"{note} The table below has the texts."


def _distance(result: RuleTestResult) -> Figure:
    low, high = result.band
    top = 1.25 * max(result.distance, high)
    wrong = result.verdict == "wrong"
    bar = {
        "type": "bar", "orientation": "h", "y": ["these runs"], "x": [short(result.distance)], "width": 0.35,
        "text": [f"{result.distance:.4f}"], "textposition": "outside", "textfont": {"color": "@ink", "size": 16},
        "marker": fill("@rejected", pattern="/") if wrong else fill("@accepted"), "hoverinfo": "skip",
    }  # fmt: skip
    band = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": short(low), "x1": short(high), "y0": 0.05, "y1": 0.95,
        "fillcolor": "@plain", "opacity": 0.35, "line": {"width": 2, "color": "@ink"}, "layer": "below",
    }  # fmt: skip
    layout = axes("distance, 0 to 1", "", showlegend=False, shapes=[band])
    layout["xaxis"] |= {"range": [0, short(top)]}
    where = "inside" if low <= result.distance <= high else "above" if result.distance > high else "below"
    note = (
        f"Distance {result.distance:.4f}, {where} the grey box. The box, {low:.4f} to {high:.4f}, holds "
        f"95 % of lossless engines with {quantity(result.runs, 'run')}. A sample is never exactly its law."
    )
    return Figure([bar], layout, note)


def _rules(results: Tested) -> Figure:
    drawn = [(rule, each.result) for rule, each in results.items() if each.result.alpha is not None]
    if not drawn:
        return Figure(note="Nothing was drafted, so there is no acceptance to draw.")
    data = []
    for name, verdicts, colour, symbol in (
        ("lossless", ("right", "open"), "@accepted", "circle"), ("not lossless", ("wrong",), "@rejected", "x"),
    ):  # fmt: skip
        if group := [(rule, result) for rule, result in drawn if result.verdict in verdicts]:
            hover = "%{text}: α %{y:.3f}, distance %{x:.4f}<extra></extra>"
            data.append(points(
                name, [short(result.distance) for _, result in group], [result.alpha for _, result in group],
                text=[_name(rule) for rule, _ in group], textposition="top center",
                mode="markers+text" if len(drawn) <= NAMED else "markers",
                marker=fill(colour, symbol=symbol, size=13), hovertemplate=hover,
            ))  # fmt: skip
    layout = axes("distance from the target", "acceptance α")
    layout["yaxis"] |= {"range": [0, 1.15]}
    layout["xaxis"] |= {"range": [0, short(1.2 * max(result.distance for _, result in drawn) or 1)]}
    return Figure(data, layout, _rules_note(results))


def _rules_note(results: Tested) -> str:
    right = results[RIGHT].result.alpha if RIGHT in results else None
    if right is None:
        return "Run the right rule as well, to see which mistakes accept more than it does."
    tempting = [
        rule for rule, each in results.items()
        if each.result.verdict == "wrong" and (each.result.alpha or 0) > right + LARGER
    ]  # fmt: skip
    if not tempting:
        return "Further right: further from the target. Higher: more drafts are accepted."
    several = "rule accepts" if len(tempting) == 1 else "rules accept"
    return (
        f"{len(tempting)} wrong {several} more drafts than the right one (α = {right:.3f}). Acceptance or speed alone "
        f"would call that an improvement: {_quotes(tempting)}."
    )


# ── words ──

HIDDEN = " These settings hide the mistake, or it needs more runs to show. Such bugs survive that way."


def verdict(report: RuleReport) -> tuple[str, str]:
    """Returns the kind of notice, and the verdict in sentences."""
    result = report.result
    rule = "" if report.rule == RIGHT else f" On purpose: {MISTAKES[report.rule].words}"
    numbers = f"{_chi(result)}, p = {_p(result.p_value)}"
    accepted = "nothing was drafted" if result.alpha is None else f"α = {result.alpha:.3f}"
    alarm = f"a correct engine fails once in {1 / result.false_alarm:,.0f} times"
    early = "" if report.complete else f" Stopped early: {result.runs:,} of {quantity(report.test.runs, 'run')}."
    match result.verdict:
        case "wrong":
            words = f"Not lossless: the output is not the target's distribution. {numbers} after "
            words += f"{quantity(result.runs, 'run')} ({alarm}); {accepted}."
            return "slow", f"{words}{_about_broken_json(report)}{rule}{early}"
        case "right":
            words = f"Lossless, as far as {quantity(result.runs, 'run')} can tell. {numbers}; called wrong under p = "
            words += f"{result.false_alarm:g} ({alarm}); {accepted}."
            return "quiet" if rule else "good", f"{words}{HIDDEN if rule else ''}{rule}{early}"
    few = "too few runs for any outcome to be expected five times, or only one outcome is possible"
    return "quiet", f"This cannot tell: {few}. Raise the runs.{rule}{early}"


def _about_broken_json(report: RuleReport) -> str:
    """Says how many answers of the JSON toy are broken, and shows the most frequent one beside what it should be."""
    if not (report.test.is_json and report.impossible):
        return ""
    count, first = sum(map(report.count, report.impossible)), report.impossible[0]
    of = f"{count:,} of {report.result.runs:,} answers are broken JSON"
    return f" {of}, most often “{report.json(first)}” instead of “{report.right_json(first)}”."


def tally(results: Sequence[RuleReport], of: int) -> str:
    """Sums up several rules in a sentence: how many of the mistakes were noticed, and whether the right rule passed."""
    wrong = [each for each in results if each.rule != RIGHT]
    caught = sum(each.result.verdict == "wrong" for each in wrong)
    right = next((each for each in results if each.rule == RIGHT), None)
    words = f"{caught} of {len(wrong)} mistakes were noticed" if wrong else "No mistake was tried yet"
    if right:
        failed = right.result.verdict == "wrong"
        words += f"; the right rule {'failed, which happens once in 1,000 times' if failed else 'passed'}"
    hidden = [each.rule for each in wrong if each.result.verdict != "wrong"]
    words += f". Not noticed with these settings: {_quotes(hidden)}." if hidden else "."
    if offered := [rule for rule in hidden if rule in REVEALING and not _reveals(results[0].test, rule)]:
        words += f" Buttons above load settings that show {' and '.join(f'“{BUTTONS[rule]}”' for rule in offered)}."
    if len(results) < of or not all(each.complete for each in results):
        words += f" Stopped early, in rule {len(results)} of {of}."
    return words


def _reveals(test: RuleTest, rule: str) -> bool:
    """Returns whether a test has the very settings that reveal a mistake."""
    settings = test.as_dict | asdict(test.config.sampling)
    return all(settings[name] == value for name, value in REVEALING[rule].items())


def _chi(result: RuleTestResult) -> str:
    if math.isinf(result.statistic):
        return "it wrote something that the target never writes, so χ² is infinite"
    return f"χ² = {result.statistic:.1f} with {quantity(result.freedom, 'degree')} of freedom"


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
    labels = {name: f"Mistake {name}: {mistake.words}" for name, mistake in MISTAKES.items()} | {RIGHT: right}
    return [(labels[rule], rule) for rule in rules_of(pair)]


# ── tables ──


def outcomes(report: RuleReport | None) -> str:
    """Writes the table of the outcomes. ``None`` before the first runs have ended."""
    if report is None:
        return empty()
    rows, drawn, runs = [], outcomes_to_show(report), report.result.runs
    for name, outcome in zip(_names(report, drawn), drawn, strict=True):
        mass, count = report.mass(outcome), report.count(outcome)
        expected = f"{mass:.4f}" if mass > 0 else "never"
        rows.append([_cell(report, name, outcome), expected, f"{count / runs:.4f}", f"{mass * runs:.1f}", str(count)])
        if report.test.is_json:
            rows[-1].append(DASH if mass > 0 else report.right_json(outcome))
    heads = ("Outcome", "Exact probability", "Share seen", "Expected count", "Seen")
    if report.test.is_json:
        return sheet("Broken answers, then the likeliest right ones", (*heads, "What it should have been"), rows)
    length = "token" if report.test.length == 1 else f"{report.test.length} tokens"
    return sheet(f"The likeliest outcomes: the first {length} of a run", heads, rows)


def _cell(report: RuleReport, name: str, outcome: Outcome) -> str:
    return name if report.test.toy else f"{name}: {_visible(report.words.get(outcome, ()))}"


def _visible(words: Sequence[str]) -> str:
    """Makes spaces and line breaks of tokens visible, with a bar between two tokens."""
    return " | ".join(word.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") for word in words)


RULE_HEADS = ("Rule", "α", "Distance", "A lossless engine shows", "χ² (degrees)", "p-value", "Runs", "Verdict",
              "What is wrong with it")  # fmt: skip


def rules(results: Tested, at_work: str = "") -> str:
    """Writes the table of the rules. ``at_work``: the rule whose runs are still coming in. A verdict before the end
    would be another, weaker test."""
    if not results:
        return empty()
    rows = [_row(report, report.rule == at_work) for report in results.values()]
    return sheet("Every rule tried with these settings", RULE_HEADS, rows)


def _row(report: RuleReport, at_work: bool) -> list[str | tuple[str, str]]:
    result = report.result
    low, high = result.band
    early = "" if report.complete else " (stopped early)"
    chi = "∞" if math.isinf(result.statistic) else f"{result.statistic:.1f}"
    return [
        _name(report.rule),
        number(result.alpha, 3),
        f"{result.distance:.4f}",
        f"{low:.4f}–{high:.4f}",
        f"{chi} ({result.freedom})",
        _p(result.p_value),
        f"{result.runs:,}",
        "being counted" if at_work else (VERDICTS[result.verdict] + early, result.verdict),
        DASH if report.rule == RIGHT else MISTAKES[report.rule].words,
    ]
