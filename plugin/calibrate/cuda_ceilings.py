"""A GPU's own ceilings by micro-kernels: what `roofline calibrate` measures, all of it through `CudaEventTimer`.

Ceilings are of ordinary torch kernels, not of the data sheet. Operands are uniform in [-1, 1]: what is multiplied moves
power and with it the clock (CUTLASS issue 2004). Matrix sizes are disjoint from every benchmark shape, so that a model
fitted to these is never tested on its own points. Proven on an H200 (examples/runs/h200-sxm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

from plugin.calibrate.readings import Readings
from plugin.timers.cuda import CudaEventTimer, clock_rate_hz
from roofline_model.chips.free_memory import free_device_bytes
from roofline_model.chips.machine_constants import Constant, constant_of_flops, constant_of_times
from roofline_model.kernels.known_kernels import TORCH_CAPABILITIES, capability_text, is_within

GEMM_SHAPES = ((3712, 3712, 3712), (7424, 7424, 7424), (2944, 7424, 3712))
"""(M, N, K), multiples of 128 for every format's alignment, and none of them a benchmark shape."""
_MIN_ARRAY_BYTES = 256 * 1024**2
_MAX_ARRAY_BYTES = 3 * 1024**3 // 2
_DRAM_MULTIPLE = 4
"""Each DRAM array is this many times the L2 cache: nothing of one call is left for the next."""
_MIN_SAMPLES = 8
_MAX_SAMPLES = 200
_LAUNCHES = 256
"""Well below the driver's queue of about 1024 launches."""
_CAST_ELEMENTS = 96 * 1024**2

Report = Callable[[str], None]


def measure_cuda_ceilings(report: Report, budget_s: float = 40.0, timer: CudaEventTimer | None = None) -> Readings:
    """Measure the current device within about `budget_s` seconds; `report` gets one short line per stage.

    Raises `UnsupportedError` where torch sees no GPU, and CUDA's own errors where the device is lost.
    """
    bench = _Bench(timer or CudaEventTimer.create())
    began = bench.timer.now()
    with bench.torch.inference_mode():
        floors = _launch_costs(bench, budget_s * 0.03)
        report("launch: " + ", ".join(f"{name} {floor.median_value * 1e6:.1f} µs" for name, floor in floors.items()))
        dram = _dram_bandwidth(bench, budget_s * 0.2)
        report("memory " + ", ".join(f"{name} {rate.median_value / 1e9:.0f}" for name, rate in dram.items()) + " GB/s")
        l2 = bench.tried("L2 bandwidth", lambda: _l2_bandwidth(bench, budget_s * 0.07))
        report("L2 not measured" if l2 is None else f"L2 {l2.median_value / 1e9:.0f} GB/s")
        peaks = _matmul_rates(bench, report, budget_s * 0.45)
        scaling = bench.tried("bandwidth by SMs", lambda: _bandwidth_by_sms(bench, budget_s * 0.15)) or {}
        report(f"bandwidth with {', '.join(scaling) or 'no other number of'} SMs")
        casts = _cast_costs(bench, budget_s * 0.1)
    return Readings(
        dram,
        {} if l2 is None else {"copy": l2},
        peaks,
        floors,
        casts,
        scaling,
        cache_bytes=bench.l2_bytes,
        clock_hz=median(bench.clocks) if bench.clocks else None,
        absent=bench.absent,
        seconds=bench.timer.now() - began,
    )


class _Bench:
    """The timer, the device's facts, and the reasons collected on the way."""

    def __init__(self, timer: CudaEventTimer) -> None:
        self.timer = timer
        self.torch = timer.torch
        self.properties = timer.torch.cuda.get_device_properties(timer.torch.cuda.current_device())
        self.l2_bytes = int(getattr(self.properties, "L2_cache_size", 0)) or None
        self.sm_count = int(getattr(self.properties, "multi_processor_count", 0)) or None
        self.absent: dict[str, str] = {}
        self.clocks: list[float] = []

    def tried(self, what: str, measure: Callable[[], Any]) -> Any:
        """Return the result of `measure`, or None with the reason noted; a lost device raises."""
        try:
            return measure()
        except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            self.torch.cuda.synchronize()
            self.absent[what] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            return None

    def times_s(self, kernel: Callable[[], Any], seconds: float, timer: CudaEventTimer | None = None) -> list[float]:
        """Return samples of the seconds per call, taken for about `seconds`."""
        timer = timer or self.timer
        timer.begin_case("ceiling", None)
        timer.sample(kernel, [()])  # loading and workspaces
        per_call_s = timer.sample(kernel, [()] * 3)
        calls = min(512, max(1, math.ceil(timer.min_sample_s / max(per_call_s, 1e-9))))
        deadline = timer.now() + seconds
        samples: list[float] = []
        while len(samples) < _MIN_SAMPLES or (timer.now() < deadline and len(samples) < _MAX_SAMPLES):
            samples.append(timer.sample(kernel, [()] * calls))
        return samples

    def rate(
        self, moved_bytes: float, kernel: Callable[[], Any], seconds: float, timer: CudaEventTimer | None = None
    ) -> Constant:
        """Return the bytes of one call per second."""
        return constant_of_times(self.times_s(kernel, seconds, timer), moved_bytes)


