"""Dynamic quantisation: the activation is quantised at every call, from its own values, and the product is computed
with it.

    quantizer = DynamicQuantizer(DynamicQuantConfig(precision="FP8_E4M3", granularity="per_token"))
    result, metadata = quantizer.quantize_dynamic(activation=x, weight=layer.weight, operator_name="ffn_gate")

Scale choice, statistics and decisions are FP32 whatever the dtype of the tensors. Inference only: no gradient flows.
Every call reads its statistics back from the device: this is for the numbers, its time says nothing about a fused
kernel.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quantization.dynamic.attach import Attachment, AttachReport, attach_linears
from bench_cases.quantization.dynamic.operand import (
    Operand,
    check_format,
    formats_of,
    is_beyond,
    quantize_operand,
    quantize_rows,
)
from bench_cases.quantization.dynamic.product import multiply
from bench_cases.quantization.dynamic.scale import choose_thresholds
from bench_cases.quantization.dynamic.stats import checked_matrix, stats_of_values
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding, reason_text, short_text
from roofline_model.formats.catalog import get_format
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.dynamic_config import FALLBACK, DynamicQuantConfig
from roofline_model.models.strategies.precision_selector import AdaptivePrecisionSelector, PrecisionDecision
from roofline_model.operators.operand_formats import is_wide_float

_BEYOND_FP16 = "BF16"
"""Format of a fallback whose numbers FP16 cannot hold."""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """State of a quantiser for one operator."""

    calls_count: int
    fallback_count: int
    precision: str
    """Of the last call, after a fallback."""
    path: str
    """Kernel of the last call, or `emulated`."""
    stats: ActivationStats
    """Of the last call."""
    thresholds: Tensor | None = None
    """Smoothed thresholds of the calls so far; None without smoothing."""


@dataclass(frozen=True, slots=True)
class _KeptWeight:
    """A quantised weight, and the identity of the tensor it was made from."""

    source: weakref.ref[Tensor]
    version: int
    address: int
    operand: Operand

    def is_of(self, weight: Tensor, format_key: str) -> bool:
        return (
            self.source() is weight
            and not weight.is_inference()
            and self.version == weight._version
            and self.address == weight.data_ptr()
            and self.operand.format == format_key
        )


class DynamicQuantizer:
    """Quantises activations call by call, keeps state per operator name, and can be attached to a model's Linears.

    A quantised weight is kept until the tensor changes; torch does not see a change made through `.data`: call `reset`.
    """

    def __init__(
        self, config: DynamicQuantConfig | None = None, *, selector: AdaptivePrecisionSelector | None = None
    ) -> None:
        if config is not None and not isinstance(config, DynamicQuantConfig):
            raise InvalidValueError(f"config must be a DynamicQuantConfig, got a {type(config).__name__}")
        self.config = DynamicQuantConfig() if config is None else config
        self.selector = selector
        """Chooses the format of each call that names none; None: `config.precision`."""
        self._states: dict[str, OperatorState] = {}
        self._weights: dict[str, _KeptWeight] = {}
        self._attachment: Attachment | None = None

    @property
    def states(self) -> Mapping[str, OperatorState]:
        """State of each operator that was called."""
        return dict(self._states)

    def reset(self, operator_name: str | None = None) -> None:
        """Forget the state and the quantised weight of one operator, or of all."""
        for name in [*self._states] if operator_name is None else [operator_name]:
            self._states.pop(name, None)
            self._weights.pop(name, None)

    @torch.no_grad()
    def quantize_dynamic(
        self,
        activation: Tensor,
        weight: Tensor,
        operator_name: str,
        target_precision: str | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return activation · weightᵀ computed with quantised operands, and how it was done.

        activation (…, K); weight (N, K) as in `nn.Linear`; result (…, N) in the activation's dtype. `target_precision`
        is one format for both or WEIGHT.ACTIVATION, and replaces the selector's and the config's. `context` goes to the
        selector.

        Metadata: `scale` (FP32; None in a wide format), `precision`, `weight_precision`, `fallback`, `outlier_ratio`,
        `clipped_ratio` (share of the elements beyond their threshold), `granularity`, `calibration_mode`, `path` (the
        kernel, or emulated), `path_reason`, `reason` (of the format), `stats`.
        Raises `InvalidValueError` for NaN, infinity, empty or all-zero tensors and for shapes that do not meet,
        `UnsupportedError` for a format whose blocks do not divide K; nothing is remembered then.
        """
        if not isinstance(operator_name, str) or not operator_name:
            raise InvalidValueError(f"operator_name must be text, got {str(operator_name)[:40]!r}")
        values = checked_matrix(f"{operator_name}: activation", activation)
        _check_weight(operator_name, values, weight)
        stats = stats_of_values(values, tuple(activation.shape))
        formats, decision, reason = self._formats(operator_name, stats, target_precision, context)
        for key in (formats.weights, formats.activations):
            check_format(key, values.shape[1])
        fallback = self._severe(stats, formats)
        if fallback is not None:
            formats, reason = _wide_pair(stats, weight), short_text(fallback)
        thresholds = self._thresholds(operator_name, values, formats.activations)
        operands, scale, wide_name = self._operands(operator_name, values, weight, formats, thresholds)
        product = multiply(*operands)
        result = product.value.to(activation.dtype).reshape(*activation.shape[:-1], weight.shape[0])
        clipped = 0.0 if thresholds is None else float((values.abs() > thresholds).double().mean())

        # Nothing above has changed the quantiser: from here on nothing fails.
        self._remember(operator_name, formats, product.path, stats, fallback is not None, thresholds)
        if wide_name is not None:
            self._weights[operator_name] = wide_name
        if decision is not None and self.selector is not None:
            self.selector.remember(decision)
        return result, {
            "scale": scale,
            "precision": formats.activations,
            "weight_precision": formats.weights,
            "fallback": fallback is not None,
            "outlier_ratio": stats.outlier_ratio,
            "clipped_ratio": clipped,
            "granularity": self.config.granularity,
            "calibration_mode": self.config.calibration_mode,
            "path": product.path,
            "path_reason": reason_text(product.reason),
            "reason": reason,
            "stats": stats,
        }

    def attach(
        self,
        model: nn.Module,
        precisions: MixedPrecisionConfig | Mapping[str, str] | None = None,
        *,
        skip: tuple[str, ...] = (),
        strict: bool = False,
    ) -> AttachReport:
        """Make every `nn.Linear` of a model multiply through this quantiser, until `detach`; weights stay as they are.

        `precisions`: a strategy, or layer name → format; layers it does not name, or keeps wide, stay float. None:
        every Linear in the config's format. `skip` names layers to leave out, e.g. ("lm_head",). Operators are named by
        the full names of the layers. All layers are checked before the first is touched; one that cannot take its
        format stays float with a reason in the report, or is an `UnsupportedError` with `strict`. Raises
        `InvalidValueError` for a model without a Linear, a name that is none of its layers, and a quantiser or model
        that something is attached to already.
        """
        if self._attachment is not None:
            raise InvalidValueError("this quantiser is attached to a model already; call detach first")
        self._attachment = attach_linears(self, model, precisions, skip=skip, is_strict=strict)
        return self._attachment.report

    def detach(self) -> None:
        """Give the attached model its own Linears back; state and report stay. Without an attached model nothing
        happens.
        """
        if self._attachment is not None:
            self._attachment.undo()
            self._attachment = None

    def formats_in_question(self, precision: str | None) -> list[PartFormats]:
        """Return the formats a call with this target may come to: one, or every candidate of the selector."""
        if precision is None and self.selector is not None:
            return [formats_of(key) for key in self.selector.config.precision_candidates]
        return [formats_of(precision or self.config.precision)]

    def _formats(
        self, name: str, stats: ActivationStats, target: str | None, context: Mapping[str, Any] | None
    ) -> tuple[PartFormats, PrecisionDecision | None, str]:
        """Return the formats of a call, the selector's decision if it was asked, and the reason in words."""
        if target is not None:
            return formats_of(target), None, "asked for"
        if self.selector is None:
            return formats_of(self.config.precision), None, "the config's precision"
        decision = self.selector.choose(name, stats, context)
        return formats_of(decision.precision), decision, decision.reason

    def _severe(self, stats: ActivationStats, formats: PartFormats) -> Finding | None:
        """Return why the activation does not get the format that was chosen; None where it does."""
        if not self.config.fallback_to_fp16:
            return None
        limit = self.config.outlier_threshold_ratio
        if is_wide_float(get_format(formats.activations)):
            if formats.activations != FALLBACK or not is_beyond(stats.absmax, FALLBACK):
                return None
            return finding("not-quantised", kind="range", largest=stats.absmax, format=FALLBACK)
        if stats.outlier_ratio <= limit:
            return None
        return finding(
            "not-quantised", kind="outliers", outliers=stats.outlier_ratio, threshold=limit, format=formats.activations
        )

    def _thresholds(self, name: str, values: Tensor, format_key: str) -> Tensor | None:
        """Return the thresholds of this call, smoothed where the config says so; None for a wide activation."""
        if is_wide_float(get_format(format_key)):
            return None

        def round_trip(values: Tensor, thresholds: Tensor) -> Tensor:
            operand, columns = self._encoded(values, format_key, thresholds)
            return operand.decoded() if columns is None else operand.decoded() * columns

        chosen = choose_thresholds(values, self.config, round_trip)
        old_threshold = self._states[name].thresholds if name in self._states else None
        if self.config.smoothing_factor and old_threshold is not None and old_threshold.shape == chosen.shape:
            return self.config.smoothing_factor * old_threshold + (1 - self.config.smoothing_factor) * chosen
        return chosen

    def _encoded(self, values: Tensor, format_key: str, thresholds: Tensor) -> tuple[Operand, Tensor | None]:
        """Return the activation's operand, and for per_channel the column factors that its values were divided by."""
        if self.config.granularity != "per_channel":
            return quantize_operand(values, format_key, thresholds), None
        return quantize_operand(values / thresholds, format_key, torch.ones_like(thresholds[:, :1])), thresholds

    def _operands(
        self, name: str, values: Tensor, weight: Tensor, formats: PartFormats, thresholds: Tensor | None
    ) -> tuple[tuple[Operand, Operand], Tensor | None, _KeptWeight | None]:
        """Return both operands, the scale for the metadata, and a newly quantised weight that is worth keeping."""
        unlimited = torch.ones(1, 1, device=values.device)
        if thresholds is None:
            a, columns = quantize_operand(values, formats.activations, unlimited), None
        else:
            a, columns = self._encoded(values, formats.activations, thresholds)
        cached = self._weights.get(name)
        if columns is None and cached is not None and cached.is_of(weight, formats.weights):
            return (a, cached.operand), _scale(a, None), None
        source = checked_matrix(f"{name}: weight", weight)
        w = quantize_rows(source if columns is None else source * columns, formats.weights)
        cached = None
        if columns is None and not w.is_wide and not weight.is_inference():
            cached = _KeptWeight(weakref.ref(weight), weight._version, weight.data_ptr(), w)
        return (a, w), _scale(a, columns), cached

    def _remember(
        self,
        name: str,
        formats: PartFormats,
        path: str,
        stats: ActivationStats,
        is_fallback: bool,
        thresholds: Tensor | None,
    ) -> None:
        old_state = self._states.get(name)
        smoothed = None if old_state is None else old_state.thresholds
        if self.config.smoothing_factor and thresholds is not None:
            smoothed = thresholds  # a fallback has none: its outliers stay out of the average
        self._states[name] = OperatorState(
            calls_count=(old_state.calls_count if old_state else 0) + 1,
            fallback_count=(old_state.fallback_count if old_state else 0) + is_fallback,
            precision=formats.activations,
            path=path,
            stats=stats,
            thresholds=smoothed,
        )


