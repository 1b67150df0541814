"""Quantises stand-ins of a model's layers, then hands the results over at once: the model is never half-quantised.

A stand-in is a tree of empty modules with the model's own layer names, whose Linears hold the model's own weights.
torchao works on that tree; whatever goes wrong there, the model has not been touched. The price is memory: until the
hand-over, the 16-bit weights and their quantised copies exist side by side.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from bench_cases.quantization.held_bytes import inner_tensors
from bench_cases.quantization.plans.layer_plan import LayerDecision
from bench_cases.quantization.torchao_library import load_torchao
from bench_cases.quantization.trial import fault_of_layer
from roofline_model.core.finding import Finding, finding

ROOT_NAME = "linear"
"""Name of the stand-in of a model that is itself one Linear."""


def stand_in_tree(decisions: Iterable[LayerDecision]) -> nn.Module:
    """Return a tree with one Linear per decision, under the same full name, sharing weight and bias with the model."""
    root = nn.Module()
    for decision in decisions:
        place_stand_in(root, decision)
    return root


def place_stand_in(root: nn.Module, decision: LayerDecision) -> None:
    """Put a fresh stand-in of one layer into a tree, in place of the one that is there."""
    *parents, last = stand_in_name(decision).split(".")
    owner = root
    for parent in parents:
        if parent not in owner._modules:
            owner.add_module(parent, nn.Module())
        owner = owner.get_submodule(parent)
    owner._modules[last] = _stand_in(decision.site.modules[0])


def stand_in_name(decision: LayerDecision) -> str:
    """Return the name of a layer in the tree: its own, or `linear` when the whole model is the layer."""
    return decision.site.name or ROOT_NAME


def quantize_tree(root: nn.Module, configs: object) -> None:
    """Apply torchao's `FqnToConfig` to a stand-in tree."""
    torchao = load_torchao("quantizing a model")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        torchao.quantize_(root, configs, filter_fn=None)


def quantized_weight(root: nn.Module, decision: LayerDecision) -> tuple[Tensor | None, Finding | None]:
    """Return the quantised weight of a layer in the tree, or None and why there is none.

    torchao leaves a weight alone, with a log line only, where its own shape rules say so; and it divides a row (FP8) or
    a tensor (NVFP4) of zeros by its own maximum, whose codes or scales are then NaN and would spread to every product.
    The layer is tried as well (`trial`), unless it was made for a device other than the one it is on.
    """
    layer = root.get_submodule(stand_in_name(decision))
    weight = layer.weight
    assert isinstance(weight, Tensor)
    if not hasattr(weight, "__tensor_flatten__"):
        return None, finding("layer-kept-wide", kind="torchao-leaves")
    for part in inner_tensors(weight):
        if part.is_floating_point() and not bool(torch.isfinite(part.float()).all()):
            return None, finding("layer-kept-wide", kind="codes")
    if decision.target.device != weight.device.type:
        return weight, None
    assert isinstance(layer, nn.Linear)
    fault = fault_of_layer(layer, decision.site.weight)
    return (weight if fault is None else None), fault


def hand_over(weights: Mapping[str, Tensor], decisions: Sequence[LayerDecision]) -> None:
    """Give every layer its quantised weight (by the site's name); undone if a module refuses it."""
    staged: list[tuple[nn.Linear, Tensor]] = []
    try:
        for decision in decisions:
            weight = weights.get(decision.site.name)
            if weight is None:
                continue
            parameter = nn.Parameter(weight, requires_grad=False)
            for module in decision.site.modules:
                staged.append((module, module.weight))
                module.weight = parameter
    except BaseException:
        for module, original in reversed(staged):
            module._parameters["weight"] = cast(nn.Parameter, original)
        raise


def _stand_in(linear: nn.Linear) -> nn.Linear:
    stand_in = nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
    weight = linear.weight
    # Some of torchao's formats take rows that lie one after another only; a copy of a transposed weight is as good.
    is_plain = hasattr(weight, "__tensor_flatten__") or weight.is_contiguous()
    stand_in.weight = weight if is_plain else nn.Parameter(weight.detach().contiguous(), requires_grad=False)
    stand_in.bias = linear.bias
    return stand_in
