"""Is it lossless, drawn and in words: the law beside what came out, how far off that is, and one rule beside another.

What a real model wrote goes into tables only; the charts number the outcomes, for Plotly reads some HTML in its texts.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from app.experiments.trials import RIGHT, RULES, SHOWS, Asked, Finding, Outcome
from app.views.encode import encode, short
from app.views.figures import Figure, axes, pattern_of
from app.views.sheet import empty, sheet
from app.views.table import harmless

WORDS = ("sun", "rain", "wind")  # the toy's whole vocabulary
NAMED = 6  # points of a chart that have their names beside them
MOST_OUTCOMES = 20  # of a chart and its table
Z95 = 1.96
TITLES = {
    "lossless-law": "What came out, beside the exact law",
    "lossless-distance": "How far off, beside what chance alone does",
    "lossless-rules": "Acceptance against distance, rule by rule",
}
WAITING = "Drawn as the runs come."
VERDICTS = {
    "right": "lossless, as far as this can tell",
    "wrong": "not the target's distribution",
    "open": "cannot tell",
}
LARGER = 0.01  # by so much α must rise before it is called more: less is luck
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Findings = Mapping[str, Finding]  # by rule, all of one setting


# ── charts ──


def blank() -> str:
    return _charts(dict.fromkeys(TITLES, Figure(note=WAITING)))


def charts(finding: Finding, findings: Findings) -> str:
    """``finding``: the test at hand; ``findings``: it and the others of the same setting."""
    return _charts(
        {"lossless-law": _law(finding), "lossless-distance": _distance(finding), "lossless-rules": _rules(findings)}
    )


def _charts(figures: Mapping[str, Figure]) -> str:
    return encode({"figures": {name: figure.as_dict() for name, figure in figures.items()}})


def shown(finding: Finding) -> list[Outcome]:
    """The likeliest outcomes, and before them whatever came out that the target would never write."""
    possible = [outcome for outcome, mass in finding.law.items() if mass > 0]
    likeliest = sorted(possible, key=lambda outcome: -finding.law[outcome])
    return [*_impossible(finding), *likeliest][:MOST_OUTCOMES]


def _impossible(finding: Finding) -> list[Outcome]:
    return [o for o, count in finding.counts.items() if count and finding.law.get(o, 0.0) <= 0]


def _law(finding: Finding) -> Figure:
    outcomes, runs = shown(finding), finding.runs
    names = _names(finding, outcomes)
    masses = [finding.law.get(outcome, 0.0) for outcome in outcomes]
    seen = [finding.counts.get(outcome, 0) / runs for outcome in outcomes]
    noise = [Z95 * math.sqrt(mass * (1 - mass) / runs) for mass in masses]
    up = [short(min(reach, 1 - mass)) for reach, mass in zip(noise, masses, strict=True)]
    down = [short(min(reach, mass)) for reach, mass in zip(noise, masses, strict=True)]  # no share is below 0
    bars = {
        "type": "bar", "name": "seen", "x": names, "y": [short(share) for share in seen],
        "marker": {"color": "@accepted", "line": {"width": 1, "color": "@ink"}},
        "hovertemplate": "%{x}: seen %{y:.2%}<extra></extra>",
    }  # fmt: skip
    law = {
        "type": "scatter", "mode": "markers", "name": "the target's own, ± noise", "x": names,
        "y": [short(mass) for mass in masses],
        "marker": {"symbol": "diamond", "size": 9, "color": "@rejected", "line": {"width": 1, "color": "@ink"}},
        "error_y": {
            "type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": "@ink", "thickness": 2,
            "width": 6,
        },
        "hovertemplate": "%{x}: exactly %{y:.2%}<extra></extra>",
    }  # fmt: skip
    layout = axes("outcome, by rank" if not finding.asked.toy else "the words that a run begins with", "share of runs")
    layout["xaxis"] |= {"type": "category"}
    layout["yaxis"] |= {"tickformat": ".0%"}
    return Figure([bars, law], layout, _law_note(finding, outcomes))


def _names(finding: Finding, outcomes: Sequence[Outcome]) -> list[str]:
    if finding.asked.toy:
        return [" ".join(WORDS[token] for token in outcome) for outcome in outcomes]
    return [str(rank) for rank in range(1, len(outcomes) + 1)]


def _law_note(finding: Finding, outcomes: Sequence[Outcome]) -> str:
    possible = sum(mass > 0 for mass in finding.law.values())
    note = (
        "Diamonds: the target's own probabilities, computed exactly without drawing anything. Whiskers: where 95 % of "
        f"the shares of a lossless engine fall with {finding.runs:,} runs."
    )
    if impossible := len(_impossible(finding)):
        first = "The first bar stands" if impossible == 1 else f"The first {min(impossible, len(outcomes))} bars stand"
        note += f" {first} for what the target would never write."
    if possible + impossible > len(outcomes):
        note += f" {len(outcomes)} of {possible + impossible:,} outcomes are drawn; all of them count."
    return note if finding.asked.toy else f"{note} The table below has the texts."


def _distance(finding: Finding) -> Figure:
    low, high = finding.band
    top = 1.25 * max(finding.distance, high)
    wrong = finding.verdict == "wrong"
    marker = {"color": "@rejected" if wrong else "@accepted", "line": {"width": 1, "color": "@ink"}}
    if wrong:
        marker["pattern"] = pattern_of("/", 8)
    bar = {
        "type": "bar", "orientation": "h", "y": ["these runs"], "x": [short(finding.distance)], "width": 0.35,
        "text": [f"{finding.distance:.4f}"], "textposition": "outside", "textfont": {"color": "@ink", "size": 16},
        "marker": marker, "hoverinfo": "skip",
    }  # fmt: skip
    band = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": short(low), "x1": short(high), "y0": 0.05, "y1": 0.95,
        "fillcolor": "@plain", "opacity": 0.35, "line": {"width": 2, "color": "@ink"}, "layer": "below",
    }  # fmt: skip
    layout = axes("distance, 0 to 1", "", showlegend=False, shapes=[band])
    layout["xaxis"] |= {"range": [0, short(top)]}
    where = "inside" if low <= finding.distance <= high else "above" if finding.distance > high else "below"
    note = (
        f"Distance {finding.distance:.4f}, {where} the grey box. The box, {low:.4f} to {high:.4f}, is where 95 % of "
        f"lossless engines land with {finding.runs:,} runs: a sample is never exactly its law."
    )
    return Figure([bar], layout, note)


def _rules(findings: Findings) -> Figure:
    drawn = [(rule, f) for rule, f in findings.items() if f.alpha is not None]
    if not drawn:
        return Figure(note="Nothing was drafted, so there is no acceptance to draw.")
    data = []
    for name, verdicts, colour, symbol in (
        ("lossless", ("right", "open"), "@accepted", "circle"), ("not lossless", ("wrong",), "@rejected", "x"),
    ):  # fmt: skip
        group = [(rule, f) for rule, f in drawn if f.verdict in verdicts]
        if group:
            data.append(_points(name, group, colour, symbol))
    layout = axes("distance from the target", "acceptance α")
    layout["yaxis"] |= {"range": [0, 1.15]}
    layout["xaxis"] |= {"range": [0, short(1.2 * max(f.distance for _, f in drawn) or 1)]}
    if len(drawn) <= NAMED:
        data = [group | {"mode": "markers+text", "textposition": "top center"} for group in data]
    return Figure(data, layout, _rules_note(findings))


def _points(name: str, group: list, colour: str, symbol: str) -> dict:
    return {
        "type": "scatter", "mode": "markers", "name": name, "x": [short(f.distance) for _, f in group],
        "y": [short(f.alpha) for _, f in group], "text": [_name(rule) for rule, _ in group],
        "marker": {"symbol": symbol, "size": 13, "color": colour, "line": {"width": 1, "color": "@ink"}},
        "hovertemplate": "%{text}: α %{y:.3f}, distance %{x:.4f}<extra></extra>",
    }  # fmt: skip


def _rules_note(findings: Findings) -> str:
    right = findings.get(RIGHT)
    if right is None or right.alpha is None:
        return "Run the right rule as well, to see which mistakes accept more than it does."
    liars = [
        _name(rule) for rule, f in findings.items() if f.verdict == "wrong" and (f.alpha or 0) > right.alpha + LARGER
    ]
    if not liars:
        return "A point further right strays further from the target. Higher means that more drafts are kept."
    several = "rule keeps" if len(liars) == 1 else "rules keep"
    return (
        f"{len(liars)} wrong {several} more drafts than the right one (α = {right.alpha:.3f}), so they would look "
        f"like an improvement to whoever measures acceptance or speed alone: {', '.join(liars)}."
    )


# ── words ──


def verdict(finding: Finding) -> tuple[str, str]:
    """The kind of notice, and the verdict in a sentence."""
    rule = "" if finding.asked.rule == RIGHT else f" On purpose: {RULES[finding.asked.rule].words}"
    numbers = f"{_chi(finding)}, p = {_p(finding.p_value)}"
    accepted = "nothing was drafted" if finding.alpha is None else f"α = {finding.alpha:.3f}"
    alarm = f"one right engine in {1 / finding.false_alarm:,.0f} would be accused"
    early = "" if finding.whole else f" Stopped early: {finding.asked.runs:,} runs were asked for."
    match finding.verdict:
        case "wrong":
            said = f"Not lossless: the output is not the target's distribution. {numbers} after {finding.runs:,} runs"
            return "slow", f"{said} ({alarm}); {accepted}.{rule}{early}"
        case "right":
            said = f"Lossless, as far as {finding.runs:,} runs can tell. {numbers}; called wrong under p = "
            said += f"{finding.false_alarm:g} ({alarm}); {accepted}."
            return "quiet" if rule else "good", f"{said}{HIDDEN if rule else ''}{rule}{early}"
    few = "too few runs for any outcome to be expected five times, or only one outcome is possible"
    return "quiet", f"This cannot tell: {few}. Ask for more runs.{rule}{early}"


def tally(findings: Sequence[Finding], of: int) -> tuple[str, str]:
    """Several rules in a sentence: how many of the mistakes were noticed, and whether the right rule was left alone."""
    wrong = [f for f in findings if f.asked.rule != RIGHT]
    caught = sum(f.verdict == "wrong" for f in wrong)
    right = next((f for f in findings if f.asked.rule == RIGHT), None)
    said = f"{caught} of {len(wrong)} mistakes were noticed" if wrong else "No mistake was tried yet"
    if right:
        accused = right.verdict == "wrong"
        said += f"; the right rule {'was accused, which chance does now and then' if accused else 'was not accused'}"
    hidden = [f.asked.rule for f in wrong if f.verdict != "wrong"]
    said += f". Not noticed with these settings: {', '.join(hidden)}." if hidden else "."
    if offered := [rule for rule in hidden if rule in SHOWS and _other_settings(findings[0].asked, rule)]:
        said += f" Buttons above bring settings that show {' and '.join(offered)}."
    if len(findings) < of or not all(f.whole for f in findings):
        said += f" Stopped early: {len(findings)} of {of} rules were begun."
    return "quiet", said


def _other_settings(asked: Asked, rule: str) -> bool:
    now = asdict(asked) | asdict(asked.sampling)
    return any(now[name] != value for name, value in SHOWS[rule].items())


HIDDEN = " These settings hide the mistake, or it needs more runs to show: such bugs survive that way."


def _chi(finding: Finding) -> str:
    if math.isinf(finding.statistic):
        return "something came out that the target never writes, so χ² is infinite"
    freedom = "1 degree" if finding.freedom == 1 else f"{finding.freedom} degrees"
    return f"χ² = {finding.statistic:.1f} with {freedom} of freedom"


def _p(value: float) -> str:
    """As a person writes it: powers of ten only where nothing else would be left."""
    if value == 0 or value >= 1e-4:
        return f"{value:.2g}"
    digits, power = f"{value:.0e}".split("e")
    return f"{digits}·10{str(int(power)).translate(_RAISED)}"


def progress(finding: Finding, nth: int, of: int) -> str:
    which = f"Rule {nth} of {of}, {_name(finding.asked.rule)}: " if of > 1 else ""
    return f"{which}{finding.runs:,} of {finding.asked.runs:,} runs"


def _name(rule: str) -> str:
    return "the right rule" if rule == RIGHT else rule


def rule_choices(toy: bool) -> list[tuple[str, str]]:
    """What the list of rules shows, and what it stands for."""
    offered = [(name, rule) for name, rule in RULES.items() if toy or rule.anywhere]
    return [(rule.words if name == RIGHT else f"Mistake {name}: {rule.words}", name) for name, rule in offered]


# ── tables ──


def outcomes(finding: Finding | None) -> str:
    """``None`` before anything has come out."""
    if finding is None:
        return empty()
    rows, drawn = [], shown(finding)
    for name, outcome in zip(_names(finding, drawn), drawn, strict=True):
        mass, count = finding.law.get(outcome, 0.0), finding.counts.get(outcome, 0)
        expected = f"{mass:.4f}" if mass > 0 else "never"
        rows.append([_cell(finding, name, outcome), expected, f"{count / finding.runs:.4f}",
                     f"{mass * finding.runs:.1f}", str(count)])  # fmt: skip
    heads = ("Outcome", "Exact probability", "Share seen", "Expected count", "Seen")
    return sheet(f"The likeliest outcomes: the first {finding.asked.length} tokens of a run", heads, rows)


def _cell(finding: Finding, name: str, outcome: Outcome) -> str:
    return name if finding.asked.toy else f"{name}: {_visible(finding.words.get(outcome, ()))}"


def _visible(words: Sequence[str]) -> str:
    """Spaces and line breaks of a token must be seen; a bar stands between two tokens."""
    return " | ".join(word.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") for word in words)


RULE_HEADS = ("Rule", "α", "Distance", "A lossless engine shows", "χ² (degrees)", "p-value", "Runs", "Verdict",
              "What is wrong with it")  # fmt: skip


def rules(findings: Findings, at_work: str = "") -> str:
    """``at_work``: the rule whose runs are still being made. A verdict before the end would be another, weaker test."""
    if not findings:
        return empty()
    rows = [_row(f, f.asked.rule == at_work) for f in findings.values()]
    return sheet("Every rule tried with these settings", RULE_HEADS, rows)


def _row(finding: Finding, at_work: bool) -> list[str]:
    low, high = finding.band
    chi = "∞" if math.isinf(finding.statistic) else f"{finding.statistic:.1f}"
    return [
        _name(finding.asked.rule),
        "–" if finding.alpha is None else f"{finding.alpha:.3f}",
        f"{finding.distance:.4f}",
        f"{low:.4f}–{high:.4f}",
        f"{chi} ({finding.freedom})",
        _p(finding.p_value),
        f"{finding.runs:,}",
        "being counted" if at_work else VERDICTS[finding.verdict] + ("" if finding.whole else " (stopped early)"),
        "–" if finding.asked.rule == RIGHT else RULES[finding.asked.rule].words,
    ]


# ── files ──


def outcomes_csv(finding: Finding) -> str:
    """Every outcome of the law, and whatever else was seen."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(("rule", "tokens", "text", "probability", "expected", "seen"))
    for outcome in dict.fromkeys([*finding.law, *finding.counts]):
        mass, words = finding.law.get(outcome, 0.0), finding.words.get(outcome, ())
        text = harmless((" " if finding.asked.toy else "").join(words))
        ids = " ".join(map(str, outcome))
        writer.writerow((finding.asked.rule, ids, text, mass, mass * finding.runs, finding.counts.get(outcome, 0)))
    return out.getvalue()


