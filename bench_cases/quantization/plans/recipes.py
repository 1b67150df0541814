"""Which torchao config realises a precision on a device, what it asks of chip and layer, and what it stores.

A table of data: no torch here. Sources: torchao 0.18's source (each config's handler and the `linear` of the tensor it
makes), and torch 2.13's kernels behind them. What could not be run where this was written (every CUDA row) follows
torchao's own guards; docs/reference/torchao.md says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench_cases.quantization.target import DA8W4_KERNEL, Target
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import NumberFormat, get_format
from roofline_model.kernels.known_kernels import (
    TORCH_CAPABILITIES,
    CapabilityRange,
    capabilities_text,
    capability_text,
    is_within,
)

_FLOATS = ("float32", "bfloat16", "float16")
_DTYPE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16}

ScaleShape = Literal["group", "row", "format"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One way to run one precision on one kind of device."""

    precision: str
    device: str
    config: str
    """`module:class` of torchao."""
    builder: str
    """Key of `config_builders.ARGUMENTS`: what the config is made with."""
    stored: str
    """Format key of the stored weight codes; INT8 where 4-bit codes are held one per byte."""
    kernel: str
    """What multiplies."""
    scale_shape: ScaleShape
    """One scale per group of K, per output row, or as the format itself says."""
    scale_bits: int | None = None
    """Bits of a scale; None: those of the weight it was made from."""
    zero_bits: int | None = 0
    """Bits of a zero point; None: those of the weight it was made from."""
    is_emulated: bool = False
    """Whether the weight is decoded to 16 bit (or 32) in a separate step of every call."""
    is_scaled_apart: bool = False
    """Of an emulated recipe: that step is a cast, and the scales are multiplied to the product."""
    widened_bytes_per_element: float = 0.0
    """Bytes per weight that every call writes and reads beside the product."""
    group_sizes: tuple[int, ...] = ()
    weight_dtypes: tuple[str, ...] = _FLOATS
    n_multiple_elems: int = 1
    k_multiple_elems: int = 1
    capabilities: CapabilityRange | None = None
    """Lowest and highest CUDA compute capability; None: any."""
    needs: tuple[str, ...] = ()
    """Kernel packages (see `Target.packages`)."""
    padding: Finding | None = None
    """Why a layer may hold more bytes than the format says."""

    def against_target(self, target: Target) -> Finding | None:
        """Return why this device cannot run the recipe, or None."""
        capability = target.capability or (0, 0)
        if self.capabilities is not None and not is_within(capability, self.capabilities):
            return finding(
                "recipe-unfit",
                kind="capability",
                config=self.config_name,
                capabilities=capabilities_text(*self.capabilities),
                capability=capability_text(capability),
            )
        for need in self.needs:
            if need not in target.packages:
                return finding("recipe-unfit", kind="package", config=self.config_name, package=need)
        return None

    def against_layer(self, N: int, K: int, dtype: str) -> Finding | None:
        """Return why a weight of N × K in `dtype` cannot take the recipe, or None. Group sizes are chosen apart."""
        if dtype not in self.weight_dtypes:
            return finding(
                "recipe-unfit", kind="dtype", config=self.config_name, dtypes=self.weight_dtypes, dtype=dtype
            )
        for letter, size, step in (("N", N, self.n_multiple_elems), ("K", K, self.k_multiple_elems)):
            if size % step:
                return finding(
                    "recipe-unfit",
                    kind="multiple",
                    config=self.config_name,
                    dimension=letter,
                    multiple_count=step,
                    size_count=size,
                )
        return None

    @property
    def config_name(self) -> str:
        """Class name of the torchao config."""
        return self.config.partition(":")[2]

    def stored_format(self, K: int, group_size: int | None, dtype: str) -> NumberFormat:
        """Return the format whose `storage_bytes((N, K))` a layer should hold, padding aside."""
        plain = get_format(self.stored)
        if self.scale_shape == "format":
            return plain
        own_bits = _DTYPE_BITS[dtype]
        scale_bits = own_bits if self.scale_bits is None else self.scale_bits
        zero_bits = own_bits if self.zero_bits is None else self.zero_bits
        block = K if self.scale_shape == "row" else group_size
        assert block is not None, "a group recipe always comes with its group size"
        return plain.grouped(block, scale_bits=scale_bits, zero_bits=zero_bits)


_QUANT = "torchao.quantization:"
_MX = "torchao.prototype.mx_formats:"
_INT4_CPU = "torchao.prototype.quantization.int4:"
_SWIZZLE = finding("held-beside", kind="padded-scales")

