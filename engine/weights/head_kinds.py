"""Lists the kinds of heads on a target's states: how a folder shows its kind, what loads and what exports it."""

from dataclasses import dataclass
from typing import Literal

from engine.errors import BadInput


@dataclass(frozen=True)
class HeadKind:
    """A head of one method. ``noun``: with its article, in the number of ``verb``. A folder is of this kind if its
    config.json has the ``field`` or, without one, its weights the ``tensor``.

    ``load`` is "module:function" of (folder, target model), ``export`` of (student, teacher, taps, target, folder,
    card), a target there being a ModelSpec; ``student`` is the "module:Class" of a kind that can be trained here.
    ``cache``: where keys and values of the head are. ``width``: a tensor as long as the target is wide; ``words``: one
    with a row for each word that it guesses; of a head whose config.json gives no sizes."""

    noun: str
    load: str
    export: str
    cache: Literal["its own", "the target's", "none"]
    student: str = ""
    verb: str = "drafts"
    field: str = ""
    tensor: str = ""
    width: str = ""
    words: str = ""

    @property
    def name(self) -> str:
        """``noun`` without its article."""
        return self.noun.removeprefix("an ").removeprefix("a ")


# By the method that drafts with them. The fields are looked at before the tensors.
HEAD_KINDS = {
    # An EAGLE head with one tensor more, so it is looked for first.
    "block": HeadKind(
        noun="a block head",
        tensor="mask_hidden",
        load="engine.models.heads:load_block",
        export="engine.training.export:block",
        student="engine.training.block_student:BlockStudent",
        cache="its own",
    ),
    # Known by the layer that joins an embedding and a state, because its config.json names many architectures, a plain
    # Llama among them.
    "eagle": HeadKind(
        noun="an EAGLE head",
        tensor="fc.weight",
        load="engine.models.heads:load_eagle",
        export="engine.training.export:eagle",
        student="engine.training.students:EagleStudent",
        cache="its own",
    ),
    "medusa": HeadKind(
        noun="Medusa heads",
        verb="draft",
        field="medusa_num_heads",
        width="0.0.linear.weight",
        words="0.1.weight",
        load="engine.models.heads:load_medusa",
        export="engine.training.export:medusa",
        student="engine.training.students:MedusaStudent",
        cache="none",
    ),
    "exit": HeadKind(
        noun="an exit head",
        field="exit_layer",
        width="down.weight",
        words="d2t",
        load="engine.models.heads:load_exit",
        export="engine.training.export:exit_head",
        student="engine.training.students:ExitStudent",
        cache="the target's",
    ),
}


def head_kind(method: str) -> HeadKind:
    """Raises BadInput for a method without heads."""
    if method not in HEAD_KINDS:
        raise BadInput(f"{method[:40]!r} is not a method with a head; choose from {', '.join(HEAD_KINDS)}.")
    return HEAD_KINDS[method]
