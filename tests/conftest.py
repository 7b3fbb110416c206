"""Which tests can run here: a browser, weights, CUDA and its build of torch where there are some. A skip is never
silent."""

import gc
import os
import sys
import warnings
from pathlib import Path

import hypothesis
import pytest

sys.path.insert(0, str(Path(__file__).parent / "browser"))
import chromium

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.pop("HF_HUB_OFFLINE", None)  # the hub that tests ask is their own
# Before torch is imported. Otherwise the threads of two workers, and of the servers they start, wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A busy machine makes single examples slow, and the code is not at fault.
hypothesis.settings.register_profile("without-deadline", deadline=None)
hypothesis.settings.load_profile("without-deadline")
NO_BROWSER = "no Chromium here: `python tests/browser/chromium.py --install` brings one"
# The tests of such a group share expensive fixtures: a server and a Chromium, or a trained draft of each kind.
ON_ONE_WORKER = ("browser/test_lab", "browser/test_lesson", "browser/", "engine/tools/training/")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(config, items):
    # All tests of the page in a row take longer than what the other worker does meanwhile, so they are several groups.
    # The fast ones alone are one, because a second Chromium and its server would take longer to start.
    is_fast = "not slow" in config.option.markexpr
    for item in items:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        group = next(filter(path.startswith, ON_ONE_WORKER), None)
        if is_fast and item.get_closest_marker("browser"):
            for node in item.listchain():  # xdist would join the name of the file's own group with this one
                node.own_markers = [mark for mark in node.own_markers if mark.name != "xdist_group"]
            item.add_marker(pytest.mark.xdist_group("browser"))
        elif group and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))
        if "real_folder" in item.fixturenames:
            item.add_marker(pytest.mark.real_weights)
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    rehearsed = [item for item in items if item.get_closest_marker("rehearse")]
    if not gpu and not rehearsed:
        return
    import torch

    if not torch.cuda.is_available():
        _skip(gpu, "needs CUDA, and this machine has none")
    if torch.version.cuda is None:
        _skip(rehearsed, "needs torch's CUDA build, but no GPU: `make rehearse-gpu` brings it")


def _skip(items, reason: str) -> None:
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """A Chromium to drive. Without one: skipped with a banner, or failed where REQUIRE_BROWSER=1."""
    found = chromium.find()
    if found:
        return found
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, but {NO_BROWSER}")
    pytest.skip(NO_BROWSER)


@pytest.fixture(scope="session")
def real_folder() -> Path:
    """The folder of the embedded target's weights. Without them: skipped with the reason, or failed where
    REQUIRE_WEIGHTS=1."""
    from real_model import PAIR

    from engine.errors import Unavailable
    from engine.weights.catalogue import get_pair
    from engine.weights.store import locate

    try:
        found, why = locate(get_pair(PAIR).target), f"run `python -m engine fetch {PAIR}`"
    except Unavailable as error:
        found, why = None, str(error)
    if found is None:
        reason = f"THE REAL MODEL WAS NOT TESTED, its weights are not here: {why}"
        if os.environ.get("REQUIRE_WEIGHTS") == "1":
            pytest.fail(reason)
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session", autouse=True)
def quick_collections():
    """An engine collects garbage when it is loaded and when it is closed, and each time walks all that torch and
    transformers imported: 0.4 s. So that is frozen once, and engines freeze and thaw nothing. Yields what they would
    call."""
    gc.collect()
    gc.freeze()
    real = {name: getattr(gc, name) for name in ("freeze", "unfreeze")}
    with pytest.MonkeyPatch.context() as patch:
        for name in real:
            patch.setattr(gc, name, lambda: None)
        yield real


def pytest_terminal_summary(terminalreporter):
    if any(NO_BROWSER in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])):
        terminalreporter.section("BROWSER TESTS WERE SKIPPED", red=True, bold=True)
        terminalreporter.write_line(NO_BROWSER)
