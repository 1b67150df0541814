"""Roofline theory for transformer inference: numbers in, frozen values out. No torch, clock, database or network."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__roofline_bench__ = True  # tells our package from another one of this common name

# Public name → module. Resolved on first use, so that `import roofline_model` costs next to nothing.
_PUBLIC = {
    "BLACKWELL_B10": "hardware",
    "Case": "case",
    "DefinitionError": "errors",
    "Device": "hardware",
    "DeviceFacts": "hardware",
    "DualRooflinePoint": "roofline",
    "FORMATS": "formats",
    "InvalidValueError": "errors",
    "MissingDependencyError": "errors",
    "NumberFormat": "formats",
    "OpCost": "cost",
    "Operator": "operators",
    "Prediction": "roofline",
    "Recommendation": "auto_quantize",
    "RooflineError": "errors",
    "ScaleLevel": "formats",
    "StoreError": "errors",
    "UnknownNameError": "errors",
    "UnsupportedError": "errors",
    "batched_gemm": "operators",
    "bytes_per_element": "formats",
    "create_custom_asic": "hardware",
    "error_ratio": "roofline",
    "gemm": "operators",
    "gemv": "operators",
    "get_format": "formats",
    "get_hardware": "hardware",
    "grouped_gemm": "operators",
    "history_key": "case",
    "list_hardware": "hardware",
    "load_formats": "formats",
    "match_device": "hardware",
    "parse_shape": "operators",
    "predict": "roofline",
    "predict_gemm": "roofline",
    "predict_gemv": "roofline",
    "recommend_quantization": "auto_quantize",
    "register_format": "formats",
    "total_cost": "cost",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
