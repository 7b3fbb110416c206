"""The time left: it follows the job itself, never grows without a word, and counts down between two parts."""

import pytest

from app.lab.work_units import WARMING_UP, Eta, Step


class Job:
    """A job whose clock is set by hand."""

    def __init__(self):
        self.now = 100.0
        self.eta = Eta(lambda: self.now)

    def after(self, seconds: float, left: float) -> str:
        """Returns the words ``seconds`` later, with so much work ``left``."""
        self.now += seconds
        self.eta.add(Step(0, 0, left=left))
        return self.eta.words()


def test_time_left_follows_the_work_and_not_the_number_of_parts():
    job = Job()
    assert job.after(0, 100) == "" and job.after(4, 98) == ", about 3 min left"
    assert job.after(16, 90) == ", about 3 min left"
    assert job.after(140, 20) == ", about 40 s left"
    assert job.after(32, 4) == ", about 8 s left" and job.after(7, 0.5) == ", about 1 s left"


def test_warm_up_is_no_work():
    job = Job()
    job.eta.add(Step(0, 5, WARMING_UP))
    job.now += 600
    assert job.after(0, 5) == "" and job.after(10, 4) == ", about 40 s left"


def test_a_machine_that_becomes_busy_makes_the_time_longer_with_a_word():
    job, said = Job(), []
    job.after(0, 100)
    for left in range(99, 49, -1):
        said.append(job.after(1, left))
    assert said[-1] == ", about 50 s left" and not any("longer" in words for words in said)
    for left in range(49, 29, -1):
        said.append(job.after(4, left))
    assert "about 2 min left, longer than it seemed" in said[-1], "it would take 120 s"
    for left in range(29, 4, -1):
        said.append(job.after(4, left))
    assert said[-1] == ", about 20 s left", "it has become less than it seemed"


def test_time_left_never_grows_without_a_word():
    job, last, left, rises = Job(), 1e9, 300.0, 0
    job.after(0, left)
    for number in range(280):
        left -= 1
        words = job.after(1 + (number * 37 % 11) / 5 + (number > 140) * number / 90, left)
        number, unit = words.removeprefix(", about ").split(" ")[:2]
        seconds = float(number) * (60 if unit == "min" else 1)
        assert seconds <= last or "longer than it seemed" in words
        last, rises = seconds, rises + (seconds > last)
    assert rises


@pytest.mark.parametrize(("waited", "words"), [(30, "about 60 s"), (90, "about 45 s"), (400, "about 45 s")])
def test_time_left_counts_down_while_one_part_takes_long(waited, words):
    job = Job()
    job.after(0, 12)
    job.after(30, 9)
    assert words in job.after(waited, 9), "and half of what was expected stays"
