from __future__ import annotations

import ast
import dataclasses
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import bench_cases
from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS, attention_cases
from bench_cases.kernels.guards import MachineFacts, chip_reason, skip_reason
from bench_cases.kernels.operators.catalog import OPERATOR_KERNELS, OPERATORS, operator_cases
from bench_cases.kernels.products.catalog import KERNELS, cases_for
from bench_cases.selection import selected_cases
from bench_cases.shapes.attention import AttentionShape, attention_shapes
from bench_cases.shapes.operators import OperatorShape, operator_shapes
from bench_cases.shapes.products import resolve_shapes
from roofline_model import get_hardware
from roofline_model.core.errors import InvalidValueError, UnknownNameError
from roofline_model.core.finding import finding
from roofline_model.formats.catalog import get_format
from roofline_model.operators.attention import attention
from roofline_model.operators.layers import ffn_parts

FOLDER = Path(bench_cases.__file__).parent
DECODE = AttentionShape(2, 32, 8, 1, 4096, 128, False, None, "test")
NEW_GPU = MachineFacts("cuda", "2.13.0", lambda name: True, (9, 0), free_bytes=10**12)


def attention_spec(name, device="cpu", kv="BF16", shape=DECODE):
    [spec] = [spec for spec in attention_cases(device, [shape], [kv]) if spec.kernel.name == name]
    return spec


def operator_spec(op, name, device="cpu", fmt="BF16", sizes=(("rows", 8), ("width", 256))):
    cases = [s for s in operator_cases(device, [OperatorShape(op, sizes, "test")], [fmt]) if s.kernel.name == name]
    [spec] = cases
    return spec


def test_keys_are_unique_formats_canonical_and_implementations_exist():
    kernels = (*ATTENTION_KERNELS, *OPERATOR_KERNELS)
    assert len({kernel.key for kernel in kernels}) == len(kernels)
    for kernel in kernels:
        names = (kernel.q, kernel.kv, kernel.o) if hasattr(kernel, "kv") else (kernel.x, kernel.o)
        assert all(get_format(name).key == name for name in names)
        assert len(kernel.needs) == len(set(kernel.needs))


def test_every_implementation_and_preparation_can_be_loaded():
    pytest.importorskip("torch")
    for kernel in (*KERNELS, *ATTENTION_KERNELS, *OPERATOR_KERNELS):
        for where in (kernel.implementation, kernel.prepared_by):
            module, _, name = where.partition(":")
            assert callable(getattr(importlib.import_module(module), name))


def test_the_kernels_of_the_issue_are_there():
    cuda = {kernel.name for kernel in ATTENTION_KERNELS if kernel.device == "cuda"}
    assert {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "sdpa_math", "flex", "fa3_fp8", "unfused"} <= cuda
    cpu = {kernel.name for kernel in ATTENTION_KERNELS if kernel.device == "cpu"}
    assert {"sdpa_flash", "sdpa_math", "unfused"} <= cpu
    assert {"FP8_E4M3", "INT8", "NVFP4"} <= {kernel.kv for kernel in ATTENTION_KERNELS if kernel.device == "cuda"}
    for device in ("cpu", "cuda"):
        assert {kernel.op for kernel in OPERATOR_KERNELS if kernel.device == device} == set(OPERATORS)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_format_is_one_of_the_products_too(device):
    """So `--roofline-formats` refuses a format only when nothing at all would have had it."""
    products = {kernel.chosen_format for kernel in KERNELS if kernel.device == device}
    others = (*ATTENTION_KERNELS, *OPERATOR_KERNELS)
    assert {kernel.chosen_format for kernel in others if kernel.device == device} <= products


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["quick", pytest.param("full", marks=pytest.mark.full)])
def test_ids_and_case_keys_are_unique_and_short(device, name):
    cases = selected_cases(name, device, None, "both", ("eager", "graph"))
    assert len({(spec.case.op, spec.case.id) for spec in cases}) == len(cases)
    assert len({spec.case.case_key for spec in cases}) == len(cases)
    assert max(len(spec.case.id) for spec in cases) <= 100


def test_products_come_first_and_are_the_same_as_alone():
    everything = selected_cases("quick", "cpu", None, "cold", ("eager",))
    products = cases_for("cpu", resolve_shapes("quick", "cpu"))
    assert everything[: len(products)] == products
    assert not {spec.case.op for spec in everything[len(products) :]} & {"gemv", "gemm"}
    assert not any("gem" in spec.case.id for spec in everything[len(products) :])


