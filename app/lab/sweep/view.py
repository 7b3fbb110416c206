"""Renders a sweep as two charts, a table, sentences and files. Category names may be a visitor's own file's, so they
only meet text that is checked."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from app.lab.recorded import Recorded
from app.lab.sweep.work import SweepPlan, SweepResult
from app.views.engine_recipes import nothing, production
from app.views.figures import TITLES, Figure, axes, draw_speedups, encode_figures, level, look, setting_title
from app.views.safe_json import short
from app.views.table import sheet, speedup_cell
from engine.config import AUTO
from engine.errors import quantity
from engine.tools.bench.metrics import ALL
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import Cell, leaders, shown_interval, to_csv
from engine.trace.engine_recipes import Choice
from engine.trace.noise import NOISE, Speedup
from engine.trace.speedup_words import DASH, number
from engine.trace.speedup_words import doubts as words_of_doubts

CHARTS = {"sweep-heat": "Speedup on each kind of text", "sweep-lengths": "Speedup against the draft length"}
WAITING = Figure(note="Drawn as soon as the first text has been through every setting.")
# Slower than plain decoding to faster; told apart without red and green. White is where nothing is gained or lost.
SCALE = [[0.0, "#D55E00"], [0.5, "#F5F5F5"], [1.0, "#56B4E9"]]


def parts(result: SweepResult) -> list[tuple[str, float]]:
    """Returns (words, temperature) of each."""
    return [(f"{temperature:g}", temperature) for temperature in result.plan.temperatures]


def draw(result: SweepResult, temperature: float) -> dict[str, str]:
    """Returns the charts and the table of one temperature."""
    cells = _cells_at(result, temperature)
    charts = encode_figures({"sweep-heat": draw_heat_map(cells), "sweep-lengths": draw_lengths(cells)})
    return {"charts": charts, "table": table(cells, temperature)}


def _cells_at(result: SweepResult, temperature: float) -> list[Cell]:
    return [cell for cell in result.cells if cell.temperature == temperature]


def _settings(cells: Sequence[Cell]) -> list[tuple[str, int | str]]:
    return list(dict.fromkeys((cell.method, cell.gamma) for cell in cells))


def _categories(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.category for cell in cells))


def doubts(result: SweepResult) -> str:
    return _doubts(result.cells)


def _doubts(cells: Sequence[Cell]) -> str:
    return words_of_doubts(any(not cell.measured.is_possible for cell in cells), (cell.busy for cell in cells))


# ── the charts ──


def draw_heat_map(cells: Sequence[Cell]) -> Figure:
    """Charts the speedup over plain decoding: settings down, kinds of text across."""
    settings, categories = [each for each in _settings(cells) if each[0] != BASELINE], _categories(cells)
    if not settings:
        return WAITING
    by_place = {(c.method, c.gamma, c.category): c.measured for c in cells}
    rows = [[by_place.get((*setting, category)) for category in categories] for setting in settings]
    values = [[s.value if s and s.is_possible else None for s in row] for row in rows]
    far = min(1.0, max([0.5, *(abs(value - 1) for row in values for value in row if value is not None)]))
    chart = {
        "type": "heatmap", "x": categories, "y": [setting_title(*setting) for setting in settings],
        "z": [[short(value) for value in row] for row in values],
        "text": [[_brief(speedup) for speedup in row] for row in rows], "texttemplate": "%{text}",
        "textfont": {"color": "#000", "size": 14}, "colorscale": SCALE, "zmin": short(1 - far), "zmax": short(1 + far),
        "xgap": 3, "ygap": 3, "colorbar": {"title": {"text": "× plain"}, "thickness": 12},
        "hovertemplate": "%{y} on %{x}: %{z:.2f}× plain decoding<extra></extra>",
    }  # fmt: skip
    layout = {"yaxis": {"autorange": "reversed"}, "xaxis": {"side": "top"}}
    note = "How many times as fast as plain decoding: above 1 (blue) faster, below (orange) slower. ≈ may be either."
    return Figure([chart], layout, note + _doubts(cells))


def _brief(speedup: Speedup | None) -> str:
    if speedup is None or speedup.tone == NOISE:
        return NOISE if speedup else ""
    return f"≈ {speedup.value:.2f}" if speedup.tone == "level" else f"{speedup.value:.2f}"


def draw_lengths(cells: Sequence[Cell]) -> Figure:
    """Charts the speedup on all texts against the draft length, a line a method, with 95 % intervals."""
    measured = [cell for cell in cells if cell.category == ALL and cell.method != BASELINE]
    overall = [cell for cell in measured if cell.measured.is_possible]
    if not overall:
        return Figure(note=f"Every setting was too noisy.{_doubts(cells)}") if measured else WAITING
    order = [str(g) for g in sorted({c.gamma for c in overall}, key=lambda g: (isinstance(g, str), g))]
    data = []
    for at, method in enumerate(dict.fromkeys(cell.method for cell in overall)):
        line = sorted((c for c in overall if c.method == method), key=lambda c: order.index(str(c.gamma)))
        if len(line) > 1 and line[-1].gamma == AUTO:
            line.insert(-1, None)  # no line leads to auto
        x, speedups = [str(cell.gamma) if cell else AUTO for cell in line], [cell and cell.measured for cell in line]
        name = TITLES.get(method, method)
        data.append(draw_speedups(name, x, speedups, look(at), hovertemplate=f"{name}, γ = %{{x}}: %{{y:.2f}}×"))
    layout = axes("draft length γ", "× plain decoding", shapes=[level(1.0)])
    layout["xaxis"] |= {"type": "category", "categoryorder": "array", "categoryarray": order}
    turns = max(cell.turns for cell in overall)
    note = f"Marks: a setting on all texts, {turns} turns; the whiskers hold the true ratio 95 times in 100."
    return Figure(data, layout, f"{note if turns > 1 else 'One turn so far: no interval yet.'} Dashed: plain decoding.")


# ── in words and numbers ──


def table(cells: Sequence[Cell], temperature: float) -> str:
    """Writes a row for each setting: on all texts, then the speedup on each kind."""
    kinds = [category for category in _categories(cells) if category != ALL]
    by_place, top, rows = {(c.method, c.gamma, c.category): c for c in cells}, leaders(cells), []
    for setting in _settings(cells):
        overall, *each = [by_place.get((*setting, kind)) for kind in (ALL, *kinds)]
        speed = number(overall.tokens_per_second, 1) if overall.measured.is_possible else DASH
        numbers = [speed, number(overall.alpha, 2), number(overall.tau, 2)]
        first, *others = [
            speedup_cell(cell.measured, top[temperature, cell.category] == [cell]) if cell else DASH
            for cell in (overall, *each)
        ]
        rows.append([setting_title(*setting), first, *numbers, *others])
    heads = ["setting", "all texts", "tokens/s", "α, share accepted", "τ, tokens per pass", *kinds]
    caption = f"Speedup over plain decoding at temperature {temperature:g}; ★ is certainly the fastest on its text"
    return sheet(caption, heads, rows)


def verdict(result: SweepResult) -> str:
    return advice(result, result.part_shown)


def advice(result: SweepResult, temperature: float) -> str:
    """Names the fastest setting on all texts where there is a certain one, else those that may be equally fast, and the
    kinds of text with another certain winner or a certainly larger gain."""
    cells = _cells_at(result, temperature)
    top = {category: first for (_, category), first in leaders(cells).items()}
    if ALL not in top:
        return ""
    words = [_overall(top[ALL])]
    for kind, first in top.items():
        if kind != ALL and _stands_out(first, top[ALL]):
            place = "leads" if len(first) == 1 else "is among the fastest"
            words.append(f"On {kind}, {setting_title(first[0].method, first[0].gamma)}, {place} with "
                         f"{first[0].measured.words}.")  # fmt: skip
    return " ".join(words) + _doubts(cells)


def _stands_out(first: Sequence[Cell], overall: Sequence[Cell]) -> bool:
    """Returns whether a kind of text has a certain winner that is none on all texts, or gains certainly more."""
    if not first or first[0].method == BASELINE or not first[0].measured.is_possible:
        return False
    is_another = len(first) == 1 and (first[0].method, first[0].gamma) not in _settings(overall)
    return is_another or (bool(overall) and first[0].measured.beats(overall[0].measured))


def _overall(first: Sequence[Cell]) -> str:
    if not first:
        return "Nothing can be said: every setting was too noisy."
    drafting = [cell for cell in first if cell.method != BASELINE and cell.measured.is_possible]
    names = [f"{setting_title(cell.method, cell.gamma)}, {cell.measured.words}" for cell in drafting]
    if not drafting and len(first) > 1:
        return "Nothing is certain yet: the settings that may be faster than plain decoding were too noisy."
    if not drafting:
        return "Best for you on these texts: plain decoding. No setting of this sweep was faster."
    if any(cell.method == BASELINE for cell in first):
        close = f" The nearest: {names[0]}." if drafting[0].speedup > 1 else ""
        return f"No difference from plain decoding that this sweep can show.{close} More texts or repeats would tell."
    if len(first) == 1:
        return f"Best for you on these texts: {names[0]} the speed of plain decoding."
    if len(drafting) == 1:
        noisy = "Settings that were too noisy may be as fast."
        return f"Good on these texts: {names[0]} the speed of plain decoding. {noisy}"
    sure = [name for name, cell in zip(names, drafting, strict=True) if cell.measured.tone == "faster"][:3]
    if not sure:
        return f"These may be faster, but none certainly is: {'; '.join(names[:3])}. More texts or repeats would tell."
    others = len(names) - len(sure)
    rest = f"{quantity(others, 'other')} may be as fast" if others else "These cannot be told apart"
    return f"Faster than plain decoding: {'; '.join(sure)}. {rest}; more texts or repeats would tell."


# ── the fastest, in other engines ──


def recipes(result: SweepResult, temperature: float, models: Callable) -> str:
    """Returns the fastest setting of a fixed length, because other engines have no γ = auto; none where plain decoding
    may be as fast. ``models``: gives the names of a pair's models, with a method."""
    cells = [cell for cell in _cells_at(result, temperature) if cell.category == ALL]
    first = leaders(cells).get((temperature, ALL))
    if not first or any(cell.method == BASELINE for cell in first):
        words = "No setting was certainly faster than plain decoding on these texts, so there is nothing to configure."
        return nothing(words)
    fixed = leaders([cell for cell in cells if cell.gamma != AUTO])[temperature, ALL]
    if any(cell.method == BASELINE for cell in fixed):
        return nothing("Only γ = auto was certainly faster than plain decoding, and other engines do not have it.")
    fastest = fixed[0]
    names = models(result.pair, fastest.method)
    choice = Choice(fastest.method, fastest.gamma, **vars(names), greedy=temperature == 0)
    origin = "the fastest above" if fixed == [fastest] else "one of the fastest above"
    if fastest not in first:
        origin += " whose length is fixed, because other engines have no γ = auto"
    if fixed != [fastest]:
        origin += " (these cannot be told apart)"
    return production(choice, origin, f"Measured {fastest.measured.words}, one request at a time.")


# ── files ──


def files(result: SweepResult, where: Mapping[str, str]) -> dict[str, str]:
    """Returns the files by name. ``where``: device, precision, version and time."""
    where = {"pair": result.pair, **where}
    cells = [asdict(cell) | shown_interval(cell.measured) for cell in result.cells]
    content = {"sweep": {**where, **asdict(result.plan)}, "cells": cells}
    return {
        "speclens-sweep.csv": to_csv(result.cells, where),
        "speclens-sweep.json": json.dumps(content, ensure_ascii=False, indent=1),
    }


def read_saved(saved: bytes) -> Recorded:
    """Reads the JSON of a whole sweep."""
    content = json.loads(saved)
    about, cells = content["sweep"], parse_values(tuple[Cell, ...], content["cells"])
    return Recorded.from_file(SweepResult(about["pair"], parse_values(SweepPlan, about), cells, True), about)
