"""A GPU for a whole pytest run: `-p simulated_gpu`, and SIMULATED_GPU="h200" or "gb10 clock_hz=1.2e9".

One seam below our code: torch.cuda, pynvml, cupti and the name of the installed torch are replaced; tensors on `cuda`
are tensors on the CPU that say they are not. What a call computes is computed, except while it is timed; what it takes
is the time of `gpu_model` on the device of `fake_cuda`, which has a clock of its own. A call that torch refuses on such
a device is refused here (`cuda_operators`). The plugin's workers load it as well.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace

import cuda_operators
import pynvml
import torch
from fake_cuda import FakeCuda
from fake_cupti import FakeCupti
from fake_nvml import UINT, FakeNvml
from gpu_model import GpuModel
from torch.overrides import TorchFunctionMode

CHIPS = {
    "h200": {
        "key": "h200-sxm",
        "name": "NVIDIA H200",
        "capability": (9, 0),
        "sm_count": 132,
        "l2_bytes": 50 * 1024**2,
        "clock_hz": 1.83e9,
        "max_clock_hz": 1.98e9,
        "free_bytes": 138 * 10**9,
        "total_bytes": 150 * 10**9,
        "idle_w": 75.0,
        "busy_w": 560.0,
    },
    "gb10": {
        "key": "gb10",
        "name": "NVIDIA GB10",
        "capability": (12, 1),
        "sm_count": 48,
        "l2_bytes": 24 * 1024**2,
        "clock_hz": 2.411e9,
        "max_clock_hz": 3.003e9,
        "is_integrated": 1,
        "free_bytes": 300 * 10**6,  # the driver counts the page cache as used
        "total_bytes": 128 * 10**9,
        "idle_w": 12.0,
        "busy_w": 62.0,
    },
}
SENSOR_S = 0.1
SYNCHRONISING = {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "nonzero", "equal", "allclose"}
SYNCHRONISING |= {"unique", "masked_select", "is_nonzero", "__repr__", "__format__", "__contains__"}
TAKES_BOTH_DEVICES = {"copy_", "__getitem__", "__setitem__", "index_put_"}
OVERWRITES = {"fill_", "zero_", "copy_"}
"""Of the calls that write in place those that read nothing of what was there."""
NO_KERNEL = {"empty", "empty_like", "new_empty", "empty_strided"}
RESULTS_KEPT = 64
IN_PLACE, NO_KERNEL_RAN = "in place", "no kernel ran"


class CudaTensor(torch.Tensor):
    """A tensor that lies on the simulated GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Generator(torch.Generator):
    """A generator of random numbers that knows the device it was asked for."""

    def __new__(cls, device="cpu"):
        self = super().__new__(cls, "cpu")
        self.kind = torch.device(device).type
        return self


