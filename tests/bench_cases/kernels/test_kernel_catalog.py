from __future__ import annotations

import subprocess
import sys

import pytest

from bench_cases.kernels.products.catalog import KERNELS, cases_for, kernels_for
from bench_cases.shapes.products import Shape, resolve_shapes
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import finding
from roofline_model.formats.catalog import get_format

DECODE = [Shape(1, 4096, 4096, "test")]
PREFILL = [Shape(512, 4096, 4096, "test")]


def test_keys_are_unique_and_every_entry_is_well_formed():
    assert len({kernel.key for kernel in KERNELS}) == len(KERNELS)
    for kernel in KERNELS:
        for name in (kernel.weight, kernel.activation, kernel.output):
            assert get_format(name).key == name  # canonical keys, no aliases
        assert kernel.op in (None, "gemv", "gemm")
        assert all(need.startswith("torch.") for names in kernel.needs for need in names.split("|"))


def test_every_implementation_can_be_loaded():
    from bench_cases.kernels.products.prepare import load_implementation

    assert all(callable(load_implementation(kernel)) for kernel in KERNELS)


def test_the_kernels_of_the_issue_are_there():
    cpu = {(kernel.weight, kernel.activation, kernel.name) for kernel in KERNELS if kernel.device == "cpu"}
    assert cpu == {
        ("FP32", "FP32", "matmul"),
        ("BF16", "BF16", "matmul"),
        ("FP16", "FP16", "matmul"),
        ("INT8", "INT8", "int_mm"),
        ("INT8", "BF16", "int8pack"),
        ("INT4", "BF16", "int4pack"),
        ("FP8_E4M3", "FP8_E4M3", "scaled_mm_emulated"),
    }
    cuda = {(kernel.weight, kernel.activation) for kernel in KERNELS if kernel.device == "cuda"}
    assert cuda >= {
        ("FP32", "FP32"),
        ("TF32", "TF32"),
        ("FP16", "FP16"),
        ("BF16", "BF16"),
        ("FP8_E4M3", "FP8_E4M3"),
        ("INT8", "INT8"),
        ("INT8", "BF16"),
        ("INT4", "BF16"),
        ("MXFP8_E4M3", "MXFP8_E4M3"),
        ("MXFP4", "MXFP4"),
        ("NVFP4", "NVFP4"),
        ("NVFP4", "BF16"),
        ("MXFP4", "BF16"),
        ("NF4", "BF16"),
        ("MXFP6_E3M2", "BF16"),
        ("INT2", "BF16"),
    }


def test_emulation_is_said_in_the_name_that_is_stored():
    emulated = {(kernel.device, kernel.weight) for kernel in KERNELS if kernel.is_emulated}
    assert ("cpu", "FP8_E4M3") in emulated
    assert {("cuda", name) for name in ("NF4", "MXFP6_E3M2", "INT2")} <= emulated
    assert ("cuda", "FP8_E4M3") not in emulated


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_case_ids_are_unique_within_an_operator(device):
    cases = cases_for(device, resolve_shapes("standard", device), cache="both")
    ids = [(spec.case.op, spec.case.id) for spec in cases]
    assert len(set(ids)) == len(ids)
    assert len({spec.case.case_key for spec in cases}) == len(ids)


def test_the_id_follows_the_contract():
    ids = {spec.case.id for spec in cases_for("cpu", DECODE)}
    assert "1x4096x4096-w4a16-INT4.BF16-int4pack-cold" in ids
    assert "1x4096x4096-w8a8-INT8.INT8-int_mm-cold" in ids


def test_int4_traffic_counts_the_group_scales():
    [spec] = cases_for("cpu", DECODE, ["INT4"])
    # 4 bits + (16-bit scale + 16-bit zero) / 128 = 4.25 bits per weight
    assert dict(spec.work.cost.read_bytes) == {"A": 4096 * 2, "B": 4096 * 4096 * 4.25 / 8}
    assert dict(spec.work.cost.write_bytes) == {"C": 4096 * 2}
    assert dict(spec.work.cost.flops) == {"BF16": 2 * 4096 * 4096}


def test_kernels_that_decode_first_pay_for_the_decoded_weight():
    [spec] = cases_for("cuda", DECODE, ["NF4"])
    assert spec.kernel.is_emulated
    # 4 bits and a 16-bit scale per 64; then the whole weight written and read once in BF16.
    weights = 4096 * 4096
    assert dict(spec.work.cost.read_bytes) == {"A": 4096 * 2, "B": weights * 4.25 / 8, "B decoded": weights * 2}
    assert dict(spec.work.cost.write_bytes) == {"C": 4096 * 2, "B decoded": weights * 2}
    assert dict(spec.work.cost.flops) == {"BF16": 2 * weights}


