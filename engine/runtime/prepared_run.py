"""Runs what `Engine.prepare` has loaded: its first and last events around the loop's rounds."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from engine.config import AUTO, RunConfig
from engine.decoding.batch import Steps
from engine.decoding.loop import SpeculativeDecoder
from engine.decoding.tokenization import Detokenizer
from engine.decoding.unwritten_text import unwritten_notes
from engine.device import peak_memory, reset_peak
from engine.models.loader import device_name
from engine.models.onnx import session as onnx_session
from engine.runtime.other_programs import OtherPrograms
from engine.trace.costs import CostModel
from engine.trace.events import PromptToken, RunFinished, RunStarted, Translated

if TYPE_CHECKING:
    from engine.runtime.engine import Engine


@dataclass(frozen=True)
class PreparedRun:
    """``engine`` made it, with everything loaded that it needs; ``costs``: what γ is chosen by."""

    engine: "Engine"
    decoding: SpeculativeDecoder
    costs: CostModel
    versions: dict[str, str]

    @property
    def config(self) -> RunConfig:
        return self.decoding.config

    @property
    def memory(self) -> int:
        """Bytes that it takes, beside weights."""
        return self.decoding.memory

    def share(self, sharers: Callable[[], int]) -> None:
        """Shares passes. ``sharers``: how many requests share its passes, asked each round."""
        self.decoding.sharers = sharers

    def steps(self) -> Steps:
        """Yields its events and passes, for a `Batch`."""
        decoding, device = self.decoding, self.engine.device
        reset_peak(device)
        others = OtherPrograms(onnx_session.threads())
        yield self._start_event()
        yield from decoding.steps()
        first, last = decoding.first_round, decoding.last_round
        assert decoding.text.reason is not None, "the steps end with a reason"
        share = others.share
        self.engine.clocks[self.config.sampling.greedy].learn(decoding.recent, self.costs, self.config.method, share)
        yield RunFinished(
            reason=decoding.text.reason,
            text=_before_stop(decoding.text.output, self.config.stop),
            prefill=decoding.prefill_seconds,
            ttft=first.end + first.reading if first else 0.0,
            decode_seconds=last.end - first.start if first and last else 0.0,
            seconds=decoding.reading_seconds + last.end if last else time.perf_counter() - decoding.started,
            peak_memory=peak_memory(device),
            extra={} if share is None else {"busy": share},
            notes=tuple(self._last_notes()),
            kept_tokens=decoding.kept_tokens,
        )

    def _start_event(self) -> RunStarted:
        engine, config = self.engine, self.config
        detokenizer = Detokenizer(engine.target.tokenizer)
        return RunStarted(
            config=config.as_dict(),
            prompt=tuple(PromptToken(i, detokenizer.name(i)) for i in self.decoding.prompt),
            pair=engine.pair.name,
            revision=engine.pair.target.revision or "",
            weights=engine.drafts.hashes(config.method),
            device=device_name(engine.device),
            dtype=engine.precision,
            versions=self.versions,
            costs=self.costs,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            prefix=tuple(self._prefix()),
            translated=self._translation_facts(),
            exit_layers=self._exit_layers(),
            same_bits=engine.target.runner.same_bits,
            notes=tuple(self._notes()),
            draft_dtype=engine.drafts.precision(config.method),
        )

    def _prefix(self) -> Iterator[PromptToken]:
        """Yields the tokens that the output begins with, with the text that each adds."""
        detokenizer = Detokenizer(self.engine.target.tokenizer)
        for token in self.config.prefix:
            piece = detokenizer.push(token)
            yield PromptToken(token, piece, detokenizer.label(token, piece))

    def _notes(self) -> list[str]:
        config, drafts = self.config, self.engine.drafts
        length = len(self.decoding.prompt) + config.max_new_tokens
        left_out = drafts.left_out(length) if config.method == AUTO else []
        return [*unwritten_notes(self.engine.target.tokenizer, config), *left_out, *drafts.notes(config.method)]

    def _last_notes(self) -> Iterator[str]:
        for method, place in self.decoding.given_up.items():
            yield (
                f"The draft of {method} gave numbers that are not finite (NaN or infinity), so the run went on without "
                f"it from token {place + 1} on."
            )
        reader, reason = self.decoding.reader, self.decoding.text.reason
        constraint = self.config.constraint
        if reader and constraint and reason and not reader.is_complete():
            what = "JSON" if constraint.kind == "json_schema" else "text"
            why, advice = _UNFINISHED[reason]
            yield f"The {what} is unfinished, because {why}{advice}."
        if constraint and constraint.compact and re.search(r"\[\]|\{\}", self.decoding.text.output):
            yield (
                "An empty list or object may be due to compact JSON: many models begin a full one with a space or a "
                "line break. Try it without."
            )

    def _translation_facts(self) -> Translated | None:
        method = self.config.method
        translation = self.engine.drafts.translations.get("lm" if method == AUTO else method)
        if translation is None:
            return None
        sizes = (len(side.vocabulary.names) for side in (translation.target, translation.draft))
        return Translated("text" if self.config.sampling.greedy else "tokens", len(translation.common), *sizes)

    def _exit_layers(self) -> tuple[int, int] | None:
        if self.config.method != "exit":
            return None
        head = self.engine.drafts.load("exit").runner.model
        return head.exit_layer, head.target.layers_count


_UNFINISHED = {  # why a text with a constraint did not reach its end, and what helps
    "length": ("the token limit was reached", "; ask for more tokens"),
    "stop": ("a stop text ended it", "; leave the stop text out"),
    "cancelled": ("the run was cancelled", ""),
}


def _before_stop(text: str, stops: Sequence[str]) -> str:
    places = [at for at in (text.find(s) for s in stops) if at >= 0]
    return text[: min(places)] if places else text
