"""Writes the weights of a saved model, reads them, and checks each tensor before any model is filled with them."""

from __future__ import annotations

import hashlib
import importlib
import pickle
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.dtypes import DTYPES
from bench_cases.quantization.failures import is_memory_short, one_line
from bench_cases.quantization.held_bytes import inner_tensors
from bench_cases.quantization.torchao_library import load_torchao, quiet_imports
from roofline_model.core.errors import DefinitionError, InvalidValueError

WEIGHTS_FILE = "weights.pt"
CHECKSUM_KEY = "weights_sha256"
"""Entry of the report with the SHA-256 of the weights file; folders written before 2026-11-21 have none."""

_REGISTERING_MODULES = ("torchao.prototype.quantization.int4", "torchao.prototype.mx_formats", "torchao.quantization")
"""Importing these puts torchao's tensor classes on torch's list of what a weights file may hold."""


class _PlainEnums(pickle.Pickler):
    """Writes members of enums as class and value, as Python does from 3.11.4 on.

    Before (Debian 12 has 3.11.2) they are written as `getattr(class, name)`, which torch rightly refuses to load.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Return how a member of an enum is made again; leave everything else to pickle."""
        return (type(obj), (obj.value,)) if isinstance(obj, Enum) else NotImplemented


def write_weights(path: Path, state: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> None:
    """Write a state dict and the buffers beside it to a file that `read_weights` loads on any Python.

    Raises `OSError`.
    """
    module: Any = SimpleNamespace(__name__="pickle", Pickler=_PlainEnums)
    torch.save({"state": state, "buffers": buffers}, path, pickle_module=module)


def file_checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_weights(
    folder: Path, described: Mapping[str, Any], device: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the state dict and the buffers beside it, on `device`.

    described: the folder's report; its checksum, where it has one, must be the file's. Raises `DefinitionError` for a
    file that is damaged, holds more than tensors, or tensors without values.
    """
    load_torchao("loading quantised models")
    with quiet_imports():
        for name in _REGISTERING_MODULES:
            importlib.import_module(name)
    path = folder / WEIGHTS_FILE
    try:
        if CHECKSUM_KEY in described and file_checksum(path) != described[CHECKSUM_KEY]:
            raise DefinitionError(
                f"{path} cannot be read or is damaged: its checksum is not the one that was noted when it was saved; "
                "save the model again"
            )
        document = torch.load(path, map_location=device, weights_only=True)
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read or is damaged: {one_line(error)}") from None
    except DefinitionError:
        raise
    except Exception as error:  # whatever bytes make torch's readers stumble over
        if is_memory_short(error):
            raise
        raise DefinitionError(
            f"{path} is damaged or holds more than tensors: {one_line(error)}; save the model again"
        ) from None
    if not isinstance(document, dict) or not all(isinstance(document.get(name), dict) for name in ("state", "buffers")):
        raise DefinitionError(f"{path} holds no saved model: save the model again")
    for name, value in (*document["state"].items(), *document["buffers"].items()):
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise DefinitionError(f"{path} holds something that is not a tensor with a name: save the model again")
        if value.layout != torch.strided or any(part.is_meta for part in inner_tensors(value)):
            raise DefinitionError(f"{path}: {name} has a shape but no values of its own: save the model again")
    return document["state"], document["buffers"]


def check_layers(state: Mapping[str, Tensor], described: Mapping[str, Any], folder: Path) -> None:
    """Raise `DefinitionError` when a layer's weight is not what the report says it became: class, dtype, N × K."""
    result = described.get("result")
    layers = result.get("layers") if isinstance(result, dict) else None
    if not isinstance(layers, list):
        raise DefinitionError(f"{folder}: its report lists no layers; save the model again")
    for layer in layers:
        try:
            name, shape, method = str(layer["name"]), (layer["N"], layer["K"]), layer["method"]
            became, tensor = layer["became"], layer["tensor"]
        except (TypeError, KeyError):
            raise DefinitionError(
                f"{folder}: its report has an entry that is not a layer; save the model again"
            ) from None
        value = state.get(f"{name}.weight" if name else "weight")
        if value is None and not method:
            continue  # a computed weight is saved under the names of its parts
        actual = "missing" if value is None else _described(value)
        is_packed = value is not None and hasattr(value, "__tensor_flatten__")
        is_right = value is not None and tuple(value.shape) == shape
        if method or is_packed:
            is_right = is_right and is_packed and type(value).__name__ == tensor
        elif became in DTYPES:
            is_right = is_right and value is not None and value.dtype is DTYPES[became]
        if not is_right:
            raise DefinitionError(
                f"{folder} does not hold what its report says: {name or 'the layer'} should be {became}, {tensor} of "
                f"{shape[0]}×{shape[1]}, and is {actual}; save the model again"
            )


def check_fit(model: nn.Module, state: Mapping[str, Tensor], buffers: Mapping[str, Tensor], folder: Path) -> None:
    """Raise `InvalidValueError` unless the model has exactly these tensors, in these shapes and kinds of numbers."""
    own_tensors = {**model.state_dict(), **unsaved_buffers(model)}
    tensors = {**state, **buffers}
    missing, extra = sorted(set(own_tensors) - set(tensors)), sorted(set(tensors) - set(own_tensors))
    if missing or extra:
        raise InvalidValueError(
            f"{folder} does not fit the model: {len(missing)} tensors missing {missing[:3]}, {len(extra)} unknown "
            f"{extra[:3]}; the model is unchanged"
        )
    for name, value in tensors.items():
        if value.shape != own_tensors[name].shape:
            raise InvalidValueError(
                f"{folder} does not fit the model: {name} is {tuple(value.shape)}, the model has "
                f"{tuple(own_tensors[name].shape)}; the model is unchanged"
            )
        if value.dtype is not own_tensors[name].dtype and not {value.dtype, own_tensors[name].dtype} <= set(
            DTYPES.values()
        ):
            raise InvalidValueError(
                f"{folder} does not fit the model: {name} is {_dtype(value)}, the model has "
                f"{_dtype(own_tensors[name])}; the model is unchanged"
            )


def non_finite_name(model: nn.Module, values: Mapping[str, Tensor]) -> str | None:
    """Return the first tensor that cannot be right: a parameter with NaN or infinity, a buffer with NaN (masks hold
    infinity).
    """
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, value in values.items():
        for part in inner_tensors(value.detach()):
            if not (part.is_floating_point() or part.is_complex()):
                continue
            wide = part.float() if part.element_size() == 1 else part  # torch compares no 8-bit floats
            if not bool((torch.isfinite(wide) if name in parameters else ~torch.isnan(wide)).all()):
                return name
    return None


def unsaved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that a state dict leaves out (rotary frequencies): recomputed ones may differ in dtype."""
    keys = model.state_dict().keys()
    return {name: value for name, value in model.named_buffers() if name not in keys}


def _described(value: Tensor) -> str:
    return f"{type(value).__name__} of {_dtype(value)}, {'×'.join(str(size) for size in value.shape)}"


def _dtype(value: Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")
