"""Runs several requests on one engine at once. Decides whether one more fits, and says why not."""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from engine.config import MAX_SHARERS, RunConfig
from engine.decoding.batch import Batch
from engine.device import out_of_memory
from engine.errors import BadInput, Unavailable
from engine.files import gigabytes
from engine.models.loader import MEMORY_ADVICE, memory_errors
from engine.weights.preflight import available_memory


class NoRoom(Unavailable):
    """The memory does not suffice for one more run beside those under way."""


class RunBatch(Batch):
    """A batch of requests on one engine, of at most ``limit`` at once."""

    def __init__(self, engine, limit: int, prompts_first: bool = False):
        super().__init__(prompts_first)
        if not 1 <= limit <= MAX_SHARERS:
            raise BadInput(f"A batch of {limit} runs cannot be: choose 1 to {MAX_SHARERS}.")
        self.engine, self.limit = engine, limit
        self._memory: dict[Hashable, int] = {}
        self._free_at_first: int | None = None  # bytes, when the batch was last empty

    def add(self, name: Hashable, config: RunConfig, cancelled: Callable[[], bool] = lambda: False, **options) -> None:
        """Adds a request, which takes part from the next step on. ``options`` are passed to `Engine.prepare`. Raises
        BadInput for a request that cannot run or if the batch is full, NoRoom if the memory does not suffice for one
        more. The first has the engine's own caches, and its captured passes on CUDA."""
        if len(self) >= self.limit:
            raise BadInput(f"{self.limit} runs share the engine already; wait until one of them ends.")
        with memory_errors(f"This request does not fit into the memory of {self.engine.device}"):
            run = self.engine.prepare(config, cancelled, own_cache=len(self) > 0, **options)
        prompts = self.engine.prompts
        prompts.make_room(run.memory, self.engine.device)
        free = available_memory(self.engine.device)
        if len(self):
            self._check_memory(run.memory, free)
        else:
            self._free_at_first = free and free - prompts.spare(free)  # which may be kept while they run
        run.share(lambda: len(self))
        self._memory[name] = run.memory
        super().add(name, run.steps())

    def _check_memory(self, needed: int, free: int | None) -> None:
        """Raises NoRoom where memory does not suffice. ``free`` bytes are too many while the runs under way have not
        written to all of their memory, so their whole need also counts against the memory that was free before them."""
        if free is None or self._free_at_first is None:
            return
        left = max(0, min(free, self._free_at_first - sum(self._memory.values())))
        if needed > left:
            raise NoRoom(
                f"This run needs about {gigabytes(needed)} for its keys and values, but beside the {len(self)} under "
                f"way {self.engine.device} has {gigabytes(left)} left; wait until another run ends, or ask for fewer "
                "tokens."
            )

    def remove(self, name: Hashable) -> None:
        super().remove(name)
        self._memory.pop(name, None)

    def step(self) -> Iterator[tuple[Any, Any]]:
        """Steps the batch. An error that means full memory becomes a sentence."""
        what = "This request does" if self.limit == 1 else "These requests do"
        problem = f"{what} not fit into the memory of {self.engine.device}"
        with memory_errors(problem):
            for name, event in super().step():
                if isinstance(event, Exception) and out_of_memory(event):
                    advice = MEMORY_ADVICE if self.limit == 1 else "try again with fewer runs at once"
                    event = Unavailable(f"{problem}; {advice}.")
                yield name, event
        self._memory = {name: needed for name, needed in self._memory.items() if name in self}
