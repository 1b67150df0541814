"""What can be shown of the CUDA attention kernels on a machine without one: masks, scales, and that torch takes the
call.
"""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS, attention_cases  # noqa: E402
from bench_cases.kernels.attention.fp8 import e4m3_groups  # noqa: E402
from bench_cases.kernels.attention.prepare import (  # noqa: E402
    attention_deviation,
    attention_reference,
    build_attention,
    prepare_attention,
)
from bench_cases.kernels.attention.reference import attention_rounding  # noqa: E402
from bench_cases.kernels.attention.sdpa import plan_refusal  # noqa: E402
from bench_cases.kernels.inputs import copy_of  # noqa: E402
from bench_cases.shapes.attention import AttentionShape  # noqa: E402
from roofline_model.core.errors import UnsupportedError  # noqa: E402

SHAPES = {
    "decode": AttentionShape(2, 4, 2, 1, 40, 16, False, None, ""),
    "decode window": AttentionShape(1, 4, 2, 1, 40, 16, False, 8, ""),
    "causal": AttentionShape(1, 4, 2, 32, 32, 16, True, None, ""),
    "window": AttentionShape(1, 4, 2, 32, 32, 16, True, 8, ""),
    "chunk": AttentionShape(1, 4, 2, 8, 40, 16, True, 8, ""),
}
CUDA = [kernel for kernel in ATTENTION_KERNELS if kernel.device == "cuda"]
PORTABLE = [k for k in CUDA if k.name in ("sdpa_flash", "sdpa_math", "unfused", "sdpa_flash_widened_emulated")]
FLEX = [kernel for kernel in CUDA if kernel.name == "flex" and kernel.q == "BF16"]
FLEX_FP8 = next(kernel for kernel in CUDA if kernel.name == "flex" and kernel.q == "FP8_E4M3")
FA3 = next(kernel for kernel in CUDA if kernel.name == "fa3_fp8")


def built(kernel, name):
    sizes = dict(kernel.work(SHAPES[name]).shape)
    made = build_attention(kernel, sizes, "cpu")
    return sizes, made, attention_reference(kernel, sizes, made)


@pytest.mark.parametrize("kernel", PORTABLE, ids=lambda kernel: kernel.key)
@pytest.mark.parametrize("name", ["decode", "causal", "decode window"])
def test_kernels_made_of_portable_calls_are_right(kernel, name):
    _, made, reference = built(kernel, name)
    with made.settings():
        assert made.refusal() is None
        deviation = reference.deviation(made.fn(*made.args))
        assert reference.deviation(made.fn(*copy_of(made.args))) == deviation
    assert deviation.is_right


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("kernel", FLEX, ids=lambda kernel: kernel.key)
@pytest.mark.parametrize("name", list(SHAPES))
def test_the_block_mask_and_the_call_of_flex_are_right(monkeypatch, name, kernel):
    """Without a compiler FlexAttention runs its own plain form, from the same mask function and block mask."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    _, made, reference = built(kernel, name)
    assert made.args[1].dtype == (torch.bfloat16 if kernel.kv == "BF16" else torch.float8_e4m3fn)
    assert attention_deviation(made, reference, made.fn(*made.args)).is_right


@pytest.mark.parametrize("name", ["decode", "causal"])
def test_flex_in_fp8_gets_the_scales_as_constants_and_its_result_means_attention(monkeypatch, name):
    """The plain form does not multiply in FP8: a float64 product of the codes with the constant that the kernel
    gets.
    """

    def exact(q, k, v, *, block_mask, scale, enable_gqa):
        output = torch.nn.functional.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), is_causal=block_mask is not None, scale=scale, enable_gqa=enable_gqa
        )
        return output.to(v.dtype) if rounds else output

    monkeypatch.setattr(torch, "compile", lambda function, **options: exact)
    _, made, reference = built(FLEX_FP8, name)
    q, k, v = made.args
    assert q.dtype == k.dtype == v.dtype == torch.float8_e4m3fn
    assert (q.stride(-1), k.stride(-1), v.stride(-2)) == (1, 1, 1)  # the layouts that torch would copy into
    rounds = True
    rounded = made.fn(*copy_of(made.args))
    assert copy_of(made.args)[2].stride() == v.stride()
    deviation = attention_deviation(made, reference, rounded)
    assert deviation.is_right
    assert deviation.error > 1e-3
    assert not attention_deviation(made, reference, rounded.roll(1, dims=1)).is_right
    rounds = False
    meant = made.fn(*made.args) * made.v.tensor_scale
    assert reference.deviation(meant).error < 1e-12
    assert math.isnan(attention_deviation(made, reference, meant).error)  # not in the kernel's format
    assert math.isnan(attention_deviation(made, reference, None).error)


def test_fp8_scales_are_one_per_key_value_head():
    rows = torch.rand(6, 8) * torch.tensor([[1.0], [1], [10], [10], [100], [100]])
    held, scales = e4m3_groups(rows, 3)
    assert held.codes.dtype == torch.float8_e4m3fn
    assert scales.tolist() == pytest.approx([float(rows[i : i + 2].max()) / 448 for i in (0, 2, 4)])
    exact = held.rows64(torch.arange(6))
    assert float((exact - rows.double()).abs().max() / rows.max()) <= 2.0**-4
    assert torch.equal(exact[4:], held.codes[4:].double() * scales[2].double())


@pytest.mark.parametrize("name", ["decode", "causal"])
def test_the_fp8_operands_mean_attention(name):
    """Decode the very operands with the scales handed over beside them: they give the reference's answer."""
    sizes, made, reference = built(FA3, name)
    q, k, v, scale_q, scale_k, scale_v = made.args
    B, Hkv, group = sizes["B"], sizes["Hkv"], sizes["Hq"] // sizes["Hkv"]
    assert q.dtype == k.dtype == v.dtype == torch.float8_e4m3fn
    assert {tuple(scale.shape) for scale in (scale_q, scale_k, scale_v)} == {(B, Hkv)}
    query = q.double() * scale_q.double().repeat_interleave(group, dim=1)[..., None, None]
    keys, values = (x.double() * s.double()[..., None, None] for x, s in ((k, scale_k), (v, scale_v)))
    output = torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, is_causal=bool(sizes["causal"]), enable_gqa=True
    )
    assert reference.deviation(output).error < 1e-12
    rounded = reference.deviation(output.to(torch.float8_e4m3fn).double())  # the coarsest rounding that is allowed for
    assert rounded.is_right
    assert rounded.error > 1e-3


