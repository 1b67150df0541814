"""Real transformers models to quantise and measure: a small Llama with seeded weights (no network), a folder, or a hub
id.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import torch
from torch import nn

from bench_cases.models.reference import DEFAULT_MODEL, REPORT_FILE, SEEDED_LLAMAS, SeededLlama
from bench_cases.quantization.saved.save_load import load_quantized
from bench_cases.quantization.torchao_library import quiet_imports
from roofline_model.core.definition_text import shortened
from roofline_model.core.errors import MissingDependencyError, RooflineError, UnsupportedError, nearest_names

HUB_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in evaluation mode, and where it comes from."""

    name: str
    source: str
    """seeded (untrained), folder or hub."""
    model: nn.Module
    tokenizer: Any | None
    """None for a seeded model: its token ids mean nothing."""
    parameters_count: int

    @property
    def is_seeded(self) -> bool:
        """Whether the weights were drawn here: quality figures then say nothing about language."""
        return self.source == "seeded"


def seeded_llama(
    spec: SeededLlama | str = DEFAULT_MODEL, *, seed: int = 0, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> nn.Module:
    """Build a Llama with weights drawn from `seed`, in evaluation mode; torch's own random state is left alone.

    The weights are drawn in FP32 and rounded, so that one seed is one model in every dtype.
    """
    shape = SEEDED_LLAMAS[spec] if isinstance(spec, str) else spec
    transformers = _transformers("building a Llama")
    config = transformers.LlamaConfig(
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers_count,
        num_attention_heads=shape.heads_count,
        num_key_value_heads=shape.kv_heads_count,
        vocab_size=shape.vocabulary_size,
        max_position_embeddings=shape.positions_count,
        tie_word_embeddings=shape.is_tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.LlamaForCausalLM(config)
    # Parameters only: transformers keeps the rotary frequencies in FP32, and so must a model of our own.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model.to(device).eval()


def load_model(
    name: str = DEFAULT_MODEL,
    *,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
    seed: int = 0,
    is_offline: bool = False,
) -> LoadedModel:
    """Load a model by a seeded name, a local folder, or a Hugging Face id, with its tokenizer if it has one.

    A folder that `save_quantized` wrote gives the quantised model, whose dtype is its own. is_offline: take an id from
    the local cache only. Raises `UnsupportedError` in one line when it cannot be loaded, and when the checkpoint has
    not all of the weights: no weight is ever drawn at random.
    """
    if name in SEEDED_LLAMAS:
        model = seeded_llama(name, seed=seed, dtype=dtype, device=device)
        return LoadedModel(name, "seeded", model, None, _parameters_count(model))
    folder = Path(name).expanduser()
    if folder.exists() and not (folder / "config.json").is_file():
        raise UnsupportedError(
            f"{name} is not a model folder: it has no config.json (a folder as `save_pretrained` writes it)"
        )
    is_local = folder.exists()
    if not is_local and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise UnsupportedError(
            f"no such folder: {name}. Give a folder with config.json, a hub id, or {_seeded_names()}"
        )
    source = str(folder) if is_local else name
    transformers = _transformers("loading a model")
    local_only = is_local or is_offline or not _hub_answers()
    try:
        if is_local and (folder / REPORT_FILE).is_file():
            model = load_quantized(folder, device=device)
        else:
            model = _from_checkpoint(transformers, name, source, dtype, local_only).to(device).eval()
    except RooflineError:
        raise
    except Exception as error:  # damaged files raise whatever their readers and config classes stumble over
        raise _unloadable(name, is_local, error) from None
    return LoadedModel(
        name,
        "folder" if is_local else "hub",
        model,
        _tokenizer(transformers, source, local_only),
        _parameters_count(model),
    )


def _from_checkpoint(transformers: Any, name: str, source: str, dtype: torch.dtype, local_only: bool) -> nn.Module:
    """Load a 16-bit checkpoint whole; raises `UnsupportedError` naming a weight that it lacks or has in another
    shape.
    """
    config = transformers.AutoConfig.from_pretrained(source, local_files_only=local_only, trust_remote_code=False)
    # Weights of another shape are let through, to be named below: transformers' own error names none of them.
    model, report = _class_for(transformers, config).from_pretrained(
        source,
        dtype=dtype,
        local_files_only=local_only,
        trust_remote_code=False,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    mismatched = sorted(report["mismatched_keys"])
    missing = sorted(report["missing_keys"])
    if missing and all(key.startswith("pooler.") for key in missing) and not mismatched:
        model.pooler = None  # an encoder's head for another task, which nothing here reads
        return cast(nn.Module, model)
    if missing or mismatched:
        first = missing[0] if missing else str(mismatched[0][0])
        count = len(missing) or len(mismatched)
        counted = "1 weight is" if count == 1 else f"{count} weights are"
        raise UnsupportedError(
            f"the checkpoint of {shortened(name)} does not fit its config.json: {counted} "
            f"{'missing' if missing else 'of another shape'}, such as {first}; they would be drawn at random"
        )
    return cast(nn.Module, model)


def _hub_answers() -> bool:
    """Whether the hub can be reached: its client would try for half a minute. A proxy is trusted to reach it."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    endpoint = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        with socket.create_connection((endpoint.hostname or "", endpoint.port or 443), timeout=HUB_TIMEOUT_S):
            return True
    except OSError:
        return False


def _class_for(transformers: Any, config: Any) -> Any:
    """Return the Auto class: a causal language model where the checkpoint names one, else the bare model (an
    encoder).
    """
    architectures = getattr(config, "architectures", None) or []
    is_causal = any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in architectures)
    return transformers.AutoModelForCausalLM if is_causal else transformers.AutoModel


def _tokenizer(transformers: Any, source: str, local_only: bool) -> Any | None:
    try:
        return transformers.AutoTokenizer.from_pretrained(source, local_files_only=local_only, trust_remote_code=False)
    except Exception:  # a checkpoint without one, or with a damaged one, still computes
        return None


def _unloadable(name: str, is_local: bool, error: Exception) -> UnsupportedError:
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if not isinstance(error, OSError | ValueError | ImportError):  # the text alone ('zzz', 'by zero') says little
        message = f"{type(error).__name__}: {message}".removesuffix(": ")
    message = "".join(ch if ch.isprintable() else "?" for ch in message) or type(error).__name__
    near = nearest_names(name, SEEDED_LLAMAS)
    hint = f"Did you mean {near[0]}? " if near else ""
    where = "folder" if is_local else "hub id (neither in the local cache nor reachable)"
    return UnsupportedError(
        f"cannot load model {name!r} as a {where}: {message[:200].rstrip('.')}. {hint}Without a network: a local "
        f"folder, or {_seeded_names()}"
    )


def _seeded_names() -> str:
    return ", ".join(SEEDED_LLAMAS)


def _parameters_count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _transformers(purpose: str) -> Any:
    try:
        with quiet_imports():  # transformers imports torchao where both are installed
            import transformers
            import transformers.modeling_utils
    except ImportError:
        raise MissingDependencyError("transformers", "quant", purpose) from None
    return transformers
