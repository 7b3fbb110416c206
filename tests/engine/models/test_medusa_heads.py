"""Medusa heads draft as they were trained, in every layout they are published in; the output stays the target's own."""

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from chi_squared import FALSE_ALARM, joint_p_value, two_token_law
from safetensors.torch import load_file, save_file
from tiny_models import RUNTIMES
from tiny_pairs import VOCABULARY, engine_in, generated, ids_of, model_folder, request, run, without_clocks
from training_project import random_head

from engine.config import SamplingParams, draft_of
from engine.drafters.base import DrafterSetup
from engine.errors import BadInput, Unavailable
from engine.models.reduced_output import word_ids
from engine.runtime import calibration
from engine.runtime.engine import Engine, load_engine
from engine.runtime.run_batch import RunBatch
from engine.sampling.random_streams import Uniforms
from engine.sampling.warping import History, penalise, warp
from engine.trace.events import CostModel
from engine.trace.trace import fold
from engine.training import export
from engine.training.export import MEDUSA_FILE
from engine.training.students import Batch, MedusaStudent
from engine.training.teacher import Teacher
from engine.weights.catalogue import get_pair, local_model

WORDS = torch.arange(0, VOCABULARY, 2)  # every second word: some of the target's favourites are out of reach
E, K = 64, MedusaStudent.HEADS
CONFIG = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "owner/target"}  # as in the wild: 2


@pytest.fixture(scope="module", autouse=True)
def unrounded():
    with pytest.MonkeyPatch.context() as patch:  # 8 bits would hide a wrong state
        patch.setattr("engine.models.onnx_graph.DRAFTS", "fp32")
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A target and heads that were never trained, but whose every weight is its own."""
    root = tmp_path_factory.mktemp("medusa")
    model = model_folder(root / "target", "llama-tied")
    student = MedusaStudent(Teacher.load(root / "target", "cpu"), WORDS)
    torch.manual_seed(4)
    with torch.no_grad():
        for parameter in student.module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter)).copy_(parameter.half())
    pair = get_pair(str(root / "target"))
    export.medusa(student, Teacher.load(root / "target", "cpu"), (), pair.target, root / "heads", "a card")
    return SimpleNamespace(root=root, model=model, student=student, pair=f"{root}/target+{root}/heads")


@pytest.fixture(scope="module")
def engine(folders):
    engine = load_engine(folders.pair, "cpu")
    engine.drafts.drafter("medusa")
    return engine


@pytest.fixture(scope="module", params=RUNTIMES)
def each_engine(folders, request):
    """One whose head runs in ONNX Runtime, and one in which torch runs it, as on other devices."""
    return engine_in(request.param, folders.pair, "medusa")


def last_state(model, ids) -> torch.Tensor:
    """The target's last state [1, E] after its last norm, as transformers computes it."""
    with torch.inference_mode():
        return model.model(torch.tensor([list(ids)])).last_hidden_state[0, -1:]


def begin(engine, ids, **settings) -> None:
    """Reads all but the last of ``ids`` and starts the drafter, as a run does."""
    target, drafter = engine.target.runner, engine.drafts.drafter("medusa")
    target.reset(64)
    target.prefill(ids[:-1])
    drafter.start(
        ids, DrafterSetup(vocab_size=VOCABULARY, uniforms=Uniforms(0, 64), capacity=64, device="cpu", **settings)
    )


@torch.inference_mode()
def test_each_head_guesses_from_the_last_state_and_sees_no_draft(folders, each_engine):
    ids = [(5 * i + 3) % VOCABULARY for i in range(20)]
    last = last_state(folders.model, ids[:-1])
    begin(each_engine, ids, sampling=SamplingParams(1.0), history=None)
    draft = each_engine.drafts.drafter("medusa").propose(ids, 5, 0)
    assert len(draft) == K and draft.passes == 1 and draft.parents is None
    for linear, q in zip(folders.student.module, draft.q, strict=True):
        guess = last + torch.nn.functional.silu(linear(last))
        row = (guess @ folders.model.lm_head.weight[WORDS].T).softmax(-1)[0]
        assert torch.allclose(q[WORDS], row, atol=1e-4) and q[WORDS + 1].sum() == 0
    assert (draft.q[0] - draft.q[1]).abs().max() > 0.01, "heads alike would prove nothing"
    each_engine.target.runner.release()


