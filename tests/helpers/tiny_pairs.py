"""Tiny pairs on disk: a checkpoint in a real architecture with a tokenizer and a chat template beside it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_models import byte_tokenizer, seeded, write

from engine.config import RunConfig, SamplingParams
from engine.runtime.engine import Engine, load_engine
from engine.trace.events import Timings
from engine.trace.trace import Trace, fold, to_json

TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "
VOCABULARY = 264  # three more than the tokenizer has, as padded checkpoints have them
PROMPT = "the cat, the hat, the cat"
END = 1  # <end> of the byte tokenizer


def model_folder(folder: Path, name="llama", tokenizer=True, template=TEMPLATE, noise=0.0, seed=0, **settings):
    """Write a checkpoint with its tokenizer into ``folder``; gives the transformers model (eval, fp32).

    ``noise`` moves every weight a little: a draft that often agrees with the model of the same seed.
    """
    settings = {"vocab_size": VOCABULARY, "eos_token_id": END, "bos_token_id": None} | settings
    model = write(folder, name, seed, **settings)
    if noise:
        with seeded(seed + 1), torch.no_grad():
            for weight in model.parameters():
                weight.add_(noise * weight.std() * torch.randn_like(weight))
        model.save_pretrained(folder)
    if tokenizer:
        kept = byte_tokenizer() if tokenizer is True else tokenizer
        kept.chat_template = template
        kept.save_pretrained(folder)
    return model


def pair_with_draft(root: Path, name="llama", **settings) -> str:
    """Writes a target and a draft that often agrees with it into ``root``. Returns the pair's name."""
    model_folder(root / "target", name, **settings)
    model_folder(root / "draft", name, noise=0.3, **settings)
    return f"{root / 'target'}+{root / 'draft'}"


def request(pair: str | Path, method="none", **settings) -> RunConfig:
    """A short greedy run on raw text, unless told otherwise."""
    asked = {"prompt": PROMPT, "gamma": 4, "max_new_tokens": 16, "chat": False} | settings
    if "temperature" in asked:
        asked["sampling"] = SamplingParams(asked.pop("temperature"))
    return RunConfig(pair=str(pair), method=method, **asked)


def engine_of(pairs, target="target", draft=None, **settings) -> Engine:
    """An engine of the models of these names."""
    names = f"{pairs.root / target}+{pairs.root / draft}" if draft else str(pairs.root / target)
    return load_engine(names, "cpu", **settings)


def engine_in(runtime: str, pair: str | Path, method: str, precision: str = "auto") -> Engine:
    """An engine whose target and draft run in "torch", as they do on other devices than a CPU, or in "onnx"."""
    with pytest.MonkeyPatch.context() as patch:
        if runtime == "torch":
            patch.setattr("engine.models.onnx.session.works", lambda: False)
        engine = load_engine(str(pair), "cpu", precision)
        engine.drafts.drafter(method)
    assert engine.target.runner.model.on_host == (runtime == "onnx")
    return engine


def run(engine, method="none", gammas=None, drafts_first=False, **settings) -> Trace:
    """A whole `request` on the engine's own pair."""
    return fold(engine.run(request(engine.pair.name, method, **settings), gammas=gammas, drafts_first=drafts_first))


def read_late_at_once_and_blindly(engine, method: str) -> list[str]:
    """Returns one sampled run as text, three times: its draft reads the prompt after the first token, as it should;
    before it, as in older versions; and takes another prompt of that length for it."""
    kind = type(engine.drafts.drafter(method, is_greedy=False))
    start, texts = kind.start, []
    blind = {"start": lambda self, prompt, *more: start(self, [9] * len(prompt), *more)}
    for changes in ({}, {"reads_prompt": False}, blind):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in changes.items():
                patch.setattr(kind, name, value)
            whole = run(engine, method, gamma=3, temperature=0.8)
        assert not whole.rounds[0].parents and any(each.parents for each in whole.rounds)
        texts.append(without_clocks(whole))
    return texts


def ids_of(whole: Trace) -> tuple[list[int], list[int]]:
    """A run's prompt and its output."""
    return [p.id for p in whole.started.prompt], [t.id for t in whole.emitted]


def generated(model, ids: list[int], count: int, eos=(END,), **settings) -> list[int]:
    """Returns the tokens that transformers' own greedy generate gives after ``ids``."""
    prompt = torch.tensor([ids], device=model.device)
    settings |= {"eos_token_id": list(eos) or None, "pad_token_id": 0, "do_sample": False, "use_cache": True}
    with torch.inference_mode():
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, **settings)
    return out[0, len(ids) :].tolist()


def without_clocks(trace) -> str:
    """A trace as text with everything in it that a second run cannot repeat left out."""
    still = Timings(0.0, 0.0, 0.0, 0.0)
    rounds = tuple(replace(r, timings=still, start=0.0, end=0.0, reading=0.0) for r in trace.rounds)
    no_times = dict.fromkeys(("prefill", "ttft", "decode_seconds", "seconds"), 0.0)
    end = replace(trace.finished, **no_times, peak_memory=None, extra={}, kept_tokens={})
    return to_json(replace(trace, started=replace(trace.started, costs=None, at=""), rounds=rounds, finished=end))
