"""Opens ONNX Runtime sessions on a CPU, binds their tensors in place, and says whether they can run here.

Two pools of threads starve each other on two cores: with torch's pool of two beside it, a pass of 7.9 ms took 13.3. So
where passes run here, torch keeps one thread (`share_cores`).

Another program starves them, too, because each thread waits for the slowest. Milliseconds of a pass of one token (of
eight), smollm2-135m on two cores of an AMD EPYC with AVX-512, medians of 60 passes:

    threads                      int8: 1            2             fp32: 1            2
    a quiet machine          8.5 (17.7)    5.9 (11.7)         16.9 (31.7)    9.5 (17.9)
    one core kept busy       8.7 (18.4)    9.8–14 (22)        16.6 (31.4)     26 (39.4)
    one core for everything  8.7 (18.3)   17.7 (36.4)         17.1 (30.5)     32 (55.9)

So a pass takes as many threads as there are cores that it may use, and SPECLENS_THREADS takes one less where another
program keeps a core busy.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch

from engine.config import ROUNDED
from engine.device import out_of_memory
from engine.errors import BadInput, Unavailable
from engine.weights.container_limits import cpu_limit

THREADS = "SPECLENS_THREADS"
_OLDEST = (1, 22)  # the first version that multiplies by 8-bit weights
_TOLERANCE = 0.05  # for a sum of 64 products whose inputs are rounded to 8 bits

_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"

_lock = threading.RLock()


@cache
def _torch_threads() -> int:
    return torch.get_num_threads()


def threads() -> int:
    """Returns the threads of a pass on the CPU: SPECLENS_THREADS, else as many as torch would take. Raises BadInput for
    a setting that is not a number from 1 up to the count of cores that this process may use."""
    limit, text = cores(), os.environ.get(THREADS, "").strip()
    if not text:
        return min(_torch_threads(), limit)
    if not text.isdigit() or not 1 <= int(text) <= limit:
        raise BadInput(f"{THREADS} is {text[:20]!r}; set it to a number from 1 to {limit}, or not at all.")
    return int(text)


def cores() -> int:
    """Counts the cores that this process may use: a container's share may be far less than the machine's."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = cpu_limit()
    return usable if limit is None else max(1, min(usable, int(limit)))


def share_cores(is_onnx: bool = True) -> None:
    """Leaves the cores to ONNX Runtime, so that torch computes in the calling thread only; or gives them to torch."""
    count = threads()  # remembered before it changes
    torch.set_num_threads(1 if is_onnx else count)


def problem() -> str | None:
    """Says why passes cannot run in ONNX Runtime here; None where they can: the package and its operators are there,
    and small products agree with torch's. Raises BadInput for a wrong number of threads."""
    threads()
    with _lock:  # the page's thread and the engine's may be the first to ask
        return _problem()


@cache
def _problem() -> str | None:
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except (ImportError, OSError) as error:
        return f"ONNX Runtime cannot be loaded ({_first_line(error)}); run `pip install onnxruntime onnx`."
    if tuple(int(part) for part in onnxruntime.__version__.split(".")[:2]) < _OLDEST:
        return f"ONNX Runtime {onnxruntime.__version__} is too old; run `pip install -U onnxruntime`."
    try:
        wrong = [precision for precision in ("fp32", *ROUNDED) if not _agrees(precision)]
    except Exception as error:  # a build without an operator says so in many ways
        return f"This build of ONNX Runtime lacks an operator ({_first_line(error)})."
    return f"ONNX Runtime multiplies wrongly on this processor ({', '.join(wrong)})." if wrong else None


def works() -> bool:
    return problem() is None


def installed_version() -> str:
    """Returns the package's version; empty without it."""
    try:
        import onnxruntime
    except (ImportError, OSError):
        return ""
    return onnxruntime.__version__


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200].rstrip(".")


def _agrees(precision: str) -> bool:
    from engine.models.onnx.graph import FLOAT, Graph
    from engine.models.tensors.grouped import GroupedWeight

    draw = torch.Generator().manual_seed(0)
    weight, x = torch.randn(48, 64, generator=draw) / 8, torch.randn(3, 64, generator=draw)
    stored = weight if precision == "fp32" else GroupedWeight.round(weight, ROUNDED[precision])
    graph = Graph(precision)
    graph.linear(graph.input("x", FLOAT, ["W", 64]), "y", stored)
    graph.output("y", ["W", 48])
    y = OnnxSession(graph).run({"x": x}, {"y": (3, 48)})["y"]
    right = x @ (stored.dense() if isinstance(stored, GroupedWeight) else stored).T
    return bool(torch.allclose(y, right, atol=_TOLERANCE))


