"""Renders many users as charts, a table, sentences and files. All texts are ours: names of methods and of contexts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from app.lab.recorded import Recorded
from app.lab.users.work import LONG, SHORT, UsersPlan, UsersResult
from app.views import figures
from app.views.figures import COLOURS, MARKS, Figure, draw_line, draw_speedups, level, method_title, points, with_gaps
from app.views.table import BEST, csv_text, sheet, speedup_cell
from engine.config import method_of
from engine.errors import and_list, quantity
from engine.tools.bench.answer_words import people
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sample import BASELINE
from engine.tools.bench.sweep_results import shown_interval
from engine.tools.bench.users_results import UsersRow, least_chances, refuted_users, without_refuted_neighbours
from engine.tools.bench.winners import break_even_bracket, winner
from engine.trace.costs import CostModel
from engine.trace.noise import NOISE, Speedup, ceiling
from engine.trace.speedup_model import interpolate
from engine.trace.speedup_words import DASH, number
from engine.trace.speedup_words import doubts as words_of_doubts

CONTEXTS = {SHORT: "Prompts as they are", LONG: "After a long text"}
CHARTS = {
    "users-total": "Tokens per second, all users together",
    "users-each": "Tokens per second, each user",
    "users-gain": "Drafting compared with plain decoding",
    "users-price": "How often a draft must be accepted to pay",
}
WAITING = Figure(note="Drawn as soon as the first point is measured.")
DASHES = {SHORT: "solid", LONG: "dot"}

Rows = Sequence[UsersRow]


def parts(result: UsersResult) -> list[tuple[str, str]]:
    """Returns (words, context) of each that has points."""
    return [(CONTEXTS[name], name) for name in result.contexts]


def draw(result: UsersResult, context: str) -> dict[str, str]:
    """Returns every chart, and the table of a context. Charts that have room for one context show that one."""
    rows, methods = result.rows[context], [method for method in result.plan.methods if method != BASELINE]
    drawn = (
        draw_tokens(rows, methods, False), draw_tokens(rows, methods, True), draw_gains(result.rows, methods),
        draw_break_even(rows, methods, result.costs),
    )  # fmt: skip
    charts = figures.encode_figures(dict(zip(CHARTS, drawn, strict=True)))
    return {"charts": charts, "table": table(rows, methods, context)}


def _look(method: str, methods: Sequence[str]) -> dict:
    """Returns colour and mark of a method among ``methods``, or of plain decoding."""
    if method == BASELINE:
        return {"color": "@plain", "symbol": MARKS[0], "size": 9}
    place = methods.index(method)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "symbol": MARKS[1 + place % (len(MARKS) - 1)],
        "size": 10,
    }


def _users(rows: Rows) -> list[int]:
    return sorted({row.users for row in rows})


def _rows_of(rows: Rows, method: str) -> list[UsersRow]:
    """Returns a method's rows in order of users, without noise and without rows in which never all wrote at once."""
    known = (row for row in rows if row.method == method and row.all_writing_tokens_per_second and not _is_noise(row))
    return sorted(known, key=lambda row: row.users)


def _is_noise(row: UsersRow) -> bool:
    return row.measured is not None and not row.measured.is_possible


def _rate(row: UsersRow) -> float:
    return row.all_writing_tokens_per_second or 0.0


def _gains(rows: Rows, method: str) -> dict[int, Speedup]:
    return {row.users: row.measured for row in _rows_of(rows, method) if row.measured}


def _gain_of_sharing(plain: Rows) -> Speedup | None:
    """Returns the most users' total speed ÷ the fewest users', without drafting; None for one number of users."""
    if len(plain) < 2:
        return None
    gain = _rate(plain[-1]) / _rate(plain[0])
    return Speedup(gain, ceiling=ceiling(plain[-1].users / plain[0].users))  # a pass gives each user one token


def _doubts(rows: Rows) -> str:
    return words_of_doubts(any(map(_is_noise, rows)), (row.busy for row in rows))


def doubts(result: UsersResult) -> str:
    """Warns of noise in any context, also in the gain from sharing passes, and of a busy machine."""
    every = [row for each in result.rows.values() for row in each]
    shared = [gain for each in result.rows.values() if (gain := _gain_of_sharing(_rows_of(each, BASELINE)))]
    has_noise = any(map(_is_noise, every)) or not all(gain.is_possible for gain in shared)
    return words_of_doubts(has_noise, (row.busy for row in every))


# ── the charts ──


