"""What a Space and the container install: torch without CUDA on a CPU, with CUDA on a GPU. test_publish
checks that a GPU gets no pre-requirements; `make rehearse-space` uses pip with the real indexes."""

from packaging.requirements import Requirement
from paths import ROOT

from app.publish import CPU_ONLY


def torch_of(name: str) -> tuple[str, Requirement]:
    """The whole file and its line on torch."""
    text = (ROOT / name).read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("torch"))
    return text, Requirement(line)


def test_cpu_torch_is_pinned_and_satisfies_the_later_requirements():
    (pre, cpu), (whole, any_device) = torch_of(CPU_ONLY), torch_of("requirements.txt")
    (pin,) = cpu.specifier
    assert pin.operator == "==" and pin.version.endswith("+cpu") and "https://download.pytorch.org/whl/cpu" in pre
    assert any_device.specifier.contains(pin.version), "pip would install another, with CUDA"
    assert "+cpu" not in str(any_device) and "index-url" not in whole, "alone it brings torch with CUDA"
