"""Stands where the hosted package `spaces` would, and keeps to its manners (0.51): a decorated generator runs in a
forked process; arguments and items are pickled on the way; of an exception only its class's name comes back, as an
error of the host's; closing the generator stops the process's at its next item.
"""

import functools
import multiprocessing
import os
import pickle

_fork = multiprocessing.get_context("fork")


class Error(Exception):
    def __init__(self, message):
        self.message = message


def GPU(duration):
    def decorated(task):
        @functools.wraps(task)
        def call(*args, **kwargs):
            if refusal := os.environ.get("ZERO_REFUSES"):
                raise Error(refusal)
            there, stop = _fork.SimpleQueue(), _fork.Event()
            process = _fork.Process(
                target=_iterate, args=(task, pickle.dumps((args, kwargs)), there, stop), daemon=True
            )
            process.start()
            kind = None
            try:
                while (found := pickle.loads(there.get()))[0] == "item":
                    yield found[1]
                kind, value = found
                if kind == "error":
                    raise Error(value)
            finally:
                stop.set()
                while kind is None:  # drop the items that were on their way
                    kind = {"item": None}.get(pickle.loads(there.get())[0], "end")
                process.join()

        call.seconds = duration
        return call

    return decorated


def _iterate(task, sent, there, stop):
    args, kwargs = pickle.loads(sent)
    items = task(*args, **kwargs)
    end = ("end", None)
    try:
        for item in items:
            if stop.is_set():
                break
            there.put(pickle.dumps(("item", item)))
    except Exception as error:
        end = ("error", type(error).__name__)
    items.close()
    there.put(pickle.dumps(end))