def draw_tokens(rows: Rows, methods: Sequence[str], is_each: bool) -> Figure:
    """Charts measured tokens as lines, predicted ones dashed; ``is_each``: the tokens of one user."""
    data, users, hover = [], _users(rows), "%{y:.1f} tokens/s, users at once: %{x}"
    for name in (BASELINE, *methods):
        own, title, mark = _rows_of(rows, name), method_title(name), _look(name, methods)
        if line := with_gaps({row.users: _rate(row) / (row.users if is_each else 1) for row in own}, users):
            rates = {row.users: row.predicted_tokens_per_second for row in own}
            expected = [(rate := rates.get(n)) and rate / (n if is_each else 1) for n in line]
            more = {"showlegend": False, "hovertemplate": hover}
            data.append(draw_line(title, line, line.values(), mark, hovertemplate=hover))
            data.append(figures.draw_predicted(f"{title}, predicted", line, expected, mark, **more))
    if not data:
        return WAITING
    note = "While all users are written to; prompts do not count. The marks are measured, and lines connect neighbours."
    note += " Dashed: predicted from plain decoding with the fewest."
    return Figure(data, figures.users_axes(users, "tokens/s of each" if is_each else "tokens/s of all"), note)


def draw_gains(rows: Mapping[str, Rows], methods: Sequence[str]) -> Figure:
    """Charts each method's total over plain decoding's with its 95 % interval, in each context."""
    data, contexts = [], [context for context in rows if rows[context]]
    for context in contexts:
        hover = f"%{{y:.2f}}×, {CONTEXTS[context].lower()}, users at once: %{{x}}"
        more = {"dash": DASHES[context], "showlegend": context == contexts[0], "hovertemplate": hover}
        for name in methods:
            if line := with_gaps(_gains(rows[context], name), _users(rows[context])):
                data.append(draw_speedups(method_title(name), line, line.values(), _look(name, methods), **more))
    if not data:
        return Figure(note="Choose a method to compare with plain decoding." if not methods else WAITING.note)
    every = [row for each in rows.values() for row in each]
    note = "Whiskers hold the true ratio 95 times in 100. Below the dashed line, users get more without drafting."
    note += f"{' Dotted: after a long text.' if LONG in contexts else ''}{_doubts(every)}"
    return Figure(data, figures.users_axes(_users(every), "× plain decoding", shapes=[level(1.0)]), note)


def draw_break_even(rows: Rows, methods: Sequence[str], costs: Mapping[str, CostModel]) -> Figure:
    """Charts each method's counted acceptance, and the acceptance from which its drafts should pay, marked where it
    follows from two timed passes: one with a row for each user, and one with a row more. The prediction is left out
    where a measurement contradicts it."""
    if not rows:
        return WAITING
    users, data, crosses, refuted, hover = _users(rows), [], [], set(), "%{y:.0%}, users at once: %{x}"
    for name in methods:
        is_known = name in costs and method_of(name).drafts_one_by_one
        chances = least_chances(costs[name], users[-1]) if is_known else {}
        if not chances:
            continue
        own, mark, title, v = _rows_of(rows, name), _look(name, methods), method_title(name), costs[name].v
        wrong = refuted_users(rows, name)
        refuted |= wrong
        needed = with_gaps(without_refuted_neighbours(wrong, chances, [row.users for row in own]), chances)
        # Plotly would make marks of several sizes transparent.
        timed = mark | {"size": [7 if n in v and n + 1 in v else 0 for n in needed], "opacity": 1}
        data.append(draw_line(f"{title} needs", needed, needed.values(), timed, dash="dash", hovertemplate=hover))
        counted = {row.users: row.acceptance for row in own if row.acceptance is not None}
        more = {"dash": "dot", "showlegend": False, "hovertemplate": f"α = {hover}"}
        data.append(draw_line(f"{title}, α", counted, counted.values(), mark | {"size": 7}, **more))
        slower = {row.users for row in own if row.measured and row.measured.tone == "slower"}
        crosses += [(n, alpha) for n, alpha in counted.items() if n in slower]
    if not data:
        return Figure(note="Choose a method that drafts one token after another to see which acceptance it needs.")
    if crosses:
        more = {"marker": {"symbol": "x", "size": 13, "color": "@ink"}, "hovertemplate": "users at once: %{x}"}
        data.append(points("measured: slower than plain decoding", *zip(*crosses, strict=True), mode="markers", **more))
    layout = figures.users_axes(users, "chance of acceptance")
    layout["yaxis"] |= {"range": [0, 1.05], "tickformat": ".0%"}
    price = users[-1] / interpolate(costs[BASELINE].v, users[-1])
    note = f"With {people(users[-1])} a drafted token costs {price:.1f} times as much as alone. "
    note += "Dotted: α as counted. Dashed: predicted from what passes cost, up to where no draft pays; it is marked "
    note += "where the passes with one draft and without were both timed. "
    if refuted:
        near = and_list(map(str, sorted(refuted)))
        note += f"Near {near} users the prediction is left out, because the measured speedup contradicts it. "
    return Figure(data, layout, note + "γ = auto drafts only tokens that are likelier.")


