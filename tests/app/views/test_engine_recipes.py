"""Recipes for other engines: well-formed, with this run's numbers, and a sentence where an engine lacks the method."""

import json
import shlex
from dataclasses import replace

import pytest
import yaml
from fake_worker import FakeEngine, recorded
from head_table import Shape, write
from tiny_pairs import model_folder
from unlike_tokenizers import sentence_piece

from app.jobs.engine_facade import EngineFacade
from app.jobs.service import Service
from app.jobs.visitor import Session
from app.lessons_tab.recipe_examples import recipe_examples
from app.playground.result_handlers import Results
from app.server.limits import Limits
from app.views.engine_recipes import production
from engine.runtime.worker import get_worker
from engine.trace.engine_recipes import TYPICAL, Choice

ENGINES = ("transformers", "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "LMDeploy", "TGI", "LM Studio", "Ollama")
SUPPORTED = {
    "ngram": {"transformers", "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "TGI"},
    "corpus": {"vLLM", "SGLang"},
    "lm": {"transformers", "vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "LM Studio"},
    "eagle": {"vLLM", "SGLang", "TensorRT-LLM", "llama.cpp", "LMDeploy"},
    "block": {"vLLM"},
    "medusa": {"TGI"},
    "exit": set(),
}


def choice(method="ngram", gamma=5, **more) -> Choice:
    return Choice(method, gamma, "owner/target", None if method == "ngram" else "owner/draft", **more)


def recipes(wanted: Choice) -> dict[str, dict]:
    return {line["name"]: line for line in json.loads(production(wanted))["engines"]}


def options(code: str) -> dict[str, str]:
    """A command line's options; a shell's own reading of quotes and line ends."""
    words = shlex.split(code)
    return {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("-")}


def drafting_of(vllm: dict) -> dict:
    """The drafting that vLLM's command line asks for."""
    return json.loads(options(vllm["code"])["--speculative-config"])


@pytest.mark.parametrize("method", SUPPORTED)
def test_every_engine_has_a_recipe_or_a_refusal_and_names_its_version(method):
    found = recipes(choice(method))
    assert tuple(found) == ENGINES
    assert {name for name, line in found.items() if line.get("code")} == SUPPORTED[method]
    for line in found.values():
        assert line["version"] and ("code" in line) != line["note"].startswith("Not supported: ")


def test_path_of_a_shipped_draft_says_where_it_begins_and_how_to_convert():
    shipped = recipes(Choice("eagle", 3, "a/b", "assets/drafts/x"))
    assert "assets/drafts/x" in shipped["vLLM"]["code"]
    for line in shipped.values():
        assert ("SpecLens folder" in line["note"]) == ("assets/drafts/x" in line.get("code", ""))
        names_it = any(name in line.get("code", "") for name in ("assets/drafts/x", "draft.gguf"))
        assert ("training convert assets/drafts/x --out DIR" in line["note"]) == names_it


def test_lesson_has_commands_for_a_built_in_head_and_a_block_drafter():
    found = {engine["name"]: engine["methods"] for engine in recipe_examples()}
    for method, drafts in (("mtp", 1), ("dflash", 15), ("dflash", 7), ("dflash", 3)):
        drafting = drafting_of(found["vLLM"][method][str(drafts)])
        assert (drafting["method"], drafting["num_speculative_tokens"]) == (method, drafts)
        for methods in found.values():
            line = methods[method][str(drafts)]
            assert ("code" in line) != line["note"].startswith("Not supported: "), line
            assert ("enable_thinking: false" in line["note"]) == (method == "dflash" and "code" in line)
    assert sum("code" in methods["mtp"]["1"] for methods in found.values()) == 8
    assert options(found["SGLang"]["dflash"]["7"]["code"])["--speculative-num-draft-tokens"] == "8"


@pytest.mark.parametrize(
    ("engine", "method", "greedy", "words"),
    [
        ("vLLM", "lm", False, '"draft_sample_method": "probabilistic"'),
        ("vLLM", "eagle", True, '"method": "eagle3"'),
        ("vLLM", "block", False, '"parallel_drafting": true'),
        ("SGLang", "corpus", True, "--speculative-ngram-external-sam-budget 5"),
        ("SGLang", "lm", True, "--speculative-num-draft-tokens 6"),  # it verifies one more than it drafts
        ("LMDeploy", "eagle", True, "--speculative-num-draft-tokens 5"),
        ("TGI", "medusa", True, "--speculate 5"),
        ("TensorRT-LLM", "eagle", True, "decoding_type: Eagle3"),
        ("LM Studio", "lm", True, "--speculative-draft-simple --speculative-draft-model owner/draft"),
        ("LM Studio", "mtp", False, "--speculative-draft-max-tokens 5"),
        ("Ollama", "dflash", True, "DRAFT draft.gguf PARAMETER draft_num_predict 5"),
        ("llama.cpp", "lm", False, "--spec-draft-sampling probabilistic"),
        ("llama.cpp", "mtp", False, "--spec-draft-sampling probabilistic"),
    ],
)
def test_a_recipe_has_its_engines_own_options(engine, method, greedy, words):
    line = recipes(choice(method, greedy=greedy))[engine]
    assert words in (line["code"] if engine == "TensorRT-LLM" else " ".join(shlex.split(line["code"])))
    if engine == "vLLM":
        assert drafting_of(line)["num_speculative_tokens"] == 5
    if engine == "TensorRT-LLM":
        assert yaml.safe_load(line["code"])["speculative_config"]["max_draft_len"] == 5


def test_llama_cpp_is_asked_to_draw_only_from_drafters_that_can():
    """Its EAGLE heads and block drafters offer their favourite even with that option (pull request 27694)."""
    for method, can_draw in (("lm", True), ("mtp", True), ("eagle", False), ("dflash", False)):
        for greedy in (True, False):
            line = recipes(choice(method, greedy=greedy))["llama.cpp"]
            assert ("--spec-draft-sampling" in line["code"]) == ("b11368" in line["note"]) == (can_draw and not greedy)


def test_an_eagle_1_head_is_named_so_or_not_supported():
    for known in ({"eagle": 1}, {"draft": "/models/eagle1-head"}, {"draft": "owner/EAGLE-2-8B"}):
        for method in ("eagle", "eagle-chain"):
            found = recipes(replace(choice(method), **known))
            assert drafting_of(found["vLLM"])["method"] == "eagle"
            assert options(found["SGLang"]["code"])["--speculative-algorithm"] == "EAGLE"
            for engine in {*ENGINES} - {"vLLM", "SGLang"}:
                assert found[engine]["note"].startswith("Not supported: ") and "code" not in found[engine]
    for known in ({"eagle": 3, "draft": "/models/eagle1-head"}, {"draft": "owner/EAGLE3-Llama-3.1-8B"}):
        found = recipes(replace(choice("eagle"), **known))
        assert options(found["SGLang"]["code"])["--speculative-algorithm"] == "EAGLE3", "no EAGLE-1 by its name"


def test_missing_head_is_a_gap_to_fill_and_a_gguf_of_the_hub_is_named():
    for engine, method in (("vLLM", "eagle"), ("vLLM", "block"), ("TGI", "medusa")):
        assert "PATH_OF_" in recipes(Choice(method, 3, "owner/target"))[engine]["code"]
    found = recipes(choice(gguf="owner/target-GGUF:Q4_1"))["llama.cpp"]
    assert options(found["code"])["-hf"] == "owner/target-GGUF:Q4_1" and "convert" not in found["note"]
    assert "convert" in recipes(choice())["llama.cpp"]["note"]


def test_a_draft_with_another_tokenizer_is_translated_where_an_engine_can():
    found = recipes(choice("lm", greedy=False, translated=True))
    assert {name for name, line in found.items() if line.get("code")} == {"transformers", "vLLM"}
    drafting = drafting_of(found["vLLM"])
    assert drafting["method"] == "draft_model" and drafting["use_heterogeneous_vocab"] is True
    assert "must have the target's tokenizer" in found["SGLang"]["note"] and "nothing else" in found["TGI"]["note"]


def test_names_cannot_break_out_of_a_command():
    evil = "x'; rm -rf ~ #"
    for method in SUPPORTED:
        for name, line in recipes(Choice(method, 2, evil, evil)).items():
            if "code" in line and name in ("vLLM", "SGLang", "llama.cpp", "LMDeploy", "TGI"):
                assert "rm" not in shlex.split(line["code"])


@pytest.mark.parametrize(("method", "translated"), [("ngram", False), ("lm", False), ("lm", True)])
def test_the_transformers_recipe_runs_as_it_is(method, translated, tmp_path, capsys):
    model_folder(tmp_path / "target")
    unlike = {"tokenizer": sentence_piece(), "vocab_size": 400} if translated else {}
    model_folder(tmp_path / "draft", noise=0.1, **unlike)
    wanted = Choice(method, 3, str(tmp_path / "target"), str(tmp_path / "draft"), translated=translated)
    code = recipes(wanted)["transformers"]["code"].replace("max_new_tokens=128", "max_new_tokens=8, min_new_tokens=8")
    exec(compile(code, "recipe", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_controls_become_recipes_that_say_whether_the_method_paid():
    page, run, plain = Results(Service(FakeEngine(), Limits())), recorded("ngram", 3, 20), recorded("none", 0, 20)

    def lead(method: str, auto: bool, gamma: float, *traces) -> str:
        return json.loads(page.configure("smollm2-135m", method, auto, gamma, 0, Session(*traces)))["lead"]

    assert "γ = 7" in lead("ngram", False, 7.0, run) and "on screen: 3." in lead("ngram", True, 7, run)
    assert f"gets {TYPICAL} until" in lead("lm", True, 7, run), "another method's run"
    assert "needs no" in lead("none", True, 4)
    assert "Measure again on your server" in lead("ngram", True, 4, run, plain)
    assert "no proof of a difference" in lead("ngram", True, 4, run, run)
    assert "Measured" not in lead("lm", True, 4, run, plain)
    assert not isinstance(page.configure("smollm2-135m", "ngram", False, None, 0, Session(run)), str), "left as it is"
    for kind, text in (("json_schema", "{}"), ("regex", "x+")):
        config = run.started.config | {"constraint": {"kind": kind, "text": text, "compact": False}}
        held = replace(run, started=replace(run.started, config=config))
        found = page.configure("smollm2-135m", "ngram", False, 3, 0, Session(held))
        assert ("With a JSON schema: " in found) is (kind == "json_schema")


@pytest.fixture
def facade() -> EngineFacade:
    return EngineFacade(get_worker())


def test_a_gguf_target_is_told_as_the_checkpoint_it_was_made_from(facade):
    models = facade.models("smollm2-135m", "ngram")
    assert models.target == "HuggingFaceTB/SmolLM2-135M-Instruct" and models.gguf.endswith("-GGUF:Q4_1")
    assert facade.models("qwen3-8b", "lm").draft == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize(("version", "recipe", "vllm"), [(1, "eagle1", "eagle"), (3, "eagle", "eagle3")])
def test_a_heads_version_reaches_the_recipe(facade, tmp_path, version, recipe, vllm):
    model_folder(tmp_path / "target")
    write(tmp_path / "head", Shape(version=version))
    pair = f"{tmp_path / 'target'}+{tmp_path / 'head'}"
    assert facade.models(pair, "eagle-chain").eagle == version
    answer = Results(Service(facade, Limits(pairs=(pair,)))).configure(pair, "eagle", False, 4, 0, Session())
    assert drafting_of(next(line for line in json.loads(answer)["engines"] if line["name"] == "vLLM"))["method"] == vllm
    assert Choice("eagle", 4, **vars(facade.models(pair, "eagle"))).recipe == recipe
    shipped = facade.models("smollm2-135m", "eagle")
    assert (shipped.eagle, facade.models("smollm2-135m", "lm").eagle) == (3, None)


def test_each_engine_with_a_server_has_the_command_that_records_it():
    found = recipes(Choice("ngram", 5, "owner/a model"))
    assert {name for name, line in found.items() if "record" in line} == set(ENGINES) - {"transformers"}
    for line in found.values():
        if "record" in line:
            words = shlex.split(line["record"])
            assert words[:5] == ["python", "-m", "engine", "server", "record"] and "owner/a model" in words
            assert words[5].startswith("http://localhost:") and options(line["record"])["--out"] == "run.json"
    assert "--per-request-spec-decode-metrics detailed" in found["vLLM"]["record_note"]


def test_a_recipe_says_how_the_engine_takes_a_schema():
    plain, held = (recipes(choice("ngram", has_schema=has_schema)) for has_schema in (False, True))
    for name in SUPPORTED["ngram"]:
        assert held[name]["code"] == plain[name]["code"] and "With a JSON schema" not in plain[name]["note"]
        assert held[name]["note"].startswith(plain[name]["note"])
        assert "With a JSON schema: " in held[name]["note"] and held[name]["note"].endswith(".")
    assert "44993" in held["vLLM"]["note"] and "20" not in held["TGI"]["note"], "no claim without a source"
    assert "note" in held["LMDeploy"] and "With a JSON schema" not in held["LMDeploy"]["note"], "it lacks the method"