@torch.inference_mode()
def test_what_was_trained_is_what_drafts(folders, engine):
    """`distil` reads the state of token t for head k; the guess is for token t + k + 1."""
    ids = [(7 * i + 2) % VOCABULARY for i in range(16)]
    begin(engine, ids, sampling=SamplingParams(1.0), history=None)
    target = engine.target.runner
    states = folders.student.states(Batch(None, None, target.features((2,), 0, 15)[None], None, None), K)
    draft = engine.drafts.drafter("medusa").propose(ids, K, 0)
    for q, one in zip(draft.q, states, strict=True):
        assert torch.allclose(q[WORDS], folders.student.logits(one[0, 14], WORDS).softmax(-1), atol=1e-4)
    target.release()


@torch.inference_mode()
def test_a_penalty_falls_on_committed_tokens_and_on_the_drafts_before(folders, engine):
    ids, params = [3, 4, 10, 11, 100, 101], SamplingParams(1.0, repetition_penalty=3.0)
    begin(engine, ids, sampling=params, history=History(ids, VOCABULARY, "cpu"))
    draft = engine.drafts.drafter("medusa").propose(ids, K, 0)
    last = last_state(folders.model, ids[:-1])
    for k, (linear, q) in enumerate(zip(folders.student.module, draft.q, strict=True)):
        logits = (last + torch.nn.functional.silu(linear(last))) @ folders.model.lm_head.weight[WORDS].T
        seen = torch.zeros(VOCABULARY, dtype=torch.bool)
        seen[[*ids, *draft.tokens[:k].tolist()]] = True
        assert torch.allclose(q[WORDS], warp(penalise(logits, seen[WORDS][None], 3.0), params)[0], atol=1e-4)
    engine.target.runner.release()


@pytest.mark.parametrize("gamma", [1, 8, "auto"])
def test_greedy_output_is_the_targets_own(folders, each_engine, monkeypatch, gamma):
    monkeypatch.setitem(each_engine._costs, "medusa", CostModel(0.02, {1: 1.0, 2: 1.01}, 200, 0.001))
    whole = run(each_engine, "medusa", gamma=gamma, max_new_tokens=40)
    prompt, written = ids_of(whole)
    assert written == generated(folders.model, prompt, 40)
    assert {r.draft_steps for r in whole.rounds if r.parents} == {1}
    longest = max(len(r.parents) for r in whole.rounds)
    assert longest > 1 if gamma == "auto" else longest == min(gamma, K)


def test_sampled_output_keeps_the_targets_law(folders, engine, monkeypatch):
    """The first two tokens of many seeded runs against the target's own joint law, at a false-alarm rate of 1e-4."""
    monkeypatch.setitem(engine._costs, "medusa", CostModel(0.001, {1: 1.0, 2: 1.0005}, 200, 0.001))
    params = SamplingParams(0.7, top_k=4)
    runs = [run(engine, "medusa", gamma=2, max_new_tokens=3, sampling=params, seed=s) for s in range(400)]
    seen = Counter(tuple(ids_of(each)[1][:2]) for each in runs)
    statuses = Counter(t.status for r in runs for t in r.rounds[0].tokens)
    assert min(statuses["accepted"], statuses["rejected"]) > 50, "one side of the rule was hardly tried"
    assert joint_p_value(seen, two_token_law(folders.model, ids_of(runs[0])[0], params)) > FALSE_ALARM


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_run_repeats_from_its_own_pins(engine, monkeypatch, temperature):
    asked = {"gamma": "auto", "max_new_tokens": 40, "temperature": temperature}
    monkeypatch.setitem(engine._costs, "medusa", CostModel(0.02, {1: 1.0, 2: 1.1}, 200, 0.001))
    first = run(engine, "medusa", **asked)
    pins = [(r.gamma, r.draft_steps, "", r.parents) for r in first.rounds]
    assert len(set(pins)) > 1
    monkeypatch.setitem(engine._costs, "medusa", CostModel(5.0, {1: 1.0, 2: 2.0}, 200, 0.001))  # now it pays nowhere
    assert without_clocks(run(engine, "medusa", pins, **asked)) == without_clocks(first)
    assert {r.gamma for r in run(engine, "medusa", **asked).rounds} == {0}


