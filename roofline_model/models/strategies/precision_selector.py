"""Which of several formats an activation gets at run time: outliers decide, the context settles what they leave open.

The thresholds are those of the original document 004, "Adaptive Precision Selection". The document does not say what
"context" changes; here it decides between `low` and `medium`, where the statistics allow either format:

    ratio > high               the widest candidate
    high ≥ ratio > medium      the middle one
    medium ≥ ratio > low       by context: the narrowest where bytes are the time (decode, a long cache),
                               else the middle one
    ratio ≤ low                the narrowest
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.core.finding import Finding, finding, short_text
from roofline_model.formats.catalog import get_format
from roofline_model.models.strategies.activation_stats import ActivationStats
from roofline_model.models.strategies.dynamic_config import check_number
from roofline_model.operators.product import check_dimension

LONG_CONTEXT_TOKENS = 8192
"""Tokens from which a cache is long (document 004: ">8K context, aggressive KV cache")."""
_PHASES = ("decode", "prefill")
_CONTEXT = ("phase", "seq_len", "is_kv_cache")

OutlierRatio = float
"""absmax over the 99.9th percentile. The document's threshold names carry no unit, so the type says it."""


@dataclass(frozen=True, slots=True)
class AdaptiveQuantConfig:
    """Candidates, narrowest first, and the outlier ratios at which to change; raises a `RooflineError` naming the
    field.
    """

    precision_candidates: Sequence[str] = ("NVFP4", "FP8_E4M3", "FP16")
    high_outlier_threshold: OutlierRatio = 2.0
    """Above it: the widest candidate."""
    medium_outlier_threshold: OutlierRatio = 1.5
    """Above it: the middle candidate."""
    low_outlier_threshold: OutlierRatio = 1.0
    """Up to it: the narrowest candidate, whatever the context."""
    long_context_count: int = LONG_CONTEXT_TOKENS
    """Tokens from which a KV cache gets the narrowest candidate."""

    def __post_init__(self) -> None:
        given = [self.precision_candidates] if isinstance(self.precision_candidates, str) else self.precision_candidates
        formats = [get_format(name) for name in given]
        if not formats:
            raise InvalidValueError("precision_candidates is empty; name at least one format, narrowest first")
        for first, other in pairwise(formats):
            if first.nominal_bits >= other.nominal_bits:
                raise InvalidValueError(
                    f"precision_candidates must be narrowest first, got {first.key} before {other.key}"
                )
        object.__setattr__(self, "precision_candidates", tuple(fmt.key for fmt in formats))
        limits = ("low_outlier_threshold", "medium_outlier_threshold", "high_outlier_threshold")
        for name in limits:
            check_number(name, getattr(self, name), 1, 1e9)
        for low, high in pairwise(limits):
            if getattr(self, low) > getattr(self, high):
                raise InvalidValueError(
                    f"{low} {getattr(self, low):g} must not be above {high} {getattr(self, high):g}"
                )
        check_dimension("long_context_count", self.long_context_count)


@dataclass(frozen=True, slots=True)
class PrecisionDecision:
    """What was chosen for an operator, and why."""

    operator_name: str
    precision: str
    outlier_ratio: float
    """That of the activation's statistics: the percentile by rank."""
    finding: Finding
    """Why."""

    @property
    def reason(self) -> str:
        """The same in one line."""
        return short_text(self.finding)


