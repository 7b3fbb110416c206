"""Runs where the host lends its GPU to single calls, each in a process of its own (ZeroGPU).

What goes there and what comes back is pickled; of an exception only the name of its class would arrive, so an error of
the engine's comes back as an item.
"""

import os
from collections.abc import Iterator

from app.hosting import gpu
from app.races import Lanes, Race
from engine.errors import EngineError, Unavailable
from engine.events import RunStarted

SECONDS = 120  # asked of the host for one call, in which a model is loaded and measured, too
_FOR_RUNS = 90  # of these; then the run ends by itself, before the host ends the process


def events(race: Race, seconds: int) -> Iterator[tuple[str, object]]:
    """What the engine reports, by lane. Ends early with the race, or when its runs took ``seconds``; raises
    EngineError, the host's own refusals (no quota left, no GPU free) among them."""
    call = granted(race.lanes)
    try:
        for lane, item in call:
            if isinstance(item, EngineError):
                raise item
            if isinstance(item, RunStarted):
                race.begin(min(seconds, _FOR_RUNS))
            yield lane, item
            if race.out_of_time():
                race.cancel()
            if race.cancelled:
                return
    except EngineError:
        raise
    except Exception as error:
        said = str(getattr(error, "message", error))
        raise Unavailable(f"The host did not lend its GPU to this run: {said or type(error).__name__}") from error
    finally:
        call.close()  # tells the process over there to stop


@gpu(seconds=SECONDS)
def granted(lanes: Lanes) -> Iterator[tuple[str, object]]:
    """In the call's own process: load, calibrate, run, give everything back. Eagerly, for capturing graphs would take
    longer than they could save in one call."""
    from engine.graphs import SWITCH
    from engine.worker import Worker

    os.environ[SWITCH] = "0"
    worker, lane = Worker(), lanes[0][0]
    try:
        for lane, config in lanes:
            for event in worker.submit(config).events():
                yield lane, event
    except EngineError as error:
        yield lane, type(error)(str(error))
    finally:
        worker.close()