def test_an_eagle_head_and_medusa_heads_share_a_target(folders, tmp_path):
    """Each reads its own layers of those tapped for both, also a run that began before the other was loaded."""
    student, teacher = random_head(tmp_path / "target", "llama-tied")
    export.eagle(student, teacher, (0, 1), None, tmp_path / "head", "a card")
    drafts = {"eagle": local_model(tmp_path / "head"), "medusa": local_model(folders.root / "heads")}
    both, costs = replace(get_pair(folders.pair), drafts=drafts), CostModel(0.1, {1: 1.0, 8: 1.5}, 64, 0.001)
    asked = {m: request(both.name, m, gamma=2, max_new_tokens=24) for m in ("eagle-chain", "medusa")}
    engine, found = Engine(both, "cpu", "fp32"), {m: [] for m in asked}
    batch = RunBatch(engine, 2)
    batch.add("eagle-chain", asked["eagle-chain"], costs=costs)
    for i in range(200):
        if i == 5:
            batch.add("medusa", asked["medusa"], costs=costs)
        for name, event in batch.step():
            assert not isinstance(event, Exception), event
            found[name].append(event)
    assert engine.target.runner.model.taps == (0, 1, 2)
    for name, config in asked.items():
        alone = Engine(replace(both, drafts={draft_of(name): drafts[draft_of(name)]}), "cpu", "fp32")
        expected, ours = fold(alone.run(config, costs=costs)), fold(iter(found[name]))
        assert [[t.id for t in r.tokens] for r in ours.rounds] == [[t.id for t in r.tokens] for r in expected.rounds]


def test_costs_are_those_of_a_round(folders, engine, monkeypatch):
    """Four drafts of a model are four steps, and those of the heads are one."""
    monkeypatch.setattr(calibration, "_seconds", lambda step, device: 1.0)
    drafter = engine.drafts.drafter("medusa")
    assert calibration.measure(engine.target.runner, drafter, context=20, repeats=2).c == pytest.approx(1.0)


# ── the layouts of others ──


def in_the_layout_of(kind: str, words: int = VOCABULARY, heads: int = 2, width: int = E) -> dict[str, torch.Tensor]:
    """Tensors as Medusa 0.1 or TGI's version 2 name them; their config.json says two heads,
    and the file may have more."""
    torch.manual_seed(3)
    tensors = {f"{k}.0.linear.weight": 0.2 * torch.randn(width, width) for k in range(heads)}
    tensors |= {f"{k}.0.linear.bias": 0.2 * torch.randn(width) for k in range(heads)}
    return tensors | {f"{k}.1.weight": torch.randn(words, width) for k in range(heads if kind == "0.1" else 0)}


def stored(folder, tensors, name=MEDUSA_FILE, config=CONFIG):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    if tensors is not None:
        save_file(tensors, folder / name)
    return folder


@torch.inference_mode()
@pytest.mark.parametrize("target", ["llama", "llama-tied"])
@pytest.mark.parametrize(("kind", "heads"), [("0.1", 5), ("2", 3), ("0.1 with a map", 2)])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_published_layouts_are_loaded(tmp_path, target, kind, heads, runtime):
    model = model_folder(tmp_path / "target", target)
    reduced = kind.endswith("map")
    words = torch.tensor([3, 7, 8, 100]) if reduced else torch.arange(VOCABULARY)
    tensors = in_the_layout_of(kind.split()[0], len(words), heads)
    more = {"d2t": words - torch.arange(len(words))} if reduced else {}
    stored(tmp_path / "heads", tensors | more)
    engine = engine_in(runtime, f"{tmp_path / 'target'}+{tmp_path / 'heads'}", "medusa")
    ids = [(5 * i + 3) % VOCABULARY for i in range(12)]
    begin(engine, ids, sampling=SamplingParams(1.0), history=None)
    draft, last = engine.drafts.drafter("medusa").propose(ids, 8, 0), last_state(model, ids[:-1])
    assert len(draft) == heads
    for k, q in enumerate(draft.q):
        guess = last + torch.nn.functional.silu(
            last @ tensors[f"{k}.0.linear.weight"].T + tensors[f"{k}.0.linear.bias"]
        )
        own = tensors[f"{k}.1.weight"] if kind.startswith("0.1") else model.lm_head.weight
        assert torch.allclose(q[words], (guess @ own.T).softmax(-1)[0], atol=1e-4)
    whole = run(engine, "medusa", gamma=3, max_new_tokens=12)
    prompt, written = ids_of(whole)
    assert written == generated(model, prompt, 12)


def without(tensors: dict, name: str) -> dict:
    return {n: t for n, t in tensors.items() if n != name}


