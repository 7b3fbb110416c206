"""Renders an answer: its sentences, one picture, configurations of other engines, and files."""

import json
from collections.abc import Mapping

from app.lab.recorded import Recorded
from app.views import figures
from app.views.engine_recipes import nothing, production
from app.views.figures import Figure
from app.views.safe_json import encode
from app.views.table import csv_text, empty, sheet
from engine.config import METHODS
from engine.errors import quantity
from engine.tools.bench.answer import (
    CURVE,
    GAMMAS,
    NONE,
    AnswerPlan,
    AnswerResult,
    Load,
    Request,
)
from engine.tools.bench.answer_recipes import configuration
from engine.tools.bench.answer_rule import RuleCell, to_json
from engine.tools.bench.answer_words import COLUMNS, name, people, sentences, to_dict, to_rows
from engine.tools.bench.result_file import parse_values
from engine.tools.bench.sweep_results import Cell
from engine.trace.costs import CostModel
from engine.trace.noise import Speedup, ceiling
from engine.trace.speedup_words import doubts as words_of_doubts

ABOUT = ("device", "precision", "weights", "measured", "speclens", "form")  # where an answer comes from
PICTURE = "answer-picture"
WAITING = Figure(note="Drawn as soon as the first text has been measured.")


def draw(result: AnswerResult) -> dict[str, str]:
    """Returns the sentences and the picture."""
    words = encode(sentences(result)) if result else ""
    return {"answer": words, "charts": picture(result), "rule": rule_table(result)}


def verdict(result: AnswerResult) -> str:
    kinds = f" of {quantity(len(result.kinds), 'kind')}" if result.kinds else ""
    return f"The question: {quantity(len(result.plan.texts), 'text')}{kinds}, {people(result.plan.largest_load)}."


def doubts(result: AnswerResult) -> str:
    return words_of_doubts(result.has_noise, [result.busy])


def read_saved(saved: bytes) -> Recorded:
    """Reads the JSON of an answer that is whole, without noise and of this machine. The texts are not in
    it."""
    content = json.loads(saved)
    question, rows = content["question"], content["rows"]
    texts = tuple({"text": "-", "category": kind} for kind, count in question["kinds"].items() for _ in range(count))
    plan = parse_values(AnswerPlan, question | {"texts": texts, "tokens": question["max_new_tokens"]})
    alone = [row | {"category": row["kind"], "temperature": plan.temperature} for row in rows if row["users"] == 1]
    loads = [
        Load(row["users"], (row["method"], row["gamma"]),
             Speedup(row["speedup"], row["low"], row["high"], ceiling(row["tau"]), row["busy"]))
        for row in rows if row["users"] > 1
    ]  # fmt: skip
    cells, costs = parse_values(tuple[Cell, ...], alone), parse_values(dict[str, CostModel], content["costs"])
    about = {name: content[name] for name in ABOUT if name in content}
    requests = parse_values(tuple[Request, ...], content.get("requests", []))
    rule = parse_values(tuple[RuleCell, ...], content.get("rule", []))
    result = AnswerResult(
        content["pair"], plan, cells, tuple(loads), costs, content["is_complete"], about, requests, rule
    )  # fmt: skip
    return Recorded.from_file(result, content | {"saved": content["measured"]})


def files(result: AnswerResult, where: Mapping[str, str]) -> dict[str, str]:
    """Returns the files by name. An answer has its own machine and time, in place of ``where``."""
    rows = [[row[column] for column in COLUMNS] for row in to_rows(result)]
    where = {name: str(result.about.get(name) or "") for name in ("device", "precision", "measured", "speclens")}
    return {
        "speclens-answer.csv": csv_text(COLUMNS, rows, where),
        "speclens-answer.json": json.dumps(to_dict(result), ensure_ascii=False, indent=1),
        "speclens-rule.json": to_json(result.rule, where | {"pair": result.pair}),
    }


def rule_table(result: AnswerResult) -> str:
    """Writes the rule for a router. A cell without a measurement is empty."""
    columns = ["Kind of text", "Prompt, characters", "Users", "Draft?", "With", "Speedup", "A wrong choice", "Turns"]
    return sheet("", columns, [_rule_row(cell) for cell in result.rule]) if result.rule else empty()


def _rule_row(cell: RuleCell) -> list:
    end = "any" if cell.longest is None and not cell.shortest else f"from {cell.shortest:,}"
    length = f"up to {cell.longest:,}" if cell.longest and not cell.shortest else end
    length = f"{cell.shortest:,} to {cell.longest:,}" if cell.longest and cell.shortest else length
    row = ["all kinds" if cell.kind == "all" else cell.kind, length, str(cell.users)]
    if cell.method is None or cell.speedup is None:
        return [*row, "", "", "", "", ""]
    words = {True: "on", False: "off", None: "not certain"}[cell.draft]
    wrong = f"{cell.wrong:.2f}× as long" if cell.wrong else ""
    speedup = Speedup(cell.speedup, cell.low, cell.high).words
    return [*row, words, name((cell.method, cell.gamma or 0)), speedup, wrong, str(cell.turns)]


