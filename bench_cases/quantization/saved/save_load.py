"""Saves a quantised model and loads it again, bit for bit: packed weights, the plan that made them, what may read them.

A folder holds `weights.pt` (torch's own file: packed CPU weights have no safetensors form, pytorch/ao issue 3800),
`quantization.json` (what every layer became, and on what), and for a transformers model its `config.json` and
tokenizer. Loading never runs code from the file: only torch's tensors and torchao's registered tensor classes are
accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.models.reference import REPORT_FILE
from bench_cases.quantization.failures import cause_of, one_line
from bench_cases.quantization.held_bytes import inner_tensors
from bench_cases.quantization.plans.layer_report import QuantizationResult
from bench_cases.quantization.saved.packing import packed_for, refuse_other_packing, refuse_untold_packing
from bench_cases.quantization.saved.weights import (
    CHECKSUM_KEY,
    WEIGHTS_FILE,
    check_fit,
    check_layers,
    file_checksum,
    non_finite_name,
    read_weights,
    unsaved_buffers,
    write_weights,
)
from bench_cases.quantization.saved.whole_folder import refuse_filled_folder, whole_folder
from roofline_model.core.errors import DefinitionError, InvalidValueError, RooflineError, UnsupportedError

FOLDER_VERSION = 1


def save_quantized(
    model: nn.Module, folder: str | Path, result: QuantizationResult, *, tokenizer: Any | None = None
) -> Path:
    """Write a quantised model to a new or empty folder and return it; a folder that holds something is refused.

    result: what `apply_quantization` returned for this model. The folder appears when it is complete: after an error
    (disk full, a tokenizer that cannot be saved) nothing is left. Raises `InvalidValueError` in one line.
    """
    if not isinstance(result, QuantizationResult):
        raise InvalidValueError(
            f"result must be what apply_quantization returned for this model, got {str(result)[:60]!r}: nothing was "
            "written"
        )
    target = refuse_filled_folder(folder)
    state, buffers = model.state_dict(), unsaved_buffers(model)
    broken = non_finite_name(model, {**state, **buffers})
    if broken is not None:
        raise InvalidValueError(f"{broken} holds NaN or infinity: load the model again, nothing was written")
    config = getattr(model, "config", None)
    is_transformers = hasattr(config, "save_pretrained")
    with whole_folder(target, last=REPORT_FILE) as partial:
        write_weights(partial / WEIGHTS_FILE, state, buffers)
        if is_transformers:
            assert config is not None
            config.save_pretrained(partial)
        if tokenizer is not None:
            tokenizer.save_pretrained(partial)
        described = {
            "folder_version": FOLDER_VERSION,
            "model_class": type(model).__name__,
            "is_transformers": is_transformers,
            "packed_for": packed_for(model),
            CHECKSUM_KEY: file_checksum(partial / WEIGHTS_FILE),
            "result": result.as_dict(),
        }
        (partial / REPORT_FILE).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return target


def load_quantized(folder: str | Path, *, model: nn.Module | None = None, device: str = "cpu") -> nn.Module:
    """Return the model that `save_quantized` wrote, in evaluation mode.

    model: an unquantised module of the same architecture to fill; needed for models that transformers does not know,
    and changed only when everything fits: every name, shape, dtype and layer, finite numbers, and the checksum where
    the folder has one. Weights are shared exactly where they were when the model was saved, whatever the model given
    shares. Raises `DefinitionError` for a damaged folder, `UnsupportedError` when the weights are packed for another
    kind of processor or the device is not here.
    """
    source = _folder(folder)
    refuse_device(device)
    if model is not None and not isinstance(model, nn.Module):
        raise InvalidValueError(f"model must be a torch module to fill, got {type(model).__name__}")
    described = read_report(source)
    refuse_other_packing(described, source)
    state, buffers = read_weights(source, described, str(device))
    refuse_untold_packing(described, state.values(), source)
    check_layers(state, described, source)
    filled = _empty_model(source, described) if model is None else model
    check_fit(filled, state, buffers, source)
    broken = non_finite_name(filled, {**state, **buffers})
    if broken is not None:
        raise DefinitionError(f"{source}: {broken} holds NaN or infinity; save the model again")
    _fill(filled, {**state, **buffers}, source)
    return filled.to(device).eval()


def read_report(folder: str | Path) -> dict[str, Any]:
    """Return `quantization.json` of a saved folder. Raises `DefinitionError` when it is missing or unreadable."""
    path = Path(folder) / REPORT_FILE
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DefinitionError(
            f"{folder} is not a saved quantised model: it has no {REPORT_FILE} (see save_quantized)"
        ) from None
    except (ValueError, RecursionError) as error:
        raise DefinitionError(f"{path} is damaged: {one_line(error)}; save the model again") from None
    version = described.get("folder_version") if isinstance(described, dict) else None
    if type(version) is not int or version != FOLDER_VERSION:
        raise DefinitionError(
            f"{path} has folder_version {str(version)[:60]}, this version reads {FOLDER_VERSION}: quantise again"
        )
    return described


def refuse_device(device: str) -> None:
    """Raise `UnsupportedError` for a device that torch does not know or does not have here."""
    try:
        is_there = not torch.zeros(1, device=device).is_meta
        cause = "it holds no values"
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        is_there, cause = False, one_line(error)
    if not is_there:
        raise UnsupportedError(
            f"device {str(device)[:40]!r} cannot be used here: {cause}; give 'cpu' or a device that torch sees "
            "(`roofline doctor`)"
        )


def _folder(folder: str | Path) -> Path:
    try:
        return Path(folder)
    except TypeError:
        raise InvalidValueError(f"the folder of a saved model must be a path, got {type(folder).__name__}") from None


def _empty_model(source: Path, described: Mapping[str, Any]) -> nn.Module:
    if not described.get("is_transformers"):
        raise InvalidValueError(
            f"{source} holds a {described.get('model_class')}, which transformers cannot build: pass model=, an "
            "unquantised one to fill"
        )
    import transformers

    cls = getattr(transformers, str(described.get("model_class")), None)
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        raise UnsupportedError(
            f"this transformers has no model class {described.get('model_class')!r}: pass model=, an unquantised one "
            "to fill"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True, trust_remote_code=False)
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            empty: nn.Module = cls(config)
    except (RooflineError, MemoryError):
        raise
    except Exception as error:  # a damaged configuration fails wherever transformers reads it first
        raise DefinitionError(f"{source}: config.json cannot be used for a {cls.__name__}: {cause_of(error)}") from None
    return empty


def _fill(model: nn.Module, values: Mapping[str, Tensor], source: Path) -> None:
    """Give a model its tensors, those that share memory as one parameter; nothing is assigned before all have a
    place.
    """
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    parameters: dict[object, nn.Parameter] = {}
    for name, value in values.items():
        path, _, last = name.rpartition(".")
        owner = model.get_submodule(path)
        if last in owner._parameters:
            key = _memory_key(value)
            if key not in parameters:
                parameters[key] = nn.Parameter(value, requires_grad=False)
            places.append((owner._parameters, last, parameters[key]))
        elif last in owner._buffers:
            places.append((owner._buffers, last, value))
        else:
            raise InvalidValueError(f"{source} does not fit the model: {name} is not a tensor of its; it is unchanged")
    for value_owner, last, value in places:
        value_owner[last] = value
    _remember_ties(model)


def _memory_key(value: Tensor) -> object:
    """Return the memory key of a tensor, equal for one weight under two names."""
    if value.numel() == 0:
        return id(value)
    parts = tuple((part.data_ptr(), part.dtype, part.shape, part.stride()) for part in inner_tensors(value))
    return type(value), value.device, parts


def _remember_ties(model: nn.Module) -> None:
    """Tell a transformers model whose saved head is its own, or the next `tie_weights` would replace that head."""
    config: Any = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False) or not hasattr(model, "get_output_embeddings"):
        return
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()  # type: ignore[operator]
    if head is not None and embedding is not None and head.weight is not embedding.weight:
        config.tie_word_embeddings = False
