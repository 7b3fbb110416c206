"""Renders many users as charts, a table and sentences. All texts are ours: names of methods and of contexts."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from app.lab.recorded import Recorded
from app.lab.users.work import LONG, SHORT, UsersPlan, UsersResult
from app.views.figures import (
    COLOURS,
    MARKS,
    Figure,
    axes,
    draw_line,
    draw_predicted,
    draw_speedups,
    encode_figures,
    level,
    method_title,
    points,
    with_gaps,
)
from app.views.safe_json import short
from app.views.table import BEST, csv_text, sheet
from engine.config import method_of
from engine.errors import and_list
from engine.tools.bench.answer_words import people
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import shown_interval
from engine.tools.bench.users_results import UsersRow, least_chances, refuted_users, without_refuted_neighbours
from engine.trace.costs import CostModel
from engine.trace.noise import NOISE, Speedup, break_even_bracket, ceiling, winner
from engine.trace.speedup_model import interpolate
from engine.trace.speedup_words import DASH, doubts, number

CONTEXTS = {SHORT: "Prompts as they are", LONG: "After a long text"}
CHARTS = {
    "users-total": "Tokens per second, all users together",
    "users-each": "Tokens per second, each user",
    "users-gain": "Drafting compared with plain decoding",
    "users-price": "How often a draft must be accepted to pay",
}
WAITING = Figure(note="Drawn as soon as the first point is measured.")
DASHES = {SHORT: "solid", LONG: "dot"}
_MARGIN = 1.08  # the factor by which the axis extends beyond the fewest and the most users

Rows = Sequence[UsersRow]


def draw_charts(rows: Mapping[str, Rows], context: str, methods: Sequence[str], costs: Mapping[str, CostModel]) -> str:
    """Draws every chart. ``rows`` are by context; charts that have room for one show ``context``."""
    names = [BASELINE, *(method for method in methods if method != BASELINE)]
    here = rows[context]
    figures = (
        draw_tokens(here, names, False), draw_tokens(here, names, True), draw_gains(rows, names[1:]),
        draw_break_even(here, names[1:], costs),
    )  # fmt: skip
    return encode_figures(dict(zip(CHARTS, figures, strict=True)))


def _look(method: str, names: Sequence[str]) -> dict:
    """Returns colour and mark of a method."""
    if method == BASELINE:
        return {"color": "@plain", "symbol": MARKS[0], "size": 9}
    place = [name for name in names if name != BASELINE].index(method)
    return {"color": COLOURS[place % len(COLOURS)], "symbol": MARKS[1 + place % (len(MARKS) - 1)], "size": 10}


def _axes(rows: Rows, y: str) -> dict:
    """Lays users out on a logarithmic axis, a tick at each number measured."""
    users = sorted({row.users for row in rows})
    layout = axes("users at once", y)
    layout["xaxis"] |= {"type": "log", "tickvals": users, "ticktext": [str(number) for number in users]}
    layout["xaxis"]["range"] = [short(math.log10(users[0] / _MARGIN)), short(math.log10(users[-1] * _MARGIN))]
    return layout


def _rows_of(rows: Rows, method: str) -> list[UsersRow]:
    """Returns a method's rows in order of users, without noise and without rows in which never all wrote at once."""
    known = (row for row in rows if row.method == method and row.all_writing_tokens_per_second and not _is_noise(row))
    return sorted(known, key=lambda row: row.users)


def _is_noise(row: UsersRow) -> bool:
    return row.measured is not None and not row.measured.is_possible


def _gains(rows: Rows, method: str) -> dict[int, Speedup]:
    return {row.users: row.measured for row in _rows_of(rows, method) if row.measured}


# ── the charts ──


def draw_tokens(rows: Rows, names: Sequence[str], is_each: bool) -> Figure:
    """Charts measured tokens as lines, predicted ones dashed."""
    lines = {name: line for name in names if (line := _rows_of(rows, name))}
    if not lines:
        return WAITING
    data, users = [], {row.users for row in rows}
    for name, line in lines.items():
        look, measured = _look(name, names), with_gaps(_rates(line, is_each), users)
        rates = {row.users: row.predicted_tokens_per_second for row in line}
        expected = [(rate := rates.get(number)) and rate / (number if is_each else 1) for number in measured]
        hover = "%{y:.1f} tokens/s, users at once: %{x}"
        data.append(draw_line(method_title(name), measured, measured.values(), look, hovertemplate=hover))
        more = {"showlegend": False, "hovertemplate": hover}
        data.append(draw_predicted(f"{method_title(name)}, predicted", measured, expected, look, **more))
    note = (
        "While all users are written to; prompts do not count. The marks are measured, and lines connect neighbours. "
    )
    note += "Dashed: predicted from plain decoding with the fewest."
    return Figure(data, _axes(rows, "tokens/s of each" if is_each else "tokens/s of all"), note)


def _rates(line: Rows, is_each: bool = False) -> dict[int, float]:
    """Returns tokens a second by number of users, of all together or of each."""
    return {row.users: (row.all_writing_tokens_per_second or 0.0) / (row.users if is_each else 1) for row in line}


