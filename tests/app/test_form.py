"""The one list of controls: to a validated request, refusals in words, this server's limits written in.

That ``control_values`` is the inverse of ``settings``: test_links.
"""

import pytest

from app.form import NAMES, control_values, controls_by_name, defaults, settings
from app.server.limits import Limits
from engine.config import ACCEPTANCE, METHODS, Constraint
from engine.errors import BadInput
from engine.settings import SETTINGS
from lessons.constraint_examples import CONSTRAINT_EXAMPLES as EXAMPLES


def test_the_defaults_are_a_run_and_read_back_as_themselves():
    assert control_values(settings(defaults())) == defaults()
    assert settings({}) == settings(defaults())


def test_no_two_settings_share_a_name():
    own = [each.name for entry in (*ACCEPTANCE.values(), *METHODS.values()) for each in entry.settings]
    assert [*SETTINGS][-1 - len(own) : -1] == own and len({*NAMES}) == len(NAMES)


def test_method_drafts_again_after_plain_decoding_was_chosen():
    plain = settings({"method": "none"})
    assert plain.gamma == 0 and settings(control_values(plain)) == plain
    assert settings(control_values(plain) | {"method": "ngram"}) == settings({"method": "ngram"})


def test_browsers_send_floats_and_get_whole_numbers():
    config = settings({"prompt": "Hi", "auto": False, "gamma": 3.0, "seed": 5.0, "tokens": 20.0, "top_k": 4.0})
    assert (config.gamma, config.seed, config.max_new_tokens, config.sampling.top_k) == (3, 5, 20, 4)
    assert all(type(n) is int for n in (config.gamma, config.seed, config.max_new_tokens, config.sampling.top_k))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"seed": None}, "Seed is empty"),
        ({"temperature": "hot"}, "temperature is 'hot'"),
        ({"temperature": 10**400}, "Temperature is far too large"),
        ({"gamma": 2.5, "auto": False}, "gamma is 2.5"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_k": [1]}, "top_k"),
        ({"method": "magic"}, "Method cannot be 'magic'; choose from auto, none, "),
        ({"acceptance": "typical", "epsilon": 1.5}, "epsilon is 1.5, but must be a number from 0 to 1"),
        ({"method": "lookahead", "ngram_size": 8, "guesses": 16}, "make 147 rows a round; choose smaller ones"),
        ({"constraint": "regex", "regex": " \n"}, "regular expression is empty; write one, or choose no constraint"),
        ({"constraint": "json_schema", "json_schema": "{"}, "JSON schema cannot be read as JSON: Expecting"),
        ({"constraint": "choice", "choice": 5}, "Choice must be text"),
        ({"method": "grammar"}, "add a constraint or choose another"),
        ({"thinking": True}, "Thinking cannot be true; choose from"),
        ({"auto": "yes"}, "auto must be on or off"),
        ({"prompt": {"a": 1}}, "Prompt must be text"),
        ({"prompt": None}, "prompt is empty"),
        ({"system": "\ud800"}, "surrogate"),
        ({"temprature": 1}, "no control 'temprature'; did you mean temperature?"),
        ({"stop": "."}, "no control 'stop'; choose from prompt, pair, method,"),
    ],
)
def test_what_cannot_be_is_refused_in_one_short_sentence(values, words):
    """Some of these a form can send, the others only a link or a hand-written request."""
    with pytest.raises(BadInput) as refused:
        settings({"prompt": "Hi"} | values)
    text = str(refused.value)
    assert words in text and 15 < len(text) < 300 and "\n" not in text


def test_a_control_that_does_not_count_stays_at_its_default():
    """It is hidden then, so a visitor could not mend a bad value of it."""
    hidden = {"epsilon": 7, "delta": None, "window": 99, "ngram_size": "x", "guesses": 2}
    assert settings({"prompt": "Hi", "method": "ngram"} | hidden) == settings({"prompt": "Hi", "method": "ngram"})
    chosen = {"prompt": "Hi", "method": "lookahead", "acceptance": "typical", "epsilon": 0.2, "delta": 0, "guesses": 2}
    config = settings(chosen)
    assert config.own_settings == {"epsilon": 0.2, "delta": 0, "window": 5, "ngram_size": 4, "guesses": 2}


def test_the_texts_of_other_constraints_do_not_count_and_stay_as_they_are():
    texts = {"regex": "[a-z]+", "choice": "", "json_schema": "{", "compact_json": False}
    assert settings({"prompt": "Hi"} | texts) == settings({"prompt": "Hi"})
    config = settings({"prompt": "Hi", "constraint": "regex"} | texts)
    assert config.constraint == Constraint("regex", "[a-z]+")
    assert control_values(config) == defaults() | {"prompt": "Hi", "constraint": "regex", "regex": "[a-z]+"}
    with pytest.raises(BadInput, match="The choice is empty"):
        settings({"prompt": "Hi", "constraint": "choice"} | texts)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_each_kind_of_constraint_begins_with_an_example(kind):
    config = settings({"prompt": EXAMPLES[kind].prompt, "constraint": kind})
    assert config.constraint == Constraint(kind, EXAMPLES[kind].text, compact=kind == "json_schema")


def test_limits_are_written_into_the_controls_and_come_before_the_engines():
    limits = Limits(new_tokens=40, prompt_tokens=123, pairs=("b", "a"))
    for tokens in (9999, 41, 0, -1, float("nan"), "4", 2.5, True):
        with pytest.raises(BadInput, match=r"^A run of .* tokens was asked for; this page allows 1 to 40\.$"):
            settings({"tokens": tokens}, limits)
    with pytest.raises(BadInput, match=r"^Prompt form cannot be null; choose from chat, raw\.$"):
        settings({"form": None})
    found = controls_by_name(limits)
    assert (found["tokens"].default, found["tokens"].high) == (40, 40) and "40" in found["tokens"].hint
    assert "123 tokens" in found["prompt"].hint
    assert defaults(limits)["pair"] == "b" and defaults()["tokens"] == 128
