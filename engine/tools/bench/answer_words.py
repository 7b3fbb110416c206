"""Puts an answer into words: what to use at each load, by kind of text, what would change it, and how sure it is."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from engine.config import METHODS
from engine.errors import and_list, percent, quantity
from engine.tools.bench.answer import NONE, AnswerResult, KeptRequest, Request, Setting, drafting_leaders
from engine.tools.bench.sweep_results import Cell
from engine.tools.bench.whole_request import time_words
from engine.tools.bench.winners import break_even, costs_for_all, fastest
from engine.trace.costs import BUSY
from engine.trace.noise import Speedup, about_machine
from engine.trace.speedup_words import day

_NEAR = 1.2  # times as long or as short, and with the rounding no more than 30 % off
_UNITS = (  # an estimate below so many seconds has a unit of so many, steps of so many, and a name
    (60, 1, 5, "seconds"), (100, 1, 10, "seconds"), (600, 60, 30, "minutes"), (6000, 60, 60, "minutes"),
    (math.inf, 3600, 1800, "hours"),
)  # fmt: skip


def name(setting: Setting) -> str:
    """Names a setting, such as "EAGLE head with γ 2"."""
    method, gamma = setting
    return METHODS[method].title if setting == NONE else f"{METHODS[method].title} with γ {gamma}"


def people(users: int) -> str:
    return "one user" if users == 1 else f"{users} users at once"


def middle(span: tuple[float, float]) -> float:
    """Returns the likeliest seconds: as many times the least as the most are times these."""
    return math.sqrt(span[0] * span[1])


def duration(least: float, most: float) -> str:
    """Words an estimate, such as "about 3 minutes", or "2 to 5 minutes" where 30 % more or less is too little."""
    if most < 10:
        return "a few seconds"
    _, unit, step, name = next(each for each in _UNITS if most < each[0])
    if most > _NEAR**2 * least:
        low, high = math.floor(least / step) * step / unit, math.ceil(most / step) * step / unit
        return f"{low:g} to {high:g} {name}" if low else f"up to {high:g} {name}"
    return f"about {round(middle((least, most)) / step) * step / unit:g} {name}"


def is_news(earlier: tuple[float, float], least: float, most: float) -> bool:
    """Returns whether an estimate says more than an earlier one: it is outside, half as wide, or near enough now."""
    expected, near = middle(earlier), _NEAR**2
    low, high = min(earlier[0], expected / _NEAR), max(earlier[1], expected * _NEAR)
    is_outside = not low <= middle((least, most)) <= high
    is_near = most <= near * least and earlier[1] > near * earlier[0]
    return is_outside or is_near or 2 * most * earlier[0] <= least * earlier[1]


def sentences(result: AnswerResult) -> dict[str, str]:
    """Returns the sentences of an answer. ``answer`` is about the largest load that was named, ``alone`` about the
    smaller ones, ``kinds`` about each kind of text, ``curve`` about the machine of a curve. ``change``: what the answer
    turns on; ``sure``: how sure it is."""
    if not result:
        return dict.fromkeys(("answer", "alone", "kinds", "curve", "change", "sure"), "")
    if result.is_elsewhere:
        return {"answer": _tokens(result), "alone": "", "kinds": _tokens_by_kind(result), "curve": _by_curve(result),
                "change": _elsewhere(result), "sure": _sure(result) + _form_note(result)}  # fmt: skip
    users = result.plan.largest_load
    fewer = sorted({1, *result.plan.users} - {users})
    return {
        "answer": recommendation(result, users),
        "alone": " ".join(recommendation(result, each) for each in fewer),
        "kinds": " ".join(_of_kind(result, kind) for kind in result.kinds),
        "curve": _by_curve(result),
        "change": _change(result, users),
        "sure": _sure(result) + _form_note(result),
    }


def recommendation(result: AnswerResult, users: int) -> str:
    """Recommends a setting for ``users`` at once, based on the measurements."""
    speedups = result.speedups_at(users)
    if len(speedups) == 1:
        return f"For {people(users)} nothing is measured yet."
    words = f"{_choice(result, speedups, users)}.{_request_words(result, speedups, users)}"
    words += _kept_words(result.kept_request) if result.kept_request and users == 1 else ""
    if result.is_disturbed([users]):
        return f"For {people(users)} the machine was too busy to judge. Its measurements say: {words}"
    return f"For {people(users)} {words}"


def _request_words(result: AnswerResult, speedups: Mapping[Setting, Speedup], users: int) -> str:
    """Words the whole request of the best setting for one user, or of the one that only decodes faster."""
    leaders = drafting_leaders(result, speedups, users) or [s for s in fastest(speedups) if s != NONE]
    request = result.request(leaders[0]) if leaders and users == 1 else None
    if request is None:
        return ""
    took, plain, reading, plain_reading = _times(request)
    words = f" A whole request takes {took} with {name(leaders[0])} and {plain} without ({request.measured.words}); "
    words += f"{reading} and {plain_reading} of it are over before drafts can help."
    if request.pays_from:
        words += f" So it pays for answers from {quantity(request.pays_from, 'token')} on; these have "
        words += f"{request.length:.0f}."
    return words


def _times(request: Request) -> list[str]:
    """Words the time of a request with drafts and without, and both times before drafts can help."""
    return [*map(time_words, (request.seconds, request.plain, request.reading, request.plain_reading))]


def _kept_words(request: KeptRequest) -> str:
    """Words whole requests with the shared system prompt kept, as a server in use has it."""
    took, plain, reading, plain_reading = _times(request)
    words = f" With {quantity(request.tokens, 'token')} of the shared system prompt kept, as servers keep it, that is "
    words += f"{took} with {name((request.method, request.gamma))} and {plain} without ({request.measured.words}), "
    words += f"{reading} and {plain_reading} before drafts can help."
    return words + (" So there it is slower." if request.measured.tone == "slower" else "")


def _choice(result: AnswerResult, speedups: Mapping[Setting, Speedup], users: int = 1) -> str:
    best, drafting = result.fastest(speedups, users), drafting_leaders(result, speedups, users)
    if not drafting and any(each != NONE for each in fastest(speedups)) and len(best) == 1:
        return "do not draft: decoding is faster with drafts, but whole requests are slower"
    if not drafting:
        if len(best) > 1:
            return "nothing is certain yet: what may be faster than plain decoding is too noisy to tell"
        return "do not draft: no setting was as fast as plain decoding"
    first = f"{name(drafting[0])}: {speedups[drafting[0]].words}"
    if NONE in best:
        return f"do not draft yet: no difference was certain. The nearest is {first}"
    return f"use {first}{_others(drafting[1:], speedups)}"


def _others(rest: Sequence[Setting], speedups: Mapping[Setting, Speedup]) -> str:
    """Names the one of the others that was measured as the fastest, because it may be faster still, and counts the
    rest."""
    if not rest:
        return ""
    nearest = max(rest, key=lambda setting: speedups[setting].value)
    words, more = name(nearest), f" and {quantity(len(rest) - 1, 'other')}" if len(rest) > 1 else ""
    return f". {words[:1].upper()}{words[1:]} ({speedups[nearest].words}){more} may be as fast"


def _of_kind(result: AnswerResult, kind: str) -> str:
    """Writes one sentence on a kind of text, for one user."""
    speedups = {setting: cell.measured for setting, cell in result.of_kind(kind).items()}
    best, drafting = result.fastest(speedups, 1, kind), drafting_leaders(result, speedups, 1, kind)
    if not drafting:
        return f"{kind}: {'too noisy to tell' if len(best) != 1 else 'drafting does not pay'}."
    words = f"{name(drafting[0])}, {speedups[drafting[0]].words}"
    return f"{kind}: no certain difference ({words})." if NONE in best else f"{kind}: {words}."


# ── another server ──


def _tokens(result: AnswerResult) -> str:
    """Words the tokens per pass, in the order of the methods, because another model's acceptance cannot rank them."""
    best: dict[str, Cell] = {}
    for (method, _), cell in result.alone.items():
        if method != NONE[0] and (method not in best or cell.tau > best[method].tau):
            best[method] = cell
    if not best:
        return "Nothing is counted yet."
    unit = [" tokens"] + [""] * (len(best) - 1)  # with the first number only
    words = [
        f"{cell.tau:.2f}{tokens} with {METHODS[method].title} (γ {cell.gamma})"
        for tokens, (method, cell) in zip(unit, best.items(), strict=True)
    ]
    return f"On your texts, a pass writes {and_list(words)}."


