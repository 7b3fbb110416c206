"""Builds a pair's drafters, each with the models that it drafts with, when a method first needs them."""

from collections.abc import Collection
from pathlib import Path
from typing import cast

from engine.config import AUTO, METHODS, constraint_methods, draft_of, method_of
from engine.drafters import drafter_class
from engine.drafters.base import Drafter
from engine.drafters.context_index import ContextIndex
from engine.drafters.translation import Translation
from engine.errors import BadInput, Unavailable
from engine.files import sha256
from engine.models.decoder.runner import Runner
from engine.models.decoder.transformers_config import load_tokenizer
from engine.models.loader import LoadedModel
from engine.runtime.pair_models import PairModels
from engine.weights import corpus_file
from engine.weights.preflight import translates
from engine.weights.specs import methods
from engine.weights.vocabulary import Vocabulary, needs_translation


class Drafts:
    """``loaded``: the draft models by method. ``translations``: for the methods whose draft has another tokenizer."""

    def __init__(self, models: PairModels):
        self._models, self.pair = models, models.pair
        self.loaded: dict[str, LoadedModel] = {}
        self.translations: dict[str, Translation] = {}
        self.parts: dict[str, tuple] = {}  # what each method's drafters are constructed with
        self.unusable: dict[str, str] = {}  # methods that auto goes without, and why
        self._drafters: dict[tuple[str, type], Drafter] = {}
        self._corpus_hash = ""
        self._has_competed = False

    def has(self, method: str) -> bool:
        """Returns whether everything the method needs is loaded."""
        if method == AUTO:
            return self._has_competed
        return draft_of(method) in self.loaded or self.pair.draft(method) is None

    def translates(self, method: str) -> bool:
        """Returns whether the method's draft has another tokenizer."""
        return translates(self.pair, method)

    def drafter(self, method: str, is_greedy: bool = True, target: Runner | None = None) -> Drafter:
        """Returns the method's drafter for a run that is greedy, or not; for a fork of the target's runner a new one,
        with caches of its own. Raises BadInput for an unknown method, Unavailable if its draft cannot run here."""
        offered = methods(self.pair)
        if method not in offered and not method_of(method).needs_constraint:
            known = method in METHODS
            reason = f"{self.pair.name} has no {method!r} draft" if known else f"{method[:40]!r} is not a method"
            raise BadInput(f"{reason}; choose from {', '.join(offered)}.")
        if method not in self.parts:
            self.parts[method] = self._load_parts(method)
        kind = drafter_class(method, method in self.translations, is_greedy)
        if target is not None:
            shared = {id(self._models.target.runner): target}
            return kind(*(shared.get(id(part)) or part.fork() for part in self.parts[method]))
        if (method, kind) not in self._drafters:
            self._drafters[method, kind] = kind(*self.parts[method])
        return self._drafters[method, kind]

    def _load_parts(self, method: str) -> tuple:
        """Loads the parts that the method's drafters are constructed with."""
        target, kind = self._models.target.runner, METHODS[method]
        if kind.is_window:
            self._models.check_trees()
        match kind.reads:
            case "text" | "grammar":
                return ()
            case "corpus":
                return (self._corpus(),)
            case "draft model":
                runner, translation = self.load(method).runner, self.translations.get(method)
                return (runner, translation) if translation else (runner,)
            case "head":
                return self.load(method).runner, target
            case "copy":
                return self._models.load_copy(), target

    def _corpus(self) -> ContextIndex:
        file = cast(Path, self.pair.corpus)  # the method is offered by pairs with one
        target = self._models.target
        index = ContextIndex(corpus_file.load(file, target.tokenizer, target.runner.vocab_size))
        self._corpus_hash = sha256(file)
        return index

    def load(self, method: str) -> LoadedModel:
        """Loads the draft model on its first use. Raises Unavailable if its tokenizer or size does not fit."""
        method = draft_of(method)
        if method not in self.loaded:
            spec = self.pair.drafts[method]
            translation = None if spec.head else self._translation(load_tokenizer(self._models.folder(spec)))
            self.loaded[method] = self._models.load_draft(spec)
            if translation:
                self.translations[method] = translation
        return self.loaded[method]

    def _translation(self, tokenizer) -> Translation | None:
        """Returns the translation to another tokenizer; None for the target's own. Raises Unavailable for one that has
        nothing in common with it."""
        own = self._models.target.tokenizer
        is_needed = needs_translation(Vocabulary.from_tokenizer(own), Vocabulary.from_tokenizer(tokenizer))
        return Translation(own, tokenizer) if is_needed else None

    def usable(self) -> tuple[str, ...]:
        """Returns the methods that can draft here, the first of those with the same weights. Loads their parts."""
        return tuple(name for name in methods(self.pair) if not METHODS[name].shares and self._can_draft(name))

    def _can_draft(self, method: str) -> bool:
        if method != "none" and method not in self.unusable:
            try:
                self.drafter(method)
            except (BadInput, Unavailable) as error:
                self.unusable[method] = str(error)  # it is not loaded again at every run
        return method != "none" and method not in self.unusable

    def _candidates(self, hopeless: Collection[str] = ()) -> tuple[str, ...]:
        """Returns the methods that auto chooses from. Loads them; those that are ``hopeless`` are left alone."""
        kinds = ((name, METHODS[name]) for name in methods(self.pair) if name not in hopeless)
        return tuple(name for name, kind in kinds if kind.competes and not kind.shares and self._can_draft(name))

    def competitors(
        self, length: int = 0, has_constraint: bool = False, hopeless: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Returns the methods that auto chooses from for a run of ``length`` tokens, with or without a constraint.
        ``hopeless``: methods that it does without (`without_a_chance` in `contest.py`)."""
        names = self._candidates(hopeless)
        names += constraint_methods() if has_constraint else ()
        self._has_competed = True
        return tuple(name for name in names if not self._is_too_short(name, length))

    def _is_too_short(self, method: str, length: int) -> bool:
        return method in self.loaded and self.loaded[method].runner.max_length < length

    def left_out(self, length: int) -> list[str]:
        """Says in sentences why auto runs of ``length`` tokens go without drafts that the pair brings."""
        drafts, reasons = self.pair.drafts, {}
        for name in (name for name in self.loaded if METHODS[name].competes and self._is_too_short(name, length)):
            limit = self.loaded[name].runner.max_length
            reasons[name] = f"it attends to {limit:,} tokens, but prompt and answer may take {length:,}."
        tried = {name: why for name, why in self.unusable.items() if METHODS[name].competes}
        reasons |= {name: why for name, why in tried.items() if name in drafts or name == "corpus"}
        if not any(METHODS[name].competes for name in drafts):
            reasons |= {name: f"auto never chooses it; choose the method {name}." for name in drafts}
        labels = {name: drafts[name].name if name in drafts else name for name in reasons}
        return [f"This run goes without the draft {labels[name]}: {why}" for name, why in reasons.items()]

    def precision(self, method: str) -> str:
        """Returns the precision that the method's draft runs in; "" where it has none, or is not loaded."""
        draft = self.loaded.get(draft_of(method))
        return draft.precision if draft else ""

    def notes(self, method: str) -> list[str]:
        """Returns sentences about the drafts of a method that run in another way than asked for."""
        names = {spec.name for name, spec in self.pair.drafts.items() if method in (name, AUTO) and name in self.loaded}
        return [note for name, note in self._models.notes.items() if name in names]

    def hashes(self, method: str) -> dict[str, str]:
        """Returns hashes of the loaded weights: the target's, and the hash of the method's draft or corpus if it has
        one; auto has them all."""
        known, draft = self._models.hashes, draft_of(method)
        hashes = {"target": known[self._models.target.folder]}
        if method == AUTO:
            hashes |= {name: known[model.folder] for name, model in self.loaded.items()}
        elif draft in self.loaded:
            hashes["draft"] = known[self.loaded[draft].folder]
        if method in ("corpus", AUTO) and "corpus" in self.parts:
            hashes["corpus"] = self._corpus_hash
        return hashes

    def release(self) -> list[LoadedModel]:
        """Forgets all drafters; returns the models that they drafted with."""
        models = [*self.loaded.values()]
        self.loaded, self._drafters, self.parts, self.translations = {}, {}, {}, {}
        return models
