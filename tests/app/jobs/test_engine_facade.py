"""What the real engine answers the page about a visitor's own model and constraint, and that the one that tests pretend
to have is called as it is."""

import inspect
from types import SimpleNamespace

from fake_worker import FakeEngine
from safetensors.torch import load_file, save_file
from tiny_pairs import model_folder

from app.jobs.engine_facade import EngineFacade
from engine.config import Constraint, RunConfig
from engine.errors import BadInput
from engine.runtime.worker import Worker
from engine.tools.own_models.report import check


def test_a_model_that_lacks_a_tensor_is_not_offered(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    model_folder(tmp_path / "target", num_hidden_layers=1)
    facade, file = EngineFacade(Worker("cpu"), check), tmp_path / "target" / "model.safetensors"
    _, result = facade.look_up(str(tmp_path / "target"))
    assert not result.problems and "nothing wrong was found in the names" in dict(result.lines)["files"]
    tensors = load_file(file)
    del tensors["model.layers.0.mlp.down_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    _, result = facade.look_up(str(tmp_path / "target"))
    assert "no tensor 'model.layers.0.mlp.down_proj.weight'" in result.problems[0] and not result.precisions


def test_constraint_is_tried_on_the_loaded_model_unless_it_runs():
    def matcher(constraint, limit):
        if limit < 5:
            raise BadInput("The text that the choice demands takes 5 tokens.")

    loaded = SimpleNamespace(pair=SimpleNamespace(name="a"), grammars=SimpleNamespace(matcher=matcher))
    worker = SimpleNamespace(engine=loaded, batch_size=0)
    facade, choice = EngineFacade(worker), Constraint("choice", "a long text")
    short = RunConfig("Hi", "a", max_new_tokens=4, constraint=choice)
    assert facade.constraint_problem(short) == "The text that the choice demands takes 5 tokens."
    enough, free = (RunConfig("Hi", "a", max_new_tokens=n, constraint=c) for n, c in ((9, choice), (4, None)))
    elsewhere = RunConfig("Hi", "b", max_new_tokens=4, constraint=choice)
    assert [facade.constraint_problem(config) for config in (enough, free, elsewhere)] == [""] * 3
    worker.batch_size = 1
    assert facade.constraint_problem(short) == ""


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