class OnGpu(TorchFunctionMode):
    """Sends every call of torch that has to do with `cuda` to the simulated device."""

    def __init__(self, cuda, model):
        super().__init__()
        self.cuda, self.model = cuda, model
        self.outputs = {}
        """Form of a call → its result's size, strides and dtype, IN_PLACE or NO_KERNEL_RAN."""
        self.results = {}
        """Call and the state of its operands → its number, these operands (held) and the result."""
        self.numbers = itertools.count()
        self.write_counts = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        tensors = list(_tensors((*args, *kwargs.values())))
        on_gpu = [tensor for tensor in tensors if isinstance(tensor, CudaTensor)]
        if name == "__get__" and on_gpu:
            return _property(func, *args)
        if name == "_has_compatible_shallow_copy_type" and on_gpu:
            return len(on_gpu) == len(tensors)
        if name in ("to", "cuda", "cpu") and tensors:
            return self._moved(func, name, args, kwargs)
        if name == "numpy" and on_gpu:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        makes_on_gpu = _is_cuda(kwargs.get("device"))
        if makes_on_gpu:
            kwargs["device"] = "cpu"
        if not on_gpu and not makes_on_gpu:
            return func(*args, **kwargs)
        _one_device(name, tensors, kwargs.get("generator"))
        if name in SYNCHRONISING:
            self.cuda.item()
        return self._run(func, name, args, kwargs, tensors)

    def _moved(self, func, name, args, kwargs):
        """Return a tensor that is copied to or from the device, or converted where it is."""
        source, rest = args[0], [arg for arg in args[1:] if not _is_device(arg)]
        asked = [arg for arg in (*args[1:], kwargs.pop("device", None)) if _is_device(arg)]
        asked += [like.device for like in rest if isinstance(like, torch.Tensor)]
        was_on_gpu = isinstance(source, CudaTensor)
        goes_to_gpu = name == "cuda" or (name == "to" and (_is_cuda(asked[0]) if asked else was_on_gpu))
        rest = [like.dtype if isinstance(like, torch.Tensor) else like for like in rest]
        if rest[:1] in ([None], [False], [True]):  # no dtype is asked for: what follows says how to copy
            rest = []
        plain = source.as_subclass(torch.Tensor)
        if was_on_gpu == goes_to_gpu:
            if not was_on_gpu:
                return plain if name != "to" or not (rest or kwargs) else plain.to(*rest, **kwargs)
            return (
                source if not (rest or kwargs) else self._run(torch.Tensor.to, "to", (source, *rest), kwargs, [source])
            )
        if was_on_gpu:
            self.cuda.item()
        moved = plain.to(*rest, **kwargs) if name == "to" and (rest or kwargs) else plain
        copied = moved.clone() if moved.data_ptr() == plain.data_ptr() else moved
        return copied.as_subclass(CudaTensor) if goes_to_gpu else copied

    def _run(self, func, name, args, kwargs, tensors):
        """Compute and queue the kernel. Behind the timer's block nobody looks at a result: there it is memory alone."""
        cuda = self.cuda
        operator = cuda_operators.OPERATORS.get(name)
        key = _key(func, args, kwargs)
        is_captured = cuda.stream_now.graph is not None
        writes = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or "out" in kwargs
        if writes:
            for tensor in tensors:
                self.write_counts[tensor.untyped_storage().data_ptr()] += 1
        earlier = self.outputs.get(key) if key is not None and (cuda.is_blocked or is_captured) else None
        if earlier is not None and earlier != NO_KERNEL_RAN:
            result = tensors[0] if earlier == IN_PLACE else torch.empty_strided(*earlier[:2], dtype=earlier[2])
            result = kwargs.get("out", result).as_subclass(CudaTensor)
            call = (
                partial(func, *args, **kwargs)
                if operator is None
                else partial(operator, cuda.capability, *args, **kwargs)
            )
            node = _Node(call, tensors, result, earlier == IN_PLACE) if is_captured else None
            reads = _read(name, tensors, kwargs)
            cuda.launch(self.model.seconds(name, reads, [result]), name, run=node)
            return result
        is_pure = key is not None and not writes and not torch.autograd._profiler_enabled()  # which asks what runs
        memo_key = (key, tuple(map(self._contents, tensors))) if is_pure else None
        result = self._remembered(memo_key)
        if result is None:
            result = func(*args, **kwargs) if operator is None else operator(cuda.capability, *args, **kwargs)
        outputs = list(_tensors((result,)))
        memory = {tensor.untyped_storage().data_ptr() for tensor in tensors}
        is_view = bool(outputs) and all(tensor.untyped_storage().data_ptr() in memory for tensor in outputs)
        result = _on_gpu(result)
        if name in NO_KERNEL or (not writes and (is_view or not outputs)):
            self.outputs[key] = NO_KERNEL_RAN
            return result
        outputs = list(_tensors((result,))) or tensors[:1]
        if key is not None and len(outputs) == 1 and isinstance(result, torch.Tensor):
            self.outputs[key] = IN_PLACE if writes else (outputs[0].shape, outputs[0].stride(), outputs[0].dtype)
            if memo_key is not None:
                self._remember(memo_key, tensors, result)
        cuda.launch(self.model.seconds(name, _read(name, tensors, kwargs), outputs), name)
        return result

    def _state(self, tensor):
        """Return what changes when a tensor's memory is written; one of inference has no version."""
        written = self.write_counts[tensor.untyped_storage().data_ptr()]
        return (tensor.data_ptr(), written, None if tensor.is_inference() else tensor._version)

    def _contents(self, tensor):
        """Return what stands for the values of a tensor: the call that made it, or else its memory as it is now."""
        state = self._state(tensor)
        number, state_when_made = getattr(tensor, "made_by", (None, None))
        return number if state == state_when_made else state

    def _remembered(self, memo_key):
        """Return a copy of what the same call gave on the same memory, unchanged since; None where it has not run."""
        _, _, result = self.results.get(memo_key, (None, None, None))
        return None if result is None else result.clone()

    def _remember(self, memo_key, tensors, result):
        """Keep a result for the checks, which make the same calls again and again, and the memory that it is of."""
        if memo_key not in self.results:
            self.results[memo_key] = (next(self.numbers), tensors, result.as_subclass(torch.Tensor).clone())
        result.made_by = (self.results[memo_key][0], self._state(result))
        if len(self.results) > RESULTS_KEPT:
            self.results.pop(next(iter(self.results)))


