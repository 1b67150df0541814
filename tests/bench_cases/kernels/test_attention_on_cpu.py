"""The attention kernels of a CPU for real: right for every mask, caught when wrong, rotated, refused with torch's
reason.
"""

from __future__ import annotations

import itertools
import math

import pytest
from counts import sampled

torch = pytest.importorskip("torch")

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS, attention_cases  # noqa: E402
from bench_cases.kernels.attention.mask import visible  # noqa: E402
from bench_cases.kernels.attention.reference import AttentionReference, AttentionRounding, attention_rounding  # noqa: E402
from bench_cases.kernels.attention.spec import AttentionKernel, stored_keys, visible_keys  # noqa: E402
from bench_cases.kernels.guards import read_machine_facts, skip_reason  # noqa: E402
from bench_cases.kernels.inputs import uniform  # noqa: E402
from bench_cases.kernels.products.prepare import prepare  # noqa: E402
from bench_cases.kernels.reference import HeldMatrix  # noqa: E402
from bench_cases.kernels.spec import specs_of  # noqa: E402
from bench_cases.shapes.attention import AttentionShape  # noqa: E402
from roofline_model.core.errors import UnsupportedError  # noqa: E402
from roofline_model.formats.rounding import Rounding  # noqa: E402

SHAPES = {
    "decode": AttentionShape(2, 4, 2, 1, 37, 16, False, None, ""),
    "decode window": AttentionShape(2, 4, 2, 1, 33, 16, False, 5, ""),
    "causal": AttentionShape(2, 6, 2, 33, 33, 16, True, None, ""),
    "chunk": AttentionShape(1, 4, 2, 9, 33, 32, True, None, ""),
    "full": AttentionShape(1, 4, 4, 33, 33, 24, False, None, ""),
    "window": AttentionShape(1, 4, 1, 33, 33, 16, True, 5, ""),
    "window chunk": AttentionShape(1, 4, 2, 4, 33, 16, True, 5, ""),
    "window ahead": AttentionShape(1, 4, 2, 9, 33, 16, False, 5, ""),
}


def specs(*names):
    return [spec for name in names for spec in attention_cases("cpu", [SHAPES[name]])]


def bits(tensor):
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


@pytest.mark.parametrize("spec", specs(*SHAPES), ids=lambda spec: spec.case.id)
def test_every_cpu_kernel_is_right_and_every_rotation_set_gives_the_same(spec):
    assert skip_reason(spec, read_machine_facts("cpu")) is None
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        errors = [kernel.check(kernel.fn(*kernel.make_args(index))) for index in range(3)]
    assert errors[0].is_right
    assert errors[1:] == errors[:1] * 2


@pytest.mark.parametrize("spec", specs("causal"), ids=lambda spec: spec.case.id)
def test_rotation_sets_are_equal_data_in_distinct_memory(spec):
    kernel = prepare(spec, "cpu")
    for a, b in zip(kernel.make_args(0), kernel.make_args(1), strict=True):
        assert a.data_ptr() != b.data_ptr()
        assert a.stride() == b.stride()
        assert torch.equal(bits(a), bits(b))


@pytest.mark.parametrize("spec", specs("decode", "window"), ids=lambda spec: spec.case.id)
def test_the_operands_occupy_what_the_prediction_counts(spec):
    held = sum(tensor.nbytes for tensor in prepare(spec, "cpu").make_args(0))
    reads = dict(spec.work.cost.read_bytes)
    counted = reads["Q"] + reads["K"] + reads["V"]
    rows = 2 * spec.work.shape[0][1] * dict(spec.case.shape)["Hkv"] * 37
    assert counted <= held <= counted + 4 * rows  # scales per token or tensor are read and not counted


FAULTS = ("heads swapped", "one row", "scaled", "nan", "inf", "transposed", "zero", "keys")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        pytest.param(spec, fault, id=f"{spec.case.id}-{fault}")
        for spec, fault in sampled(itertools.product(specs("decode", "causal", "window"), FAULTS), 40)
    ],
)
def test_a_wrong_kernel_is_caught(spec, fault):
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        args = list(kernel.make_args(0))
        right = kernel.fn(*args)
        if fault == "keys" and not spec.kernel.is_emulated:
            args[1] = args[1].roll(1, dims=2)  # keys and values no longer belong together
        output = kernel.fn(*args).clone()
    if fault == "heads swapped" or (fault == "keys" and spec.kernel.is_emulated):
        output = output.roll(1, dims=1)
    elif fault == "one row":
        output[-1, -1, -1] = 0
    elif fault == "scaled":
        output = output.double() * 1.02
    elif fault in ("nan", "inf"):
        output[0, 0, 0, 0] = float(fault)
    elif fault == "transposed":
        output = output.transpose(1, 2).contiguous()
    elif fault == "zero":
        output = torch.zeros_like(output)
    error = kernel.check(output)
    assert not error.is_right
    assert kernel.check(right).is_right
    assert math.isnan(kernel.check(None).error)


