"""Gives every engine's recipe for well-known models: the start of the lesson turn_it_on."""

from engine.trace.engine_recipes import TARGETS, Choice, answers

_PLAIN, _BUILT_IN = ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B-GGUF"), ("Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-27B-GGUF")
_SETTINGS = {  # the target and its GGUF file, the draft, draft lengths
    "ngram": (_PLAIN, None, (4, 8)),
    "lm": (_PLAIN, "Qwen/Qwen3-0.6B", (2,)),
    "eagle": (_PLAIN, None, (2, 4)),
    "mtp": (_BUILT_IN, None, (1,)),
    "dflash": (_PLAIN, "z-lab/Qwen3-8B-DFlash-b16", (15, 7, 3)),
}
# z-lab/dflash issue 133: 60 % of its drafts were accepted, and 25 % while the model was thinking.
_DFLASH = "This draft was trained on answers without thinking, so send enable_thinking: false."


def recipe_examples() -> list[dict]:
    """Returns each engine's name, version and recipes by method and γ."""
    engines = [{"name": target.name, "version": target.version, "methods": {}} for target in TARGETS]
    for method, ((name, gguf), draft, gammas) in _SETTINGS.items():
        for gamma in gammas:
            recipes = answers(Choice(method, gamma, name, draft, gguf))
            for engine, recipe in zip(engines, recipes, strict=True):
                if method == "dflash" and "code" in recipe:
                    recipe["note"] = f"{recipe['note']} {_DFLASH}".strip()
                engine["methods"].setdefault(method, {})[str(gamma)] = recipe
    return engines
