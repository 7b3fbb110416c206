"""Renders an answer: a sentence, one picture, what would change it and how sure it is, and configurations."""

import json
from dataclasses import asdict

from app.lab.answer.plan import CURVE, NONE, PLACES, TOKENS_OF_A_LOAD, AnswerResult, Setting, schedule
from app.views.engine_recipes import Choice, nothing, production
from app.views.figures import TITLES, Figure, axes, encode_figures, level, points, whiskers
from app.views.safe_json import encode, short
from engine.bench.metrics import ALL
from engine.bench.sample import BASELINE
from engine.trace.noise import Speedup, about_machine
from engine.trace.speedup_model import break_even

PICTURE = "answer-picture"
WAITING = Figure(note="Drawn as soon as the first text has been measured.")
COLOURS = ("@run", "@predicted", "@accepted", "@bonus")
MARKS = ("circle", "diamond", "triangle-up", "x")


def name(setting: Setting) -> str:
    method, gamma = setting
    return "plain decoding" if setting == NONE else f"{TITLES.get(method, method)} with γ {gamma}"


def people(users: int) -> str:
    return "one user" if users == 1 else f"{users} users at once"


# ── the sentences ──


def sentences(result: AnswerResult) -> dict[str, str]:
    """``answer``, ``alone`` (for one user, where the load is larger), ``change`` and ``sure``."""
    if not result:
        return dict.fromkeys(("answer", "alone", "change", "sure"), "")
    users = result.plan.users
    return {
        "answer": _answer(result, users),
        "alone": _answer(result, 1) if users > 1 else "",
        "change": _change(result, users),
        "sure": _sure(result),
    }


def _answer(result: AnswerResult, users: int) -> str:
    speedups = result.at(users)
    if users > 1 and len(speedups) == 1:
        return f"For {people(users)} nothing is measured yet."
    best = result.best(users)
    drafting = [setting for setting in best if setting != NONE and speedups[setting].is_possible]
    predicted = " (predicted)" if _is_predicted(result, users) else ""
    if not drafting and len(best) > 1:
        return f"For {people(users)} nothing is certain yet: what may be faster than plain decoding came out as noise."
    if not drafting and (fewer := result.unpaid_before(users)):
        if any(result.best(each) == [NONE] for each in fewer):
            return f"For {people(users)} do not draft: with fewer users no setting was as fast as plain decoding."
        return f"For {people(users)} do not draft yet: with fewer users no difference was certain."
    if not drafting:
        return f"For {people(users)} do not draft: no setting was as fast as plain decoding{predicted}."
    first = drafting[0]
    words = f"{name(first)}: {speedups[first].words}{predicted}"
    if NONE in best:
        return f"For {people(users)} do not draft yet: no difference that was certain. The nearest is {words}."
    text = f"For {people(users)} use {words}."
    if len(drafting) > 1:
        text += f" {name(drafting[1])[:1].upper()}{name(drafting[1])[1:]} may be as fast."
    return text


def _is_predicted(result: AnswerResult, users: int) -> bool:
    return result.is_predicted or (users > 1 and not any(load.users == users for load in result.loads))


def _change(result: AnswerResult, users: int) -> str:
    """What the answer turns on: the acceptance that this load needs, the kind of text, the load itself."""
    best = [setting for setting in result.best(users) if setting != NONE] or result.settings[:1]
    if not best or best[0] not in result.alone:
        return ""
    words = [_needed(result, best[0], users), _by_kind(result, best[0])]
    words.append("Other texts, a higher temperature or another model have another acceptance: measure those.")
    if users > 1:
        words.append("In a crowded pass a draft takes the seat of someone's real token.")
    return " ".join(filter(None, words))


def _needed(result: AnswerResult, setting: Setting, users: int) -> str:
    method, alpha = setting[0], result.alone[setting].alpha
    if alpha is None or not (result.is_predicted or method in result.costs):
        return ""
    least = break_even(1, *result.costs_of_all(method, users))
    if least is None:
        return f"For {people(users)} not even a guess that always holds would pay."
    needed = f"For {people(users)} a guess pays from a chance of {least:.0%} on" if least else "Here any guess pays"
    return f"{needed}; {alpha:.0%} of the tested ones held."


def _by_kind(result: AnswerResult, setting: Setting) -> str:
    cells = [cell for cell in result.cells if cell.category != ALL and (cell.method, cell.gamma) == setting]
    rows = [(cell.speedup, cell.category) for cell in cells if cell.measured.is_possible]
    if len(rows) < 2:
        return ""
    (low, dear), (high, cheap) = min(rows), max(rows)
    return f"By text it went from {low:.2f}× ({dear}) to {high:.2f}× ({cheap})."


def _sure(result: AnswerResult) -> str:
    turns = max(cell.turns for cell in result.cells)
    texts = len(result.plan.texts)
    counted = f"{texts} text{'' if texts == 1 else 's'}, {turns} turn{'' if turns == 1 else 's'} each setting"
    if result.is_predicted:
        sure = (
            f"Predicted for {PLACES[result.plan.place].title}, never timed there: tokens a pass as counted here with "
            f"{result.pair} ({counted}), times from the makers' data sheets. "
            "The brackets take half of the gain for its error."
        )
    elif turns > 1:
        sure = f"Measured here: {counted}, in turn with plain decoding. Brackets hold the true ratio 95 times in 100."
    else:
        sure = f"Measured here once: {counted}. Let it go on to get intervals."
    noise, at_end = sum(not each.is_possible for each in _all(result)), "" if result.is_complete else " at the end"
    if noise:
        sure += f" {_several(noise)} faster than the tokens a pass allow, which is noise: press Measure again{at_end}."
    if result.loads and not result.is_predicted:
        sure += f" With several users passes were timed over the first {TOKENS_OF_A_LOAD} tokens of each answer;"
        sure += " how many tokens a pass brings is taken from the whole answers."
    if not result.is_complete:
        sure += " Not everything is measured yet: this is what there is so far."
    return f"{sure} {about_machine(result.busy)}".rstrip()