def _launch_costs(bench: _Bench, seconds: float) -> dict[str, Constant]:
    """Return device and host seconds per empty kernel, queued: `_sleep(0)` is one thread that ends at once."""
    cuda, timer = bench.torch.cuda, bench.timer
    timer.begin_case("launch", None)
    calls = [(0,)] * _LAUNCHES
    device = [timer.sample(cuda._sleep, calls) for _ in range(_MIN_SAMPLES)]
    host: list[float] = []
    deadline = timer.now() + seconds
    while len(host) < _MIN_SAMPLES or (timer.now() < deadline and len(host) < _MAX_SAMPLES):
        cuda.synchronize()
        begin = timer.host_clock()
        for args in calls:
            cuda._sleep(*args)
        host.append((timer.host_clock() - begin) / _LAUNCHES)
        cuda.synchronize()
    return {"launch": constant_of_times(device), "host-launch": constant_of_times(host)}


def _dram_bandwidth(bench: _Bench, seconds: float) -> dict[str, Constant]:
    """Return the bandwidth of four access mixes on arrays far larger than the cache."""
    torch = bench.torch
    free_bytes = free_device_bytes(torch.cuda)
    array_bytes = max(_MIN_ARRAY_BYTES, _DRAM_MULTIPLE * (bench.l2_bytes or 0))
    rows = max(1, min(array_bytes, _MAX_ARRAY_BYTES, free_bytes // 8) // (4 * 4096))
    count = rows * 4096
    a, b, c = (torch.ones(count, dtype=torch.float32, device="cuda") for _ in range(3))
    total, sums = torch.zeros((), device="cuda"), torch.zeros(rows, device="cuda")
    share = seconds / 5
    reads = [
        bench.rate(4.0 * count, partial(torch.sum, a, dim=0, out=total), share),
        bench.rate(4.0 * count, partial(torch.sum, a.view(rows, 4096), dim=1, out=sums), share),
    ]
    return {
        "read": max(reads, key=_median),
        "write": bench.rate(4.0 * count, partial(c.fill_, 2.0), share),
        "copy": bench.rate(8.0 * count, partial(c.copy_, a), share),
        "triad": bench.rate(12.0 * count, partial(torch.add, a, b, alpha=3.0, out=c), share),
    }


def _l2_bandwidth(bench: _Bench, seconds: float) -> Constant:
    """Return bytes per second of an elementwise copy inside the L2 cache: more bytes over more time, from two sizes."""
    if not bench.l2_bytes:
        raise ValueError("the device does not tell the size of its L2 cache")
    torch = bench.torch
    times: list[list[float]] = []
    moved: list[float] = []
    for share in (0.15, 0.45):  # both arrays together; half of the cache is left to the other partition's copies
        count = int(share * bench.l2_bytes) // 8
        source = torch.ones(count, dtype=torch.float32, device="cuda")
        target = torch.empty_like(source)
        times.append(bench.times_s(partial(torch.add, source, 1.0, out=target), seconds / 2))
        moved.append(8.0 * count)
    smaller_s = median(times[0])
    differences_s = [time_s - smaller_s for time_s in times[1]]
    if min(differences_s) <= 0:
        raise ValueError("the larger copy took no longer than the smaller one: too short to tell")
    return constant_of_times(differences_s, moved[1] - moved[0])


def _matmul_rates(bench: _Bench, report: Report, seconds: float) -> dict[str, Constant]:
    """Return the best rate over `GEMM_SHAPES` for each format that this device and torch multiply."""
    rates: dict[str, Constant] = {}
    for key in _PRODUCTS:
        best = bench.tried(key, partial(_best_product, bench, key, seconds / len(_PRODUCTS)))
        if best is not None:
            rates[key] = best
            report(f"{key} {best.median_value / 1e12:.1f} TFLOP/s")
        else:
            report(f"{key} not measured: {bench.absent[key]}")
    return rates


def _best_product(bench: _Bench, key: str, seconds: float) -> Constant:
    capability = tuple(bench.torch.cuda.get_device_capability())
    lowest, _ = TORCH_CAPABILITIES.get(key, ((0, 0), None))
    if capability < lowest:
        raise ValueError(
            f"{key} needs compute capability ≥ {capability_text(lowest)}, this is {capability_text(capability)}"
        )
    rates = []
    with _fp32_precision(bench.torch, "high" if key == "TF32" else "highest"):
        for m, n, k in GEMM_SHAPES:
            calls = _PRODUCTS[key](bench.torch, m, n, k)
            for call in calls:
                samples = bench.times_s(call, seconds / len(GEMM_SHAPES) / len(calls))
                rates.append(constant_of_flops(samples, 2.0 * m * n * k, kernel=f"{m}x{n}x{k}"))
                if bench.timer.last_clock_hz is not None:
                    bench.clocks.append(bench.timer.last_clock_hz)
    return max(rates, key=_median)


def _uniform(torch: Any, rows: int, columns: int, dtype: Any) -> Any:
    return torch.empty(rows, columns, dtype=torch.float32, device="cuda").uniform_(-1, 1).to(dtype)


def _plain_product(dtype_name: str, torch: Any, m: int, n: int, k: int) -> Calls:
    dtype = getattr(torch, dtype_name)
    return (partial(torch.mm, _uniform(torch, m, k, dtype), _uniform(torch, n, k, dtype).t()),)


def _fp8_products(torch: Any, m: int, n: int, k: int) -> Calls:
    """Return the product with exact and with fast sums: deployed kernels have the fast ones where the chip knows
    them.
    """
    dtype = torch.float8_e4m3fn
    a, b = _uniform(torch, m, k, dtype), _uniform(torch, n, k, dtype).t()
    ones = torch.ones((), dtype=torch.float32, device="cuda")
    functional = torch.nn.functional
    recipe = functional.ScalingType.TensorWise
    multiply = partial(functional.scaled_mm, a, b, ones, recipe, ones, recipe, output_dtype=torch.bfloat16)
    is_known = is_within(tuple(torch.cuda.get_device_capability()), TORCH_CAPABILITIES["FP8_E4M3 fast sums"])
    return tuple(partial(multiply, use_fast_accum=is_fast) for is_fast in (False, True)[: 1 + is_known])


def _int8_product(torch: Any, m: int, n: int, k: int) -> Calls:
    a, b = ((64 * _uniform(torch, rows, k, torch.float32)).to(torch.int8) for rows in (m, n))
    return (partial(torch._int_mm, a, b.t()),)


Calls = tuple[Callable[[], Any], ...]
"""Ways to the same product; the fastest counts."""

_PRODUCTS: dict[str, Callable[[Any, int, int, int], Calls]] = {
    "FP32": partial(_plain_product, "float32"),
    "TF32": partial(_plain_product, "float32"),
    "BF16": partial(_plain_product, "bfloat16"),
    "FP16": partial(_plain_product, "float16"),
    "FP8_E4M3": _fp8_products,
    "INT8": _int8_product,
}


def _median(constant: Constant) -> float:
    return constant.median_value


@contextmanager
def _fp32_precision(torch: Any, value: str) -> Iterator[None]:
    old_precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(old_precision)


def _bandwidth_by_sms(bench: _Bench, seconds: float) -> dict[str, Constant]:
    """Return the bandwidth with an eighth to all of the SMs, by their number. Needs torch's green contexts.

    The number is as asked for: the driver may round it up to its partition size (2, from Hopper on 8).
    """
    torch = bench.torch
    context_type = getattr(getattr(torch.cuda, "green_contexts", None), "GreenContext", None)
    if context_type is None:
        raise ValueError("this torch has no torch.cuda.green_contexts")
    if bench.sm_count is None:
        raise ValueError("the device does not tell how many SMs it has")
    count = max(_MIN_ARRAY_BYTES, _DRAM_MULTIPLE * (bench.l2_bytes or 0)) // 4
    source = torch.ones(count, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    counts = dict.fromkeys(max(8, 8 * round(bench.sm_count * part / 8)) for part in (0.125, 0.25, 0.5, 0.75))
    rates: dict[str, Constant] = {}
    for sm_count in [number for number in counts if number < bench.sm_count]:
        context = context_type.create(num_sms=sm_count, device_id=torch.cuda.current_device())
        context.set_context()
        try:
            # Events belong to the context they are made in: a timer of its own.
            timer = CudaEventTimer(torch, clock_rate_hz(torch), host_clock=bench.timer.host_clock)
            add = partial(torch.add, source, 1.0, out=target)
            rates[str(sm_count)] = bench.rate(8.0 * count, add, seconds / 5, timer)
            torch.cuda.synchronize()
        finally:
            context.pop_context()
    everything = bench.rate(8.0 * count, partial(torch.add, source, 1.0, out=target), seconds / 5)
    return rates | {str(bench.sm_count): everything}


def _cast_costs(bench: _Bench, seconds: float) -> dict[str, Constant]:
    """Return seconds per element of the casts that quantised kernels make, on arrays in memory."""
    torch = bench.torch
    pairs = {"FP8_E4M3": "float8_e4m3fn", "INT8": "int8"}
    costs: dict[str, Constant] = {}
    for key, dtype_name in pairs.items():
        for name, source_name, target_name in (
            (f"BF16>{key}", "bfloat16", dtype_name),
            (f"{key}>BF16", dtype_name, "bfloat16"),
        ):
            cost = bench.tried(name, partial(_cast_cost, bench, source_name, target_name, seconds / 4))
            if cost is not None:
                costs[name] = cost
    torch.cuda.synchronize()
    return costs


def _cast_cost(bench: _Bench, source_name: str, target_name: str, seconds: float) -> Constant:
    torch = bench.torch
    source = torch.ones(_CAST_ELEMENTS, dtype=torch.bfloat16, device="cuda").to(getattr(torch, source_name))
    target = torch.empty(_CAST_ELEMENTS, dtype=getattr(torch, target_name), device="cuda")
    return constant_of_times(
        [time_s / _CAST_ELEMENTS for time_s in bench.times_s(partial(target.copy_, source), seconds)]
    )