@cache
def _one_pool() -> None:
    """Makes the threads that all sessions share. A session's own would spin while another one computes."""
    import onnxruntime as ort

    ort.set_global_thread_pool_sizes(threads(), 1)


class OnnxSession:
    """A graph, ready to run. Tensors go in and come out by address, without a copy."""

    def __init__(self, graph):
        """Removes the graph's weight file, once ONNX Runtime has packed its contents."""
        import onnxruntime as ort

        with _lock:
            _one_pool()
        options = ort.SessionOptions()
        options.use_per_session_threads = False
        # Our graphs are what should run. Rewriting one in fp32 takes a second and makes no pass faster.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        if graph.weights.folder:
            graph.weights.flush()
            options.add_session_config_entry(_WEIGHTS_FOLDER, str(graph.weights.folder))
        try:
            self.session = ort.InferenceSession(
                graph.build().SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's own types, none of them public
            if out_of_memory(error) or "bad_alloc" in str(error) or "allocate" in str(error):
                raise MemoryError(str(error)) from error
            raise Unavailable(f"ONNX Runtime cannot run this model: {_first_line(error)}.") from error
        finally:
            graph.weights.close()

    def run(self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
        """Runs once. ``outputs``: the shape of each that is wanted, all of fp32."""
        binding = Binding(self)
        binding.keep(inputs)
        return binding.run({}, outputs)


class Binding:
    """The tensors of several passes: some that stay, as a cache does, and some for one pass alone."""

    def __init__(self, session: OnnxSession):
        self._session, self._binding = session.session, session.session.io_binding()
        self._bound: dict[str, torch.Tensor] = {}  # inputs, which must not be freed
        self._in_place: dict[str, tuple] = {}  # the outputs that stay, as `_place` returns them
        self._names: frozenset[str] = frozenset()  # the outputs of the last pass

    def keep(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Binds inputs for all passes to come."""
        for name, tensor in inputs.items():
            if self._bound.get(name) is not tensor:
                self._bound[name] = tensor
                self._input(name, tensor)

    def keep_in_place(self, name: str, tensor: torch.Tensor) -> None:
        """Binds a tensor that every pass changes, as input past.NAME and output next.NAME. Its owner keeps it."""
        self._input(f"past.{name}", tensor)
        self._in_place[f"next.{name}"] = _place(tensor)
        self._output(f"next.{name}", tensor)

    def run(self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, Sequence[int]]) -> dict[str, torch.Tensor]:
        """Runs one pass. ``outputs`` as for `OnnxSession.run`."""
        if outputs.keys() != self._names:
            self._forget_outputs()
            self._names = frozenset(outputs)
        results = {name: torch.empty(*shape) for name, shape in outputs.items()}
        self.keep(inputs)
        for name, tensor in results.items():
            self._output(name, tensor)
        self._session.run_with_iobinding(self._binding)
        return results

    def _forget_outputs(self) -> None:
        """Unbinds the outputs; otherwise a pass would write earlier ones to where they lay."""
        self._binding.clear_binding_outputs()
        for name, place in self._in_place.items():
            self._binding.bind_output(name, *place)

    def _input(self, name: str, tensor: torch.Tensor) -> None:
        self._binding.bind_input(name, *_place(tensor))

    def _output(self, name: str, tensor: torch.Tensor) -> None:
        self._binding.bind_output(name, *_place(tensor))


_KINDS = {torch.float32: np.float32, torch.int32: np.int32, torch.int64: np.int64}
_NOTHING = torch.zeros(1)  # an empty tensor has no address


def _place(tensor: torch.Tensor) -> tuple:
    """Returns device, its number, type, shape and address, as ONNX Runtime binds a tensor."""
    assert tensor.is_contiguous()
    return "cpu", 0, _KINDS[tensor.dtype], tensor.shape, tensor.data_ptr() or _NOTHING.data_ptr()
