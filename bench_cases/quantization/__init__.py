"""Quantises real models with torchao: precisions, per-layer plans, reports, saving, narrow KV caches.

Names are loaded when they are used: importing this package imports neither torch nor torchao.
"""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "AttachReport": "dynamic.attach",
    "Availability": "torchao_configs",
    "DynamicQuantizer": "dynamic.quantizer",
    "EngineSupport": "saved.serving",
    "KVCacheReport": "kv.cache",
    "LayerOutcome": "plans.layer_report",
    "NarrowCache": "kv.cache",
    "PRECISIONS": "plans.precisions",
    "QuantizationResult": "plans.layer_report",
    "Target": "target",
    "apply_plan": "apply",
    "apply_quantization": "apply",
    "availability": "torchao_configs",
    "availability_table": "torchao_configs",
    "cache_bytes": "kv.cache",
    "export_transformers": "saved.transformers_export",
    "get_quantize_config": "torchao_configs",
    "layer_role": "roofline_model.models.strategies.module_names",
    "load_quantized": "saved.save_load",
    "make_kv_cache": "kv.cache",
    "map_precision_to_torchao": "torchao_configs",
    "model_bytes": "held_bytes",
    "plan_to_fqn_config": "plans.plans",
    "read_target": "target",
    "run_pipeline": "bench_cases.pipeline.run",
    "save_quantized": "saved.save_load",
    "serving_engines": "saved.serving",
    "survey_linears": "survey",
    "target_of_chip": "target",
    "token_batches": "calibration_data",
}
"""Public name → module that defines it: of this package, or by its full name."""

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = _PUBLIC[name]
    is_elsewhere = where.startswith(("bench_cases.", "roofline_model."))
    return getattr(importlib.import_module(where if is_elsewhere else f"{__name__}.{where}"), name)


def __dir__() -> list[str]:
    return __all__
