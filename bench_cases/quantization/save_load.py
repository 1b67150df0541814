"""Saves a quantised model and loads it again, bit for bit: packed weights, the plan that made them, what may read them.

A folder holds `weights.pt` (torch's own file: packed CPU weights have no safetensors form, pytorch/ao issue 3800),
`quantization.json` (what every layer became, and on what), and for a transformers model its `config.json` and tokenizer.
Loading never runs code from the file: only torch's tensors and torchao's registered tensor classes are accepted.
"""

from __future__ import annotations

import importlib
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bench_cases.model_runs.model_reference import REPORT_FILE
from bench_cases.quantization.layer_report import QuantizationResult
from bench_cases.quantization.torchao_library import load_torchao, quiet_imports
from roofline_model.errors import DefinitionError, InvalidValueError, UnsupportedError

WEIGHTS_FILE = "weights.pt"
FOLDER_VERSION = 1

_REGISTERING_MODULES = ("torchao.prototype.quantization.int4", "torchao.prototype.mx_formats", "torchao.quantization")
"""Importing these puts torchao's tensor classes on torch's list of what a weights file may hold."""


def save_quantized(
    model: nn.Module, folder: str | Path, result: QuantizationResult, *, tokenizer: Any | None = None
) -> Path:
    """Write a quantised model to a new or empty folder and return it; a folder that holds something is refused.

    result: what `apply_quantization` returned for this model.
    """
    target = refuse_filled_folder(folder)
    target.mkdir(parents=True, exist_ok=True)
    torch.save({"state": model.state_dict(), "buffers": _unsaved_buffers(model)}, target / WEIGHTS_FILE)
    config = getattr(model, "config", None)
    is_transformers = hasattr(config, "save_pretrained")
    if is_transformers:
        assert config is not None
        config.save_pretrained(target)
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    described = {
        "folder_version": FOLDER_VERSION,
        "model_class": type(model).__name__,
        "is_transformers": is_transformers,
        "packed_for": packed_for(model),
        "result": result.as_dict(),
    }
    (target / REPORT_FILE).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return target


def refuse_filled_folder(folder: str | Path) -> Path:
    """Return the path of a folder that is new or empty; anything else is an `InvalidValueError`."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidValueError(
            f"{target} exists and is not an empty folder: choose another place, nothing was written"
        )
    return target


def load_quantized(folder: str | Path, *, model: nn.Module | None = None, device: str = "cpu") -> nn.Module:
    """Return the model that `save_quantized` wrote, in evaluation mode.

    model: an unquantised module of the same architecture to fill; needed for models that transformers does not know, and
    changed only when every name and shape fits. Raises `DefinitionError` for a damaged folder, `UnsupportedError` when the
    weights are packed for another kind of processor.
    """
    source = Path(folder)
    described = read_report(source)
    refuse_other_packing(described, source)
    state, buffers = _read_weights(source, device)
    filled = _empty_model(source, described) if model is None else model
    _check_fit(filled, state, buffers, source)
    filled.load_state_dict(dict(state), assign=True)
    for name, value in buffers.items():
        owner, _, last = name.rpartition(".")
        filled.get_submodule(owner)._buffers[last] = value
    tie: Any = getattr(filled, "tie_weights", None)
    if tie is not None and getattr(getattr(filled, "config", None), "tie_word_embeddings", False):
        tie()  # loading assigns embedding and head one by one
    for parameter in filled.parameters():
        parameter.requires_grad_(False)
    return filled.to(device).eval()


def read_report(folder: str | Path) -> dict[str, Any]:
    """Return `quantization.json` of a saved folder. Raises `DefinitionError` when it is missing or unreadable."""
    path = Path(folder) / REPORT_FILE
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise DefinitionError(
            f"{folder} is no saved quantised model: it has no {REPORT_FILE} (see save_quantized)"
        ) from None
    except ValueError as error:
        raise DefinitionError(f"{path} is damaged: {error}; save the model again") from None
    version = described.get("folder_version") if isinstance(described, dict) else None
    if version != FOLDER_VERSION:
        raise DefinitionError(
            f"{path} has folder_version {version!r}, this version reads {FOLDER_VERSION}: quantise again"
        )
    return described


def packed_for(model: nn.Module) -> str:
    """Return the processor that opaque weights are packed for (`cpu AVX512`, `cuda`), or `any` when none is packed.

    torch packs CPU INT4 in blocks whose size depends on the vector unit, so the same bytes mean other weights elsewhere. Tried
    with torch 2.13: one weight packed under ATEN_CPU_CAPABILITY default, avx2 and avx512 gives three different results.
    """
    kinds = {type(parameter).__name__ for parameter in model.parameters()}
    if "Int4OpaqueTensor" in kinds:
        return f"cpu {torch.backends.cpu.get_cpu_capability()}"
    return "cuda" if "Int4TilePackedTo4dTensor" in kinds else "any"


def refuse_other_packing(described: Mapping[str, Any], folder: Path) -> None:
    """Raise `UnsupportedError` when a folder's weights are packed for a processor this machine does not have."""
    wanted = str(described.get("packed_for", "any"))
    if wanted.startswith("cpu "):
        here = f"cpu {torch.backends.cpu.get_cpu_capability()}"
        if here != wanted:
            raise UnsupportedError(
                f"{folder} is packed for {wanted}, this machine is {here}: the packed bytes would mean other weights; quantise the 16-bit model here"
            )
    elif wanted == "cuda" and not torch.cuda.is_available():
        raise UnsupportedError(
            f"{folder} is packed for CUDA tensor cores, and torch sees no CUDA device here: quantise the 16-bit model here"
        )