def draw_gains(rows: Mapping[str, Rows], methods: Sequence[str]) -> Figure:
    """Charts each method's total over plain decoding's with its 95 % interval, in each context."""
    data, contexts = [], [context for context in rows if rows[context]]
    for context in contexts:
        for name in methods:
            users = {row.users for row in rows[context]}
            line, look = with_gaps(_gains(rows[context], name), users), _look(name, methods)
            if line:
                hover = f"%{{y:.2f}}×, {CONTEXTS[context].lower()}, users at once: %{{x}}"
                more = {"showlegend": context == contexts[0], "hovertemplate": hover}
                data.append(draw_speedups(method_title(name), line, line.values(), look, dash=DASHES[context], **more))
    if not data:
        return Figure(note="Choose a method to compare with plain decoding." if not methods else WAITING.note)
    layout = _axes([row for context in contexts for row in rows[context]], "× plain decoding")
    note = "Below the dashed line the same users get more without drafting."
    note += " Dotted: after a long text." if LONG in contexts else ""
    note += _doubts([row for each in rows.values() for row in each])
    return Figure(data, layout | {"shapes": [level(1.0)]}, note)


def _doubts(rows: Rows) -> str:
    return doubts(any(map(_is_noise, rows)), (row.busy for row in rows))


def doubts_about(rows: Mapping[str, Rows]) -> str:
    """Warns of noise in any context, also in the gain from sharing passes, and of a busy machine."""
    every = [row for each in rows.values() for row in each]
    shared = [gain for each in rows.values() if (gain := _gain_of_sharing(_rows_of(each, BASELINE)))]
    has_noise = any(map(_is_noise, every)) or not all(gain.is_possible for gain in shared)
    return doubts(has_noise, (row.busy for row in every))


def draw_break_even(rows: Rows, methods: Sequence[str], costs: Mapping[str, CostModel]) -> Figure:
    """Charts each method's counted acceptance, and the acceptance from which its drafts should pay, marked where it
    follows from two timed passes: one with a row for each user, and one with a row more. The prediction is left out
    where a measurement contradicts it."""
    if not rows:
        return WAITING
    most, data, crosses, refuted = max(row.users for row in rows), [], [], set()
    hover = "%{y:.0%}, users at once: %{x}"
    for name in methods:
        is_known = name in costs and method_of(name).drafts_one_by_one
        chances = least_chances(costs[name], most) if is_known else {}
        if not chances:
            continue
        look, wrong = _look(name, methods), refuted_users(rows, name)
        refuted |= wrong
        believed = without_refuted_neighbours(wrong, chances, [row.users for row in _rows_of(rows, name)])
        needed, v = with_gaps(believed, chances), costs[name].v
        # Plotly would make marks of several sizes transparent.
        marks = look | {"size": [7 if users in v and users + 1 in v else 0 for users in needed], "opacity": 1}
        title = f"{method_title(name)} needs"
        data.append(draw_line(title, needed, needed.values(), marks, dash="dash", hovertemplate=hover))
        counted = {row.users: row.acceptance for row in _rows_of(rows, name) if row.acceptance is not None}
        more = {"dash": "dot", "showlegend": False, "hovertemplate": f"α = {hover}"}
        data.append(draw_line(f"{method_title(name)}, α", counted, counted.values(), look | {"size": 7}, **more))
        slower = {users for users, gain in _gains(rows, name).items() if gain.tone == "slower"}
        crosses += [(users, alpha) for users, alpha in counted.items() if users in slower]
    if not data:
        return Figure(note="Choose a method that drafts one token after another to see which acceptance it needs.")
    if crosses:
        look = {"marker": {"symbol": "x", "size": 13, "color": "@ink"}, "hovertemplate": "users at once: %{x}"}
        data.append(points("measured: slower than plain decoding", *zip(*crosses, strict=True), mode="markers", **look))
    layout = _axes(rows, "chance of acceptance")
    layout["yaxis"] |= {"range": [0, 1.05], "tickformat": ".0%"}
    v = costs[BASELINE].v
    note = f"With {people(most)} a drafted token costs {most / interpolate(v, most):.1f} times as much as alone. "
    note += "Dotted: α as counted. Dashed: predicted from what passes cost, up to where no draft pays; it is marked "
    note += "where the passes with one draft and without were both timed. "
    if refuted:
        near = and_list(map(str, sorted(refuted)))
        note += f"Near {near} users the prediction is left out, because the measured speedup contradicts it. "
    note += "γ = auto drafts only tokens that are likelier."
    return Figure(data, layout, note)


# ── in words and numbers ──


def table(rows: Rows, methods: Sequence[str], context: str) -> str:
    """Writes a row for each number of users and method; the certain winner of each number is marked."""
    order = [BASELINE, *methods]
    top = {
        users: winner({row.method: row.measured for row in rows if row.users == users and row.measured})
        for users in {row.users for row in rows}
    }
    cells = [
        [
            f"{row.users}", method_title(row.method),
            (_total(row), BEST) if top[row.users] == row.method else _total(row),
            number(row.predicted_tokens_per_second, 1),
            DASH if _is_noise(row) else number(_each(row), 1), _over_plain(row), f"{row.drafted_per_round:.2f}",
            number(row.acceptance, 2), f"{row.total_tokens_per_second:.1f}",
        ]
        for row in sorted(rows, key=lambda row: (row.users, order.index(row.method)))
    ]  # fmt: skip
    heads = [
        "users", "method", "tokens/s of all", "predicted", "of each", "× plain", "drafted a round", "α",
        "of all, with prompts",
    ]  # fmt: skip
    return sheet(f"{CONTEXTS[context]}; ★ is certainly the fastest with as many users", heads, cells)