def _read(name, tensors, kwargs):
    """Return the tensors that a call reads: a destination that is overwritten is none of them."""
    written = list(_tensors((kwargs.get("out"),))) or (tensors[:1] if name in OVERWRITES else [])
    return [tensor for tensor in tensors if all(tensor is not each for each in written)]


class _Node:
    """A kernel of a graph: while it is captured nothing is written; a replay computes anew what has changed."""

    def __init__(self, call, tensors, output, is_in_place):
        self.call, self.tensors, self.output, self.is_in_place = call, tensors, output, is_in_place
        self.versions = None

    def __call__(self):
        if self.versions == self._versions():
            return
        result = self.call()
        if not self.is_in_place:
            _plain_bytes(self.output).copy_(_plain_bytes(result))
        self.versions = self._versions()

    def _versions(self):
        return [tensor._version for tensor in (*self.tensors, self.output)]


def _plain_bytes(tensor):
    return tensor.view(torch.uint8) if tensor.dim() and tensor.element_size() == 1 else tensor


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def _on_gpu(value):
    if isinstance(value, torch.Tensor):
        return value if isinstance(value, CudaTensor) else value.as_subclass(CudaTensor)
    if isinstance(value, tuple | list):
        return type(value)(map(_on_gpu, value))
    return value


def _property(func, tensor, *_):
    if func == torch.Tensor.device.__get__:
        return torch.device("cuda", 0)
    if func == torch.Tensor.is_cuda.__get__:
        return True
    return _on_gpu(func(tensor))


def _is_device(value):
    return isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] in ("cpu", "cuda"))


def _is_cuda(value):
    return _is_device(value) and torch.device(value).type == "cuda"


def _one_device(name, tensors, generator):
    if isinstance(generator, Generator) and generator.kind != "cuda":
        raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
    if name not in TAKES_BOTH_DEVICES and any(t.dim() and not isinstance(t, CudaTensor) for t in tensors):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({name})"
        )


def _key(func, args, kwargs):
    """Return what makes a call one of the same form, or None where that cannot be told."""
    try:
        key = (func, tuple(map(_form, (*args, *kwargs.items()))))
        hash(key)
    except TypeError:
        return None
    return key


def _form(value):
    if isinstance(value, torch.Tensor):
        return (value.shape, value.stride(), value.dtype)
    return tuple(map(_form, value)) if isinstance(value, tuple | list) else value


