from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections import Counter

import pytest

from bench_cases.kernels.guards import MachineFacts, read_machine_facts, skip_reason
from bench_cases.kernels.products.catalog import KERNELS, cases_for
from bench_cases.shapes.products import Shape
from roofline_model.core.finding import finding

NEW_TORCH = MachineFacts("cuda", "2.13.0", lambda name: True, free_bytes=10**12)


def runs_on(capability: tuple[int, int], M: int = 512) -> set[tuple[str, str]]:
    """Weight and activation formats that a device of that capability runs."""
    facts = dataclasses.replace(NEW_TORCH, capability=capability)
    return {
        (spec.kernel.weight, spec.kernel.activation)
        for spec in cases_for("cuda", [Shape(M, 4096, 4096, "")])
        if skip_reason(spec, facts) is None
    }


EVERYWHERE = {
    ("FP32", "FP32"),
    ("FP16", "FP16"),
    ("TF32", "TF32"),
    ("BF16", "BF16"),
    ("INT8", "INT8"),
    ("INT8", "BF16"),
    ("INT4", "BF16"),
    ("NF4", "BF16"),
    ("INT2", "BF16"),
    ("MXFP6_E3M2", "BF16"),
    ("NVFP4", "BF16"),
    ("MXFP4", "BF16"),
}
FP8 = {("FP8_E4M3", "FP8_E4M3")}


@pytest.mark.parametrize("M", [1, 512])
@pytest.mark.parametrize(
    ("capability", "more"),
    [
        ((8, 0), set()),
        ((8, 7), set()),
        ((8, 9), FP8),
        ((9, 0), FP8),
        ((10, 0), {*FP8, ("MXFP8_E4M3", "MXFP8_E4M3"), ("MXFP4", "MXFP4"), ("NVFP4", "NVFP4")}),
        ((10, 3), {*FP8, ("MXFP8_E4M3", "MXFP8_E4M3"), ("MXFP4", "MXFP4"), ("NVFP4", "NVFP4")}),
        ((12, 1), {*FP8, ("MXFP8_E4M3", "MXFP8_E4M3"), ("NVFP4", "NVFP4")}),
    ],
)
def test_what_simulated_devices_run(capability, more, M):
    assert runs_on(capability, M) == EVERYWHERE | more


def test_capability_reasons_name_both_numbers():
    facts = dataclasses.replace(NEW_TORCH, capability=(9, 0))
    [spec] = [spec for spec in cases_for("cuda", [Shape(1, 4096, 4096, "")]) if spec.kernel.activation == "NVFP4"]
    reason = finding(
        "kernel-not-here", "scaled_mm_block", kind="capability", capability="10.0", device_capability="9.0"
    )
    assert skip_reason(spec, facts) == reason
    [spec] = [spec for spec in cases_for("cuda", [Shape(1, 4096, 4096, "")]) if spec.kernel.activation == "MXFP4"]
    reason = skip_reason(spec, dataclasses.replace(NEW_TORCH, capability=(12, 1)))
    assert reason == finding(
        "kernel-not-here",
        "scaled_mm_block with MXFP4",
        kind="capabilities",
        capabilities="10.x",
        device_capability="12.1",
    )


def test_an_older_torch_is_a_reason():
    old = MachineFacts("cpu", "2.4.0", lambda name: name == "torch.nn.functional.scaled_mm")
    cases = {spec.kernel.name: spec for spec in cases_for("cpu", [Shape(1, 1024, 1024, "")])}
    reason = finding("kernel-not-here", "int_mm", kind="functions", functions=("torch._int_mm",), torch_version="2.4.0")
    assert skip_reason(cases["int_mm"], old) == reason
    assert skip_reason(cases["scaled_mm_emulated"], old) is None
    assert skip_reason(cases["matmul"], old) is None


def test_memory_arithmetic_is_a_reason_with_its_numbers():
    spec = cases_for("cpu", [Shape(1, 128256, 8192, "")], ["FP32"])[0]
    small = MachineFacts("cpu", "2.13.0", lambda name: True, free_bytes=8 * 10**9)
    reason = skip_reason(spec, small)
    assert reason is not None
    assert reason.code == "operands-exceed-memory"
    assert reason.value("needed_bytes") == reason.value("preparing_bytes") + reason.value("operand_bytes")
    assert skip_reason(spec, dataclasses.replace(small, free_bytes=10**12)) is None