def _tokens_by_kind(result: AnswerResult) -> str:
    words = []
    for kind in result.kinds:
        cells = [cell for setting, cell in result.of_kind(kind).items() if setting != NONE]
        most = max(cells, key=lambda cell: cell.tau)
        words.append(f"{kind}: up to {most.tau:.2f} tokens per pass, with {name((most.method, most.gamma))}.")
    return " ".join(words)


def _by_curve(result: AnswerResult) -> str:
    """Words the predictions for the machine of a curve, for one user and each load of the question."""
    curve = result.curve
    if curve is None:
        return ""
    words = [_prediction(result, users) for users in sorted({1, *result.plan.users})]
    own = "" if curve.c is not None else " A draft step counts as the same part of a plain step as here."
    source = f"Predicted with the costs of {curve.source} and the tokens per pass of your texts here, not measured"
    return f"{source}: {'; '.join(words)}.{own} {curve.note}".rstrip()


def _prediction(result: AnswerResult, users: int) -> str:
    assert result.curve
    settings = [setting for setting in result.alone if setting[0] in result.costs and setting != NONE]
    known = {setting: p for setting in settings if (p := result.predict_by_curve(setting, users))}
    if not known:
        return f"nothing for {people(users)}, because the curve ends at {result.curve.widest} rows"
    best = max(known, key=lambda setting: known[setting].value)
    if known[best].value <= 1:
        return f"for {people(users)} do not draft; the nearest is {name(best)}, {known[best].words}"
    tone = "" if known[best].tone == "faster" else ", which is too little to be sure"
    return f"for {people(users)} {name(best)}, {known[best].words}{tone}"