RECIPES: tuple[Recipe, ...] = (
    # --- CPU
    Recipe(
        "INT8",
        "cpu",
        _QUANT + "Int8WeightOnlyConfig",
        "int8_weight_only",
        "INT8",
        "weight cast to the activation's dtype, then torch.mm (fused only by torch.compile)",
        "row",
        scale_bits=32,
        zero_bits=8,
        is_emulated=True,
        is_scaled_apart=True,
    ),
    Recipe(
        "INT8.INT8",
        "cpu",
        _QUANT + "Int8DynamicActivationInt8WeightConfig",
        "int8_dynamic",
        "INT8",
        "torch._int_mm, beside sums over a copy of the weight in int32",
        "row",
        scale_bits=32,
        zero_bits=8,
        widened_bytes_per_element=4.0,
    ),
    Recipe(
        "INT4",
        "cpu",
        _INT4_CPU + "PrototypeInt4WeightOnlyConfig",
        "int4_cpu",
        "INT4",
        "torch._weight_int4pack_mm_for_cpu",
        "group",
        scale_bits=None,
        zero_bits=None,
        group_sizes=(32, 64, 128),
        n_multiple_elems=16,
    ),
    Recipe(
        "INT4.INT8",
        "cpu",
        _INT4_CPU + "Int8DynamicActivationInt4WeightConfig",
        "int4_int8_cpu",
        "INT4",
        "torchao.da8w4_linear_cpu",
        "group",
        scale_bits=32,
        zero_bits=8,
        group_sizes=(32, 64, 128),
        n_multiple_elems=32,
        needs=(DA8W4_KERNEL,),
        padding=finding("held-beside", kind="compensation"),
    ),
    Recipe(
        "INT4.INT8",
        "cpu",
        _QUANT + "Int8DynamicActivationIntxWeightConfig",
        "int4_int8_unpacked",
        "INT8",
        "activation and weight quantised, decoded and multiplied in floating point",
        "group",
        scale_bits=None,
        zero_bits=8,
        is_emulated=True,
        group_sizes=(32, 64, 128, 256),
        padding=finding("held-beside", kind="codes-per-byte"),
    ),
    Recipe(
        "FP8.BF16",
        "cpu",
        _QUANT + "Float8WeightOnlyConfig",
        "fp8_weight_only",
        "FP8_E4M3",
        "weight decoded, then torch.matmul",
        "row",
        scale_bits=32,
        is_emulated=True,
    ),
    Recipe(
        "NVFP4.BF16",
        "cpu",
        _MX + "NVFP4WeightOnlyConfig",
        "nvfp4_weight_only",
        "NVFP4",
        "weight decoded, then F.linear",
        "format",
        is_emulated=True,
        weight_dtypes=("float32", "bfloat16"),
        n_multiple_elems=16,
        k_multiple_elems=16,
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP8",
        "cpu",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp8_emulated",
        "MXFP8_E4M3",
        "both operands quantised, decoded, then torch.mm",
        "format",
        is_emulated=True,
        weight_dtypes=("bfloat16",),
        k_multiple_elems=32,
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP4",
        "cpu",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp4_emulated",
        "MXFP4",
        "both operands quantised, decoded, then torch.mm",
        "format",
        is_emulated=True,
        weight_dtypes=("bfloat16",),
        k_multiple_elems=32,
        padding=_SWIZZLE,
    ),
    # --- CUDA
    Recipe(
        "INT8",
        "cuda",
        _QUANT + "Int8WeightOnlyConfig",
        "int8_weight_only",
        "INT8",
        "weight cast to the activation's dtype, then torch.mm (fused only by torch.compile)",
        "row",
        scale_bits=32,
        zero_bits=8,
        is_emulated=True,
        is_scaled_apart=True,
    ),
    Recipe(
        "INT8.INT8",
        "cuda",
        _QUANT + "Int8DynamicActivationInt8WeightConfig",
        "int8_dynamic",
        "INT8",
        "torch._int_mm (up to 16 rows: torchao's own way round)",
        "row",
        scale_bits=32,
        zero_bits=8,
        n_multiple_elems=8,
        k_multiple_elems=8,
        capabilities=TORCH_CAPABILITIES["INT8"],
    ),
    Recipe(
        "INT4",
        "cuda",
        _QUANT + "Int4WeightOnlyConfig",
        "int4_tinygemm",
        "INT4",
        "torch._weight_int4pack_mm (tinygemm)",
        "group",
        scale_bits=16,
        zero_bits=16,
        group_sizes=(32, 64, 128, 256),
        weight_dtypes=("bfloat16",),
        capabilities=TORCH_CAPABILITIES["INT4.BF16"],
        padding=finding("held-beside", kind="padded-sizes", inputs_multiple=1024, outputs_multiple=8),
    ),
    Recipe(
        "INT4.INT8",
        "cuda",
        _QUANT + "Int8DynamicActivationIntxWeightConfig",
        "int4_int8_unpacked",
        "INT8",
        "activation and weight quantised, decoded and multiplied in floating point",
        "group",
        scale_bits=None,
        zero_bits=8,
        is_emulated=True,
        group_sizes=(32, 64, 128, 256),
        padding=finding("held-beside", kind="codes-per-byte"),
    ),
    Recipe(
        "INT4.FP8",
        "cuda",
        _QUANT + "Float8DynamicActivationInt4WeightConfig",
        "int4_fp8",
        "INT4",
        "mslk preshuffled FP8 × INT4",
        "group",
        scale_bits=16,
        zero_bits=16,
        group_sizes=(128,),
        weight_dtypes=("bfloat16",),
        k_multiple_elems=128,
        capabilities=((9, 0), None),
        needs=("mslk",),
        padding=finding("held-beside", kind="row-scales"),
    ),
    Recipe(
        "FP8.BF16",
        "cuda",
        _QUANT + "Float8WeightOnlyConfig",
        "fp8_weight_only",
        "FP8_E4M3",
        "weight decoded, then torch.matmul",
        "row",
        scale_bits=32,
        is_emulated=True,
    ),
    Recipe(
        "FP8",
        "cuda",
        _QUANT + "Float8DynamicActivationFloat8WeightConfig",
        "fp8_dynamic",
        "FP8_E4M3",
        "torch._scaled_mm, one scale per row",
        "row",
        scale_bits=32,
        weight_dtypes=("bfloat16",),
        n_multiple_elems=16,
        k_multiple_elems=16,
        capabilities=TORCH_CAPABILITIES["FP8_E4M3"],
    ),
    Recipe(
        "NVFP4.BF16",
        "cuda",
        _MX + "NVFP4WeightOnlyConfig",
        "nvfp4_weight_only",
        "NVFP4",
        "weight decoded, then F.linear",
        "format",
        is_emulated=True,
        weight_dtypes=("float32", "bfloat16"),
        n_multiple_elems=16,
        k_multiple_elems=16,
        padding=_SWIZZLE,
    ),
    Recipe(
        "NVFP4",
        "cuda",
        _MX + "NVFP4DynamicActivationNVFP4WeightConfig",
        "nvfp4_dynamic",
        "NVFP4",
        "torch._scaled_mm with E4M3 block scales",
        "format",
        weight_dtypes=("float32", "bfloat16"),
        n_multiple_elems=16,
        k_multiple_elems=16,
        capabilities=TORCH_CAPABILITIES["NVFP4"],
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP8",
        "cuda",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp8",
        "MXFP8_E4M3",
        "torch._scaled_mm with E8M0 block scales",
        "format",
        weight_dtypes=("bfloat16",),
        n_multiple_elems=16,
        k_multiple_elems=32,
        capabilities=TORCH_CAPABILITIES["MXFP8_E4M3"],
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP8",
        "cuda",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp8_emulated",
        "MXFP8_E4M3",
        "both operands quantised, decoded, then torch.mm",
        "format",
        is_emulated=True,
        weight_dtypes=("bfloat16",),
        k_multiple_elems=32,
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP4",
        "cuda",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp4",
        "MXFP4",
        "F.scaled_mm with E8M0 block scales",
        "format",
        weight_dtypes=("bfloat16",),
        n_multiple_elems=16,
        k_multiple_elems=32,
        capabilities=TORCH_CAPABILITIES["MXFP4"],
        padding=_SWIZZLE,
    ),
    Recipe(
        "MXFP4",
        "cuda",
        _MX + "MXDynamicActivationMXWeightConfig",
        "mxfp4_emulated",
        "MXFP4",
        "both operands quantised, decoded, then torch.mm",
        "format",
        is_emulated=True,
        weight_dtypes=("bfloat16",),
        k_multiple_elems=32,
        padding=_SWIZZLE,
    ),
)
"""In order of preference: the first row of a precision and device that fits is used."""

METHOD_PRECISIONS = {"AWQ": ("INT4", "INT8"), "HQQ": ("INT4",)}
"""Method beyond rounding to nearest → the precisions that it exists for."""

FALLBACKS = {
    "INT8.INT8": "INT8",
    "INT4.INT8": "INT4",
    "INT4.FP8": "INT4",
    "FP8": "FP8.BF16",
    "NVFP4": "NVFP4.BF16",
    "MXFP8": "FP8.BF16",
    "MXFP4": "NVFP4.BF16",
}
"""Precision → what to try where it cannot run: the same weight bits with 16-bit activations.

Not listed: keep 16 bit.
"""


def recipes_of(precision: str, device: str) -> tuple[Recipe, ...]:
    """Return the recipes of a precision on a kind of device, best first; empty when there is none."""
    return tuple(recipe for recipe in RECIPES if recipe.precision == precision and recipe.device == device)