# ── the picture ──


def picture(result: AnswerResult) -> str:
    if not result:
        figure = WAITING
    elif result.is_elsewhere and result.curve and (predicted := _by_curve(result)):
        figure = predicted
    else:
        figure = _tokens(result) if result.is_elsewhere else _speedups(result)
    return figures.encode_figures({PICTURE: figure})


def _by_curve(result: AnswerResult) -> Figure | None:
    """Charts the predicted speedup on the machine of a curve against users, a line for the best length of each method;
    None where the curve is too short for any."""
    assert result.curve
    data, hover = [], "%{y:.2f}× predicted, users at once: %{x}"
    for place, method in enumerate(dict.fromkeys(method for method, _ in result.alone if method != NONE[0])):
        lines = [
            [result.predict_by_curve(setting, users) for users in CURVE]
            for setting in result.alone if setting[0] == method
        ]  # fmt: skip
        best = [max((line[i].value for line in lines if line[i]), default=None) for i in range(len(CURVE))]
        if any(best):
            mark = figures.look(place, 11)
            data.append(figures.draw_predicted(METHODS[method].title, CURVE, best, mark, hovertemplate=hover))
    layout = figures.users_axes(CURVE, "× plain decoding", 1.12, shapes=[figures.level(1.0)])
    note = f"Predicted for the machine of your curve, {result.curve.source}, with each method's best length at each "
    note += f"load, not measured. Lines end where a pass would be wider than the curve's {result.curve.widest} rows."
    return Figure(data, layout, note) if data else None


def _tokens(result: AnswerResult) -> Figure:
    """Charts tokens per pass against drafts a round, a line for each method."""
    data, hover = [], "%{y:.2f} tokens, drafts a round: %{x}"
    for place, method in enumerate(dict.fromkeys(method for method, _ in result.alone if method != NONE[0])):
        taus = {gamma: cell.tau for (own, gamma), cell in sorted(result.alone.items()) if own == method}
        mark = figures.look(place, 11)
        data.append(figures.draw_line(METHODS[method].title, taus, taus.values(), mark, hovertemplate=hover))
    layout = figures.axes("drafts a round", "tokens per pass", shapes=[figures.level(1.0)])
    layout["xaxis"] |= {"tickvals": list(GAMMAS), "ticktext": [str(gamma) for gamma in GAMMAS]}
    return Figure(data, layout, "Counted on your texts. A speedup is less, and has to be measured on that server.")


def _speedups(result: AnswerResult) -> Figure:
    """Charts the speedup against users, a line for each setting on the shortlist; measured points with their intervals,
    the prediction dashed."""
    data, settings = [], [setting for setting in result.settings if setting in result.alone]
    for place, setting in enumerate(settings):
        mark, known = figures.look(place, 11), {1: result.alone[setting].measured}
        known |= {load.users: load.speedup for load in result.loads if load.setting == setting}
        measured = {users: speedup for users, speedup in known.items() if speedup.is_possible}
        if line := figures.with_gaps(measured, result.measured_loads):
            hover = "%{y:.2f}×, users at once: %{x}"
            data.append(figures.draw_speedups(name(setting), line, line.values(), mark, hovertemplate=hover))
        if setting[0] in result.costs:
            curve = [result.predict(setting, users).possible_value for users in CURVE]
            more = {"showlegend": not measured, "hovertemplate": "%{y:.2f}× predicted, users at once: %{x}"}
            data.append(figures.draw_predicted(f"{name(setting)}, predicted", CURVE, curve, mark, **more))
    if not data:
        return WAITING
    note = "Marks are measured, with the interval of each, and lines connect neighbours. Dashed: predicted from costs. "
    note += "Above 1 drafting pays."
    if result.refuted_predictions():
        note += " Where a point's interval excludes the dashed line, the point is right."
    return Figure(data, figures.users_axes(CURVE, "× plain decoding", 1.12, shapes=[figures.level(1.0)]), note)


# ── configurations ──


def recipes(result: AnswerResult, models, model: str = "") -> str:
    """Writes configurations of other engines for the largest load asked for. ``models(method)`` gives the pair's names;
    ``model``: the reader's own target instead."""
    if not result:
        return ""
    choice, words = configuration(result, models, model)
    return production(choice, words) if choice else nothing(words)