def _total(row: UsersRow) -> str:
    return NOISE if _is_noise(row) else number(row.all_writing_tokens_per_second, 1)


def _over_plain(row: UsersRow) -> str | tuple[str, str]:
    if _is_noise(row):
        return NOISE, NOISE
    return "1" if row.method == BASELINE else row.measured.words if row.measured else DASH


def _each(row: UsersRow) -> float | None:
    return row.all_writing_tokens_per_second and row.all_writing_tokens_per_second / row.users


def finding(rows: Rows, methods: Sequence[str]) -> str:
    """Says what sharing passes gains, then from how many users on each method no longer pays."""
    plain, sentences = _rows_of(rows, BASELINE), []
    if gain := _gain_of_sharing(plain):
        few, many = plain[0], plain[-1]
        who = "one" if few.users == 1 else f"{few.users}"
        if gain.is_possible:
            got = f"get {gain.value:.1f} times the tokens of {who}"
        else:
            got = f"seem to get more than is possible compared with {who}: that is noise, so measure again"
        sentences.append(f"Without drafting, {many.users} users together {got}.")
    for name in methods:
        if line := _gains(rows, name):
            sentences.append(_verdict(method_title(name)[:1].upper() + method_title(name)[1:], line))
    words = " ".join(sentences) or "Nothing could be compared: no round had all users in it."
    return words + _doubts(rows)


def _gain_of_sharing(plain: Rows) -> Speedup | None:
    """Returns the most users' total speed ÷ that of the fewest, without drafting; None for one number of users."""
    if len(plain) < 2:
        return None
    measured, few, many = _rates(plain), plain[0].users, plain[-1].users
    return Speedup(measured[many] / measured[few], ceiling=ceiling(many / few))  # a pass gives each user one token


def _verdict(name: str, gains: Mapping[int, Speedup]) -> str:
    """Says where a method pays, as far as the intervals tell. A crossing is only known to lie between two numbers that
    were measured."""
    users = sorted(gains)
    tones = [gains[number].tone for number in users]
    if "slower" in tones and "faster" in tones[tones.index("slower") :]:
        return f"{name} pays with some numbers of users and not with fewer: too noisy to say; raise the repeats."
    pays, stops = break_even_bracket([(number, gains[number]) for number in users])
    if pays is None and stops is None:
        return f"{name} makes no difference that could be measured."
    if pays is None and set(tones) == {"slower"}:
        return f"{name} does not pay with any number of users here."
    if pays is None:
        return f"{name} isn't certainly faster with any number of users, and it's slower with {stops}."
    if pays == users[-1]:
        return f"{name} still pays with {people(pays)}: {gains[pays].words}."
    if stops is None:
        return f"{name} pays with {'up to ' * (pays > 1)}{people(pays)}; with more there is no certain difference."
    gap = f" It stops paying somewhere between {pays} and {stops}: measure between them." if stops > pays + 1 else ""
    return f"{name} pays with {people(pays)} ({gains[pays].words}) and no longer with {stops}.{gap}"


# ── files ──


def to_csv(rows: Mapping[str, Rows], where: Mapping[str, str]) -> str:
    """Writes a header and a row for each context, number of users and method; an impossible speedup is left out.
    ``where``: as in `to_json`."""
    names = [field.name for field in fields(UsersRow)]
    noise = dict.fromkeys(("over_plain", "all_writing_over_plain", "low", "high"))
    known = [
        (context, asdict(row) | (noise if _is_noise(row) else _interval(row)))
        for context, each in rows.items()
        for row in each
    ]
    lines = [[context, *(row[name] for name in names)] for context, row in known]
    return csv_text(["prompts_are", *names], lines, where)


def _interval(row: UsersRow) -> dict:
    return shown_interval(row.measured) if row.measured else {}


def to_json(result: UsersResult, where: Mapping[str, str]) -> str:
    """Writes everything. ``where``: device, precision, version and time."""
    content = {
        "speclens": "many-users", "pair": result.pair, **where, **asdict(result.plan),
        "costs": {method: asdict(model) for method, model in result.costs.items()},
        "rows": {context: [asdict(row) | _interval(row) for row in each] for context, each in result.rows.items()},
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False)


def from_json(saved: bytes) -> Recorded:
    """Reads what `to_json` gave of a whole experiment."""
    content = json.loads(saved)
    plan, costs = parse_values(UsersPlan, content), parse_values(dict[str, CostModel], content["costs"])
    rows = parse_values(dict[str, tuple[UsersRow, ...]], content["rows"])
    return Recorded.from_file(UsersResult(content["pair"], plan, rows, costs, True), content)
