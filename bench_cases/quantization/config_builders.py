"""Makes torchao's config objects: the arguments of each way, and the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench_cases.quantization.plans.recipes import Recipe
from bench_cases.quantization.target import Target
from bench_cases.quantization.torchao_library import load_name


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Choices that a config carries beside group size and device."""

    is_compiled: bool = False
    """Set inductor's recommended options, which are global to the process: only when the model will be compiled."""
    use_hqq: bool = False
    """Choose INT4 scales and zero points by half-quadratic optimisation instead of the group's range."""


def build_config(recipe: Recipe, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """Return the torchao config object of a recipe, for `torchao.quantization.quantize_`."""
    config: Any = load_name(recipe.config)
    return config(**ARGUMENTS[recipe.builder](group_size, target, options))


Arguments = Callable[[int | None, Target, BuildOptions], dict[str, Any]]


def _per_row(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
    return {"granularity": _granularity("PerRow"), "set_inductor_config": options.is_compiled}


def _per_group(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
    return {"group_size": group_size, "set_inductor_config": options.is_compiled}


def _int4(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
    algorithms: Any = load_name("torchao.quantization.quantize_.workflows:Int4ChooseQParamsAlgorithm")
    chosen = algorithms.HQQ if options.use_hqq else algorithms.TINYGEMM
    return _per_group(group_size, target, options) | {"int4_choose_qparams_algorithm": chosen}


def _int8_dynamic(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
    """INT8 weights per row and INT8 activations per token, both symmetric; 7 bits of each on a CPU without VNNI.

    Such a CPU adds pairs of 8-bit products in 16 bits, which can overflow: torchao's own helper decides.
    """
    import torch

    must_reduce: Any = load_name("torchao.utils:should_reduce_range")
    reduces = bool(must_reduce(torch.device(target.device)))
    return _per_row(group_size, target, options) | {"reduce_range": reduces}


def _unpacked_int4(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
    import torch

    int4 = getattr(torch, "int4")  # noqa: B009 (torch makes its small integer types at run time)
    return {"weight_dtype": int4, "weight_granularity": _granularity("PerGroup", group_size)}


def _mx(element: str, preference: str) -> Arguments:
    """Return the arguments of weights and activations of one MX format."""

    def arguments(group_size: int | None, target: Target, options: BuildOptions) -> dict[str, Any]:
        import torch

        dtype = getattr(torch, element)
        kernel: Any = load_name("torchao.quantization.quantize_.common:KernelPreference")
        return {"activation_dtype": dtype, "weight_dtype": dtype, "kernel_preference": kernel[preference]}

    return arguments


ARGUMENTS: dict[str, Arguments] = {
    "int8_weight_only": _per_row,
    "int8_dynamic": _int8_dynamic,
    "int4_cpu": _int4,
    # The default packing would need a package that the registry lacks.
    "int4_tinygemm": lambda *asked: _int4(*asked) | {"int4_packing_format": "tile_packed_to_4d"},
    "int4_int8_cpu": _per_group,
    "int4_int8_unpacked": _unpacked_int4,
    "int4_fp8": lambda *asked: {},
    "fp8_weight_only": _per_row,
    "fp8_dynamic": _per_row,
    "nvfp4_weight_only": lambda *asked: {"use_dynamic_per_tensor_scale": True},
    # The activation's fused kernel comes with mslk only.
    "nvfp4_dynamic": lambda group_size, target, options: {
        "use_triton_kernel": "mslk" in target.packages,
        "use_dynamic_per_tensor_scale": True,
    },
    "mxfp8": _mx("float8_e4m3fn", "AUTO"),
    "mxfp8_emulated": _mx("float8_e4m3fn", "EMULATED"),
    "mxfp4": _mx("float4_e2m1fn_x2", "AUTO"),
    "mxfp4_emulated": _mx("float4_e2m1fn_x2", "EMULATED"),
}
"""`Recipe.builder` → (group size, target, options) → the arguments of the config's class."""


def _granularity(name: str, *arguments: Any) -> Any:
    cls: Any = load_name(f"torchao.quantization:{name}")
    return cls(*arguments)