def test_every_selected_operator_has_a_test_function():
    functions = {
        node.name
        for path in FOLDER.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    for device in ("cpu", "cuda"):
        ops = {spec.case.op for spec in selected_cases("standard", device, None, "cold", ("eager",))}
        assert {f"test_{op}" for op in ops} <= functions
        assert {"attention", "unfused_attention", *OPERATORS} <= ops


def test_ids_follow_the_contract():
    assert attention_spec("sdpa_flash").case.id == "2x32x8x1x4096x128x0x0-BF16-sdpa_flash-cold"
    windowed = AttentionShape(1, 8, 8, 512, 512, 64, True, 128, "")
    assert attention_spec("unfused", shape=windowed).case.id == "1x8x8x512x512x64x1x128-BF16-unfused-cold"
    assert operator_spec("quantize", "eager_row", fmt="INT8").case.id == "8x256-BF16.INT8-eager_row-cold"


def test_fused_kernels_count_fused_attention_and_the_unfused_one_its_three():
    sizes = (2, 32, 8, 1, 4096, 128)
    assert attention_spec("sdpa_math").work == attention(*sizes)
    assert attention_spec("sdpa_flash").work.op == "attention"
    assert attention_spec("unfused").work == attention(*sizes, fused=False)


def test_a_widened_cache_is_paid_for_twice_more():
    spec = attention_spec("sdpa_flash_widened_emulated", kv="FP8_E4M3")
    elements = 2 * 2 * 8 * 4096 * 128
    reads, writes = dict(spec.work.cost.read_bytes), dict(spec.work.cost.write_bytes)
    assert spec.kernel.is_emulated
    assert reads["K"] + reads["V"] == elements
    assert reads["KV decoded"] == writes["KV decoded"] == 2 * elements


def test_a_feed_forward_block_is_the_sum_of_its_kernels():
    work = operator_spec("ffn", "eager", sizes=(("rows", 4), ("hidden", 64), ("intermediate", 96))).work
    parts = ffn_parts(4, 64, 96, a="BF16")
    assert work.cost.total_bytes == sum(part.cost.total_bytes for part in parts.values())
    assert work.cost.total_flops == sum(part.cost.total_flops for part in parts.values())


def test_formats_choose_by_the_cache_and_by_the_narrow_side_of_a_cast():
    chosen = selected_cases("quick", "cpu", ["int8"], "cold", ("eager",))
    others = {(spec.case.op, spec.case.format_label) for spec in chosen if spec.case.op not in ("gemv", "gemm")}
    assert others == {("attention", "BF16.INT8"), ("quantize", "BF16.INT8"), ("dequantize", "INT8.BF16")}
    assert attention_cases("cpu", attention_shapes("quick"), ["INT4"]) == []  # products have it, attention does not
    with pytest.raises(UnknownNameError, match="FP8"):
        operator_cases("cpu", operator_shapes("quick"), ["FP9"])
    with pytest.raises(InvalidValueError, match=r"cpu.*NF4"):
        selected_cases("quick", "cpu", ["NF4"], "cold", ("eager",))


def test_each_cache_state_and_mode_is_a_case():
    states = [
        (s.case.cache, s.case.mode) for s in attention_cases("cpu", [DECODE], ["FP32"], "both", ("eager", "burst"))
    ]
    assert states == [("cold", "eager"), ("cold", "burst"), ("warm", "eager"), ("warm", "burst")]
    with pytest.raises(InvalidValueError, match="cold, warm, flushed, both"):
        operator_cases("cpu", operator_shapes("quick"), cache="hot")


@pytest.mark.parametrize(
    ("name", "kv", "capability", "reason"),
    [("fa3_fp8", "FP8_E4M3", (8, 9), finding("kernel-not-here", "fa3_fp8", kind="capability", capability="9.0", device_capability="8.9")),
     ("fa3_fp8", "FP8_E4M3", (12, 1), finding("kernel-not-here", "fa3_fp8 with FP8_E4M3", kind="capabilities", capabilities="9.x", device_capability="12.1")),
     ("fa3_fp8", "FP8_E4M3", (9, 0), None), ("flex", "BF16", (7, 5), finding("kernel-not-here", "flex", kind="capability", capability="8.0", device_capability="7.5")),
     ("flex", "FP8_E4M3", (8, 6), finding("kernel-not-here", "flex", kind="capability", capability="8.9", device_capability="8.6")), ("flex", "FP8_E4M3", (8, 9), None),
     ("flex", "FP8_E4M3", (12, 1), None), ("sdpa_flash", "BF16", (12, 1), None), ("sdpa_cudnn", "BF16", (9, 0), None),
     ("sdpa_efficient", "BF16", (9, 0), finding("shape-not-taken", "sdpa_efficient", kind="heads", query_heads_count=32, kv_heads_count=8))],
)  # fmt: skip
def test_guards_of_attention_on_simulated_devices(name, kv, capability, reason):
    cases = [spec for spec in attention_cases("cuda", [DECODE], [kv]) if spec.kernel.name == name]
    assert {skip_reason(spec, dataclasses.replace(NEW_GPU, capability=capability)) for spec in cases} == {reason}


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (
            AttentionShape(1, 8, 8, 512, 512, 64, True, 128, ""),
            finding("shape-not-taken", "sdpa_flash", kind="mask", window_count=128),
        ),
        (
            AttentionShape(1, 8, 8, 16, 512, 64, True, None, ""),
            finding("shape-not-taken", "sdpa_flash", kind="mask", query_count=16, cached_count=512),
        ),
        (
            AttentionShape(1, 8, 8, 1, 512, 320, False, None, ""),
            finding("shape-not-taken", "sdpa_flash", kind="above", dimension="D", most_count=256, size_count=320),
        ),
        (AttentionShape(1, 8, 8, 1, 512, 64, True, 128, ""), None),
        (AttentionShape(1, 8, 8, 512, 512, 64, True, 512, ""), None),
    ],
)
def test_flash_on_a_gpu_says_which_mask_it_cannot_take(shape, reason):
    assert skip_reason(attention_spec("sdpa_flash", "cuda", shape=shape), NEW_GPU) == reason


