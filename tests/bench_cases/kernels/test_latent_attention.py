"""Latent attention (MLA): absorbed decode on cached rows and expanded prefill; counted, named, right, caught when
wrong.
"""

from __future__ import annotations

import dataclasses
import math

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS, attention_cases  # noqa: E402
from bench_cases.kernels.attention.latent import LatentSdpa  # noqa: E402
from bench_cases.kernels.attention.prepare import attention_deviation, attention_reference, build_attention  # noqa: E402
from bench_cases.kernels.attention.reference import AttentionReference, AttentionRounding  # noqa: E402
from bench_cases.kernels.guards import MachineFacts, read_machine_facts, skip_reason  # noqa: E402
from bench_cases.kernels.products.prepare import prepare  # noqa: E402
from bench_cases.kernels.reference import HeldMatrix  # noqa: E402
from bench_cases.shapes.attention import LATENT_MODELS, AttentionShape, attention_shapes  # noqa: E402
from bench_cases.shapes.products import models  # noqa: E402
from roofline_model import get_hardware, predict, predict_expected  # noqa: E402
from roofline_model.core.finding import finding  # noqa: E402
from roofline_model.formats.rounding import Rounding  # noqa: E402

DECODE = AttentionShape(2, 8, 1, 1, 37, 48, False, None, "", value_dim=32, is_latent=True)
PREFILL = AttentionShape(1, 4, 4, 33, 33, 24, True, None, "", value_dim=16)
NEW_GPU = MachineFacts("cuda", "2.13.0", lambda name: True, (9, 0), free_bytes=10**12)


def specs(shape, device="cpu"):
    return attention_cases(device, [shape])


def runnable():
    candidates = [spec for shape in (DECODE, PREFILL) for spec in specs(shape)]
    return [spec for spec in candidates if spec.kernel.reason_against(spec.case) is None]


def test_both_forms_have_kernels_on_both_devices():
    for device, fused in (("cpu", {"latent_flash", "latent_math"}), ("cuda", {"latent_efficient", "latent_math"})):
        decode = {spec.kernel.name for spec in specs(DECODE, device)}
        assert fused | {"latent_unfused"} <= decode
        assert all(name.startswith("latent_") for name in decode)
        prefill = {spec.kernel.name for spec in specs(PREFILL, device)}
        assert {"sdpa_flash_padded", "sdpa_math", "unfused"} <= prefill
        assert not any(name.startswith("latent_") for name in prefill)
        equal = {spec.kernel.name for spec in specs(AttentionShape(1, 4, 4, 33, 33, 24, True, None, ""), device)}
        assert "sdpa_flash_padded" not in equal
        assert not any(name.startswith("latent_") for name in equal)


def test_ids_name_the_size_of_the_values():
    ids = [spec.case.id for spec in specs(DECODE)]
    assert "2x8x1x1x37x48x0x0x32-BF16-latent_flash-cold" in ids
    assert "2x8x1x1x37x48x0x0x32-BF16-latent_unfused-cold" in ids
    assert "2x8x1x1x37x48x0x0x32-BF16.FP8_E4M3-latent_flash_widened_emulated-cold" in ids
    assert "1x4x4x33x33x24x1x0x16-BF16-sdpa_flash_padded-cold" in [spec.case.id for spec in specs(PREFILL)]


def test_deepseeks_sizes_are_those_of_its_configuration():
    latent, heads = models()["deepseek-v3"].latent, models()["deepseek-v3"].query_heads
    assert (heads, latent.kv_rank, latent.rope_dim, latent.nope_dim, latent.value_dim) == (128, 512, 64, 128, 128)
    shapes = attention_shapes("llm:deepseek-v3")
    decode = {(s.query_heads, s.kv_heads, s.head_dim, s.value_dim) for s in shapes if s.is_latent}
    prefill = {(s.query_heads, s.kv_heads, s.head_dim, s.value_dim, s.causal) for s in shapes if not s.is_latent}
    assert decode == {(128, 1, 576, 512)}
    assert prefill == {(128, 128, 192, 128, True)}
    assert {s.query_count for s in shapes if s.is_latent} == {1}
    for name in ("standard", "full"):
        origins = {shape.origin.split()[0] for shape in attention_shapes(name)}
        assert set(LATENT_MODELS) <= origins


