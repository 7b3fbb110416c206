"""Measures a run beside plain decoding of its prompt, in turn, and records the run with the middle time.

`python -m lessons record` does this for each run of the lessons, and `python -m lessons examples` measures the page's.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from engine.config import RunConfig
from engine.device import processor
from engine.errors import BadInput, EngineError
from engine.files import sha256
from engine.runtime.engine import Engine
from engine.tools.bench.sample import BASELINE
from engine.trace.trace import Trace, fold
from engine.weights.catalogue import local_pair
from engine.weights.gguf.layout import gguf_files, is_prepared
from engine.weights.specs import ModelSpec, PairSpec

Pair = tuple[Trace, Trace]  # plain decoding and the run


def record(engine: Engine, config: RunConfig, repeats: int) -> Trace:
    """Returns the run whose decoding took the middle time of ``repeats``, an odd number. Its ``finished.extra`` holds
    the processor and the measured speedup: the median of the pairs' ratios, the lowest, the highest and how many. Plain
    decoding has none, and a greedy run none if plain decoding wrote another text. Raises EngineError if the repeats did
    not write the same tokens."""
    pairs = run_pairs(engine, [config] * repeats)
    runs = sorted((run for _, run in pairs), key=_decoding)
    if any(run.output != runs[0].output for run in runs):
        raise EngineError("The repeats wrote different tokens, so none of them was recorded.")
    extra = {"processor": processor()}
    parts = config.sampling.temperature == 0 and any(plain.output != run.output for plain, run in pairs)
    if config.method != BASELINE and not parts:
        ratios = [speedup_of(pair) for pair in pairs]
        median, lowest, highest = statistics.median(ratios), min(ratios), max(ratios)
        extra["speedup"] = {"median": median, "lowest": lowest, "highest": highest, "pairs": repeats}
    middle = runs[len(runs) // 2]
    assert middle.finished is not None
    return replace(middle, finished=replace(middle.finished, extra=extra))


def record_untimed(engine: Engine, config: RunConfig) -> Trace:
    """Returns a run that is shown for its verdicts alone. It has no costs, because its clock counts for nothing."""
    run = fold(engine.run(config))
    assert run.finished is not None
    finished = replace(run.finished, extra={"processor": processor()})
    return replace(run, started=replace(run.started, costs=None), finished=finished)


def run_pairs(engine: Engine, configs: Sequence[RunConfig]) -> list[Pair]:
    """Runs each of ``configs`` and plain decoding of it, in turn, and returns both."""
    pairs = []
    for turn, config in enumerate([replace(configs[0], max_new_tokens=16), *configs]):
        plain = config.baseline()
        order = (config, plain) if turn % 2 else (plain, config)
        traces = {each: fold(engine.run(each)) for each in dict.fromkeys(order)}
        pairs.append((traces[plain], traces[config]))
    return pairs[1:]  # the first pair, a short one, pays for loading and calibrating


def speedup_of(pair: Pair) -> float:
    """Returns the run's tokens per second of decoding over plain decoding's."""
    base, run = (_decoding(trace) / len(trace.output) for trace in pair)
    return base / run


def _decoding(run: Trace) -> float:
    assert run.finished is not None, "no run was stopped"
    return run.finished.decode_seconds


def read_from_files(pair: PairSpec, names: str) -> PairSpec:
    """Returns a pair of the catalogue with its models read from the user's own files, ``TARGET.gguf+DRAFT.gguf``.
    BadInput unless they are the files that the catalogue names."""
    own = local_pair(names)
    if own.drafts.keys() != pair.drafts.keys():
        raise BadInput(f"{pair.name} is not a target with a draft in two GGUF files, so leave the files out.")
    target = _in_file(pair.target, own.target)
    drafts = {method: _in_file(draft, own.drafts[method]) for method, draft in pair.drafts.items()}
    return replace(pair, target=target, drafts=MappingProxyType(drafts))


def _in_file(listed: ModelSpec, own: ModelSpec) -> ModelSpec:
    """Returns the model as the catalogue lists it, in the folder of the user's own file."""
    files = gguf_files(own.folder) if own.folder and is_prepared(own.folder) else []
    if listed.gguf is None or [sha256(file) for file in files] != [listed.gguf.sha256]:
        name = listed.gguf.file if listed.gguf else listed.name
        raise BadInput(f"{own.name} is not the file {name} that the catalogue names: its SHA-256 differs.")
    return replace(listed, folder=own.folder, gguf=None)