def rules_csv(findings: Findings) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    heads = ("rule", "mistake", "method", "alpha", "distance", "band_low", "band_high", "chi_squared", "freedom",
             "p_value", "runs", "verdict")  # fmt: skip
    writer.writerow(heads)
    for rule, f in findings.items():
        mistake = "" if rule == RIGHT else RULES[rule].words
        writer.writerow((rule, mistake, f.asked.drafted_by, f.alpha, f.distance, *f.band, f.statistic, f.freedom,
                         f.p_value, f.runs, f.verdict))  # fmt: skip
    return out.getvalue()


def to_json(findings: Findings) -> str:
    """Everything: settings, numbers, and what came out. An infinite χ² is null, which JSON has."""
    return json.dumps({"tests": [_whole(finding) for finding in findings.values()]}, allow_nan=False, indent=1)


def _whole(finding: Finding) -> dict:
    found = [
        {"tokens": list(outcome), "text": list(finding.words.get(outcome, ())),
         "probability": finding.law.get(outcome, 0.0), "seen": finding.counts.get(outcome, 0)}
        for outcome in dict.fromkeys([*finding.law, *finding.counts])
    ]  # fmt: skip
    return {
        "asked": _settings(finding.asked),
        "runs": finding.runs,
        "accepted": finding.accepted,
        "tested": finding.tested,
        "chi_squared": None if math.isinf(finding.statistic) else finding.statistic,
        "freedom": finding.freedom,
        "p_value": finding.p_value,
        "false_alarm": finding.false_alarm,
        "distance": finding.distance,
        "band": list(finding.band),
        "verdict": finding.verdict,
        "outcomes": found,
    }


def _settings(asked: Asked) -> dict:
    return asdict(asked) | {"method": asked.drafted_by}
