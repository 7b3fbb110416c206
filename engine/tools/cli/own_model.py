"""Runs `python -m engine check`: looks a model up and prints whether it runs here."""

from engine.errors import EngineError, Unavailable
from engine.files import cache_root
from engine.tools.cli.console import say, screen
from engine.weights.specs import ModelSpec


def look_up_and_describe(name: str, device: str) -> None:
    """Raises BadInput or Unavailable with the reason if the model cannot run here."""
    from engine.runtime.device_choice import choose_device
    from engine.tools.own_models.report import check
    from engine.weights.catalogue import get_pair
    from engine.weights.own_models import hub_name, look_up

    if on_hub := hub_name(name):
        look_up(on_hub)
    pair, device = get_pair(on_hub or name), choose_device(device)
    result = check(pair, device, per_byte(device))
    width = max(len(label) for label, _ in result.lines)
    for label, text in result.lines:
        screen().print(f"{label:{width}}  {text}", soft_wrap=True, highlight=False, markup=False)
    if result.problems:
        raise Unavailable(" ".join(result.problems))
    precision = f" --precision {result.to_choose}" if result.to_choose else ""
    raw = "" if _has_template(pair.target) else " --raw"
    say(f'It runs here: python -m engine run "Hello" --pair {pair.name}{precision}{raw}')


def _has_template(model: ModelSpec) -> bool:
    """Returns whether the model takes a chat; True where its files are not here yet, because that is not known."""
    from engine.runtime.engine import load_tokenizer
    from engine.weights.store import locate

    folder = locate(model)
    return folder is None or bool(load_tokenizer(folder).chat_template)


def per_byte(device: str) -> dict[str, float]:
    """Returns seconds a byte of weights on this device, as the embedded pair was measured; empty if it was not."""
    from engine.runtime.calibration import seconds_per_byte
    from engine.runtime.engine import device_name
    from engine.weights.catalogue import load_catalogue
    from engine.weights.checkpoint_dir import weights_hash
    from engine.weights.store import locate

    target = next(iter(load_catalogue().values())).target
    try:
        folder = locate(target)
    except EngineError:
        return {}
    if folder is None:
        return {}
    return seconds_per_byte(cache_root() / "calibration", device_name(device), weights_hash(folder), target)
