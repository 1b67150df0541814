"""Published checkpoints: which models can be downloaded in which formats, and from where.

A format that nobody publishes has to be made first. Entries are repositories of the Hugging Face hub whose model card
was read; the list is not complete, so that a missing model says nothing, but a format without any entry is one that
people do not ship.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A published checkpoint of a model in a format."""

    model: str
    """Name of the model in the registry."""
    weights: str
    """Format of the weights in the layers; head and embedding are 16 bit."""
    is_both: bool
    """Whether the activations have the format, too."""
    repository: str
    """Owner and name on the hub."""


CHECKPOINTS: tuple[Checkpoint, ...] = (
    Checkpoint("llama-3.1-8b", "FP8_E4M3", True, "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"),
    Checkpoint("llama-3.1-8b", "FP8_E4M3", True, "nvidia/Llama-3.1-8B-Instruct-FP8"),
    Checkpoint("llama-3.1-8b", "INT8", True, "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8"),
    Checkpoint("llama-3.1-8b", "INT4", False, "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16"),
    Checkpoint("llama-3.1-8b", "NVFP4", True, "nvidia/Llama-3.1-8B-Instruct-FP4"),
    Checkpoint("llama-3.1-70b", "FP8_E4M3", True, "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic"),
    Checkpoint("llama-3.1-70b", "FP8_E4M3", True, "nvidia/Llama-3.1-70B-Instruct-FP8"),
    Checkpoint("llama-3.1-70b", "INT8", True, "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8"),
    Checkpoint("llama-3.1-70b", "INT4", False, "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16"),
    Checkpoint("llama-3.1-405b", "FP8_E4M3", True, "nvidia/Llama-3.1-405B-Instruct-FP8"),
    Checkpoint("gpt-oss-20b", "MXFP4", False, "openai/gpt-oss-20b"),
    Checkpoint("gpt-oss-120b", "MXFP4", False, "openai/gpt-oss-120b"),
)
"""Model cards of the hub, read 2026-11-22 and 2026-11-23."""

PUBLISHED_FORMATS = frozenset(checkpoint.weights for checkpoint in CHECKPOINTS)
"""Weight formats that people ship."""


def checkpoints_of(model: str, label: str) -> tuple[Checkpoint, ...]:
    """Return the published checkpoints of a model in the formats of its layers, in the order of the list.

    >>> [checkpoint.repository for checkpoint in checkpoints_of("llama-3.1-8b", "INT4.BF16")]
    ['RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16']
    """
    weights, _, activations = label.partition(".")
    is_both = not activations or activations == weights
    return tuple(each for each in CHECKPOINTS if (each.model, each.weights, each.is_both) == (model, weights, is_both))
