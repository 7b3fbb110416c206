"""A worker without a model: the engine's contract on a plausible text, for tests of the app alone."""

import random
import time
import zlib
from collections import deque

from shared_passes import SharedPasses

from app.jobs.engine_facade import MethodCosts, Pair
from engine.config import RunConfig, SamplingParams
from engine.errors import Unavailable
from engine.runtime.job import Job
from engine.runtime.worker import Worker
from engine.trace.costs import CostModel
from engine.trace.events import Candidate, Distribution, PromptToken, Round, RunFinished, RunStarted, Timings, Token
from engine.trace.trace import Trace, fold
from engine.weights.model_names import ModelNames
from engine.weights.own_models import OwnModelReport

TEXT = (
    "The lighthouse keeper climbs the stairs every evening at six. He cleans the glass,\nfills the lamp with oil, "
    "and writes the weather in his book. 🌊 <script>window.pwned=1</script> {{1+1}} ${1+1} The lighthouse keeper has "
    "done this for forty years, and every evening at six the ships are glad of the light. "
)
# At temperature 1 it is another text from the ninth piece on.
ALIKE = 8
OTHER = " ".join(TEXT.split(" ")[:ALIKE]) + " and a hundred gulls follow her up to a lamp, dark all year, as they do. "


def pieces(text: str) -> list[str]:
    words = text.split(" ")
    return [words[0]] + [" " + word for word in words[1:]]


def number(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) % 50_000


KNOWN = {number(piece): piece for piece in [*pieces(TEXT), *pieces(OTHER), " perhaps", " else", " maybe"]}


def chances(piece: str, other: str = " perhaps") -> dict:
    """Distributions that agree with each other: max(p − q, 0) adds up to 0.22, of which ``other`` has 0.20."""
    names = (piece, other, " else")

    def distribution(*masses: float) -> Distribution:
        top = tuple(Candidate(number(n), n, m) for n, m in zip(names, masses, strict=True) if m)
        return Distribution(top, round(1 - sum(masses), 4))

    return {
        "p_top": distribution(0.61, 0.25, 0.1),
        "q_top": distribution(0.83, 0.05, 0.1),
        "residual": distribution(0, 0.909, 0),
    }


def play(config: RunConfig, text: str = TEXT, draft: float = 0.001):
    """The events of one run: rounds of γ drafts, about 70 % kept, closed by a resampled or bonus token. After a prefix
    the text goes on, whichever token was forced there."""
    first = len(config.prefix)
    chance, queue = random.Random(config.seed + first), deque((pieces(text) * 40)[first : config.max_new_tokens])
    gamma = 4 if config.gamma == "auto" else config.gamma
    costs = CostModel(0.0, {w: 0.9 + 0.1 * w for w in (1, 2, 4, 8)}, 256, 0.03)  # as the rounds below take
    prefix = tuple(PromptToken(i, KNOWN.get(i, f" <{i}>")) for i in config.prefix)
    yield RunStarted(config.as_dict(), (), config.pair, "fake", {}, "cpu", "float32", {}, costs, prefix=prefix)
    position, index, clock = first, 0, 0.02
    while queue:
        tokens, alive = [], True
        for depth in range(1, gamma + 1):
            if not queue:
                break
            draw = round(chance.random(), 3)
            piece, other = (queue[0], " perhaps") if draw < 0.735 else (" maybe", queue[0])
            numbers = {"p": 0.61, "q": 0.83, "accept": 0.735} | chances(piece, other)
            if not alive:
                tokens.append(Token(7, " never", "discarded", position + depth - 1, depth, p=0.01, q=0.4))
            elif draw < 0.735:
                piece = queue.popleft()
                tokens.append(Token(number(piece), piece, "accepted", position, depth, u=draw, **numbers))
                position += 1
            else:
                tokens.append(Token(number(" maybe"), " maybe", "rejected", position, depth, u=draw, **numbers))
                alive = False
        if queue:
            piece = queue.popleft()
            status = "plain" if not tokens else "bonus" if alive else "resampled"
            known = {"p": 0.25, "q": 0.05} if status == "resampled" else {"p": 0.61}
            known |= chances(piece if alive else " maybe", piece)
            if status != "resampled":  # drawn from p itself
                known = {"p": known["p"], "p_top": known["p_top"]}
            tokens.append(Token(number(piece), piece, status, position, len(tokens) + 1, u=0.2, **known))
            position += 1
        n = sum(token.status in ("accepted", "rejected", "discarded") for token in tokens)
        seconds = 0.03 + (0.002 + draft) * n
        timings = Timings(draft * n, seconds - draft * n - 0.002, 0.001, 0.001)
        yield Round(index, gamma, tuple(tokens), tuple(range(n)), n, 20 + position, timings, clock, clock + seconds)
        clock += seconds
        index += 1
    yield RunFinished("length", text, 0.02, 0.05, clock - 0.02, clock)