def test_the_rows_are_read_once_for_keys_and_values():
    by_name = {spec.kernel.name: spec.work for spec in specs(DECODE) if spec.kernel.kv == "BF16"}
    fused = by_name["latent_flash"].cost
    assert dict(fused.read_bytes) == {"Q": 2 * 8 * 48 * 2, "K": 2 * 37 * 48 * 2}
    assert dict(fused.write_bytes) == {"O": 2 * 8 * 32 * 2}
    assert fused.total_flops == 2 * 2 * 8 * 37 * (48 + 32)
    apart = dict(by_name["latent_unfused"].cost.read_bytes)
    assert (apart["K"], apart["V"]) == (2 * 37 * 48 * 2, 2 * 37 * 32 * 2)  # each product reads what it needs


def test_a_quantised_cache_is_widened_row_by_row():
    [spec] = [spec for spec in specs(DECODE) if spec.kernel.kv == "FP8_E4M3"]
    assert dict(spec.work.cost.write_bytes)["KV decoded"] == 2 * 37 * 48 * 2
    assert dict(spec.work.cost.read_bytes)["K"] == 2 * 37 * 48


def test_a_case_is_predicted_from_its_cost():
    shape = next(shape for shape in attention_shapes("quick", "cuda") if shape.is_latent)
    [spec] = [spec for spec in specs(shape, "cuda") if spec.kernel.name == "latent_efficient"]
    gb10 = get_hardware("gb10")
    prediction = predict(spec.work, gb10)
    assert (
        prediction.read_bytes == (8192 * 576 + 128 * 576) * 2
    )  # 9.4 MB of cache; expanded, 128 heads would have 671 MB
    assert prediction.time_s == pytest.approx(prediction.memory_time_s)
    assert predict_expected(spec.work, gb10) is None  # kernels with one head size were measured


@pytest.mark.parametrize("spec", runnable(), ids=lambda spec: spec.case.id)
def test_every_cpu_kernel_is_right_and_every_rotation_set_gives_the_same(spec):
    assert skip_reason(spec, read_machine_facts("cpu")) is None
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        errors = [kernel.check(kernel.fn(*kernel.make_args(index))) for index in range(3)]
    assert errors[0].is_right
    assert errors[1:] == errors[:1] * 2


def test_the_rows_are_held_once():
    for spec in specs(DECODE):
        held = sum(tensor.nbytes for tensor in prepare(spec, "cpu").make_args(0))
        reads = dict(spec.work.cost.read_bytes)
        assert reads["Q"] + reads["K"] <= held <= reads["Q"] + reads["K"] + 4  # the scale of a quantised cache


@pytest.mark.parametrize("spec", specs(DECODE), ids=lambda spec: spec.case.id)
@pytest.mark.parametrize("fault", ["values behind", "no rotation", "heads swapped", "whole rows", "nan"])
def test_a_wrong_kernel_is_caught(spec, fault):
    kernel = prepare(spec, "cpu")
    with kernel.settings():
        q, *cache = kernel.make_args(0)
        output = kernel.fn(q, *cache)
        if fault == "no rotation":  # the part of the keys behind the latent does not count
            q = torch.cat((q[..., :32], torch.zeros_like(q[..., 32:])), dim=-1)
            output = kernel.fn(q, *cache)
    if fault == "values behind":  # the last elements of a row instead of the first
        made = build_attention(spec.kernel, dict(spec.case.shape), "cpu")
        keys = made.k.rows64(torch.arange(2 * 37)).view(2, 1, 37, 48)
        query = made.q.rows64(torch.arange(2 * 8)).view(2, 1, 8, 48)
        output = torch.nn.functional.scaled_dot_product_attention(query, keys, keys)[..., 16:].transpose(1, 2)
    elif fault == "heads swapped":
        output = output.roll(1, dims=1)
    elif fault == "whole rows":
        output = torch.nn.functional.pad(output, (0, 16))
    elif fault == "nan":
        output = output.clone()
        output[0, 0, 0, 0] = math.nan
    error = kernel.check(output)
    assert not error.is_right


