"""Lists the drafts that can be trained here: the class of each kind's student, and the function that exports a head."""

from engine.errors import BadInput

BITS = (16, 8)  # per weight, in a draft that is written here

# By the method that drafts with it; "lm" is a draft model. Each is "module:Class".
STUDENTS = {
    "lm": "engine.tools.training.students:LmStudent",
    "block": "engine.tools.training.block_student:BlockStudent",
    "eagle": "engine.tools.training.students:EagleStudent",
    "medusa": "engine.tools.training.students:MedusaStudent",
    "exit": "engine.tools.training.students:ExitStudent",
}
# Each is "module:function" of (student, teacher, taps, target, folder, card), the target being a ModelSpec.
EXPORTERS = {
    "block": "engine.tools.training.export:block",
    "eagle": "engine.tools.training.export:eagle",
    "medusa": "engine.tools.training.export:medusa",
    "exit": "engine.tools.training.export:exit_head",
}


def check_bits(bits: int) -> None:
    """Raises BadInput for another number of bits than drafts are written with."""
    if bits not in BITS:
        raise BadInput(f"Weights are stored in {' or '.join(map(str, BITS))} bits, not in {bits}.")
