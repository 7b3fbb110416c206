"""Keeps the state of one page's newest run, branch or repeated measurement, between the events that make it."""

from dataclasses import dataclass

from app.jobs.press import Press
from app.jobs.runs import Runs
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.ui import temp_folder
from app.ui.widgets import SKIP
from app.views import player_feed
from engine.config import RunConfig


@dataclass
class RunPress(Press):
    """The newest press, and the results that the page's state has taken from it or has yet to take."""

    session: Session | None = None  # None before there is a result, and again after the page's state has taken it
    before: Session | None = None  # the result of an earlier press that the state has not taken yet
    stage_config: RunConfig | None = None  # the request whose result is on the stage; another press runs it again
    has_empty_stage: bool = False  # a link emptied the stage
    choice: tuple[int, int] | None = None  # the place and the token of a branch
    linked: tuple[RunConfig, int, int] | None = None  # a link's request, place and token; its branch follows its run
    last_result: Session | None = None  # the result that the state has taken last

    def begin(self, runs: Runs, visitor: str) -> None:
        self.request, self.before, self.session = runs.open(visitor), self.session or self.before, None

    def newest(self, session: Session) -> Session:
        """Returns the result on the stage. ``session`` is from the page's state."""
        return self.session or self.before or session

    def take_result(self) -> Session | None:
        """Takes the result that the page's state is to have; None where it has it."""
        result, self.before, self.session = self.session or self.before, None, None
        self.last_result = result or self.last_result
        return result

    def begin_if_free(self, runs: Runs, visitor: str) -> None:
        """Begins unless the visitor's run is in progress, which this may not replace."""
        if not runs.is_busy(visitor):
            self.begin(runs, visitor)


class PressHandlers:
    """Base class for the handlers of a button whose results are shown on the stage."""

    def __init__(self, service: Service):
        self.service = service

    def end(self, press: RunPress) -> list:
        """Returns what the page shows once the stream has ended; nothing where a newer press has replaced it."""
        raise NotImplementedError

    def end_orphan(self, press: RunPress) -> list:
        """Returns what ``end`` returns, for a stream that never reached the server."""
        press.close_orphan(self.service.runs)
        return self.end(press)

    def show_failure(self, press: RunPress) -> list:
        """Returns what ``end`` does and a sentence, after an event whose results never reached the page."""
        *buttons, session = self.end(press)
        session = press.last_result if session is SKIP and press.is_over and press.last_result else session
        reason = temp_folder.problem() or "The server's log has the reason."
        words = f"The run has ended, but its charts and files did not arrive; what is shown below is older. {reason}"
        return [*buttons, session, player_feed.say("error", words)]
