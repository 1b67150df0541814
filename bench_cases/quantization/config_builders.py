"""Makes torchao's config objects. One function per way; `Recipe.builder` names it.

Contract: (config class, group size or None, target, options) → a config for `torchao.quantization.quantize_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench_cases.quantization.target import Target
from bench_cases.quantization.torchao_library import load_name


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Choices that a config carries beside group size and device."""

    is_compiled: bool = False
    """Set inductor's recommended options, which are global to the process: only when the model will be compiled."""
    use_hqq: bool = False
    """Choose INT4 scales and zero points by half-quadratic optimisation instead of the group's range."""


def int8_weight_only(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT8 weights, one FP32 scale per output row."""
    return config(granularity=_granularity("PerRow"), set_inductor_config=options.is_compiled)


def int8_dynamic(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT8 weights per row and INT8 activations per token, both symmetric; 7 bits of each on a CPU without VNNI.

    Such a CPU adds pairs of 8-bit products in 16 bits, which can overflow: torchao's own helper decides.
    """
    import torch

    must_reduce: Any = load_name("torchao.utils:should_reduce_range")
    return config(
        granularity=_granularity("PerRow"),
        set_inductor_config=options.is_compiled,
        reduce_range=bool(must_reduce(torch.device(target.device))),
    )


def int4_cpu(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT4 weights in the CPU's own packing."""
    return config(
        group_size=group_size,
        int4_choose_qparams_algorithm=_int4_algorithm(options),
        set_inductor_config=options.is_compiled,
    )


def int4_tinygemm(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT4 weights tiled for tensor cores; the default packing would need a package that the registry lacks."""
    return config(
        group_size=group_size,
        int4_packing_format="tile_packed_to_4d",
        int4_choose_qparams_algorithm=_int4_algorithm(options),
        set_inductor_config=options.is_compiled,
    )


def int4_int8_cpu(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT4 weights and dynamic INT8 activations with the CPU's packed kernel."""
    return config(group_size=group_size, set_inductor_config=options.is_compiled)


def int4_int8_unpacked(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT4 weights and dynamic INT8 activations, exact in value and emulated in speed; codes held one per byte."""
    import torch

    int4 = getattr(torch, "int4")  # noqa: B009 (torch makes its small integer types at run time)
    return config(weight_dtype=int4, weight_granularity=_granularity("PerGroup", group_size))


def int4_fp8(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """INT4 weights and dynamic FP8 activations (mslk); the group of 128 is fixed in torchao."""
    return config()


def fp8_weight_only(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """E4M3 weights, one FP32 scale per row."""
    return config(granularity=_granularity("PerRow"), set_inductor_config=options.is_compiled)


def fp8_dynamic(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """E4M3 weights and activations, one FP32 scale per row of each."""
    return config(granularity=_granularity("PerRow"), set_inductor_config=options.is_compiled)


def nvfp4_weight_only(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """NVFP4 weights with the tensor scale."""
    return config(use_dynamic_per_tensor_scale=True)


def nvfp4_dynamic(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """NVFP4 weights and activations; the activation's fused kernel comes with mslk only."""
    return config(use_triton_kernel="mslk" in target.packages, use_dynamic_per_tensor_scale=True)


def mxfp8(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """MXFP8 weights and activations on the block-scaled unit."""
    return _mx(config, "float8_e4m3fn", "AUTO")


def mxfp8_emulated(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """MXFP8 weights and activations, decoded before the product."""
    return _mx(config, "float8_e4m3fn", "EMULATED")


def mxfp4(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """MXFP4 weights and activations on the block-scaled unit."""
    return _mx(config, "float4_e2m1fn_x2", "AUTO")


def mxfp4_emulated(config: Any, group_size: int | None, target: Target, options: BuildOptions) -> Any:
    """MXFP4 weights and activations, decoded before the product."""
    return _mx(config, "float4_e2m1fn_x2", "EMULATED")


def _mx(config: Any, element: str, preference: str) -> Any:
    import torch

    dtype = getattr(torch, element)
    kernel: Any = load_name("torchao.quantization.quantize_.common:KernelPreference")
    return config(activation_dtype=dtype, weight_dtype=dtype, kernel_preference=kernel[preference])


def _granularity(name: str, *arguments: Any) -> Any:
    cls: Any = load_name(f"torchao.quantization:{name}")
    return cls(*arguments)


def _int4_algorithm(options: BuildOptions) -> Any:
    algorithms: Any = load_name("torchao.quantization.quantize_.workflows:Int4ChooseQParamsAlgorithm")
    return algorithms.HQQ if options.use_hqq else algorithms.TINYGEMM
