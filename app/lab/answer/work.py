"""Measures an answer on the page: its points in the folder that visitors share, with the oldest files deleted."""

from app.lab.work_units import tidy


def points(engine, pair: str, plan, again: bool):
    """Returns the points of `Measurement`. Finished ones are found again by another visitor with an equal question."""
    from engine.bench.answer_points import AnswerPoints
    from engine.files import cache_root

    return AnswerPoints(engine, plan, cache_root() / "lab", again, keep=tidy)