def _elsewhere(result: AnswerResult) -> str:
    none = "No speedup is given for a machine or a model that was not measured. It is less than the tokens per pass, "
    return (
        ("" if result.curve else f"{none}and falls as more requests share the passes. ")
        + "Heads and draft models of other targets are accepted more or "
        "less often than these: count yours on your server, from its log (lesson 7 reads it)."
    )


# ── what it turns on ──


def _change(result: AnswerResult, users: int) -> str:
    best = [setting for setting in result.best(users) if setting != NONE] or result.settings[:1]
    words = [_least_acceptance(result, best[0], users)] if best and best[0] in result.alone else []
    words.append("Other texts, another temperature or another model have another acceptance: measure those.")
    if users > 1:
        words.append("Where many users share a pass, every drafted token makes it longer for all of them.")
    return " ".join(filter(None, words))


def _least_acceptance(result: AnswerResult, setting: Setting, users: int) -> str:
    """Says from which acceptance on drafting pays by the cost model, unless a measurement excludes it."""
    method, alpha = setting[0], result.alone[setting].alpha
    if alpha is None or method not in result.costs or any(load == users for load, *_ in result.refuted_predictions()):
        return ""
    costs = result.costs[method]
    least = break_even(1, *costs_for_all(costs.c, costs.v, users, steps=users))
    if least is None:
        return f"By the cost model, one draft a round never pays for {people(users)}."
    if not least:
        return f"By the cost model, one draft a round always pays for {people(users)}."
    return (
        f"By the cost model, one draft a round pays for {people(users)} where at least {percent(least)} of the tested "
        f"drafts are accepted; on these texts {percent(alpha)} were."
    )


def _sure(result: AnswerResult) -> str:
    turns, measured, texts = max(cell.turns for cell in result.cells), _measured_texts(result), len(result.plan.texts)
    words = quantity(texts, "text") if measured == texts else f"{measured} of {texts} texts"
    basis = f"{words}, {quantity(turns, 'turn')} for each setting"
    if result.is_elsewhere:
        return f"Counted with {result.pair}{_where(result)}: {basis}.{_incomplete_note(result)}"
    if turns > 1:
        sure = f"Measured{_where(result)}: {basis}, in turn with plain decoding."
        sure += " Brackets hold the true ratio 95 times in 100."
    else:
        sure = f"Measured once{_where(result)}: {basis}. Let it go on to get intervals."
    speedups = [cell.measured for cell in result.alone.values()] + [load.speedup for load in result.loads]
    noise, at_end = sum(not each.is_possible for each in speedups), "" if result.is_complete else " at the end"
    if noise:
        came = "One setting was faster than its" if noise == 1 else f"{noise} settings were faster than their"
        sure += f" {came} tokens per pass allow, which is noise: measure again{at_end}."
    if result.loads:
        sure += " With several users the passes that all of them share are timed, beside plain ones;"
        sure += " how many tokens a pass writes is counted on whole answers."
    if any(costs.spread > BUSY for costs in result.costs.values()):
        sure += " The costs behind predictions were measured while the machine was busy."
    if refuted := result.refuted_predictions():
        users, setting, value, measured = refuted[-1]
        sure += f" The cost model predicts {value:.2f}× for {people(users)} with {name(setting)}, but"
        sure += f" {measured.words} was measured: trust the measurement."
    return f"{sure}{_incomplete_note(result)} {about_machine(result.busy)}".rstrip()


def _measured_texts(result: AnswerResult) -> int:
    """Counts the texts that had a turn. Not all have one in a measurement that was stopped, or whose noise was
    forgotten; of each kind every text has its first turn before one has its second."""
    if result.is_complete:
        return len(result.plan.texts)
    counts = Counter(kinds_of(result))
    turns = {kind: max((cell.turns for cell in result.of_kind(kind).values()), default=0) for kind in counts}
    return sum(min(count, turns[kind]) for kind, count in counts.items())