class AdaptivePrecisionSelector:
    """Chooses a format for each call of an operator, and remembers the last decision of each."""

    def __init__(self, config: AdaptiveQuantConfig | None = None) -> None:
        self.config = AdaptiveQuantConfig() if config is None else config
        self._last: dict[str, PrecisionDecision] = {}

    @property
    def decisions(self) -> Mapping[str, PrecisionDecision]:
        """The last decision of each operator."""
        return dict(self._last)

    def select_precision(
        self, operator_name: str, activation_stats: ActivationStats, context: Mapping[str, Any] | None = None
    ) -> str:
        """Return the format for an activation with these statistics.

        `context` may hold `phase` (decode or prefill), `seq_len` (tokens) and `is_kv_cache`; what it does not hold is
        unknown and never argues for a narrower format. Raises `InvalidValueError` for other fields or values; nothing
        is remembered then.
        """
        decision = self.choose(operator_name, activation_stats, context)
        self.remember(decision)
        return decision.precision

    def remember(self, decision: PrecisionDecision) -> None:
        """Make a decision the operator's last one."""
        self._last[decision.operator_name] = decision

    def choose(
        self, operator_name: str, activation_stats: ActivationStats, context: Mapping[str, Any] | None = None
    ) -> PrecisionDecision:
        """Return the choice of `select_precision` with its reason; nothing is remembered."""
        if not isinstance(operator_name, str) or not operator_name:
            raise InvalidValueError(f"operator_name must be text, got {str(operator_name)[:40]!r}")
        if not isinstance(activation_stats, ActivationStats):
            raise InvalidValueError(
                f"activation_stats must be ActivationStats, got a {type(activation_stats).__name__}"
            )
        precision, why = self._choice(activation_stats.outlier_ratio, _checked_context(context))
        return PrecisionDecision(operator_name, precision, activation_stats.outlier_ratio, why)

    def reset(self) -> None:
        """Forget all decisions."""
        self._last.clear()

    def _choice(self, ratio: float, context: Mapping[str, Any]) -> tuple[str, Finding]:
        config = self.config
        candidates = tuple(config.precision_candidates)
        narrow, middle, wide = candidates[0], candidates[len(candidates) // 2], candidates[-1]
        if ratio > config.high_outlier_threshold:
            return wide, finding(
                "outliers-decide", kind="severe", outliers=ratio, threshold=config.high_outlier_threshold
            )
        if ratio > config.medium_outlier_threshold:
            return middle, finding(
                "outliers-decide", kind="many", outliers=ratio, threshold=config.medium_outlier_threshold
            )
        if ratio <= config.low_outlier_threshold:
            return narrow, finding(
                "outliers-decide", kind="few", outliers=ratio, threshold=config.low_outlier_threshold
            )
        kind, tokens_count = _context_of(context, config.long_context_count)
        limit_count = None if tokens_count is None else config.long_context_count
        why = finding(
            "outliers-decide",
            kind=kind,
            outliers=ratio,
            formats=(narrow, middle),
            tokens_count=tokens_count,
            limit_count=limit_count,
        )
        return (narrow if kind in _BYTES_ARE_THE_TIME else middle), why


_BYTES_ARE_THE_TIME = frozenset({"cache-long", "decode"})
"""Where fewer bytes are less time."""


def _context_of(context: Mapping[str, Any], long_count: int) -> tuple[str, int | None]:
    """Return the finding's kind for the context of a call whose outliers allow two formats, and the tokens of its
    cache.
    """
    if context.get("is_kv_cache"):
        count = context.get("seq_len")
        if count is None:
            return "cache-unknown", None
        return ("cache-long" if count >= long_count else "cache-short"), count
    phase = context.get("phase")
    return {"decode": "decode", "prefill": "prefill"}.get(str(phase), "phase-unknown"), None


def _checked_context(context: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if context is None:
        return {}
    for name in context:
        if name not in _CONTEXT:
            raise InvalidValueError(f"context has an unknown field {str(name)[:40]!r}. Known: {', '.join(_CONTEXT)}.")
    if context.get("phase") not in (None, *_PHASES):
        raise InvalidValueError(f"context: phase must be decode or prefill, got {str(context['phase'])[:40]!r}")
    if context.get("seq_len") is not None:
        check_dimension("context: seq_len", context["seq_len"])
    if not isinstance(context.get("is_kv_cache", False), bool):
        raise InvalidValueError(f"context: is_kv_cache must be True or False, got {context['is_kv_cache']!r}")
    return context
