"""What the real engine answers the page about a visitor's own model."""

from safetensors.torch import load_file, save_file
from tiny_pairs import model_folder

from app.jobs.engine_facade import EngineFacade
from engine.runtime.worker import Worker


def test_a_model_that_lacks_a_tensor_is_not_offered(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECLENS_CACHE", str(tmp_path / "cache"))
    model_folder(tmp_path / "target", num_hidden_layers=1)
    facade, file = EngineFacade(Worker("cpu")), tmp_path / "target" / "model.safetensors"
    _, result = facade.look_up(str(tmp_path / "target"))
    assert not result.problems and "nothing wrong was found in the names" in dict(result.lines)["files"]
    tensors = load_file(file)
    del tensors["model.layers.0.mlp.down_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    _, result = facade.look_up(str(tmp_path / "target"))
    assert "no tensor 'model.layers.0.mlp.down_proj.weight'" in result.problems[0] and not result.precisions