def test_integer_products_write_four_bytes():
    [spec] = [spec for spec in cases_for("cpu", DECODE, ["INT8"]) if spec.kernel.name == "int_mm"]
    assert dict(spec.work.cost.write_bytes) == {"C": 4096 * 4}
    assert dict(spec.work.cost.read_bytes)["B"] == 4096 * 4096


def test_padding_is_for_decode_only_and_the_plain_kernel_for_prefill_only():
    def names(shapes):
        return {spec.kernel.name for spec in cases_for("cuda", shapes, ["INT8"]) if spec.kernel.activation == "INT8"}

    assert names(DECODE) == {"int_mm_padded"}
    assert names(PREFILL) == {"int_mm"}


def test_formats_match_the_weight_by_key_or_alias():
    names = {kernel.name for kernel in kernels_for("cpu", ["bf16"])}
    assert names == {"matmul"}  # a BF16 activation does not make a kernel a BF16 one
    assert {kernel.weight for kernel in kernels_for("cpu", ["fp8", "int4"])} == {"FP8_E4M3", "INT4"}


def test_a_filter_that_leaves_nothing_or_is_unknown_is_an_error():
    with pytest.raises(InvalidValueError, match=r"cpu.*NF4.*BF16"):
        cases_for("cpu", DECODE, ["NF4"])
    with pytest.raises(UnknownNameError, match="FP8"):
        cases_for("cpu", DECODE, ["FP9"])


def test_cold_and_warm_are_different_cases():
    both = cases_for("cpu", DECODE, ["FP32"], "both")
    assert [spec.case.cache for spec in both] == ["cold", "warm"]
    assert both[0].case.case_key != both[1].case.case_key
    with pytest.raises(InvalidValueError, match="cold, warm, flushed, both"):
        cases_for("cpu", DECODE, cache="hot")


def test_shape_rules_give_reasons():
    def reason(weight, M, N, K, device="cpu", activation=None):
        [kernel] = [
            k
            for k in KERNELS
            if k.device == device and k.weight == weight and k.activation == (activation or k.activation)
        ]
        return kernel.reason_against(kernel.work(Shape(M, N, K, "")).case(kernel.name))

    assert reason("INT4", 1, 4096, 4096) is None
    assert reason("INT4", 1, 4100, 4096) == finding(
        "shape-not-taken", "int4pack", kind="multiple", dimension="N", multiple_count=16, size_count=4100
    )
    assert reason("INT4", 1, 4096, 4160).value("dimension") == "K"
    assert reason("INT8", 1, 7, 72, activation="BF16") == finding(
        "shape-not-taken", "int8pack", kind="multiple", dimension="K", multiple_count=16, size_count=72
    )
    assert reason("FP8_E4M3", 1, 4096, 4096).value("kind") == "emulated"
    assert reason("FP8_E4M3", 1, 1024, 1024) is None


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ((2048, 28672, 8192), "serial"),
        ((1, 128_256, 16_384), None),  # the largest output heads, decoded
        ((1, 128_256, 20_000), "indices"),
        ((4096, 4096, 4096), None),
        ((4096, 4096, 4104), "serial"),
    ],
)
def test_int8pack_on_cuda_is_kept_below_the_watchdog_and_its_own_indices(size, kind):
    [kernel] = [kernel for kernel in KERNELS if kernel.device == "cuda" and kernel.name == "int8pack"]
    reason = kernel.reason_against(kernel.work(Shape(*size, "")).case(kernel.name))
    assert (reason.value("kind") if reason else None) == kind


def test_selecting_thousands_of_cases_imports_neither_torch_nor_numpy():
    code = (
        "import sys\n"
        "from bench_cases.kernels.products.catalog import cases_for\n"
        "from bench_cases.shapes.products import resolve_shapes\n"
        "print(len([spec.case.id for spec in cases_for('cuda', resolve_shapes('full', 'cuda'), cache='both')]))\n"
        "print(sorted({'torch', 'numpy', 'torchao', 'sqlalchemy', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_import_path())
    count, heavy = done.stdout.split("\n")[:2]
    assert int(count) > 5000
    assert heavy == "[]"


def _import_path():
    import os
    from pathlib import Path

    import bench_cases

    return {**os.environ, "PYTHONPATH": str(Path(bench_cases.__file__).parents[1])}
