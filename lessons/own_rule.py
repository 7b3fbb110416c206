"""Gives the exercise of writing the rule as data for the page: its run, its pair, and wrong rules with their laws."""

from functools import lru_cache
from typing import Any

from engine.tools.exactness import known_rules
from engine.tools.exactness.results import TOY_DRAFT, TOY_TARGET, TOY_WORDS


@lru_cache(maxsize=1)
def exercise() -> dict[str, Any]:
    """Returns the setting ``exercise`` of the tool in assets/web/lessons/rule/write_rule.js. A law is a list of
    chances, by text, of which the last word changes fastest."""
    return {
        "words": list(TOY_WORDS),
        "run": {"p": TOY_TARGET, "q": TOY_DRAFT, "rounds": known_rules.RECORDED},
        "pair": {
            "p": known_rules.TARGET, "q": known_rules.DRAFT, "start": known_rules.START, "drafts": known_rules.DRAFTS,
            "length": known_rules.LENGTH,
        },
        "known": [
            {"name": name, "words": rule.words, "resembles": rule.resembles,
             "law": list(known_rules.law_of(rule).values())}
            for name, rule in known_rules.WRONG_RULES.items()
        ],
    }  # fmt: skip
