"""Forms the request of a branch: a recorded run again, up to a place of its output, with another token there.

A branch has the draws of its run: the same numbers for the same places. Plain decoding then differs only by the forced
token, and so does any method at temperature 0. Above it a draft is drawn by its place and its step in the round, so
that drafting goes on equally where a round of both runs begins at the same place, with a fixed draft length.
"""

from dataclasses import replace
from typing import Any

from engine.config import ACCEPTANCE, METHODS, Constraint, RunConfig, SamplingParams
from engine.errors import BadInput
from engine.trace.events import RunStarted
from engine.trace.trace import Trace


def config_of(trace: Trace) -> RunConfig:
    """Returns the settings of a recorded run. They are validated again, because an uploaded trace may hold
    anything. Raises BadInput."""
    if trace.started.server:
        raise BadInput("This is the recording of a server, whose models are not here, so it cannot be run again.")
    try:
        settings = dict(trace.started.config)
        sampling = SamplingParams(**settings.pop("sampling", {}))
        constraint = settings.pop("constraint", None)
        known: dict[str, Any] = {
            "sampling": sampling,
            "own_settings": _own_settings(settings),
            "constraint": None if constraint is None else Constraint(**constraint),
            "pair": trace.started.pair,
            "prefix": [t.id for t in trace.started.prefix],
        }
        return replace(RunConfig(**settings | known), trace=True)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadInput("The settings of this trace are incomplete, so it cannot be run again.") from error


def _own_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Takes the settings of single methods and rules out of ``settings``, where `RunConfig.as_dict` has put them."""
    own: dict[str, Any] = {}
    for name, method in METHODS.items():
        if method.settings:
            names = {each.trace_key: each.name for each in method.settings}
            own |= {names[key]: value for key, value in settings.pop(name, {}).items()}
    for each in (each for rule in ACCEPTANCE.values() for each in rule.settings if each.trace_key in settings):
        own[each.name] = settings.pop(each.trace_key)
    return own


def branch_config(trace: Trace, place: int, token: int) -> RunConfig:
    """Returns the settings of a branch: ``token`` forced at ``place`` of its output, from 0 on. Raises BadInput."""
    config, output, known = config_of(trace), trace.output, len(trace.started.prefix)
    if not known <= place < len(output):
        raise BadInput(
            f"A token can be forced at the places {known + 1} to {len(output)} of this output, not at {place + 1}."
        )
    return replace(config, prefix=(*output[:place], token))


def check_models(run: RunStarted, branch: RunStarted) -> None:
    """Raises BadInput where a branch has begun with other models, or another prompt, than its run."""
    if branch.weights.get("target") != run.weights.get("target"):
        raise BadInput("This run was recorded with other weights than those here; press Run, then force a token.")
    if [t.id for t in branch.prompt] != [t.id for t in run.prompt]:
        raise BadInput("The models here read this prompt in other tokens; press Run, then force a token.")