@pytest.mark.parametrize(
    ("of", "instead"), [("causal", "full"), ("window", "causal"), ("chunk", "full"), ("decode window", "decode")]
)
def test_another_mask_is_caught(of, instead):
    """The right kernel on the same data with another mask: what a forgotten or shifted mask would give."""
    shape, other = SHAPES[of], SHAPES[instead]
    kernel = next(k for k in ATTENTION_KERNELS if k.key == "cpu-BF16.BF16-sdpa_math")
    sizes = dict(kernel.work(shape).shape)
    wrong = {**sizes, "causal": int(other.causal), "window": other.window_size or 0}
    if of == "decode window":
        wrong["window"] = 4
    rows = {role: uniform(role, 400, 32, "cpu") for role in "qkv"}
    rows = {role: HeldMatrix(matrix[:, : shape.head_dim]) for role, matrix in rows.items()}
    reference = AttentionReference.of(sizes, **rows, rounding=attention_rounding(kernel))
    keys = stored_keys(sizes)
    seen = visible(wrong, "cpu")[:, -keys:]
    seen = torch.nn.functional.pad(seen, (keys - seen.shape[1], 0), value=False)
    q = (
        rows["q"]
        .codes[: shape.batch_size * shape.query_heads * shape.query_count]
        .view(shape.batch_size, shape.query_heads, shape.query_count, shape.head_dim)
    )
    k, v = (
        rows[r]
        .codes[: shape.batch_size * shape.kv_heads * keys]
        .view(shape.batch_size, shape.kv_heads, keys, shape.head_dim)
        for r in "kv"
    )
    output = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    assert reference.deviation(output).share_ratio > 3


@pytest.mark.parametrize("name", list(SHAPES))
def test_the_mask_and_the_reference_see_the_same_keys(name):
    sizes = dict(ATTENTION_KERNELS[0].work(SHAPES[name]).shape)
    seen = visible(sizes, "cpu")
    for query in range(sizes["Sq"]):
        first, last = visible_keys(sizes, query)
        assert seen[query].nonzero().flatten().tolist() == list(range(first, last))


EXACT = AttentionRounding(0.0, 0.0, 0.0, 0.0, Rounding())


def test_the_reference_by_hand():
    """One head, two queries and keys of one element: softmax of (0·0, 0·1) and of (1·0, 1·1) over values 1 and 3."""
    sizes = {"B": 1, "Hq": 1, "Hkv": 1, "Sq": 2, "Skv": 2, "D": 1, "causal": 0, "window": 0}
    column = torch.tensor([[0.0], [1.0]])
    values = HeldMatrix(torch.tensor([[1.0], [3.0]]))
    reference = AttentionReference.of(sizes, HeldMatrix(column), HeldMatrix(column), values, EXACT)
    late = (1 + 3 * math.e) / (1 + math.e)
    assert reference.expected.exact.flatten().tolist() == pytest.approx([2.0, late])
    causal = AttentionReference.of({**sizes, "causal": 1}, HeldMatrix(column), HeldMatrix(column), values, EXACT)
    assert causal.expected.exact.flatten().tolist() == pytest.approx([1.0, late])
    right = torch.tensor([[[[2.0], [late]]]], dtype=torch.float64)
    assert reference.deviation(right).error == pytest.approx(0, abs=1e-15)
    wrong = reference.deviation(right + 0.5)
    assert (wrong.tolerance, wrong.share_ratio) == (0.0, math.inf)


def test_long_caches_are_sampled_on_few_rows_of_many_heads():
    sizes = {"B": 1, "Hq": 32, "Hkv": 8, "Sq": 64, "Skv": 8192, "D": 64, "causal": 1, "window": 0}
    shape = 1, 32, 64, 64
    q, kv = HeldMatrix(torch.rand(32 * 64, 64)), HeldMatrix(torch.rand(8 * 8192, 64))
    reference = AttentionReference.of(sizes, q, kv, kv, EXACT)
    assert reference.shape == shape
    assert 8 <= len(reference.rows) <= 16
    assert {0, 32 * 64 - 1} <= set(reference.rows.tolist())
    assert len({row // 64 for row in reference.rows.tolist()}) >= 8


def refused_spec():
    """Return a case whose backend (the memory-efficient one) no CPU has, as if the catalog offered it there."""
    kernel = AttentionKernel(
        "sdpa_efficient", "cpu", "BF16", "BF16", "BF16", implementation="bench_cases.kernels.attention.sdpa:efficient"
    )
    [spec] = specs_of(kernel.work(SHAPES["decode"]), kernel, "test", "cold", ("eager",))
    return spec


def test_a_backend_that_torch_refuses_is_unsupported_with_its_words():
    with pytest.raises(
        UnsupportedError, match=r"^sdpa_efficient: torch .* refuses these operands: No viable backend"
    ) as caught:
        prepare(refused_spec(), "cpu")
    assert "\n" not in str(caught.value)


def test_a_refused_case_is_declared_and_skipped():
    from bench_cases.kernels.measured_case import measure_case
    from roofline_model import get_hardware

    class Fixture:
        torch_device, hardware = "cpu", get_hardware("b10")
        declared = False

        def declare(self, case, work, *, unavailable=None, extra=None):
            assert unavailable is None
            self.declared = True

    fixture = Fixture()
    with pytest.raises(pytest.skip.Exception, match="refuses these operands"):
        measure_case(fixture, refused_spec())
    assert fixture.declared


def test_the_backend_holds_during_the_call_and_not_after():
    from torch.backends import cuda

    [spec] = [s for s in specs("decode") if s.kernel.name == "sdpa_math"]
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        assert cuda.math_sdp_enabled()
        assert not cuda.flash_sdp_enabled()
    assert cuda.flash_sdp_enabled()


def test_the_cache_is_widened_inside_the_call():
    [spec] = [s for s in specs("decode") if s.kernel.kv == "INT8"]
    kernel = prepare(spec, "cpu")
    args = list(kernel.make_args(1))
    before = kernel.fn(*args)
    args[1] = args[1] ^ 0x55
    assert not torch.equal(kernel.fn(*args), before)
