"""Attach a dynamic quantiser to the Linears of a model, and take it off again without a trace.

Only the `forward` of each module object is shadowed: weights, names, tied tensors and shared modules stay what they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from bench_cases.quantization.dynamic.operand import check_format, checked_matrix, formats_of
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError, nearest_names
from roofline_model.core.finding import Finding, finding, short_text
from roofline_model.formats.catalog import get_format
from roofline_model.models.strategies.config import MixedPrecisionConfig
from roofline_model.models.strategies.module_names import strategy_layer_plan
from roofline_model.operators.operand_formats import is_wide_float

if TYPE_CHECKING:
    from bench_cases.quantization.dynamic.quantizer import DynamicQuantizer


@dataclass(frozen=True, slots=True)
class AttachReport:
    """Outcome of every Linear of a model, by full name."""

    attached: Mapping[str, str]
    """Layer → format; `by selector` where each call decides."""
    left_wide: Mapping[str, Finding]
    """Layer → why it stays float."""


def attach_linears(
    quantizer: DynamicQuantizer,
    model: nn.Module,
    precisions: MixedPrecisionConfig | Mapping[str, str] | None,
    *,
    skip: tuple[str, ...],
    is_strict: bool,
) -> tuple[AttachReport, dict[nn.Module, Callable[[Tensor], Tensor]]]:
    """Decide every layer, then shadow their forwards; see `DynamicQuantizer.attach`. Return what became of each, and
    the forwards by module.
    """
    if not isinstance(model, nn.Module):
        raise InvalidValueError(f"model must be an nn.Module, got a {type(model).__name__}")
    linears = {name or "linear": module for name, module in model.named_modules() if type(module) is nn.Linear}
    if not linears:
        raise InvalidValueError(
            f"{type(model).__name__} has no nn.Linear: nothing to attach to (quantised and fused layers are left alone)"
        )
    for name, module in linears.items():
        if "forward" in module.__dict__:
            raise InvalidValueError(f"{name}: its forward is already replaced (attached twice?); undo that first")
    _check_names([*skip, *(precisions if isinstance(precisions, Mapping) else ())], linears)
    plan = strategy_layer_plan(precisions, linears) if isinstance(precisions, MixedPrecisionConfig) else precisions
    chosen: dict[str, str | None] = {}
    unchanged: dict[str, Finding] = {}
    obstacles: dict[str, Finding] = {}
    for name, module in linears.items():
        reason, precision = _wish(name, plan, skip)
        if reason is None and (obstacle := _obstacle(quantizer, module, precision)) is not None:
            obstacles[name] = reason = obstacle
        if reason is not None:
            unchanged[name] = reason
        else:
            chosen[name] = precision
    if is_strict and obstacles:
        first = next(iter(obstacles))
        raise UnsupportedError(
            f"{len(obstacles)} of {len(linears)} layers cannot be quantised, and strict allows no exception; the model "
            "is "
            f"unchanged. {first}: {short_text(obstacles[first])}"
        )
    forwards: dict[nn.Module, Callable[[Tensor], Tensor]] = {
        linears[name]: _forward_of(quantizer, linears[name], name, precision) for name, precision in chosen.items()
    }
    for owner, forward in forwards.items():
        owner.__dict__["forward"] = forward
    default = "by selector" if quantizer.selector is not None else formats_of(quantizer.config.precision).label
    attached = {name: default if text is None else formats_of(text).label for name, text in chosen.items()}
    return AttachReport(attached, unchanged), forwards


def _wish(name: str, plan: Mapping[str, str] | None, skip: tuple[str, ...]) -> tuple[Finding | None, str | None]:
    """Return why the caller wants a layer left float, or None and the format it is to have (None: the
    config's).
    """
    if name in skip:
        return finding("layer-stays-wide", kind="skipped"), None
    if plan is None:
        return None, None
    if name not in plan:
        return finding("layer-stays-wide", kind="without-format"), None
    formats = formats_of(plan[name])
    if all(is_wide_float(get_format(key)) for key in (formats.weights, formats.activations)):
        return finding("layer-stays-wide", kind="format", format=plan[name]), None
    return None, plan[name]


def _obstacle(quantizer: DynamicQuantizer, module: nn.Linear, precision: str | None) -> Finding | None:
    """Return why a layer cannot be quantised, or None."""
    weight = module.weight
    if type(weight) is not nn.Parameter or type(weight.data) is not Tensor:
        return finding("layer-kept-wide", kind="quantised", tensor=type(weight.data).__name__)
    if weight.is_meta:
        return Finding("weight-not-loaded")
    try:
        for formats in quantizer.formats_in_question(precision):
            for key in (formats.weights, formats.activations):
                check_format(key, module.in_features)
        checked_matrix("its weight", weight)
    except RooflineError as error:
        return finding("unsupported", reason=str(error))
    return None


def _forward_of(
    quantizer: DynamicQuantizer, module: nn.Linear, name: str, precision: str | None
) -> Callable[[Tensor], Tensor]:
    @torch.no_grad()
    def forward(input: Tensor) -> Tensor:
        if not bool(input.any()):  # zero or empty: exact in float, and no scale could be chosen
            return nn.functional.linear(input, module.weight, module.bias)
        result, _ = quantizer.quantize_dynamic(
            input, module.weight, name, precision, context=_context(quantizer, input)
        )
        return result if module.bias is None else result + module.bias

    return forward


def _context(quantizer: DynamicQuantizer, input: Tensor) -> dict[str, Any] | None:
    """Return what the input's shape tells a selector: (batch, 1, K) is a decode step, (batch, tokens, K) a prefill."""
    if quantizer.selector is None or input.dim() != 3:
        return None
    return {"phase": "decode" if input.shape[1] == 1 else "prefill", "is_kv_cache": False}


def _check_names(requested: list[str], linears: Mapping[str, nn.Linear]) -> None:
    for name in requested:
        if name not in linears:
            near = nearest_names(str(name), linears)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise InvalidValueError(
                f"{str(name)[:80]!r} is not an nn.Linear of the model.{hint} It has {len(linears)}."
            )
