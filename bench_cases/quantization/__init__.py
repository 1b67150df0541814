"""Quantises real models with torchao: precisions, per-layer plans, reports, saving, narrow KV caches.

Names are loaded when they are used: importing this package imports neither torch nor torchao.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "AttachReport": "dynamic_attach",
    "Availability": "torchao_configs",
    "DynamicQuantizer": "dynamic",
    "EngineSupport": "serving",
    "KVCacheReport": "kv_cache",
    "LayerOutcome": "layer_report",
    "NarrowCache": "kv_cache",
    "PRECISIONS": "precisions",
    "QuantizationResult": "layer_report",
    "Target": "target",
    "apply_plan": "apply",
    "apply_quantization": "apply",
    "attach_linears": "dynamic_attach",
    "availability": "torchao_configs",
    "availability_table": "torchao_configs",
    "cache_bytes": "kv_cache",
    "export_transformers": "transformers_export",
    "get_quantize_config": "torchao_configs",
    "layer_role": "layer_roles",
    "load_quantized": "save_load",
    "make_kv_cache": "kv_cache",
    "map_precision_to_torchao": "torchao_configs",
    "model_bytes": "held_bytes",
    "plan_to_fqn_config": "plans",
    "read_target": "target",
    "run_pipeline": "pipeline.run",
    "save_quantized": "save_load",
    "serving_engines": "serving",
    "survey_linears": "survey",
    "target_of_chip": "target",
    "token_batches": "calibration_data",
}
"""Public name → module of this package that defines it."""

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return __all__