def peak_live_bytes(build) -> int:
    """Run `build` and return the most bytes that tensors made by it held at one time."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Meter(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.users, self.live, self.peak = Counter(), 0, 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            given_addresses = {
                leaf.untyped_storage().data_ptr() for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)
            }
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.add(leaf, leaf.untyped_storage().data_ptr(), leaf.untyped_storage().nbytes(), given_addresses)
            return result

        def add(self, tensor, address, size, given_addresses):
            if address in given_addresses and not self.users[address]:
                return  # a view of something that existed before
            self.live += 0 if self.users[address] else size
            self.users[address] += 1
            self.peak = max(self.peak, self.live)
            weakref.finalize(tensor, self.drop, address, size)

        def drop(self, address, size):
            self.users[address] -= 1
            self.live -= 0 if self.users[address] else size

    with Meter() as meter:
        built = build()
    assert built.args
    return meter.peak


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.name != "tinygemm"], ids=lambda kernel: kernel.key)
def test_the_memory_estimate_covers_what_building_a_kernel_takes(kernel, monkeypatch):
    pytest.importorskip("torch")
    from bench_cases.kernels.inputs import activation_source, weight_source
    from bench_cases.kernels.products import quantizers
    from bench_cases.kernels.products.prepare import load_implementation
    from bench_cases.kernels.spec import QUANTIZE_BYTES_PER_ELEMENT

    rows, columns = 512, 1024
    monkeypatch.setitem(quantizers.PIECE_ELEMS, "cpu", rows * columns)  # all at once, as on a GPU
    source, activation = weight_source(rows, columns, "cpu"), activation_source(1, columns, "cpu")
    peak = peak_live_bytes(lambda: load_implementation(kernel)(kernel, activation, source))
    held = kernel.weight_format.storage_bytes((rows, columns))
    assert peak >= held  # the meter meters
    assert peak + source.nbytes <= QUANTIZE_BYTES_PER_ELEMENT * rows * columns * 1.02


@pytest.mark.parametrize("kind", ["attention", "operators"])
def test_the_memory_estimates_of_attention_and_operators_cover_building_and_calling(kind):
    pytest.importorskip("torch")
    from bench_cases.kernels.attention.catalog import attention_cases
    from bench_cases.kernels.attention.prepare import build_attention
    from bench_cases.kernels.operators.catalog import OPERATORS, operator_cases
    from bench_cases.kernels.operators.prepare import build_operator
    from bench_cases.shapes.attention import AttentionShape
    from bench_cases.shapes.operators import OperatorShape

    prefill = AttentionShape(1, 8, 2, 256, 256, 32, True, None, "")
    sizes = (("rows", 256), ("width", 1024))
    simple = [OperatorShape(op, sizes, "") for op in OPERATORS if op != "ffn"]
    block = OperatorShape("ffn", (("rows", 64), ("hidden", 256), ("intermediate", 512)), "")
    specs = attention_cases("cpu", [prefill]) if kind == "attention" else operator_cases("cpu", [*simple, block])
    build = build_attention if kind == "attention" else build_operator
    for spec in specs:

        def run(spec=spec):
            built = build(spec.kernel, dict(spec.case.shape), "cpu")
            with getattr(built, "settings", contextlib.nullcontext)():
                built.fn(*built.args)
            return built

        operands = 2 * (spec.work.cost.total_read_bytes + spec.work.cost.total_write_bytes)
        peak = peak_live_bytes(run)
        assert peak > 0.1 * operands  # the meter meters
        assert peak <= spec.kernel.preparing_bytes(spec.case) + operands, spec.kernel.key


def test_facts_of_this_machine():
    pytest.importorskip("torch")
    facts = read_machine_facts("cpu")
    assert facts.capability is None
    assert facts.free_bytes is not None
    assert facts.free_bytes > 10**8
    assert facts.has("torch.nn.functional.linear")
    assert not facts.has("torch.nn.functional.no_such_thing")
    assert not facts.has("torch.no_such.thing")
    assert facts.has("torch.nn.attention.flex_attention.flex_attention")  # a module that `import torch` leaves out
    assert facts.has("pytest")
    assert not facts.has("no_such_package")


def test_a_chip_is_promised_only_kernels_it_can_run():
    """MXFP4 x MXFP4 exists for compute capability 10.x only: GB10 (12.1) is told so, B200 is not; A100 has no FP8."""
    from bench_cases.kernels.guards import chip_reason
    from roofline_model import create_custom_asic, get_hardware

    def operands(kernel):
        return {"a": kernel.activation, "b": kernel.weight, "c": kernel.output}

    def refused(chip):
        return {
            kernel.weight if not kernel.name.endswith("_fast") else f"{kernel.weight} fast"
            for kernel in KERNELS
            if kernel.device == "cuda" and chip_reason(kernel, operands(kernel), get_hardware(chip))
        }

    assert refused("gb10") == {"MXFP4", "FP8_E4M3 fast"}
    assert refused("b200") == {"FP8_E4M3 fast"}
    assert refused("h100") == {"MXFP8_E4M3", "MXFP4", "NVFP4"}
    assert refused("a100") == {"FP8_E4M3 fast", "FP8_E4M3", "MXFP8_E4M3", "MXFP4", "NVFP4"}
    narrow = {"FP8_E4M3", "FP8_E4M3 fast", "MXFP8_E4M3", "MXFP4", "NVFP4", "INT8"}
    assert refused(create_custom_asic("mine", 100, {"FP16": 1.0})) == narrow  # it declares no unit for them
    assert refused(create_custom_asic("mine", 100, {"FP16": 1.0, "INT8": 2.0})) == narrow - {"INT8"}
    (mxfp4,) = [k for k in KERNELS if k.weight == "MXFP4" and k.name == "scaled_mm_block"]
    reason = chip_reason(mxfp4, operands(mxfp4), get_hardware("gb10"))
    assert (reason.value("kind"), reason.value("hardware"), reason.value("hardware_capability")) == (
        "capabilities",
        "gb10",
        "12.1",
    )


def test_int_mm_is_not_asked_for_a_single_column():
    single_column, two_columns = (
        next(spec for spec in cases_for("cpu", [Shape(8, 64, K, "")]) if spec.kernel.name == "int_mm") for K in (1, 2)
    )
    reason = finding("shape-not-taken", "int_mm", kind="below", dimension="K", least_count=2, size_count=1)
    assert single_column.kernel.reason_against(single_column.case) == reason
    assert two_columns.kernel.reason_against(two_columns.case) is None