def _unsaved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that a state dict leaves out (rotary frequencies): recomputed ones may differ in dtype."""
    kept = model.state_dict().keys()
    return {name: value for name, value in model.named_buffers() if name not in kept}


def _read_weights(source: Path, device: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the state dict and the buffers beside it."""
    load_torchao("loading a quantised model")
    with quiet_imports():
        for name in _REGISTERING_MODULES:
            importlib.import_module(name)
    path = source / WEIGHTS_FILE
    try:
        held = torch.load(path, map_location=device, weights_only=True)
    except OSError as error:
        raise DefinitionError(f"{path} cannot be read or is damaged: {error.strerror or error}") from None
    except (RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DefinitionError(
            f"{path} is damaged or holds more than tensors: {said[:200]}; save the model again"
        ) from None
    if not isinstance(held, dict) or not all(isinstance(held.get(name), dict) for name in ("state", "buffers")):
        raise DefinitionError(f"{path} holds no saved model: save the model again")
    state, buffers = held["state"], held["buffers"]
    if any(not isinstance(value, Tensor) for value in (*state.values(), *buffers.values())):
        raise DefinitionError(f"{path} holds something that is no tensor: save the model again")
    return state, buffers


def _empty_model(source: Path, described: Mapping[str, Any]) -> nn.Module:
    if not described.get("is_transformers"):
        raise InvalidValueError(
            f"{source} holds a {described.get('model_class')}, which transformers cannot build: pass model=, an unquantised one to fill"
        )
    import transformers

    cls = getattr(transformers, str(described.get("model_class")), None)
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        raise UnsupportedError(
            f"this transformers has no model class {described.get('model_class')!r}: pass model=, an unquantised one to fill"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise DefinitionError(f"{source}: config.json cannot be used: {str(error).splitlines()[0][:200]}") from None
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        empty: nn.Module = cls(config)
    return empty


def _check_fit(model: nn.Module, state: Mapping[str, Tensor], buffers: Mapping[str, Tensor], source: Path) -> None:
    own = {**model.state_dict(), **_unsaved_buffers(model)}
    state = {**state, **buffers}
    missing = sorted(set(own) - set(state))
    extra = sorted(set(state) - set(own))
    if missing or extra:
        raise InvalidValueError(
            f"{source} does not fit the model: {len(missing)} tensors missing {missing[:3]}, {len(extra)} unknown {extra[:3]}; the model is unchanged"
        )
    wrong = [name for name, value in state.items() if value.shape != own[name].shape]
    if wrong:
        name = wrong[0]
        raise InvalidValueError(
            f"{source} does not fit the model: {name} is {tuple(state[name].shape)}, the model has {tuple(own[name].shape)}; the model is unchanged"
        )
