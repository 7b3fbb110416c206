"""Shows how far a command is and how much time is left: a bar on a terminal, now and then a line in a log."""

import re
import time
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from engine.errors import quantity
from engine.tools.cli.console import screen, visible

_LOG_EVERY = 10.0  # seconds between two lines of a log
_TOO_EARLY = 5.0  # seconds before the time left is estimated


@contextmanager
def progress():
    """Yields show(fraction, message): a transient bar on stderr; without a terminal lines, of those that differ in
    numbers alone one every ten seconds. Both say how much time is left."""
    console, time_left = screen(stderr=True), TimeLeft()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    last_kind, last_message, last_time = "", "", 0.0
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=1.0, visible=False)

        def show(fraction: float, message: str) -> None:
            nonlocal last_kind, last_message, last_time
            kind, now = re.sub(r"[\d.,]+", "0", message), time.monotonic()
            message = visible(", ".join(filter(None, (message, time_left.estimate(fraction, now)))), keep="")
            bar.update(task, completed=fraction, description=message, visible=fraction < 1)
            is_due = kind != last_kind or now - last_time >= _LOG_EVERY or fraction >= 1
            if message and message != last_message and not console.is_terminal and is_due:
                last_kind, last_message, last_time = kind, message, now
                console.print(message, soft_wrap=True)

        yield show


class TimeLeft:
    """Estimates from the share that is done, since the first share it hears of or a smaller one: a new stage."""

    def __init__(self):
        self._share, self._time, self._last = 0.0, None, 0.0

    def estimate(self, share: float, now: float) -> str:
        """Returns "about 40 minutes left", or "" where it is too early to tell, or at the end."""
        if self._time is None or share < self._last:
            self._share, self._time = share, now
        self._last, done = share, share - self._share
        if share >= 1 or done <= 0 or now - self._time < _TOO_EARLY:
            return ""
        left = (now - self._time) * (1 - share) / done
        if left < 60:
            return "less than a minute left"
        is_long = left >= 5400
        return f"about {quantity(round(left / (3600 if is_long else 60)), 'hour' if is_long else 'minute')} left"
