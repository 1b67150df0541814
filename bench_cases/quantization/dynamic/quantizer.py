"""Dynamic quantisation: the activation is quantised at every call, from its own values, and the product is computed
with it.

    quantizer = DynamicQuantizer(DynamicQuantConfig(precision="FP8_E4M3", granularity="per_token"))
    result, metadata = quantizer.quantize_dynamic(activation=x, weight=layer.weight, operator_name="ffn_gate")

Both operands are decoded to the real numbers that their codes stand for and multiplied in FP32, as a kernel with FP32
accumulation does; what differs is the order of the additions. Inference only: no gradient flows. This is for the
numbers: its time says nothing about a fused kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.quantization.dynamic.attach import AttachReport, attach_linears
from bench_cases.quantization.dynamic.operand import (
    WIDE_DTYPES,
    check_format,
    checked_matrix,
    choose_thresholds,
    formats_of,
    is_beyond,
    quantized,
    quantized_weight,
    stats_of_values,
)
from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding, short_text
from roofline_model.models.format_plan import PartFormats
from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.dynamic_config import FALLBACK, DynamicQuantConfig
from roofline_model.models.strategies.precision_selector import AdaptivePrecisionSelector, PrecisionDecision

_BEYOND_FP16 = "BF16"
"""Format of a fallback whose numbers FP16 cannot hold."""


@dataclass(frozen=True, slots=True)
class OperatorState:
    """State of a quantiser for one operator."""

    calls_count: int
    fallback_count: int
    precision: str
    """Of the last call, after a fallback."""
    stats: ActivationStats
    """Of the last call."""
    thresholds: Tensor | None = None
    """Smoothed thresholds of the calls so far; None without smoothing."""


class DynamicQuantizer:
    """Quantises activations call by call, keeps state per operator name, and can be attached to a model's Linears."""

    def __init__(
        self, config: DynamicQuantConfig | None = None, *, selector: AdaptivePrecisionSelector | None = None
    ) -> None:
        if config is not None and not isinstance(config, DynamicQuantConfig):
            raise InvalidValueError(f"config must be a DynamicQuantConfig, got a {type(config).__name__}")
        self.config = DynamicQuantConfig() if config is None else config
        self.selector = selector
        """Chooses the format of each call that names none; None: `config.precision`."""
        self._states: dict[str, OperatorState] = {}
        self._forwards: Mapping[nn.Module, Callable[[Tensor], Tensor]] = {}

    @property
    def states(self) -> Mapping[str, OperatorState]:
        """State of each operator that was called."""
        return dict(self._states)

    def reset(self, operator_name: str | None = None) -> None:
        """Forget the state of one operator, or of all."""
        if operator_name is None:
            self._states.clear()
        else:
            self._states.pop(operator_name, None)

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
        `clipped_ratio` (share of the elements beyond their threshold), `granularity`, `calibration_mode`, `reason` (of
        the format), `stats`.
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
        old = self._states.get(operator_name)
        thresholds = self._thresholds(old, values, formats.activations)
        decoded, scale, columns = self._quantized(values, formats.activations, thresholds)
        source = checked_matrix(f"{operator_name}: weight", weight)
        decoded_weight = quantized_weight(source if columns is None else source * columns, formats.weights)
        result = (decoded @ decoded_weight.t()).to(activation.dtype).reshape(*activation.shape[:-1], weight.shape[0])

        # Nothing above has changed the quantiser: from here on nothing fails.
        smoothed = None if old is None else old.thresholds
        if self.config.smoothing_factor and thresholds is not None:
            smoothed = thresholds  # a fallback has none: its outliers stay out of the average
        self._states[operator_name] = OperatorState(
            calls_count=(old.calls_count if old else 0) + 1,
            fallback_count=(old.fallback_count if old else 0) + (fallback is not None),
            precision=formats.activations,
            stats=stats,
            thresholds=smoothed,
        )
        if decision is not None and self.selector is not None:
            self.selector.remember(decision)
        return result, {
            "scale": scale,
            "precision": formats.activations,
            "weight_precision": formats.weights,
            "fallback": fallback is not None,
            "outlier_ratio": stats.outlier_ratio,
            "clipped_ratio": 0.0 if thresholds is None else float((values.abs() > thresholds).double().mean()),
            "granularity": self.config.granularity,
            "calibration_mode": self.config.calibration_mode,
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
        if self._forwards:
            raise InvalidValueError("this quantiser is attached to a model already; call detach first")
        report, self._forwards = attach_linears(self, model, precisions, skip=skip, is_strict=strict)
        return report

    def detach(self) -> None:
        """Give the attached model its own Linears back; state and report stay. Without an attached model nothing
        happens.

        Raises `InvalidValueError`, and gives none back, where somebody has replaced one's forward since.
        """
        for module, forward in self._forwards.items():
            if module.__dict__.get("forward") is not forward:
                raise InvalidValueError(
                    "a layer's forward was replaced after attaching; undo that first, then detach again"
                )
        for module in self._forwards:
            del module.__dict__["forward"]
        self._forwards = {}

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
        limit, key = self.config.outlier_threshold_ratio, formats.activations
        if key == FALLBACK and is_beyond(stats.absmax, FALLBACK):
            return finding("not-quantised", kind="range", largest=stats.absmax, format=FALLBACK)
        if key in WIDE_DTYPES or stats.outlier_ratio <= limit:
            return None
        return finding("not-quantised", kind="outliers", outliers=stats.outlier_ratio, threshold=limit, format=key)

    def _thresholds(self, old: OperatorState | None, values: Tensor, format_key: str) -> Tensor | None:
        """Return the thresholds of this call, smoothed where the config says so; None for a wide activation."""
        if format_key in WIDE_DTYPES:
            return None

        def round_trip(values: Tensor, thresholds: Tensor) -> Tensor:
            decoded, _, columns = self._quantized(values, format_key, thresholds)
            return decoded if columns is None else decoded * columns

        chosen, past = choose_thresholds(values, self.config, round_trip), self.config.smoothing_factor
        if past and old is not None and old.thresholds is not None and old.thresholds.shape == chosen.shape:
            return past * old.thresholds + (1 - past) * chosen
        return chosen

    def _quantized(
        self, values: Tensor, format_key: str, thresholds: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return what is left of the activation, its scale, and for per_channel the column factors that its values were
        divided by, which the weight takes.
        """
        ones = torch.ones(1, 1, device=values.device)
        if thresholds is None or self.config.granularity != "per_channel":
            return *quantized(values, format_key, ones if thresholds is None else thresholds), None
        decoded, scale = quantized(values / thresholds, format_key, ones)
        return decoded, None if scale is None else scale * thresholds, thresholds


def _wide_pair(stats: ActivationStats, weight: Tensor) -> PartFormats:
    """Return the formats of a fallback: FP16, or BF16 where a number is beyond FP16's range."""
    largest = max(stats.absmax, float(weight.detach().abs().max()))
    key = _BEYOND_FP16 if is_beyond(largest, FALLBACK) else FALLBACK
    return PartFormats(key, key)


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