def test_packages_that_are_not_installed_are_a_reason():
    bare = dataclasses.replace(NEW_GPU, has=lambda name: name.startswith("torch."))
    assert skip_reason(attention_spec("flex", "cuda"), bare) == finding(
        "kernel-not-here", "flex", kind="package", package="triton"
    )
    fa3 = attention_spec("fa3_fp8", "cuda", "FP8_E4M3")
    assert skip_reason(fa3, bare) == finding(
        "kernel-not-here", "fa3_fp8", kind="package", package="flash_attn_interface"
    )
    assert skip_reason(operator_spec("rmsnorm", "compiled", "cuda"), bare) is not None
    assert skip_reason(operator_spec("rmsnorm", "fused", "cuda"), bare) is None
    on_cpu = skip_reason(fa3, MachineFacts("cpu", "2.13.0", lambda name: True))
    assert on_cpu == finding("kernel-not-here", "fa3_fp8", kind="device", device="cuda", own_device="cpu")


def test_a_chip_is_promised_only_attention_it_can_run():
    spec = attention_spec("fa3_fp8", "cuda", "FP8_E4M3")
    formats = dict(spec.case.formats)
    assert chip_reason(spec.kernel, formats, get_hardware("h100")) is None
    reason = chip_reason(spec.kernel, formats, get_hardware("gb10"))
    assert reason is not None
    assert (reason.code, reason.value("hardware_capability")) == ("kernel-not-here", "12.1")


def test_scores_that_are_held_whole_need_memory():
    long = AttentionShape(1, 32, 32, 32768, 32768, 128, True, None, "")
    small = dataclasses.replace(NEW_GPU, free_bytes=64 * 10**9)
    assert skip_reason(attention_spec("sdpa_flash", "cuda", shape=long), small) is None
    reason = skip_reason(attention_spec("sdpa_math", "cuda", shape=long), small)
    assert reason is not None
    assert reason.code == "operands-exceed-memory"


def test_rope_rotates_whole_heads():
    spec = operator_spec("rope", "eager", sizes=(("rows", 8), ("width", 200)))
    reason = finding("shape-not-taken", "eager", kind="multiple", dimension="width", multiple_count=128, size_count=200)
    assert spec.kernel.reason_against(spec.case) == reason


def test_selecting_imports_neither_torch_nor_numpy():
    code = (
        "import sys\n"
        "from bench_cases.selection import selected_cases\n"
        "found = [spec.case.id for spec in selected_cases('full', 'cuda', None, 'both', ('eager',))]\n"
        "print(len(found))\n"
        "print(sorted({'torch', 'numpy', 'torchao', 'sqlalchemy', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=FOLDER.parent)
    count, heavy = done.stdout.split("\n")[:2]
    assert int(count) > 10_000
    assert heavy == "[]"