def _wide_pair(stats: ActivationStats, weight: Tensor) -> PartFormats:
    """Return the formats of a fallback: FP16, or BF16 where a number is beyond FP16's range."""
    largest = max(stats.absmax, float(weight.detach().abs().max()))
    key = _BEYOND_FP16 if is_beyond(largest, FALLBACK) else FALLBACK
    return PartFormats(key, key)


def _scale(a: Operand, columns: Tensor | None) -> Tensor | None:
    """Return what the activation's codes (or, with blocks, its block scales) are multiplied by; None in a wide
    format.
    """
    if a.is_wide:
        return None
    scale = a.scale if a.blocks is None else a.scale * a.blocks.tensor_scale
    return scale if columns is None else scale * columns


def _check_weight(name: str, values: Tensor, weight: Tensor) -> None:
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        actual = tuple(weight.shape) if isinstance(weight, Tensor) else type(weight).__name__
        raise InvalidValueError(f"{name}: weight must be a matrix (N, K), got {actual}")
    if weight.shape[1] != values.shape[1]:
        raise InvalidValueError(
            f"{name}: the activation has K = {values.shape[1]} and the weight, {tuple(weight.shape)} as (N, K), has "
            f"{weight.shape[1]}"
        )
    if weight.device != values.device:
        raise InvalidValueError(
            f"{name}: the activation is on {values.device}, the weight on {weight.device}; move one"
        )