# ── in words and numbers ──


def table(rows: Rows, methods: Sequence[str], context: str) -> str:
    """Writes a row for each number of users and method; the certain winner of each number is marked."""
    order, top = [BASELINE, *methods], {}
    for users in _users(rows):
        top[users] = winner({row.method: row.measured for row in rows if row.users == users and row.measured})
    cells = [
        [
            f"{row.users}", method_title(row.method),
            (_total(row, 1), BEST if top[row.users] == row.method else ""), number(row.predicted_tokens_per_second, 1),
            DASH if _is_noise(row) else _total(row, row.users), speedup_cell(row.measured),
            f"{row.drafted_per_round:.2f}", number(row.acceptance, 2), f"{row.total_tokens_per_second:.1f}",
        ]
        for row in sorted(rows, key=lambda row: (row.users, order.index(row.method)))
    ]  # fmt: skip
    heads = ("users", "method", "tokens/s of all", "predicted", "of each", "× plain", "drafted a round",
             "α, share accepted", "of all, with prompts")  # fmt: skip
    return sheet(f"{CONTEXTS[context]}; ★ is certainly the fastest with as many users", heads, cells)


def _total(row: UsersRow, share: int) -> str:
    rate = row.all_writing_tokens_per_second
    return NOISE if _is_noise(row) else number(rate and rate / share, 1)


def verdict(result: UsersResult) -> str:
    answers = f"Answers of {quantity(result.plan.tokens, 'token')}, γ = {result.plan.gamma}."
    return f"{answers} {advice(result, result.part_shown)}"


def advice(result: UsersResult, context: str) -> str:
    """Says what sharing passes gains, then from how many users on each method no longer pays."""
    rows = result.rows[context]
    plain, sentences = _rows_of(rows, BASELINE), []
    if gain := _gain_of_sharing(plain):
        who = "one" if plain[0].users == 1 else f"{plain[0].users}"
        words = f"get {gain.value:.1f} times the tokens of {who}"
        if not gain.is_possible:
            words = f"seem to get more than is possible compared with {who}: that is noise, so measure again"
        sentences.append(f"Without drafting, {plain[-1].users} users together {words}.")
    for name in result.plan.methods:
        if line := _gains(rows, name):
            title = method_title(name)
            sentences.append(_verdict(title[:1].upper() + title[1:], line))
    words = " ".join(sentences) or "Nothing could be compared: no round had all users in it."
    return words + _doubts(rows)


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


def files(result: UsersResult, where: Mapping[str, str]) -> dict[str, str]:
    """Returns the files by name: a row for each context, number of users and method. ``where``: device, precision,
    version and time."""
    content = {
        "speclens": "many-users", "pair": result.pair, **where, **asdict(result.plan),
        "costs": {method: asdict(model) for method, model in result.costs.items()},
        "rows": {context: [_values(row) for row in rows] for context, rows in result.rows.items()},
    }  # fmt: skip
    names = [field.name for field in fields(UsersRow)]
    noise = dict.fromkeys(("over_plain", "all_writing_over_plain", "low", "high"))
    lines = []
    for context, rows in result.rows.items():
        known = [_values(row) | (noise if _is_noise(row) else {}) for row in rows]
        lines += [[context, *(row[name] for name in names)] for row in known]
    return {
        "speclens-many-users.csv": csv_text(["prompts_are", *names], lines, {"pair": result.pair, **where}),
        "speclens-many-users.json": json.dumps(content, indent=1, allow_nan=False),
    }


def _values(row: UsersRow) -> dict:
    return asdict(row) | (shown_interval(row.measured) if row.measured else {})


def read_saved(saved: bytes) -> Recorded:
    """Reads the JSON of a whole experiment."""
    content = json.loads(saved)
    plan, costs = parse_values(UsersPlan, content), parse_values(dict[str, CostModel], content["costs"])
    rows = parse_values(dict[str, tuple[UsersRow, ...]], content["rows"])
    return Recorded.from_file(UsersResult(content["pair"], plan, rows, costs, True), content)
