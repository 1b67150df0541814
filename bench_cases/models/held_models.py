"""Models in memory across the cases of one process: the 16-bit original, and one quantised copy at a time.

Loading a model and quantising it takes longer than measuring it, so that cases of one precision share what is loaded. A
case of another precision replaces it.
"""

from __future__ import annotations

import copy
import gc
from dataclasses import dataclass, replace
from typing import Any

import torch

from bench_cases.dtypes import DTYPES
from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import ModelReference
from bench_cases.models.sources import LoadedModel, load_model
from bench_cases.quality.texts.token_windows import TextWindows
from bench_cases.quantization.apply import apply_plan, apply_quantization
from bench_cases.quantization.held_bytes import model_bytes
from bench_cases.quantization.plans.layer_report import QuantizationResult
from bench_cases.quantization.plans.precisions import parse_precision
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import findings_text


@dataclass(slots=True)
class HeldModel:
    """A model that is ready to run, and what was done to it."""

    loaded: LoadedModel
    result: QuantizationResult | None
    """None: nothing was quantised."""
    quality: dict[str, Any] | None = None
    """What `step_quality` found for it, kept for its other cases."""
    logits: tuple[torch.Tensor, ...] | None = None
    """Of the original: its logits on the text, kept for every model that is compared with it."""

    @property
    def held_bytes(self) -> int:
        """Parameters and buffers; what is shared counts once."""
        return int(model_bytes(self.loaded.model))


class HeldModels:
    """The models of one process. One instance per process (`MODELS`)."""

    def __init__(self) -> None:
        self._reference: tuple[tuple[str, str], HeldModel] | None = None
        self._quantized: tuple[tuple[object, ...], HeldModel] | None = None

    def reference(self, model: ModelReference, device: str) -> HeldModel:
        """Return the 16-bit model, loaded once. Raises `UnsupportedError` when it cannot be loaded."""
        key = model.text, device
        if self._reference is None or self._reference[0] != key:
            self.clear()
            loaded = load_model(model.text, dtype=DTYPES.get(model.wide, torch.bfloat16), device=device)
            self._reference = key, HeldModel(loaded, None)
        return self._reference[1]

    @property
    def held_bytes(self) -> int:
        """Bytes of all models of this process."""
        sizes_bytes = [held[1].held_bytes for held in (self._reference, self._quantized) if held is not None]
        return sum(sizes_bytes)

    def of(
        self, case: ModelCase, device: str, calibration: TextWindows | None, *, has_original: bool = True
    ) -> HeldModel:
        """Return the model of a case, quantised as it says; the one before is given back first.

        `calibration`: windows that an activation-aware method looks at. `has_original`: keep the 16-bit model beside
        it; False where there is no room for both. Raises `UnsupportedError` with torchao's reason when no layer became
        what the case measures: such a time would stand under a wrong name.
        """
        if case.is_plain or case.is_saved:
            return self.reference(case.model, device)
        if has_original:
            self.reference(case.model, device)
        else:
            self._reference = None
        key = case.model.text, device, case.precision, case.method, case.plan
        if self._quantized is None or self._quantized[0] != key:
            self._quantized = None
            gc.collect()
            original = None if self._reference is None else self._reference[1].loaded
            self._quantized = key, _quantized_copy(case, device, calibration, original)
        return self._quantized[1]

    def clear(self) -> None:
        """Forget every model."""
        self._reference = self._quantized = None
        gc.collect()


MODELS = HeldModels()


def _quantized_copy(
    case: ModelCase, device: str, calibration: TextWindows | None, original: LoadedModel | None
) -> HeldModel:
    """Quantise a copy of the original, which is loaded where it is not held."""
    if original is None:
        loaded = load_model(case.model.text, dtype=DTYPES.get(case.model.wide, torch.bfloat16), device=device)
    else:
        loaded = replace(original, model=copy.deepcopy(original.model))
    batches = None if calibration is None or case.method != "AWQ" else list(calibration.ids.split(1))
    if case.plan:
        result = apply_plan(loaded.model, dict(case.plan), method=case.method, calibration=batches)
    else:
        result = apply_quantization(loaded.model, case.precision, method=case.method, calibration=batches)
    if not isinstance(result, QuantizationResult):
        raise UnsupportedError("torchao is not installed: pip install -e '.[quant]' to measure quantised models")
    if not result:
        reasons = sorted({findings_text(layer.findings) for layer in result.fallbacks})
        raise UnsupportedError(f"no layer of {case.model.name} became {case.precision}: {'; '.join(reasons)[:300]}")
    wrong = [layer for layer in result.quantized if layer.findings]
    if wrong and not case.plan and len(wrong) == len(result.quantized):
        precision = parse_precision(case.precision).name
        description = (
            f"from {case.precision} to {wrong[0].became}"
            if wrong[0].became != precision
            else f"from {case.method} to {wrong[0].method}"
        )
        raise UnsupportedError(f"every layer fell back {description}: {findings_text(wrong[0].findings)}")
    return HeldModel(loaded, result)
