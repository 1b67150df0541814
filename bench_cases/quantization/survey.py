"""Which weights of a model a plan can speak about: its Linears, who shares their weights, and what stands in the
way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from roofline_model.core.errors import InvalidValueError, UnsupportedError
from roofline_model.core.finding import Finding, finding

WIDE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""What a weight is quantised from; narrower floats are quantised already, without scales."""


@dataclass(frozen=True, slots=True)
class LinearSite:
    """One weight of `nn.Linear` layers, with everybody who uses it."""

    name: str
    """Fully qualified name of the first Linear that holds it."""
    aliases: tuple[str, ...]
    """Other names of the same module, and other Linears with the same weight."""
    modules: tuple[nn.Linear, ...]
    """Every distinct Linear that holds the weight."""
    tied_to: str
    """Name of a parameter outside Linears (an embedding) in the same memory, or empty."""
    obstacle: Finding | None
    """Why torchao cannot or must not touch this layer; None where it can."""

    @property
    def weight(self) -> Tensor:
        """The weight (N, K): output features × input features."""
        return self.modules[0].weight

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.modules[0].out_features, self.modules[0].in_features

    @property
    def names(self) -> tuple[str, ...]:
        """Every name a plan may use for it."""
        return (self.name, *self.aliases)


def survey_linears(model: nn.Module) -> tuple[LinearSite, ...]:
    """Return the model's Linear weights in order, each once. Reads the model, changes nothing.

    Raises `UnsupportedError` for a model without a Linear, with a lazy layer that was never called, or on the meta
    device.
    """
    lazy = next((name for name, value in model.named_parameters() if nn.parameter.is_lazy(value)), None)
    if lazy is not None:
        raise UnsupportedError(
            f"{lazy} of the model has no shape yet (a lazy layer): call the model once, then quantise it; nothing was "
            "quantised"
        )
    named_modules = [
        (name, module)
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, nn.Linear) and not _is_inside_linear(model, name)
    ]
    if not named_modules:
        raise UnsupportedError(
            f"{type(model).__name__} has no nn.Linear layer: torchao quantises Linear weights only (convolutions, "
            "embeddings and experts kept as one tensor stay as they are)"
        )
    elsewhere = _memory_of_other_parameters(model, {id(module) for _, module in named_modules})
    groups: dict[object, list[tuple[str, nn.Linear]]] = {}
    for name, module in named_modules:
        groups.setdefault(_weight_key(module), []).append((name, module))
    return tuple(_site(users, elsewhere) for users in groups.values())


def find_non_finite(sites: tuple[LinearSite, ...]) -> None:
    """Raise `InvalidValueError` naming the first weight or bias with NaN or infinity; values of subclasses are not
    read.
    """
    for site in sites:
        if site.obstacle is not None:
            continue
        for role, values in (("weight", site.weight), *(("bias", module.bias) for module in site.modules)):
            if values is None or values.dtype not in WIDE_DTYPES or hasattr(values, "__tensor_flatten__"):
                continue
            if not bool(torch.isfinite(values.detach()).all()):
                raise InvalidValueError(
                    f"the {role} of {site.name or 'the layer'} holds NaN or infinity: load the model again, nothing "
                    "was quantised"
                )


def _site(users: list[tuple[str, nn.Linear]], elsewhere: dict[object, str]) -> LinearSite:
    modules = tuple({id(module): module for _, module in users}.values())
    name = users[0][0]
    return LinearSite(
        name=name,
        aliases=tuple(other for other, _ in users[1:]),
        modules=modules,
        tied_to=elsewhere.get(_weight_key(modules[0]), ""),
        obstacle=next((obstacle for module in modules if (obstacle := _obstacle(module)) is not None), None),
    )


def _obstacle(module: nn.Linear) -> Finding | None:
    weight = module.weight
    if weight.is_meta:
        raise UnsupportedError("the model is on the meta device: it has shapes but no weights; load them first")
    if hasattr(weight, "__tensor_flatten__"):
        return finding("layer-kept-wide", kind="quantised", tensor=type(weight).__name__)
    if nn.utils.parametrize.is_parametrized(module, "weight"):
        return finding("layer-kept-wide", kind="parametrized")
    if isinstance(module, nn.modules.linear.NonDynamicallyQuantizableLinear):
        return finding("layer-kept-wide", kind="read-by-owner", owner="nn.MultiheadAttention")
    if not weight.is_floating_point():
        return finding("layer-kept-wide", kind="dtype", dtype=str(weight.dtype).removeprefix("torch."))
    if weight.dtype not in WIDE_DTYPES:
        return finding("layer-kept-wide", kind="without-scales", dtype=str(weight.dtype).removeprefix("torch."))
    if weight.numel() == 0:
        return finding("layer-stays-wide", kind="empty")
    return None


def _is_inside_linear(model: nn.Module, name: str) -> bool:
    """Whether a Linear is part of another Linear (an adapter): its owner decides what it is for."""
    parent = name.rpartition(".")[0]
    while parent:
        if isinstance(model.get_submodule(parent), nn.Linear):
            return True
        parent = parent.rpartition(".")[0]
    return name != "" and isinstance(model, nn.Linear)


def _memory_of_other_parameters(model: nn.Module, linears: set[int]) -> dict[object, str]:
    """Return the memory of every parameter that no Linear owns → its name."""
    roles: dict[object, str] = {}
    for module_name, module in model.named_modules():
        if id(module) in linears:
            continue
        for name, parameter in module.named_parameters(prefix=module_name, recurse=False):
            roles.setdefault(_memory_key(parameter), name)
    return roles


def _weight_key(module: nn.Linear) -> object:
    """Return the identity of a Linear's weight. A computed weight is known by its module."""
    if nn.utils.parametrize.is_parametrized(module, "weight"):
        return id(module)
    return _memory_key(module.weight)


def _memory_key(tensor: Tensor) -> object:
    """Return the memory key of a tensor, equal for tensors of one memory and shape."""
    if tensor.is_meta or hasattr(tensor, "__tensor_flatten__") or tensor.numel() == 0:
        return id(tensor)
    return tensor.device, tensor.data_ptr(), tuple(tensor.shape)
