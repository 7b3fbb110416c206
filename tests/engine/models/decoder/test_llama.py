"""Our decoder gives transformers' logits on every family it runs: whole, in steps, as a tree, after a rollback."""

import shutil
from dataclasses import replace

import pytest
import torch
from closeness import assert_close, is_close
from fake_graphs import FakeGraphs
from safetensors.torch import load_file, save_file
from tiny_models import CHECKPOINTS, RUNTIMES, logits_of, runner_of, write

from engine.errors import BadInput, EngineError, Unavailable
from engine.models.decoder.llama import LlamaModel
from engine.models.decoder.runner import DecoderRunner, Tokens
from engine.models.decoder.tree_shape import tree_shape

IDS = [(37 * i * i + 11 * i + 5) % 96 for i in range(40)]
TREE = (0, 0, 1, 1, 2, 4)  # nodes 1, 2 under the root; 3, 4 under 1; 5 under 2; 6 under 4


@pytest.fixture(scope="module", params=CHECKPOINTS)
def checkpoint(request, tmp_path_factory):
    """A folder of several files, and transformers' model of it."""
    folder = tmp_path_factory.mktemp(request.param)
    model = write(folder, request.param, shards="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    return folder, model


def ready(checkpoint, prompt=0, capacity=64, runtime="torch") -> DecoderRunner:
    runner = RUNTIMES[runtime](*checkpoint)
    runner.reset(min(capacity, runner.max_length))
    runner.prefill(IDS[:prompt])
    return runner


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_logits_in_blocks_as_a_whole_and_after_a_rollback(checkpoint, runtime):
    theirs = logits_of(checkpoint[1], IDS)
    runner, at, rows = ready(checkpoint, prompt=9, runtime=runtime), 9, []
    for width in (1, 4, 1, 7, 2, 16):
        rows.append(runner.forward(torch.tensor(IDS[at : at + width])))
        at += width
    assert runner.length == at == len(IDS)
    assert_close(torch.cat(rows), theirs[9:])
    runner.reset(len(IDS))
    assert_close(runner.forward(torch.tensor(IDS)), theirs)
    runner.rollback(9)
    assert_close(runner.forward(torch.tensor(IDS[9:]), last=True), theirs[-1:])


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_tree_is_every_one_of_its_paths_and_a_kept_path_is_as_a_chain(checkpoint, runtime):
    runner, nodes = ready(checkpoint, prompt=12, runtime=runtime), torch.tensor([IDS[12], 7, 50, 31, 7, 2, 90])
    for path in ([0], [0, 1], [0, 2, 5], [0, 1, 4, 6], [0, 1, 3]):
        logits = runner.forward(nodes, TREE)
        theirs = logits_of(checkpoint[1], [*IDS[:12], *nodes[path].tolist(), 3, 4])
        assert_close(logits[path], theirs[12:-2])
        runner.keep(12, path)
        assert runner.length == 12 + len(path)
        assert_close(runner.forward(torch.tensor([3, 4])), theirs[-2:])
        runner.rollback(12)


def several(checkpoint, runtime="torch") -> tuple[list[Tokens], list[torch.Tensor]]:
    """New tokens for sequences of unlike length: a prompt's, plain steps, a chain and a tree; and the logits of those
    that want them, each sequence run alone."""
    shared, batch, right = RUNTIMES[runtime](*checkpoint), [], []
    for prompt, width, parents in ((0, 30, None), (1, 1, None), (33, 4, None), (12, 7, TREE), (5, 1, None)):
        runner, ids = shared.fork(), torch.tensor(IDS[prompt : prompt + width])
        for each in (runner, alone := RUNTIMES[runtime](*checkpoint)):
            each.reset(40)
            each.prefill(IDS[:prompt])
        batch.append(Tokens(runner, ids, parents, wants_logits=prompt > 0))
        right.append(alone.forward(ids, parents))
    return batch, right


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_of_several_sequences_in_one_pass_is_as_alone(checkpoint, runtime):
    batch, right = several(checkpoint, runtime)
    lengths = [tokens.runner.length for tokens in batch]
    logits = batch[0].runner.forward_many(batch)
    grown = [n + len(r) for n, r in zip(lengths, right, strict=True)]
    assert logits[0] is None and [t.runner.length for t in batch] == grown
    for ours, theirs in zip(logits[1:], right[1:], strict=True):
        assert_close(ours, theirs)
    plain = [Tokens(tokens.runner, torch.tensor([IDS[tokens.runner.length]])) for tokens in batch[:3]]
    for tokens, ours in zip(plain, batch[0].runner.forward_many(plain), strict=True):
        assert_close(ours[0], logits_of(checkpoint[1], IDS[: tokens.runner.length])[-1])


def test_a_captured_sequence_shares_a_pass_and_is_replayed_after_it(tmp_path):
    checkpoint = tmp_path, write(tmp_path, "llama")
    eager = ready(checkpoint, prompt=21)
    captured = DecoderRunner(eager.model, FakeGraphs())
    captured.reset(64)
    captured.prefill(IDS[:9])
    steps = [captured.forward(torch.tensor([IDS[9]]))[0].clone()]
    batch = [Tokens(eager, torch.tensor(IDS[21:25])), Tokens(captured, torch.tensor(IDS[10:13]))]
    steps += [*captured.forward_many(batch)[1], captured.forward(torch.tensor([IDS[13]]))[0]]
    assert_close(torch.stack(steps), logits_of(checkpoint[1], IDS)[9:14])


@pytest.mark.parametrize("field", ["positions", "mask", "cache"])
def test_a_sequence_that_reads_its_neighbours_is_noticed(tmp_path, monkeypatch, field):
    """Two blocks of one width follow prompts of unlike length; the second is given what belongs to the first."""
    checkpoint = tmp_path, write(tmp_path, "llama")
    first, second = (runner.next_span(4) for runner in (ready(checkpoint, prompt=9), ready(checkpoint, prompt=21)))
    wrong = replace(second, **{field: getattr(first, field)})
    if field == "mask":
        wrong = replace(wrong, mask=torch.nn.functional.pad(wrong.mask, (0, 12)))
    model = runner_of(*checkpoint).model
    for span, is_right in ((second, True), (wrong, False)):
        with torch.inference_mode():
            logits = model.forward(torch.tensor([*IDS[9:13], *IDS[21:25]]), [first, span])[0]
        assert is_close(logits[4:], logits_of(checkpoint[1], IDS[:25])[21:]) == is_right


def test_a_prefill_longer_than_a_chunk(tmp_path):
    model = write(tmp_path, "llama3-rope", max_position_embeddings=2048)
    ids = IDS * 30
    runner = runner_of(tmp_path, model)
    runner.reset(len(ids))
    runner.prefill(ids[:-2])
    assert_close(runner.forward(torch.tensor(ids[-2:])), logits_of(model, ids)[-2:])


def test_a_sliding_window_is_the_context_and_more_is_refused_in_words(tmp_path):
    """Inside the window it makes no difference, and past it this decoder will not go."""
    with pytest.raises(BadInput, match="context is 40"):
        runner_of(tmp_path, write(tmp_path, "mistral-window")).reset(41)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, write(folder, "qwen3", shards="20KB").config


def short(part: str, rows: int | None):
    """Gives each tensor of that name ``rows`` rows of zeros, or removes it for None."""

    def change(folder):
        for file in folder.glob("*.safetensors"):
            tensors = {name: t for name, t in load_file(file).items() if rows or part not in name}
            save_file({n: torch.zeros(rows, *t.shape[1:]) if part in n else t for n, t in tensors.items()}, file)

    return change


def index_becomes(text: str):
    return lambda folder: (folder / "model.safetensors.index.json").write_text(text)


def first_shard(folder):
    return sorted(folder.glob("*.safetensors"))[0]


DAMAGE = {
    "cut short": lambda f: first_shard(f).write_bytes(first_shard(f).read_bytes()[:-300]),
    "other bytes": lambda f: first_shard(f).write_bytes(b"<html>not found</html>" * 40),
    "huge header": lambda f: first_shard(f).write_bytes(b"\xff" * 8 + first_shard(f).read_bytes()[8:]),
    "shard missing": lambda f: first_shard(f).unlink(),
    "all missing": lambda f: [x.unlink() for x in f.glob("model*")],
    "index no json": index_becomes("{"),
    "map of numbers": index_becomes('{"weight_map": {"model.embed_tokens.weight": 3}}'),
    "map elsewhere": index_becomes('{"weight_map": {"model.embed_tokens.weight": "../../elsewhere.safetensors"}}'),
    "tensor missing": short("layers.1.mlp.down_proj", None),
    "short embedding": short("embed_tokens", 90),
    "short query": short("q_proj", 40),
    "short head": short("lm_head", 10),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_one_sentence(tmp_path, sharded, damage):
    folder = tmp_path / "copy"
    shutil.copytree(sharded[0], folder)
    DAMAGE[damage](folder)
    with pytest.raises(EngineError) as error:
        LlamaModel(folder, sharded[1], torch.float32, "cpu")
    message = str(error.value)
    assert isinstance(error.value, Unavailable) and message.endswith(".") and "\n" not in message
    assert "copy" in message, "the folder should be named"


def test_a_tree_lists_every_node_after_its_parent():
    with pytest.raises(AssertionError, match="after its parent"):
        tree_shape([0, 2])
