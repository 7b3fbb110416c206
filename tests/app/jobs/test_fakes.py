"""The engine that tests of the page pretend to have answers as the real one would be called."""

import inspect

from fake_worker import FakeEngine

from app.jobs.engine_facade import EngineFacade


def public(kind: type) -> dict:
    return {name: each for name, each in vars(kind).items() if inspect.isfunction(each) and not name.startswith("_")}


def test_the_made_up_engine_takes_the_arguments_of_the_real_one():
    real, fake = public(EngineFacade), public(FakeEngine)
    # `hardware` is only called by the facade itself.
    assert fake.keys() == real.keys() - {"hardware"} and len(fake) > 10
    for name, function in fake.items():
        taken = [(each.name, each.default) for each in inspect.signature(function).parameters.values()]
        assert taken == [(each.name, each.default) for each in inspect.signature(real[name]).parameters.values()], name
    assert FakeEngine().worker is not None, "an attribute of both"
