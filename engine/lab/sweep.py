"""Which method, at which draft length, on which text, at which temperature? Measured here, all beside plain decoding.

A turn is one prompt at one temperature: the baseline and every setting run one after the other, the order rotated, so
that each ratio is taken within a minute. Every finished turn is a line of a file; a sweep that was stopped goes on
with the turns that are missing.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from engine.bench import Prompt
from engine.catalogue import MODEL_FREE, methods
from engine.config import AUTO, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.folders import disk_errors, write_atomically
from engine.lab.cells import Cell
from engine.loading import Engine, device_name
from engine.scores import ALL, BASELINE, interval, ratio
from engine.statistics import statistics
from engine.trace import fold

_MOST_SETTINGS = 200
Say = Callable[[float, str], None]
Turn = tuple[float, int, int]  # temperature, prompt, repeat


@dataclass(frozen=True)
class Grid:
    """``methods`` × ``gammas`` at each of ``temperatures``, on every prompt, ``repeats`` times."""

    methods: tuple[str, ...]
    gammas: tuple[int | str, ...] = (1, 2, 4, AUTO)
    temperatures: tuple[float, ...] = (0.0,)
    max_new_tokens: int = 96
    repeats: int = 1
    seed: int = 0

    def __post_init__(self):
        for name in ("methods", "gammas", "temperatures"):
            values = tuple(dict.fromkeys(getattr(self, name)))
            if not values:
                raise BadInput(f"A sweep needs at least one of {name}.")
            object.__setattr__(self, name, values)
        if len(self.methods) * len(self.gammas) > _MOST_SETTINGS:
            raise BadInput(f"A sweep has at most {_MOST_SETTINGS} settings; choose fewer methods or draft lengths.")
        if 0 in self.gammas:
            raise BadInput("γ = 0 is plain decoding, which every sweep measures anyway; leave it out.")
        for gamma in self.gammas:
            RunConfig("-", gamma=gamma, max_new_tokens=self.max_new_tokens, seed=self.seed)
        for temperature in self.temperatures:
            SamplingParams(temperature)

    def settings(self) -> list[tuple[str, int | str]]:
        """(method, γ), plain decoding first."""
        return [(BASELINE, 0), *((m, g) for m in self.methods if m != BASELINE for g in self.gammas)]


@dataclass(frozen=True)
class Run:
    """One setting in one turn."""

    tokens: int
    seconds: float
    passes: int
    accepted: int
    tested: int


@dataclass
class Sweep:
    """``turns``: of each turn {"method:γ": Run}, those of earlier sessions included."""

    engine: Engine
    grid: Grid
    prompts: Sequence[Prompt]
    path: Path | None = None
    turns: dict[Turn, dict[str, Run]] = field(default_factory=dict)

    def __post_init__(self):
        unknown = [m for m in self.grid.methods if m not in methods(self.engine.pair)]
        if unknown:
            offered = ", ".join(methods(self.engine.pair))
            raise BadInput(f"{self.engine.pair.name} has no method {unknown[0][:40]!r}; choose from {offered}.")
        if self.path is not None:
            self._open()

    # ---- the file ----

    def keep_in(self, folder: Path, afresh: bool = False) -> None:
        """From now on in a file of this folder, which is named after what is measured: whoever asks for the very same
        sweep finds what there is of it. Turns that stand there already are read, or forgotten with ``afresh``."""
        name = hashlib.sha256(json.dumps(self._about()).encode("utf-8")).hexdigest()[:16]
        self.path = Path(folder) / f"sweep-{name}.jsonl"
        if afresh:
            with disk_errors(self.path.parent):
                self.path.unlink(missing_ok=True)
        self._open()

    def _about(self) -> dict:
        """What must be the same for turns to stand in one table."""
        text = "\0".join(f"{p.category}\1{p.text}" for p in self.prompts)
        grid = json.loads(json.dumps(asdict(self.grid) | {"repeats": None}))
        return {
            "sweep": 1,
            "grid": grid,
            "pair": self.engine.pair.name,
            "weights": self._weights(),
            "device": device_name(self.engine.device),
            "precision": self.engine.precision,
            "prompts": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        }

    def _weights(self) -> dict[str, dict[str, str]]:
        """Of every method: a draft that was trained on is another draft."""
        for method in set(self.grid.methods) - set(MODEL_FREE):
            self.engine.drafter(method)  # hashed as it is loaded
        return {method: self.engine.weights(method) for method in self.grid.methods}

    def _open(self) -> None:
        """Reads what was measured before; a last line that was cut short is measured again."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            lines = [""]
        except OSError as error:
            raise BadInput(f"The sweep {self.path} cannot be read: {error.strerror}.") from error
        whole, about = lines[:-1], json.dumps(self._about())
        if whole and json.loads(about) != _parsed(whole[0]):
            raise BadInput(f"{self.path} holds something else than this sweep; name another file, or delete it.")
        for number, line in enumerate(whole[1:], 2):
            try:
                row = json.loads(line)
                temperature, prompt, repeat = row["turn"]
                self.turns[float(temperature), int(prompt), int(repeat)] = {k: Run(**v) for k, v in row["runs"].items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BadInput(f"Line {number} of {self.path} is damaged; delete that line or the file.") from error
        if not whole or lines[-1]:
            with disk_errors(self.path.parent):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.path, "".join(f"{line}\n" for line in whole or [about]))

    def _keep(self, turn: Turn, runs: dict[str, Run]) -> None:
        self.turns[turn] = runs
        if self.path is not None:
            line = json.dumps({"turn": turn, "runs": {name: asdict(run) for name, run in runs.items()}})
            with disk_errors(self.path.parent), open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    # ---- measuring ----

    def order(self) -> list[Turn]:
        """Every turn, in the order of measuring: a repeat of all of them before the next one."""
        g = self.grid
        return [(t, i, r) for r in range(g.repeats) for i in range(len(self.prompts)) for t in g.temperatures]

    def missing(self) -> list[Turn]:
        return [turn for turn in self.order() if turn not in self.turns]

    def run(self, cancelled: Callable[[], bool] = lambda: False, say: Say = lambda share, message: None) -> bool:
        """Every missing turn. False where it was cancelled; the turn it was in is then measured again next time."""
        order, missing = self.order(), self.missing()
        if missing:
            self.warm(cancelled)
        for turn in missing:
            if not self.measure(turn, cancelled):
                return False
            done = sum(each in self.turns for each in order)
            say(done / len(order), f"turn {done} of {len(order)}: {self.name(turn)}")
        return True

    def name(self, turn: Turn) -> str:
        return f"{self.prompts[turn[1]].category}, temperature {turn[0]:g}"

    def measure(self, turn: Turn, cancelled: Callable[[], bool] = lambda: False) -> bool:
        """One turn, which is then kept; False, and nothing kept, where it was cancelled."""
        for _ in self.steps(turn, cancelled):
            pass
        return turn in self.turns

    def steps(self, turn: Turn, cancelled: Callable[[], bool] = lambda: False) -> Iterator[tuple[str, int | str]]:
        """``measure`` run by run: (method, γ) of each before it begins."""
        temperature, prompt, repeat = turn
        settings, runs = self.grid.settings(), {}
        start = len(self.turns) % len(settings)
        for method, gamma in settings[start:] + settings[:start]:
            yield method, gamma
            run = self._measured(method, gamma, temperature, prompt, repeat, cancelled)
            if cancelled():
                return
            runs[_name(method, gamma)] = run
        self._keep(turn, runs)

    def warm(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """A few tokens of every method, so that the first turn does not pay for loading and calibrating."""
        for method in dict.fromkeys(method for method, _ in self.grid.settings()):
            self._measured(
                method, AUTO if method != BASELINE else 0, self.grid.temperatures[0], 0, 0, cancelled, most=8
            )

    def _measured(self, method, gamma, temperature, prompt, repeat, cancelled, most: int | None = None) -> Run:
        config = RunConfig(
            self.prompts[prompt].text, self.engine.pair.name, method, gamma, SamplingParams(temperature),
            max_new_tokens=min(most or self.grid.max_new_tokens, self.grid.max_new_tokens),
            seed=self.grid.seed + repeat, chat=bool(self.engine.target.tokenizer.chat_template),
        )  # fmt: skip
        found = statistics(fold(self.engine.run(config, cancelled)))
        counts = found.counts
        return Run(
            found.tokens,
            found.decode_seconds,
            found.passes,
            counts["accepted"],
            counts["accepted"] + counts["rejected"],
        )

    # ---- what came out ----

    def cells(self) -> list[Cell]:
        """One for each setting, temperature and category with at least one turn; "all" comes first."""
        categories = [ALL, *dict.fromkeys(p.category for p in self.prompts)]
        found = []
        for temperature in self.grid.temperatures:
            for category in categories:
                turns = [
                    runs for (t, i, _), runs in sorted(self.turns.items())
                    if t == temperature and category in (ALL, self.prompts[i].category)
                ]  # fmt: skip
                if turns:
                    found += [_cell(m, g, temperature, category, turns) for m, g in self.grid.settings()]
        return found


def _parsed(line: str) -> dict | None:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _name(method: str, gamma: int | str) -> str:
    return f"{method}:{gamma}"


def _cell(method: str, gamma: int | str, temperature: float, category: str, turns: list[dict[str, Run]]) -> Cell:
    ours, plain = [t[_name(method, gamma)] for t in turns], [t[_name(BASELINE, 0)] for t in turns]
    a, b = (np.array([(run.tokens, run.seconds) for run in side], float) for side in (ours, plain))
    low, high = interval(a, b) or (None, None)
    tested, (tokens, seconds) = sum(run.tested for run in ours), a.sum(0).tolist()
    return Cell(
        method, gamma, temperature, category, len(turns), ratio(a, b) or 0.0, low, high,
        tokens / seconds if seconds else 0.0,
        sum(run.accepted for run in ours) / tested if tested else None,
        tokens / max(1, sum(run.passes for run in ours)),
    )  # fmt: skip