class Sensors:
    """The readings of the device, as NVML gives them: they follow what it does, in steps of a tenth of a second."""

    def __init__(self, cuda, chip):
        self.cuda, self.chip, self.began_s = cuda, chip, cuda.host_s

    def power_mw(self):
        end_s = self.cuda.host_s // SENSOR_S * SENSOR_S
        share = (self.cuda.busy_until_s(end_s) - self.cuda.busy_until_s(end_s - SENSOR_S)) / SENSOR_S
        return int(1e3 * (self.chip["idle_w"] + (self.chip["busy_w"] - self.chip["idle_w"]) * min(1.0, share)))

    def energy_mj(self):
        end_s = self.cuda.host_s // SENSOR_S * SENSOR_S
        extra_w = self.chip["busy_w"] - self.chip["idle_w"]
        joules = self.chip["idle_w"] * (end_s - self.began_s) + extra_w * self.cuda.busy_until_s(end_s)
        return int(1e3 * max(0.0, joules))

    def clock_mhz(self, kind):
        if kind == pynvml.NVML_CLOCK_MEM:
            if self.cuda.is_integrated:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            return 3201
        return int(self.cuda.clock_hz / 1e6)


def nvml_of(cuda, chip):
    """Return the pynvml of a device."""
    sensors = Sensors(cuda, chip)
    changes = {
        "nvmlInit": None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": None,
        "nvmlDeviceGetPowerUsage": lambda: sensors.power_mw(),
        "nvmlDeviceGetTotalEnergyConsumption": lambda: sensors.energy_mj(),
        "nvmlDeviceGetClockInfo": sensors.clock_mhz,
        "nvmlDeviceGetMaxClockInfo": int(cuda.max_clock_hz / 1e6),
    }
    nvml = FakeNvml.gb10(**changes) if cuda.is_integrated else FakeNvml.h200(**changes)
    nvml.fields |= {186: lambda: (UINT, sensors.power_mw()), 185: lambda: (UINT, sensors.power_mw())}
    return nvml


def _like(real, name, make):
    """Return the maker of a fake; as a class where torch has one, since transformers names it in annotations."""
    if not isinstance(real, type):
        return make
    return type(name, (), {"__new__": lambda cls, *args, **kwargs: make(*args, **kwargs)})


def install(text):
    """Put the device under this process; returns it."""
    kind, *settings = text.split()
    chip = CHIPS[kind] | {name: float(value) for name, _, value in (part.partition("=") for part in settings)}
    own = {name: value for name, value in chip.items() if name not in ("key", "idle_w", "busy_w")}
    cuda = FakeCuda(**own)
    mode = OnGpu(cuda, GpuModel(chip["key"], cuda.l2_bytes, cuda.sm_count, cuda.clock_hz))
    cupti = FakeCupti()
    cuda.on_launch.append(lambda name, begin_s, end_s: cupti.record(name, int(1e9 * begin_s), int(1e9 * end_s)))
    for name in dir(cuda):
        if not name.startswith("__") and hasattr(torch.cuda, name) and callable(getattr(cuda, name)):
            setattr(torch.cuda, name, _like(getattr(torch.cuda, name), name, getattr(cuda, name)))
    torch.cuda.nvtx = cuda.nvtx
    torch.Generator, torch.version.cuda, torch.__version__ = Generator, "13.0", "2.13.0+cu130"
    sys.modules["pynvml"] = nvml_of(cuda, chip)
    sys.modules["cupti"] = SimpleNamespace(cupti=cupti)
    version = importlib.metadata.version
    importlib.metadata.version = lambda package: "2.13.0+cu130" if package == "torch" else version(package)
    torch.set_num_threads(1)  # what is computed is small, and threads that wait for each other cost a busy machine most
    mode.__enter__()
    return cuda


if "SIMULATED_GPU" in os.environ:
    install(os.environ["SIMULATED_GPU"])