def test_the_views_of_the_memory_efficient_kernel_are_right():
    """No CPU has that backend: the same call, with values narrower than keys, under the math backend."""
    [kernel] = [k for k in ATTENTION_KERNELS if k.name == "latent_efficient"]
    sizes = dict(kernel.work(DECODE).shape)
    made = build_attention(kernel, sizes, "cpu")
    reference = attention_reference(kernel, sizes, made)
    assert isinstance(made.fn, LatentSdpa)
    with sdpa_kernel(SDPBackend.MATH):
        assert attention_deviation(made, reference, made.fn(*made.args)).is_right
    with made.settings():
        assert made.refusal().code == "shape-not-taken"


@pytest.mark.parametrize("name", ["latent_math", "latent_unfused", "sdpa_flash_padded", "sdpa_math", "unfused"])
def test_cuda_kernels_made_of_portable_calls_are_right(name):
    [kernel] = [k for k in ATTENTION_KERNELS if k.name == name and k.device == "cuda"]
    sizes = dict(kernel.work(DECODE if kernel.is_latent else PREFILL).shape)
    made = build_attention(kernel, sizes, "cpu")
    reference = attention_reference(kernel, sizes, made)
    with made.settings():
        assert made.refusal() is None
        assert attention_deviation(made, reference, made.fn(*made.args)).is_right


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_kernels_with_one_head_size_say_so(device):
    by_key = {(spec.kernel.name, spec.kernel.kv): spec for spec in specs(PREFILL, device)}
    flash = by_key["sdpa_flash", "BF16"]
    assert flash.kernel.reason_against(flash.case) == finding(
        "shape-not-taken", "sdpa_flash", kind="head-sizes", key_size_count=24, value_size_count=16
    )
    several = dataclasses.replace(DECODE, query_count=2)
    [spec] = [spec for spec in specs(several, device) if spec.kernel.name == "latent_math"]
    assert spec.kernel.reason_against(spec.case) == finding(
        "shape-not-taken", "latent_math", kind="new-tokens", query_count=2
    )


def test_the_real_sizes_fit_a_gpu():
    for shape in attention_shapes("quick", "cuda"):
        if shape.value_dim is not None:
            reasons = {spec.kernel.name: skip_reason(spec, NEW_GPU) for spec in specs(shape, "cuda")}
            assert reasons["latent_efficient" if shape.is_latent else "sdpa_flash_padded"] is None


EXACT = AttentionRounding(0.0, 0.0, 0.0, 0.0, Rounding())


def test_absorbed_decode_is_expanded_attention():
    """The up-projections moved into query and output give what every head gets from expanded keys and values.

    Two heads of 3 + 2 key and 4 value elements, a latent of 6: K = (c·Uₕ, r) and V = c·Wₕ for each head h. The absorbed
    form divides by the root of 8 instead of 5, so its query is scaled by √(8/5).
    """
    generator = torch.Generator().manual_seed(1)

    def values(*size):
        return torch.rand(*size, generator=generator, dtype=torch.float64) * 2 - 1

    heads, keys, latent, nope, rope, width = 2, 7, 6, 3, 2, 4
    c, r = values(keys, latent), values(keys, rope)
    q_nope, q_rope = values(heads, nope), values(heads, rope)
    up, down = values(heads, latent, nope), values(heads, latent, width)
    expanded_k = torch.cat([torch.cat((c @ up[h], r), dim=1) for h in range(heads)])
    expanded_v = torch.cat([c @ down[h] for h in range(heads)])
    sizes = {"B": 1, "Hq": 2, "Sq": 1, "Skv": keys, "causal": 0, "window": 0}
    expanded = AttentionReference.of(
        {**sizes, "Hkv": 2, "D": nope + rope, "Dv": width},
        HeldMatrix(torch.cat((q_nope, q_rope), dim=1)),
        HeldMatrix(expanded_k),
        HeldMatrix(expanded_v),
        rounding=EXACT,
    )
    query = torch.stack([torch.cat((up[h] @ q_nope[h], q_rope[h])) for h in range(heads)])
    rows = torch.cat((c, r), dim=1)
    absorbed = AttentionReference.of(
        {**sizes, "Hkv": 1, "D": latent + rope, "Dv": latent},
        HeldMatrix(query * math.sqrt(8 / 5)),
        HeldMatrix(rows),
        HeldMatrix(rows[:, :latent]),
        rounding=EXACT,
    )
    projected = torch.stack([absorbed.expected.exact[h] @ down[h] for h in range(heads)])
    assert torch.allclose(projected, expanded.expected.exact, rtol=1e-12)