def _several(number: int) -> str:
    return "One setting came out" if number == 1 else f"{number} settings came out"


def _all(result: AnswerResult) -> list[Speedup]:
    return [cell.measured for cell in result.alone.values()] + [load.speedup for load in result.loads]


# ── the picture ──


def picture(result: AnswerResult) -> str:
    return encode_figures({PICTURE: _figure(result) if result else WAITING})


def _figure(result: AnswerResult) -> Figure:
    """Speedup against users, a line for each setting on the shortlist; measured points with their intervals, the
    prediction dashed."""
    data, settings = [], [setting for setting in result.settings if setting in result.alone]
    for place, setting in enumerate(settings):
        colour, measured = COLOURS[place % len(COLOURS)], _measured(result, setting)
        look = {"color": colour, "symbol": MARKS[place % len(MARKS)], "size": 11}
        if measured:
            ends = [speedup.ends for speedup in measured.values()]
            values = [speedup.value for speedup in measured.values()]
            up = [max(0.0, high - value) for (_, high), value in zip(ends, values, strict=True)]
            down = [max(0.0, value - low) for (low, _), value in zip(ends, values, strict=True)]
            data.append(points(
                name(setting), [*measured], values, mode="lines+markers", marker=look, error_y=whiskers(up, down),
                line={"width": 3, "color": colour}, hovertemplate="%{y:.2f}×, users at once: %{x}",
            ))  # fmt: skip
        if setting[0] in result.costs or result.is_predicted:
            curve = [result.predicted(setting, users).known for users in CURVE]
            data.append(points(
                f"{name(setting)}, predicted", CURVE, curve, mode="lines", showlegend=not measured,
                line={"width": 2, "color": colour, "dash": "dash"},
                hovertemplate="%{y:.2f}× predicted, users at once: %{x}",
            ))  # fmt: skip
    if not data:
        return WAITING
    layout = axes("users at once", "× plain decoding", shapes=[level(1.0)])
    layout["xaxis"] |= {"type": "log", "tickvals": list(CURVE), "ticktext": [str(users) for users in CURVE]}
    layout["xaxis"]["range"] = [short(-0.05), short(1.86)]
    measured = "Points are measured, with the interval of each. " if not result.is_predicted else ""
    return Figure(data, layout, f"{measured}Dashed: predicted from costs. Above 1 drafting pays.")


def _measured(result: AnswerResult, setting: Setting) -> dict[int, Speedup]:
    if result.is_predicted:
        return {}
    points = {1: result.alone[setting].measured}
    points |= {load.users: load.speedup for load in result.loads if load.setting == setting}
    return {users: speedup for users, speedup in sorted(points.items()) if speedup.is_possible}


# ── configuration and files ──


def recipes(result: AnswerResult, models) -> str:
    """Configurations of other engines for the load asked for. ``models(method)`` gives the pair's names."""
    users = result.plan.users
    best = result.best(users) if result else []
    if not best:
        return ""
    drafting = [setting for setting in best if setting != NONE]
    alone = [setting for setting in result.best(1) if setting != NONE and NONE not in result.best(1)]
    if NONE in best and not alone:
        return nothing("Leave drafting off: plain decoding is what every engine does by itself.")
    method, gamma = drafting[0] if NONE not in best else alone[0]
    ranges = schedule(result, method)
    names = models(method)
    target, draft, gguf = names.target, names.draft, names.gguf
    if result.is_predicted:
        base, small, head = PLACES[result.plan.place].names
        target, draft, gguf = base, {"lm": small, "eagle": head}.get(method, draft), None
    choice = Choice(
        method, gamma, target, draft, gguf, translated=names.translated and not result.is_predicted,
        schedule=ranges if len(ranges) > 1 else (), eagle=None if result.is_predicted else names.eagle,
    )  # fmt: skip
    known = ", as predicted" if _is_predicted(result, users) else ""
    is_less = any(most < users and longer > gamma for _, most, longer in choice.schedule)
    fewer = ", more for fewer users where the engine has a schedule" if is_less else ""
    where = f"for {people(users)}{known}{fewer}"
    if NONE in best:
        where = f"for one user: for {people(users)} leave drafting off"
    return production(choice, whence=where)


def value(result: AnswerResult) -> str:
    """The value of the answer component."""
    return encode(sentences(result)) if result else ""


def as_json(result: AnswerResult) -> str:
    plan = asdict(result.plan)
    alone = [asdict(cell) for cell in result.cells]
    loads = [asdict(load) for load in result.loads]
    content = {"speclens": "answer", "pair": result.pair, "plan": plan, "sentences": sentences(result)}
    return json.dumps(content | {"alone": alone, "loads": loads}, ensure_ascii=False, indent=1, default=str)


def to_rows(result: AnswerResult) -> list[tuple]:
    """(users, method, γ, speedup, low, high) of every setting; None for a value that cannot be."""
    rows = [(1, *setting, cell.measured) for setting, cell in result.alone.items() if setting[0] != BASELINE]
    rows += [(load.users, *load.setting, load.speedup) for load in result.loads]
    return [
        (users, method, gamma, *((s.value, s.low, s.high) if s.is_possible else (None, None, None)))
        for users, method, gamma, s in rows
    ]
