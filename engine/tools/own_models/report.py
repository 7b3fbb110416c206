"""Says whether a person's own model runs here before it is fetched: family, memory, tokenizer, drafts, speed."""

from collections.abc import Mapping

from engine.files import gigabytes, read_json
from engine.weights.catalogue import load_catalogue
from engine.weights.checkpoint_dir import TOKENIZERS
from engine.weights.gguf.layout import gguf_files, is_prepared
from engine.weights.own_models import FAMILIES, OwnModelReport, family_problem
from engine.weights.precision_choice import offered_precisions, read_config, usual_precision
from engine.weights.preflight import available_memory, check_pair
from engine.weights.specs import CONTEXT, ModelSpec, PairSpec, methods
from engine.weights.store import locate


def check(pair: PairSpec, device: str, per_byte: Mapping[str, float]) -> OwnModelReport:
    """Reports on a pair after trying its files."""
    from engine.tools.own_models.trial import faults  # which imports torch

    return report_on(pair, device, per_byte, faults=faults(pair))


def report_on(
    pair: PairSpec,
    device: str,
    per_byte: Mapping[str, float],
    free: int | None = None,
    faults: Mapping[str, str] | None = None,
) -> OwnModelReport:
    """Reports on a pair. ``per_byte``: seconds of a plain step ÷ bytes of weights, of a model that was measured here in
    that precision. ``free``: bytes; None measures them. ``faults``: what `trial.faults` found; None if nothing
    was tried. A draft in a folder of its own has to run, too."""
    target, free = pair.target, available_memory(device) if free is None else free
    config = read_config(target)
    if not config and (folder := locate(target)):
        config = read_json(folder / "config.json")
    offered, usual = offered_precisions(target, device), usual_precision(target, device.split(":")[0])
    draft = next((method for method, model in pair.drafts.items() if model.folder), None)
    problems = {p: check_pair(pair, draft, device, p, free, fetch=True) for p in offered}
    fitting = tuple(p for p in offered if not problems[p])
    reasons = [] if fitting else problems[offered[-1]]
    is_listed = pair.name in load_catalogue()  # one of ours, which may not have been looked up or fetched
    wrong = None if is_listed and not config else family_problem(target.name, config)
    if wrong or faults:
        reasons, fitting = [wrong] if wrong else [*(faults or {}).values()], ()
    memory = ", ".join(f"{gigabytes(pair.memory(p, draft))} in {p}" for p in offered)
    has = f"; {gigabytes(free)} are free" if free is not None else ""
    lines = [
        ("family", _family(config)),
        ("size", f"{_parameters(target)} parameters, {_weights(target)}"),
        ("memory", f"{memory}, for a context of {min(CONTEXT, target.context):,} tokens{has}"),
        ("tokenizer", _tokenizer(target)),
        ("files", _files(target, faults)),
        ("drafts", _drafts(pair, usual)),
        ("a token", _speed(target, sorted(fitting or offered, key=lambda name: name != usual), per_byte)),
    ]
    return OwnModelReport(tuple(lines), tuple(reasons), fitting, "" if usual in fitting or not fitting else fitting[0])


def _family(config: Mapping) -> str:
    family = config.get("model_type")
    if family is None:
        return "known once its files are here"
    return f"{family}, {'the engine’s own decoder' if family in FAMILIES else 'by transformers, which is slower'}"


def _parameters(model: ModelSpec) -> str:
    millions = model.parameters / 1e6
    return f"{millions / 1000:.2f} billion" if millions >= 999.5 else f"{millions:,.3g} million"


def _weights(model: ModelSpec) -> str:
    if model.folder:
        return f"in {gguf_files(model.folder)[0] if is_prepared(model.folder) else model.folder}"
    return "already fetched" if locate(model) else f"to be fetched from {model.repo} at {(model.revision or '')[:10]}"


def _tokenizer(model: ModelSpec) -> str:
    if not model.folder:
        return "its own"
    return next(name for name in TOKENIZERS if (model.folder / name).is_file())


def _files(model: ModelSpec, faults: Mapping[str, str] | None) -> str:
    if faults:
        return "; ".join(f"{role}: {reason}" for role, reason in faults.items())
    if faults is None or locate(model) is None:
        return "not tried before they are here"
    return "nothing wrong was found in the names and shapes of the tensors, and the tokenizer can be read"


def _drafts(pair: PairSpec, precision: str) -> str:
    own = ", ".join(name for name in methods(pair) if name != "none" and pair.draft(name) is None)
    known = ", ".join(f"{method} by {_draft(pair, draft, precision)}" for method, draft in pair.drafts.items())
    return f"{own}; {f'known for it: {known}' if known else 'no draft model or head is known for it'}"


def _draft(pair: PairSpec, draft: ModelSpec, precision: str) -> str:
    """Names a draft; for a model also the precision that it follows its target in, and c by the weights of a step."""
    if draft.head:
        return draft.name
    c = draft.weight_bytes(precision) / pair.target.weight_bytes(precision)
    return f"{draft.name} (in {precision}; by its size a step takes about {c:.2f} of a plain one)"


def _speed(model: ModelSpec, precisions: list[str], per_byte: Mapping[str, float]) -> str:
    """Predicts the speed: a plain step reads all weights once, so its time is their bytes at the measured rate. The
    first precision is the one that a run takes by itself."""
    guesses = [f"{1e3 * per_byte[p] * model.weight_bytes(p):,.0f} ms in {p}" for p in precisions if p in per_byte]
    if not guesses:
        return "not known until a model has been measured here: `python -m engine calibrate`"
    untried = "" if precisions[0] in per_byte else f"; a run takes {precisions[0]}, which was not measured"
    return f"about {', '.join(guesses)} without drafts, by the bytes of a model that was measured here{untried}"
