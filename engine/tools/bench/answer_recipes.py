"""Chooses what an answer configures in other engines: its fastest setting, the nearest one, or lookup to try."""

from collections.abc import Callable
from typing import Any

from engine.config import METHODS
from engine.tools.bench.answer import NONE, AnswerResult, drafting_leaders, schedule
from engine.tools.bench.answer_words import people
from engine.trace.engine_recipes import Choice

LEAST_TAU = 1.05  # tokens per pass below which lookup is not worth a try


def configuration(result: AnswerResult, models: Callable[[str], Any], model: str = "") -> tuple[Choice | None, str]:
    """Returns what to configure for the largest load asked for, and where that setting is from; or None, and the reason
    not to. ``models(method)`` gives the pair's names; ``model``: the reader's own target instead."""
    if result.is_elsewhere:
        return _to_try(result, models, model)
    paying = [users for users in result.measured_loads if result.pays(users)]
    users = result.plan.largest_load
    if users not in result.measured_loads:
        return None, f"For {people(users)} nothing is measured yet."
    if not paying:
        nearest = drafting_leaders(result, result.speedups_at(users), users)
        if not nearest:
            words = "no setting was as fast, and plain decoding is what every engine does by itself"
            return None, f"Leave drafting off: {words}."
        origin = "to try, because it came nearest; no difference was certain here"
        return _choice(result, models, model, *nearest[0]), origin
    chosen = users if users in paying else max(paying)
    method, gamma = next(setting for setting in result.best(chosen) if setting != NONE)
    where = f"for {people(chosen)}"
    if chosen != users:
        slower = result.best(users) == [NONE]
        where += f"; for {people(users)} " + ("leave it off" if slower else "no difference was certain")
    if result.is_disturbed([chosen]):
        where += ", measured while the machine was too busy to judge"
    return _choice(result, models, model, method, gamma), where


def _choice(result: AnswerResult, models, model: str, method: str, gamma: int | str) -> Choice:
    """Makes the choice of the commands. The pair's draft belongs to its target; for another target they leave a gap."""
    names, loads = models(method), None if result.is_elsewhere else schedule(result, method)
    greedy = result.plan.is_greedy
    if model:
        draft = None if METHODS[method].reads == "text" else f"DRAFT_OF_{model.rsplit('/', 1)[-1]}"
        return Choice(method, gamma, model, draft, None, greedy, schedule=loads)
    return Choice(method, gamma, **vars(names), greedy=greedy, schedule=loads)


def _to_try(result: AnswerResult, models, model: str) -> tuple[Choice | None, str]:
    """Proposes lookup, because it needs no draft model whose acceptance is unknown."""
    cells = {setting: cell for setting, cell in result.alone.items() if METHODS[setting[0]].reads == "text"}
    cells.pop(NONE, None)
    if not cells:
        return None, "A draft's acceptance has to be counted on your own server: nothing here can choose one."
    method, gamma = max(cells, key=lambda setting: cells[setting].tau)
    if cells[method, gamma].tau < LEAST_TAU:
        words = "Lookup found next to nothing to copy in these texts, and a draft's acceptance has to be counted on "
        return None, f"{words}your own server: nothing here can choose one."
    return _choice(result, models, model, method, gamma), "to try, because it needs no draft model"