def recorded(method="ngram", gamma=4, tokens=60, temperature=0.0, prompt="Hi", seed=0) -> Trace:
    """Returns a run that has ended, of plain decoding with "none" and 0."""
    sampling = SamplingParams(temperature)
    config = RunConfig(prompt, method=method, gamma=gamma, sampling=sampling, max_new_tokens=tokens, seed=seed)
    return fold(play(config))


def wait_for(condition, seconds=20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


class FakeModel(SharedPasses):
    """The engine that a FakeWorker loads: plays a text, and offers itself to pieces of work."""

    def __init__(self, worker: "FakeWorker"):
        self.worker = worker

    def best_batch(self) -> int:
        return self.worker.together_at_most

    def run(self, config, cancelled):
        worker = self.worker
        worker.runs.append(config)
        written = OTHER if config.sampling.temperature >= 1 else TEXT
        for event in play(config, config.prompt + " " if worker.echo else written, worker.draft):
            if worker.fail and getattr(event, "index", None) == worker.fail_at:
                raise worker.fail
            if cancelled():
                yield RunFinished("cancelled", "", 0.02, 0.05, 0.1, 0.1)
                return
            yield event
            time.sleep(worker.step * isinstance(event, Round))  # read again, so that a test can let a slow run go

    def has(self, method):
        return True

    def on_progress(self, progress):
        pass

    def close(self):
        pass


class FakeWorker(Worker):
    """The real queue and thread, and a model that only pretends.

    ``step``: seconds a round; ``load``: seconds before the first run; ``fail``: the error of every run, at round
    ``fail_at`` or, with None, before it begins; ``echo``: the model writes the prompt back; ``draft``: seconds that a
    drafted token is said to have taken; ``c``: the cost of the draft model; ``together_at_most``: runs that share
    passes. ``jobs``: all that were submitted; ``runs``: the configs that have begun.
    """

    def __init__(
        self,
        step: float = 0.0,
        fail: Exception | None = None,
        load: float = 0.0,
        fail_at: int | None = 2,
        echo: bool = False,
        draft: float = 0.001,
        together_at_most: int = 1,
    ):
        self.together_at_most = together_at_most
        self.step, self.fail, self.load, self.echo = step, fail, load, echo
        self.fail_at, self.draft, self.c = fail_at, draft, 0.42
        self.jobs: list[Job] = []
        self.runs: list[RunConfig] = []
        super().__init__("fake", loader=self._pretend_to_load)

    def submit(self, *args, **options) -> Job:
        self.jobs.append(super().submit(*args, **options))
        return self.jobs[-1]

    def _pretend_to_load(self, config, device, precision, progress) -> FakeModel:
        for part in range(5 if self.load else 0):
            progress(part / 4, "Loading the model")
            time.sleep(self.load / 5)
        self.load = 0
        return FakeModel(self)


class FakeEngine:
    def __init__(self, worker: FakeWorker | None = None):
        self.worker = worker or FakeWorker()

    def has_weights(self, pair):
        return False

    def pairs(self, names=()):
        offered = [
            Pair("smollm2-135m", "A small model", ("none", "ngram", "lm"), "f" * 40),
            Pair("thinker", "A model that thinks", ("none", "ngram", "lookahead"), "a" * 40),
            Pair("giant", "A model too large", ("none", "ngram", "lm"), "b" * 40),
        ]
        return [pair for pair in offered if not names or pair.name in names]

    def look_up(self, name):
        """``us/large`` fits in few bits only, ``us/giant`` in none, and any other name is not known."""
        precisions = {"us/large": ("int8", "int4"), "us/giant": ()}.get(name)
        if precisions is None:
            raise Unavailable(f"The hub has no public repository {name}.")
        problems = () if precisions else ("us/giant needs about 900 GB in int4, but cpu has 4 GB free.",)
        pair = Pair(name, f"{name} (of the hub)", ("none", "ngram"), "c" * 40)
        lines = (("family", "llama"), ("memory", "5.1 GB in int8"))
        return pair, OwnModelReport(lines, problems, precisions, to_choose="int8" if precisions else "")

    def problems(self, pair, method, precision, fetch):
        return ["giant needs about 900 GB, but cpu has 4 GB free; choose a smaller pair."] if pair == "giant" else []

    def notes(self, pair):
        return []

    def absent_bytes(self, pair):
        return 2_400_000_000 if pair == "thinker" else 0

    def storage_problem(self, pair):
        return None

    def thinking(self, pair):
        return pair == "thinker"

    def prompt_tokens(self, pair, text):
        return len(text.split())

    def constraint_problem(self, config):
        return ""

    def precisions(self):
        return ("auto",)

    def known_steps(self, pair):
        return {}

    def plain_costs(self, pair):
        return None

    def distances(self, pair):
        return {}

    def method_costs(self, pair):
        return {"ngram": MethodCosts(None, 0), "lm": MethodCosts(self.worker.c, 69_000_000)}

    def device(self):
        return "cpu (made up, 2 threads)" if not self.worker.load else None

    def precision(self):
        return "fp32" if not self.worker.load else None

    def versions(self):
        return {"speclens": "0", "torch": "0"}

    def models(self, pair, method):
        return ModelNames("owner/target", "owner/draft" if method == "lm" else None)