OURS, THEIRS = in_the_layout_of("0.1"), in_the_layout_of("2")
DEEPER = THEIRS | {"0.1.linear.weight": torch.zeros(E, E)}
REFUSED = {
    "another width": (in_the_layout_of("2", width=24), rf"is \(24, 24\), where this target needs \({E}, {E}\)"),
    "another vocabulary": (in_the_layout_of("0.1", words=100), r"has 100 words and the target 264.*no map of them"),
    "a map of another length": (OURS | {"d2t": torch.zeros(9, dtype=torch.long)}, rf"needs \(9, {E}\)"),
    "a map of unknown words": (THEIRS | {"d2t": torch.tensor([0, 300])}, "words that the target does not have"),
    "two layers a head": (DEEPER, r"one layer each: '0\.1\.linear\.weight' is missing or too many"),
    "a bias missing": (without(THEIRS, "1.0.linear.bias"), r"'1\.0\.linear\.bias' is missing"),
    "an output layer missing": (without(OURS, "1.1.weight"), r"'1\.1\.weight' is missing"),
    "a head missing between": (without(without(in_the_layout_of("2", heads=3), "1.0.linear.weight"), "1.0.linear.bias"),
                               r"'2\.0\.linear\.bias' is missing or too many"),
    "no rows for its words": (THEIRS | {"d2t": torch.arange(5)}, "brings none and this target's is not its embedding"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_heads_that_fit_no_layout_or_another_target_are_refused(tmp_path, name):
    tensors, words = REFUSED[name]
    model_folder(tmp_path / "target")
    engine = load_engine(f"{tmp_path / 'target'}+{stored(tmp_path / 'heads', tensors)}", "cpu")
    with pytest.raises(Unavailable, match=words) as refused:
        engine.drafts.drafter("medusa")
    assert str(refused.value).count(". ") <= 1 and not engine.has("medusa")
    assert engine.target.runner.model.taps == (), "nothing is loaded by half"


def test_folders_without_heads_that_can_be_read(folders, tmp_path):
    pickled = stored(tmp_path / "pickled", None)
    (pickled / "medusa_lm_head.pt").write_bytes(b"a pickle")
    with pytest.raises(BadInput, match=r"medusa_lm_head\.pt is a pickle, which is never loaded"):
        get_pair(f"{folders.root / 'target'}+{pickled}")
    other = stored(tmp_path / "other", {"blocks.0.layers.0.weight": torch.zeros(E, E)})
    with pytest.raises(BadInput, match="holds no Medusa heads"):
        get_pair(f"{folders.root / 'target'}+{other}")
    cut = stored(tmp_path / "cut", THEIRS)
    (cut / MEDUSA_FILE).write_bytes((cut / MEDUSA_FILE).read_bytes()[:-4])
    with pytest.raises(BadInput, match="is damaged"):
        get_pair(f"{folders.root / 'target'}+{cut}")
    with pytest.raises(BadInput, match=r"holds Medusa heads, which only draft for a target; name TARGET_DIR\+"):
        get_pair(f"{folders.root / 'heads'}")


def test_a_target_without_hidden_states_to_read(folders, tmp_path):
    model_folder(tmp_path / "gpt", "gpt2")
    engine = load_engine(f"{tmp_path / 'gpt'}+{folders.root / 'heads'}", "cpu")
    with pytest.raises(Unavailable, match="reads hidden states, which only our own decoder gives; use another method"):
        engine.drafts.drafter("medusa")


def test_heads_are_stored_as_tgi_loads_them(folders):
    """TGI's layers/medusa.py (MedusaHeadV2) reads `{k}.0.linear.weight` and `.bias`, and wants one layer a head. The
    map is ours: TGI takes the whole output layer and ignores it."""
    tensors, config = (
        load_file(folders.root / "heads" / MEDUSA_FILE),
        json.loads((folders.root / "heads" / "config.json").read_text()),
    )
    shapes = {f"{k}.0.linear.weight": (E, E) for k in range(K)} | {f"{k}.0.linear.bias": (E,) for k in range(K)}
    assert {name: tuple(t.shape) for name, t in tensors.items()} == shapes | {"d2t": (len(WORDS),)}
    assert {t.dtype for name, t in tensors.items() if name != "d2t"} == {torch.float16}
    assert config["medusa_num_heads"] == K and config["medusa_num_layers"] == 1
    assert torch.equal(word_ids(tensors["d2t"], VOCABULARY, folders.root), WORDS)
    found = local_model(folders.root / "heads")
    assert found.head == "medusa" and found.hidden_size == E and found.parameters == K * (E * E + E)


def test_a_target_whose_output_layer_is_its_own_gets_its_rows_with_the_heads(tmp_path):
    model = model_folder(tmp_path / "target")
    teacher = Teacher.load(tmp_path / "target", "cpu")
    export.medusa(
        MedusaStudent(teacher, WORDS), teacher, (), get_pair(str(tmp_path / "target")).target, tmp_path / "heads", "-"
    )
    written = load_file(tmp_path / "heads" / MEDUSA_FILE)["lm_head.weight"]
    assert torch.equal(written, model.lm_head.weight[WORDS].half())
    engine = load_engine(f"{tmp_path / 'target'}+{tmp_path / 'heads'}", "cpu")
    assert run(engine, "medusa", gamma=2, max_new_tokens=6).emitted
