"""Which layer can bear which format: the loss of quantising one layer alone, measured, estimated or guessed.

Three ways, dearest first; all give larger numbers to layers that must be kept wider:
* `kl_sensitivity`: quantise one layer, run the text, KL of the logits to the original's. Measured. Layers × formats
  runs.
* `fisher_sensitivity`: ½ Σ F·ΔW², F the diagonal of the Fisher information per token. Estimated; one backward run.
* `prior_sensitivity`: relative error of the weight × an assumed weight of its role. No data: low confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench_cases.quality.layer_formats import LayerFormats, layer_formats
from bench_cases.quality.texts.estimates import Estimate
from bench_cases.quantization.plans.layer_roles import layer_role
from bench_cases.quantization.survey import LinearSite
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.catalog import get_format

Method = Literal["kl", "fisher", "data-free"]
Confidence = Literal["measured", "estimated", "low"]
CONFIDENCE_OF: dict[Method, Confidence] = {"kl": "measured", "fisher": "estimated", "data-free": "low"}


@dataclass(frozen=True, slots=True)
class LayerSensitivity:
    """Quality cost of one layer in one format, with every other layer in 16 bit."""

    name: str
    role: str | None
    format: str
    """`INT4` (the weight alone), `FP8_E4M3` and `INT8.INT8` (activations too), `FP8_E4M3.BF16`: see `layer_formats`."""
    score_value: float
    """In the unit of its table; larger is worse."""
    parameters: int
    """Elements of the weight."""
    estimate: Estimate | None = None
    """The score with its interval, where it was measured on a text."""


@dataclass(frozen=True, slots=True)
class SensitivityTable:
    """Every layer × format by one method."""

    rows: tuple[LayerSensitivity, ...]
    method: Method
    unit: str
    tokens_count: int
    """Tokens that the scores rest on; 0 without data."""

    @property
    def confidence(self) -> Confidence:
        """measured, estimated, or low: a data-free score orders formats well and layers badly."""
        return CONFIDENCE_OF[self.method]

    @property
    def formats(self) -> tuple[str, ...]:
        """Formats, in the order they were asked for."""
        return tuple(dict.fromkeys(row.format for row in self.rows))

    def scores(self, format: str | None = None) -> dict[tuple[str, str], float]:
        """Return (layer, format) → score, of one format or of all."""
        key = None if format is None else self._known_key(format)
        return {(row.name, row.format): row.score_value for row in self.rows if key in (None, row.format)}

    def ranking(self, format: str) -> tuple[str, ...]:
        """Return the layers from the most to the least sensitive to a format; ties in the model's order."""
        key = self._known_key(format)
        rows = [row for row in self.rows if row.format == key]
        return tuple(row.name for row in sorted(rows, key=lambda row: -row.score_value))

    def _known_key(self, format: str) -> str:
        key = layer_formats(format).name
        if key not in self.formats:
            raise InvalidValueError(f"no score for {key} in this table; it holds {', '.join(self.formats)}")
        return key


def narrow_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of formats to try on a tensor, each once. Raises `InvalidValueError` for none, and for one of 16
    bits or more.
    """
    keys = tuple(dict.fromkeys(get_format(text).key for text in formats))
    wide = [key for key in keys if get_format(key).element_bits >= 16]
    if wide or not keys:
        raise InvalidValueError(
            f"an error needs formats below 16 bit, got {', '.join(wide) or 'none'}: 16 bit is what is compared with"
        )
    return keys


def sensitivity_row(
    site: LinearSite, formats: LayerFormats, score: float, estimate: Estimate | None = None
) -> LayerSensitivity:
    """Return a row for one weight; its size and role are read from the site."""
    N, K = site.shape
    return LayerSensitivity(site.name, layer_role(site.name), formats.name, score, N * K, estimate)
