"""What a codec may be told beyond the format: where scales sit, how they are found, what happens to bad values."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from roofline_model.core.errors import InvalidValueError

ScaleScope = Literal["none", "tensor", "row", "block"]
ScaleRule = Literal["floor", "ceil", "rceil", "even", "six", "four_over_six"]
Clip = Literal["absmax", "percentile", "mse"]
Overflow = Literal["saturate", "ieee"]
Nonfinite = Literal["refuse", "propagate"]
Ragged = Literal["keep", "refuse"]

_CHOICES: dict[str, tuple[str, ...]] = {
    "scale": get_args(ScaleScope),
    "scale_rule": get_args(ScaleRule),
    "clip": get_args(Clip),
    "overflow": get_args(Overflow),
    "nonfinite": get_args(Nonfinite),
    "ragged": get_args(Ragged),
}
_MAY_BE_NONE = ("scale", "scale_rule", "overflow")


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """Choices of a codec. None takes what the format asks for; a choice that means nothing for a format is refused."""

    scale: ScaleScope | None = None
    """Plain FP8 and integers only: one scale per tensor, per row (every index but the axis), per block, or none.
    None: `row` for FP8 and 8-bit integers, `block` for narrower integers."""
    block_elems: int | None = None
    """Elements that share a scale of scope `block`. None: 128, and 64 for INT2 and NF4."""
    scale_dtype: str | None = None
    """ml_dtypes or numpy float that holds a scale. None: float32, bfloat16 for integers of fewer than 8 bits, float16 for NF4."""
    scale_rule: ScaleRule | None = None
    """MX: floor (the standard's), ceil, rceil or even. NVFP4: six, or four_over_six per block. None: the first of each."""
    symmetric: bool | None = None
    """Integers: False stores a zero point beside each scale. None: True unless the format's own scales hold one."""
    clip: Clip = "absmax"
    """Scaled FP8 and integers: the magnitude that the largest code stands for. `percentile` and `mse` clip outliers."""
    clip_quantile_ratio: float = 0.999
    """Share of the magnitudes that `percentile` keeps unclipped."""
    double_scales: bool = False
    """NF4: quantise the scales again, to 8 bits in groups of 256 (QLoRA)."""
    overflow: Overflow | None = None
    """Casts without a scale: the largest finite value, or what IEEE rounding gives (infinity; NaN where there is none).
    None: saturate up to 8 bits, ieee above."""
    nonfinite: Nonfinite = "refuse"
    """`propagate` lets NaN and infinities through where the format has a place for them: plain casts and MX."""
    ragged: Ragged = "keep"
    """A last block that is not full: `keep` gives it a scale of its own, `refuse` raises, as most kernels would."""

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known and not (value is None and name in _MAY_BE_NONE):
                raise InvalidValueError(f"{name}={value!r} is not a choice; known: {', '.join(known)}")
        count = self.block_elems
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise InvalidValueError(f"block_elems must be a whole number of at least 1, got {count!r}")
        if not 0 < self.clip_quantile_ratio <= 1:
            raise InvalidValueError(f"clip_quantile_ratio must be in (0, 1], got {self.clip_quantile_ratio!r}")
        if self.block_elems is not None and self.scale not in (None, "block"):
            raise InvalidValueError(f"block_elems={count} needs scale='block', got scale={self.scale!r}")


DEFAULTS = CodecOptions()
_NAMES = tuple(field.name for field in fields(CodecOptions))


def with_changes(options: CodecOptions, changes: dict[str, Any]) -> CodecOptions:
    """Return `options` with the named choices changed; an unknown name is an error that lists the known ones."""
    for name in changes:
        if name not in _NAMES:
            raise InvalidValueError(f"{name!r} is no option of a codec; known: {', '.join(_NAMES)}")
    return replace(options, **changes) if changes else options


def require_only(options: CodecOptions, allowed: set[str], format_key: str) -> None:
    """Raise `InvalidValueError` when a choice was made that means nothing for this format."""
    always = {"nonfinite", "ragged"}
    for name in _NAMES:
        if name not in allowed | always and getattr(options, name) != getattr(DEFAULTS, name):
            possible = ", ".join(sorted(allowed)) or "none"
            raise InvalidValueError(
                f"{name}={getattr(options, name)!r} means nothing for {format_key} here; it takes: {possible}"
            )
