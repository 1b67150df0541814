"""Cases of whole models that another program measured, named as our own are: `decode:llama-3.1-8b`, sizes B, Sq,
Skv.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from results.exchange.foreign import ModelAsk, PassRun, Stated, printable
from results.exchange.model_names import plan_formats
from roofline_model.core.finding import Finding, finding
from roofline_model.models.model_shapes import ModelShape
from roofline_model.operators.case import Case

_UNSAFE = re.compile(r"[^A-Za-z0-9_@+-]+")
LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model as a foreign file names it, and what we know of it."""

    name: str
    """Ours where it is known, else theirs."""
    shape: ModelShape | None
    recognised: str
    """By what it was recognised; empty where it was not."""
    quantization: str
    """As the file calls it; empty where it does not say."""
    formats: str | None
    """As `--formats` takes it; None: not known."""
    kv_format: str | None
    weight_bytes: float | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Facts to store with the record."""
        return {"recognised_by": self.recognised, "quantization": self.quantization, "compared_as": self.formats or ""}


def kernel_name(*words: str) -> str:
    """Return a kernel name, its words joined by dots; characters other than letters, digits and _@+- become
    underscores.
    """
    words = tuple(word.replace(" - ", " ") for word in words)  # Q4_K - Medium
    return ".".join(_UNSAFE.sub("_", word.strip()).strip("_") for word in words if word.strip())[: 2 * LONGEST_NAME]


def model_case(
    named_model: NamedModel,
    phase: str,
    passes: tuple[PassRun, ...],
    kernel: str,
    stated: Stated,
    why_unknown: Finding | None,
    *,
    output_count: int = 0,
) -> tuple[Case, ModelAsk | None, Finding | None]:
    """Return the case of a measured call, the question to `predict model`, and why there is none.

    `phase` generate: a prompt and the steps behind it in one call, with sizes B, Sin and Sout, `output_count` new
    tokens.
    """
    formats: tuple[tuple[str, str], ...] = ()
    reason = why_unknown
    if reason is None and named_model.formats is None:
        reason = finding("import-incomplete", kind="formats", options="--formats")
    if named_model.shape is not None and named_model.formats is not None:
        formats, wrong = plan_formats(named_model.formats, named_model.kv_format, named_model.shape)
        reason = reason or wrong
    last = passes[-1]
    sizes = (("B", last.batch_count), ("Sq", last.new_count), ("Skv", last.context_count))
    if phase == "generate":
        sizes = (("B", last.batch_count), ("Sin", passes[0].new_count), ("Sout", output_count))
    label = printable(" ".join(named_model.name.split()))[:LONGEST_NAME] or "unnamed"
    case = Case(f"{phase}:{label}", sizes, formats, kernel, "none", "eager")
    if reason or named_model.shape is None or named_model.formats is None:
        return case, None, reason
    ask = ModelAsk(
        named_model.shape,
        named_model.formats,
        named_model.kv_format,
        passes,
        named_model.weight_bytes,
        stated.device_count,
        stated.link_bytes_per_s,
    )
    return case, ask, None
