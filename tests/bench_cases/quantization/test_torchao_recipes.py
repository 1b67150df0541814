"""What each recipe asks of chip and layer, chosen for devices this machine does not have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_cases.quantization import config_builders
from bench_cases.quantization.plans.layer_plan import choose_group
from bench_cases.quantization.plans.recipes import RECIPES, recipes_of
from bench_cases.quantization.target import DA8W4_KERNEL, Target, target_of_chip
from bench_cases.quantization.torchao_configs import availability, availability_table, get_quantize_config
from roofline_model.chips.hardware import get_hardware
from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.kernels.known_kernels import TORCH_CAPABILITIES

BLACKWELL = Target("cuda", (12, 1))


def test_what_gb10_runs():
    target = target_of_chip(get_hardware("gb10"))
    assert target == BLACKWELL
    table = {available.precision: available for available in availability_table(target)}
    assert [name for name, available in table.items() if not available.is_exact] == ["INT4.FP8"]
    assert table["NVFP4"].recipe.kernel == "torch._scaled_mm with E4M3 block scales"
    assert not table["MXFP8"].recipe.is_emulated
    assert table["MXFP4"].recipe.is_emulated  # torch's kernel is for 10.x; the trial would leave the layers in 16 bit
    assert table["MXFP4"].findings[0].value("capabilities") == "10.x"
    assert table["INT4.FP8"].recipe.precision == "INT4"
    assert "mslk" in [item.value("package") for item in table["INT4.FP8"].findings]


def test_what_an_a100_runs():
    table = {
        available.precision: available
        for available in availability_table(target_of_chip(get_hardware("a100-sxm-80gb")))
    }
    assert table["FP8"].recipe.precision == "FP8.BF16"
    assert table["MXFP8"].recipe.is_emulated
    assert table["INT4"].recipe.kernel.startswith("torch._weight_int4pack_mm")


def test_recipes_take_their_ranges_from_the_table_of_torchs_kernels():
    labels = {"INT8.INT8": "INT8", "INT4": "INT4.BF16", "FP8": "FP8_E4M3", "MXFP8": "MXFP8_E4M3"}
    ranges = {recipe.precision: recipe.capabilities for recipe in RECIPES if recipe.capabilities is not None}
    assert ranges.pop("INT4.FP8") == ((9, 0), None)  # a kernel of the package mslk, not of torch
    assert ranges == {key: TORCH_CAPABILITIES[labels.get(key, key)] for key in ranges}
    assert {"MXFP4", "NVFP4", "MXFP8", "FP8", "INT8.INT8", "INT4"} == set(ranges)


def test_the_seeds_placeholder_chip_and_chips_without_cuda():
    with pytest.raises(UnsupportedError, match="CUDA"):
        target_of_chip(get_hardware("mi300x"))


def test_the_packed_cpu_kernel_is_used_where_the_build_has_it():
    assert availability("INT4.INT8", Target("cpu", None, (DA8W4_KERNEL,))).recipe.kernel == "torchao.da8w4_linear_cpu"
    emulated = availability("INT4.INT8", Target("cpu"))
    assert emulated.recipe.is_emulated
    assert emulated.recipe.precision == "INT4.INT8"
    assert emulated.findings[0].value("package") == DA8W4_KERNEL


@pytest.mark.parametrize(("version", "packages"), [("0.0.1", ()), ("1.0.0", ("mslk",)), ("odd", ()), (None, ())])
def test_a_placeholder_of_mslk_is_no_kernel_package(monkeypatch, version, packages):
    torch = pytest.importorskip("torch")
    from bench_cases.quantization import target

    def version_of(name):
        if version is None:
            raise target.importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(target.importlib.metadata, "version", version_of)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (12, 1))
    assert target.read_target("cuda") == target.read_target("auto") == Target("cuda", (12, 1), packages)


def test_cuda_that_is_not_there(monkeypatch):
    torch = pytest.importorskip("torch")
    from bench_cases.quantization.target import read_target

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match=r"torch.*CUDA"):
        read_target("cuda:0")
    assert read_target("auto").device == "cpu"


def test_shape_and_dtype_rules():
    tinygemm = recipes_of("INT4", "cuda")[0]
    assert tinygemm.against_layer(64, 128, "bfloat16") is None
    assert tinygemm.against_layer(64, 128, "float16").value("dtypes") == ("bfloat16",)
    nvfp4 = recipes_of("NVFP4", "cuda")[0]
    assert nvfp4.against_layer(64, 24, "bfloat16").value("dimension") == "K"
    assert nvfp4.against_layer(24, 64, "bfloat16").value("dimension") == "N"


@given(
    wanted=st.integers(1, 600), K=st.integers(1, 5000), recipe=st.sampled_from([r for r in RECIPES if r.group_sizes])
)
def test_a_chosen_group_divides_and_never_grows(wanted, K, recipe):
    size, note = choose_group(recipe, wanted, K)
    fitting = [s for s in recipe.group_sizes if s <= wanted and K % s == 0]
    assert size == (max(fitting) if fitting else None)
    assert (note is None) == (size == wanted)


def test_stored_formats_count_scales():
    """4096 × 1024: codes, one scale (and zero point) per group or row."""
    N, K = 4096, 1024
    int4 = recipes_of("INT4", "cpu")[0].stored_format(K, 128, "bfloat16")
    assert int4.storage_bytes((N, K)) == N * K // 2 + N * (K // 128) * 4
    assert recipes_of("INT4", "cpu")[0].stored_format(K, 128, "float32").storage_bytes((N, K)) == N * K // 2 + N * 8 * 8
    assert recipes_of("INT8", "cpu")[0].stored_format(K, None, "bfloat16").storage_bytes((N, K)) == N * K + N * 5
    assert recipes_of("FP8.BF16", "cpu")[0].stored_format(K, None, "bfloat16").storage_bytes((N, K)) == N * K + N * 4
    assert (
        recipes_of("NVFP4", "cuda")[0].stored_format(K, None, "bfloat16").storage_bytes((N, K))
        == N * K // 2 + N * K // 16 + 4
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: f"{r.device}-{r.builder}")
def test_every_config_can_be_made_with_the_installed_torchao(recipe):
    """A renamed class or argument of torchao shows here, for chips this machine does not have as well."""
    pytest.importorskip("torchao")
    lowest = recipe.capabilities[0] if recipe.capabilities else (8, 0)
    target = Target(recipe.device, lowest if recipe.device == "cuda" else None, recipe.needs)
    available = availability(recipe.precision, target)
    assert available.recipe is not None
    from bench_cases.quantization.config_builders import BuildOptions, build_config

    group = 128 if recipe.group_sizes else None
    config = build_config(recipe, group, target, BuildOptions())
    assert type(config).__name__ == recipe.config_name
    assert getattr(config, "group_size", group) in (group, None)
    from torchao.quantization.transform_module import _QUANTIZE_CONFIG_HANDLER

    assert type(config) in _QUANTIZE_CONFIG_HANDLER


def test_no_builder_is_left_over():
    assert {recipe.builder for recipe in RECIPES} == set(config_builders.ARGUMENTS)


def test_get_quantize_config():
    pytest.importorskip("torchao")
    assert get_quantize_config("BF16", "cpu") is None
    config = get_quantize_config("INT4", Target("cuda", (12, 1)), group_size=64)
    assert config.group_size == 64
    assert config.int4_packing_format == "tile_packed_to_4d"
    assert get_quantize_config("MXFP4", Target("cuda", (10, 3))).kernel_preference.value == "auto"
    assert get_quantize_config("MXFP4", BLACKWELL).kernel_preference.value == "emulated"
    assert get_quantize_config("MXFP4", "cpu").kernel_preference.value == "emulated"
    assert get_quantize_config("NVFP4", BLACKWELL).use_triton_kernel is False
    assert get_quantize_config("NVFP4", Target("cuda", (10, 0), ("mslk",))).use_triton_kernel is True


def test_get_quantize_config_never_falls_back():
    with pytest.raises(UnsupportedError, match=r"FP8.*cpu"):
        get_quantize_config("FP8", Target("cpu"))
    with pytest.raises(UnsupportedError, match=r"NF4: torchao.*Linear"):
        get_quantize_config("NF4", Target("cpu"))
    with pytest.raises(UnsupportedError, match=r"cuda 9\.0: .* 10\.0\+, this GPU has 9\.0"):
        get_quantize_config("NVFP4", Target("cuda", (9, 0)))
    with pytest.raises(InvalidValueError, match="group size 100: PrototypeInt4WeightOnlyConfig takes 32, 64, 128"):
        get_quantize_config("INT4", Target("cpu"), group_size=100)