def _where(result: AnswerResult) -> str:
    """Names the machine and the day, because an answer is read elsewhere and later, too."""
    about = {name: str(result.about.get(name) or "") for name in ("device", "precision", "measured")}
    machine = ", ".join(filter(None, (about["device"], about["precision"])))
    when = about["measured"] and f" on {day(about['measured'])}"
    return f" on {machine or 'this machine'}{when}"


def _incomplete_note(result: AnswerResult) -> str:
    return "" if result.is_complete else " Not everything is measured yet: this is what there is so far."


def _form_note(result: AnswerResult) -> str:
    is_raw = result.about.get("form") == "raw"
    return " The texts were continued as raw text, because this model has no chat template." if is_raw else ""


# ── for programs ──


def kinds_of(result: AnswerResult) -> list[str]:
    return [prompt.category for prompt in result.plan.texts]


def to_dict(result: AnswerResult) -> dict:
    """Returns the answer as JSON values, with where it comes from. Intervals are those that are shown: none goes above
    what the tokens per pass allow."""
    plan = result.plan
    return {
        "speclens": "answer", "pair": result.pair, **result.about,
        "question": {
            "users": list(plan.users), "texts": len(plan.texts), "kinds": Counter(kinds_of(result)),
            "methods": list(plan.methods), "repeats": plan.repeats,
            "max_new_tokens": plan.tokens, "temperature": plan.temperature, "place": plan.place,
        },
        "is_complete": result.is_complete, "busy": result.busy, "sentences": sentences(result),
        "answers": [] if result.is_elsewhere else [_answer(result, users) for users in sorted({*plan.users})],
        "rows": to_rows(result), "curve": _curve_values(result),
        "costs": {method: asdict(costs) for method, costs in result.costs.items()},
        "requests": [asdict(request) for request in result.requests],
        "kept_request": asdict(result.kept_request) if result.kept_request else None,
        "rule": [asdict(cell) for cell in result.rule],
    }  # fmt: skip


def _curve_values(result: AnswerResult) -> dict | None:
    """Returns the curve, and the prediction of each setting at each load for its machine."""
    if result.curve is None:
        return None
    rows = []
    for users in sorted({1, *result.plan.users}):
        for method, gamma in (setting for setting in result.alone if setting != NONE):
            if speedup := result.predict_by_curve((method, gamma), users):
                values = {"predicted": speedup.value, "low": speedup.low, "high": speedup.high}
                rows.append({"users": users, "method": method, "gamma": gamma} | values)
    return {"source": result.curve.source, "v": dict(result.curve.v), "predictions": rows}


def _answer(result: AnswerResult, users: int) -> dict:
    speedups = result.speedups_at(users)
    drafting, pays, method, gamma = drafting_leaders(result, speedups, users), None, None, None
    if len(speedups) > 1 and not result.is_disturbed([users]):
        pays = result.pays(users) and bool(drafting)
        method, gamma = drafting[0] if pays else NONE
    return {"users": users, "pays": pays, "method": method, "gamma": gamma, "words": recommendation(result, users)}


COLUMNS = ("users", "kind", "method", "gamma", "speedup", "low", "high", "predicted", "alpha", "tau",
           "tokens_per_second", "turns", "busy", "drafting")  # fmt: skip


def to_rows(result: AnswerResult) -> list[dict]:
    """Returns a row for each setting, kind of text and load, with `COLUMNS`; None for a value that cannot be. Plain
    decoding has rows for one user, with a speedup of 1."""
    rows = [_row(1, cell.category, cell, cell.measured, result) for cell in result.cells]
    alone, loads = result.alone, [load for load in result.loads if load.setting in result.alone]
    return rows + [_row(load.users, "all", alone[load.setting], load.speedup, result) for load in loads]


def _row(users: int, kind: str, cell: Cell, speedup: Speedup, result: AnswerResult) -> dict:
    low, high = speedup.interval or (None, None)
    is_known, setting = speedup.is_possible and not result.is_elsewhere, (cell.method, cell.gamma)
    known = (speedup.value, low, high) if is_known else (None, None, None)
    is_all = kind == "all" and setting in result.alone and not result.is_elsewhere
    predicted = result.predict(setting, users).value if is_all and cell.method in result.costs else None
    rate = cell.tokens_per_second if users == 1 and not result.is_elsewhere else None
    values = (users, kind, cell.method, cell.gamma, *known, predicted, cell.alpha, cell.tau, rate, cell.turns,
              speedup.busy, cell.drafting)  # fmt: skip
    return dict(zip(COLUMNS, values, strict=True))
