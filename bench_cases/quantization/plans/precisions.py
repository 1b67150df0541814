"""Names of what a layer may become: `INT4`, `INT8.INT8`, `FP8`, `NVFP4.BF16`, …, and the seeds' short forms.

`WEIGHT.ACTIVATION` as everywhere in this project. A short form stands for what its users mean by it: the integers alone
are weight-only (as in the original documents), the floats alone quantise both operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.formats.catalog import get_format

PLAIN_FORMATS = ("FP64", "FP32", "TF32", "FP16", "BF16")
"""Formats that leave a layer as it is."""

_BY_PAIR = {
    ("INT8", None): "INT8",
    ("INT4", None): "INT4",
    ("FP8_E4M3", None): "FP8.BF16",
    ("NVFP4", None): "NVFP4.BF16",
    ("INT8", "INT8"): "INT8.INT8",
    ("INT4", "INT8"): "INT4.INT8",
    ("INT4", "FP8_E4M3"): "INT4.FP8",
    ("FP8_E4M3", "FP8_E4M3"): "FP8",
    ("NVFP4", "NVFP4"): "NVFP4",
    ("MXFP8_E4M3", "MXFP8_E4M3"): "MXFP8",
    ("MXFP4", "MXFP4"): "MXFP4",
}
"""(weight, activation; None: 16 bit) → the precision's name. Every one has at least one recipe (`recipes.RECIPES`)."""

_NEAREST = {
    "NF4": "INT4",
    "INT2": "INT4",
    "MXINT8": "INT8",
    "FP8_E5M2": "FP8.BF16",
    "MXFP8_E5M2": "MXFP8",
    "MXFP6_E3M2": "MXFP8",
    "MXFP6_E2M3": "MXFP8",
}
"""Formats without a torchao recipe here → the nearest precision of at least as many bits (NF4 → INT4: the seeds)."""

_WORDS = {
    "INT8_WEIGHT_ONLY": "INT8",
    "INT4_WEIGHT_ONLY": "INT4",
    "INT8_DYNAMIC": "INT8.INT8",
    "FP8_WEIGHT_ONLY": "FP8.BF16",
    "FP8_DYNAMIC": "FP8",
    "W8A16": "INT8",
    "W4A16": "INT4",
    "W8A8": "INT8.INT8",
    "W4A8": "INT4.INT8",
}

PRECISIONS = tuple(_BY_PAIR.values())
"""Every precision that some device of ours has a recipe for."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Requested precision, and the first recipe name to try."""

    requested: str
    """As the user wrote it."""
    name: str
    """A name of `PRECISIONS`, or a 16-bit format: leave the layer as it is."""
    substitution: Finding | None = None
    """Why `name` is not what was asked: there is no recipe for that format."""

    @property
    def is_plain(self) -> bool:
        """Whether the layer stays as it is."""
        return self.name in PLAIN_FORMATS


def parse_precision(text: str) -> Precision:
    """Return the precision that `text` names, in any case: `INT4`, `int8_weight_only`, `W8A8`, `FP8.BF16`, `NF4`.

    Raises `UnknownNameError` for a format nobody knows, `UnsupportedError` for a pair that no kernel of torchao
    combines.
    """
    stripped = str(text).strip()
    precision_key = stripped.upper().replace("-", "_")
    if precision_key in _WORDS:
        return Precision(stripped, _WORDS[precision_key])
    weight_text, _, activation_text = precision_key.partition(".")
    weight = get_format(weight_text).key
    if weight in PLAIN_FORMATS:
        if activation_text and get_format(activation_text).key not in PLAIN_FORMATS:
            raise _no_pair(stripped)
        return Precision(stripped, weight)
    if weight in _NEAREST:
        return Precision(
            stripped, _NEAREST[weight], finding("recipe-unfit", kind="format", format=weight, instead=_NEAREST[weight])
        )
    activation = _activation(weight, activation_text)
    name = _BY_PAIR.get((weight, activation))
    if name is None:
        raise _no_pair(stripped)
    return Precision(stripped, name)


def precision_formats(name: str, wide: str) -> tuple[str, str]:
    """Return weight and activation format of a precision's name; 16-bit activations are `wide`.

    Raises as `parse_precision`.
    """
    precision = parse_precision(name)
    if precision.is_plain:
        return precision.name, precision.name
    weight, activation = next(pair for pair, pair_name in _BY_PAIR.items() if pair_name == precision.name)
    return weight, activation or wide


def _activation(weight: str, text: str) -> str | None:
    if not text:
        return None if weight in ("INT8", "INT4") else weight
    key = get_format(text).key
    return None if key in PLAIN_FORMATS else key


def _no_pair(requested: str) -> UnsupportedError:
    return UnsupportedError(
        f"no torchao kernel multiplies {requested!r} (WEIGHT.ACTIVATION). Known: {', '.join(PRECISIONS)}, and 16-bit "
        "formats to keep a layer."
    )
