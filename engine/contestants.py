"""Who races in `bench`: the engine's own methods, and transformers' generate on the same weights.

Each takes one prompt and gives a Sample. All get the same ids, dtype, device and threads, and stop at the same ids.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation import BaseStreamer

from engine.config import AUTO, RunConfig
from engine.errors import BadInput, Unavailable
from engine.events import Round, RunFinished
from engine.fetch import locate
from engine.loading import PRECISIONS, Engine
from engine.memory import peak_memory, reset_peak
from engine.scores import BASELINE, UNTRACED, Sample
from engine.text import encode_prompt

TRANSFORMERS = ("hf", "hf-lookup", "hf-assisted")
LOOKUP_DEFAULT = 10  # what transformers' documentation sets; its generate has no default
Say = Callable[[float, str], None]


@dataclass
class Ours:
    """A method of the engine, driven on this very thread."""

    engine: Engine
    method: str
    traced: bool = True
    setting: str | None = None

    @property
    def name(self) -> str:
        return self.method + ("" if self.traced else UNTRACED)

    def run(self, config: RunConfig) -> Sample:
        gamma = 0 if self.method == BASELINE else config.gamma
        config = replace(config, method=self.method, gamma=gamma, trace=self.traced)
        *rounds, finished = [e for e in self.engine.run(config) if isinstance(e, Round | RunFinished)]
        tokens = [t for r in rounds for t in r.tokens]
        emitted = [t for t in tokens if t.emitted]
        count = {s: sum(t.status == s for t in tokens) for s in ("accepted", "rejected", "discarded")}
        return Sample(
            tokens=tuple(t.id for t in emitted),
            seconds=finished.seconds,
            decode_seconds=finished.decode_seconds,
            decode_tokens=len(emitted),
            ttft=finished.ttft,
            passes=len(rounds),
            peak_memory=finished.peak_memory,
            rounds=tuple((len(r.emitted), r.draft_steps, len(r.parents)) for r in rounds),
            accepted=count["accepted"],
            tested=count["accepted"] + count["rejected"],
            unused=count["rejected"] + count["discarded"],
            gaps=tuple(t.gap for t in emitted),
        )


class Watch(BaseStreamer):
    """When tokens came out of generate, and how many at a time; the first put is the prompt."""

    def __init__(self):
        self.puts: list[tuple[float, int]] = []
        self._prompt_seen = False

    def put(self, value):
        if self._prompt_seen:
            self.puts.append((time.perf_counter(), value.numel()))
        self._prompt_seen = True

    def end(self):
        pass


@dataclass
class Transformers:
    """transformers' generate: plain, with prompt lookup, or with the pair's draft as assistant.

    ``number``: tokens to look up or to draft; None leaves the assistant to transformers' own schedule.
    """

    engine: Engine
    name: str
    models: "Models"
    number: int | None = None
    setting: str | None = field(init=False, default=None)

    def __post_init__(self):
        if self.name != "hf":
            self.setting = f"{self.number} tokens" if self.number else "default"

    def run(self, config: RunConfig) -> Sample:
        device, model = self.engine.device, self.models.target()
        ids = torch.tensor([encode_prompt(self.engine.target.tokenizer, config)], device=device)
        wanted, extra = self._generation(config), self._drafting(config)
        watch = Watch()
        reset_peak(device)
        torch.manual_seed(config.seed)
        start = self._now()
        with torch.inference_mode():
            out = model.generate(ids, generation_config=wanted, streamer=watch, **extra)
        seconds = self._now() - start
        tokens = tuple(out[0, ids.shape[1] :].tolist())
        (first, first_count), (last, _) = watch.puts[0], watch.puts[-1]
        return Sample(
            tokens=tokens,
            seconds=seconds,
            decode_seconds=last - first,
            decode_tokens=len(tokens) - first_count,
            ttft=first - start,
            passes=len(watch.puts),
            peak_memory=peak_memory(device),
        )

    def _now(self) -> float:
        if torch.device(self.engine.device).type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _generation(self, config: RunConfig) -> GenerationConfig:
        """Every setting said outright: what is left out would come from the checkpoint's own generation config."""
        s, eos = config.sampling, sorted(self.engine.target.eos)
        sampling = {"do_sample": False}
        if not s.greedy:
            sampling = {"do_sample": True, "temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p}
            sampling["min_p"] = s.min_p or None
        return GenerationConfig(
            max_new_tokens=config.max_new_tokens,
            eos_token_id=eos or None,
            pad_token_id=eos[0] if eos else 0,
            repetition_penalty=s.repetition_penalty,
            use_cache=True,
            disable_compile=True,
            prompt_lookup_num_tokens=self.number if self.name == "hf-lookup" else None,
            **sampling,
        )

    def _drafting(self, config: RunConfig) -> dict:
        if self.name != "hf-assisted":
            return {}
        assistant = self.models.draft()
        # A fresh config each time: the schedule and the confidence threshold remember across calls.
        assistant.generation_config = GenerationConfig()
        if self.number:
            assistant.generation_config.update(
                num_assistant_tokens=self.number,
                num_assistant_tokens_schedule="constant",
                assistant_confidence_threshold=0.0,
            )
        if config.sampling.greedy or assistant.config.vocab_size == self.models.target().config.vocab_size:
            return {"assistant_model": assistant}
        tokenizer = self.engine.target.tokenizer  # sampling with vocabularies padded differently needs its other path
        return {"assistant_model": assistant, "tokenizer": tokenizer, "assistant_tokenizer": tokenizer}


class Models:
    """The pair's checkpoints as transformers loads them, once and only if somebody asks."""

    def __init__(self, engine: Engine, say: Say = lambda fraction, message: None):
        self.engine, self._say, self._loaded = engine, say, {}

    def target(self):
        return self._load(self.engine.target.folder)

    def draft(self):
        return self._load(locate(self.engine.pair.drafts["lm"]))

    def _load(self, folder: Path):
        if folder not in self._loaded:
            self._say(0.0, f"Loading {folder.name} with transformers")
            transformers.logging.disable_progress_bar()
            transformers.logging.set_verbosity_error()  # it warns about its own assistant's arguments on every call
            try:
                model = AutoModelForCausalLM.from_pretrained(
                    folder, dtype=PRECISIONS[self.engine.precision], trust_remote_code=False, use_safetensors=True,
                    local_files_only=True,
                )  # fmt: skip
                model = model.to(self.engine.device).eval()
            except Exception as error:  # many reasons, all of them the checkpoint's or the memory's
                raise Unavailable(f"transformers cannot load {folder}: {str(error).splitlines()[0][:300]}") from error
            model.generation_config = GenerationConfig()
            self._loaded[folder] = model
        return self._loaded[folder]


def check_names(names: list[str], offered: tuple[str, ...], drafts) -> list[str]:
    """The contestants asked for, the baseline first and each once. BadInput for one that cannot race."""
    known = [*offered, *(m + UNTRACED for m in offered), *TRANSFORMERS]
    for name in names:
        if name not in known:
            raise BadInput(f"{name[:40]!r} cannot race here; choose from {', '.join(known)}.")
        if name == "hf-assisted" and "lm" not in drafts:
            raise BadInput("hf-assisted needs a pair with a draft model; choose another pair or leave it out.")
    return list(dict.fromkeys([BASELINE, *names]))


def contestants(names: list[str], engine: Engine, models: Models, gammas: dict[str, int]) -> Iterator:
    """One for each name; lookup and assistant at transformers' defaults and at our γ, of which the faster counts."""
    for name in names:
        if name == "hf":
            yield Transformers(engine, name, models)
        elif name == "hf-lookup":
            for number in dict.fromkeys([LOOKUP_DEFAULT, gammas["ngram"]]):
                yield Transformers(engine, name, models, number)
        elif name == "hf-assisted":
            yield Transformers(engine, name, models)
            yield Transformers(engine, name, models, gammas["lm"])
        else:
            yield Ours(engine, name.removesuffix(UNTRACED), not name.endswith(UNTRACED))


def our_gamma(engine: Engine, method: str, configs: list[RunConfig], otherwise: int = 4) -> int:
    """What γ = auto comes to on these prompts: the mean number drafted, over rounds that drafted."""
    if configs[0].gamma != AUTO:
        return max(1, configs[0].gamma)
    drafted = [n for config in configs for _, _, n in Ours(engine, method).run(config).rounds if n]
    return max(1, round(sum(drafted) / len(drafted))) if drafted else otherwise