def test_torch_has_the_quantised_operator_with_the_arguments_that_are_passed():
    schema = torch.ops.aten._scaled_dot_product_flash_attention.quantized._schema
    names = [argument.name for argument in schema.arguments]
    assert names[:9] == [
        "query",
        "key",
        "value",
        "q_descale",
        "k_descale",
        "v_descale",
        "dropout_p",
        "is_causal",
        "return_debug_mask",
    ]


def test_flash_attention_3_is_switched_off_again(monkeypatch):
    _, made, _ = built(FA3, "decode")
    calls = []
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", calls.append)
    monkeypatch.setattr(torch.nn.attention, "restore_flash_attention_impl", lambda: calls.append("restored"))
    with pytest.raises(RuntimeError, match="inside"), made.settings():
        raise RuntimeError("inside")
    assert calls == ["FA3", "restored"]


def test_a_package_without_the_kernels_is_a_reason(monkeypatch):
    def refuse(name):
        raise RuntimeError(f"{name} kernels are not exposed")

    _, made, _ = built(FA3, "decode")
    monkeypatch.setattr(torch.nn.attention, "activate_flash_attention_impl", refuse)
    with (
        pytest.raises(UnsupportedError, match="FlashAttention-3: FA3"),
        made.settings(),
    ):
        pass


NO_PLAN = "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph."


def raising(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize("text", [NO_PLAN, NO_PLAN.replace("support the graph", "built successfully")])
def test_a_graph_without_a_cudnn_plan_is_a_refusal_in_torchs_words(text):
    assert plan_refusal(raising(RuntimeError(text))).value("error") == text


def test_other_errors_of_cudnn_are_the_cases_own():
    assert plan_refusal(raising(RuntimeError("CUDA error: an illegal memory access was encountered"))) is None
    assert plan_refusal(lambda: None) is None
    with pytest.raises(ValueError, match="ours"):
        plan_refusal(raising(ValueError("ours")))


def test_cudnn_without_a_plan_is_skipped_and_says_why(monkeypatch):
    def no_plan(*_, **__):
        raise RuntimeError(NO_PLAN)

    spec = next(s for s in attention_cases("cuda", [SHAPES["decode"]]) if s.kernel.name == "sdpa_cudnn")
    monkeypatch.setattr(torch, "_fused_sdp_choice", lambda *_, **__: 3)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", no_plan)
    with pytest.raises(UnsupportedError, match=r"sdpa_cudnn: .* No execution plans support the graph"):
        prepare_attention(spec, "cpu")


def test_tolerances_belong_to_the_formats():
    law = {kernel.key: attention_rounding(kernel) for kernel in ATTENTION_KERNELS}
    assert law["cuda-FP8_E4M3.FP8_E4M3-fa3_fp8"].weights_ratio == 2.0**-4  # weights are rounded to E4M3
    assert law["cuda-FP8_E4M3.FP8_E4M3-fa3_fp8"].result_ratio == law["cuda-BF16.BF16-flex"].weights_ratio == 2.0**-8
    assert law["cuda-FP16.FP16-sdpa_flash"].weights_ratio == 2.0**-11
    assert law["cpu-FP32.FP32-sdpa_flash"].weights_ratio == 2.0**-20  # flash kernels' exponential
    assert law["cpu-BF16.BF16-unfused"].scores_ratio == 2.0**-8  # through memory in BF16
    assert law["cpu-BF16.BF16-sdpa_flash"].scores_ratio == 2.0**-24
    assert (
        law["cpu-BF16.INT8-sdpa_flash_widened_emulated"].keys_ratio
        == 2.0**-8
        > law["cpu-BF16.BF16-sdpa_flash"].keys_ratio
        == 0
    )
