"""Which measured kernel serves a pair of formats, query arithmetic and cache, and what to say where none was measured.

Measured: 16-bit queries on 16-bit and FP8 caches, and in prefill FP8 queries on FP8 caches. Any narrower cache, or an
8-bit one of integers or blocks with scales, borrows the kernel of the FP8 cache with its own bytes: what counts clocks
(latency of a token, arithmetic, launches) stays that of the 8-bit kernel, which has less to unpack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import Finding, finding
from roofline_model.expected.attention.chip import AttentionChip
from roofline_model.expected.intervals import joined_factors
from roofline_model.expected.products.parameters import OTHER_FORMAT, kernel_bytes_per_element
from roofline_model.formats.catalog import NumberFormat

NARROW_HALF_WIDTH: Mapping[str, float] = MappingProxyType({"decode": 0.345, "prefill": 0.181})
"""Phase → half-width (a log, 80 %) that a borrowed kernel adds in quadrature to the interval.

How wrong the same step is where it can be scored: the rows of FP8 caches predicted by the constants of the 16-bit
cache with the bytes of FP8 (2026-11-21, 410 rows of each chip and phase). Half-widths that cover 80 % of the rows:
decode B200 0.11, RTX PRO 6000 0.19, H100 0.42, L40S 0.66; prefill 0.05 and 0.06 on the mma.sync chips, whose
arithmetic stays in 16 bit, 0.30 and 0.31 on the others. Their means, each chip counting once; one step further is
taken to be as far."""


@dataclass(frozen=True, slots=True)
class CacheKernel:
    """The kernel that serves a call."""

    is_8bit: bool
    """Whether the 8-bit constants apply: to the arithmetic of a prefill, to the cache of a decode."""
    cache_bytes: float
    """Bytes per element of K and V, scales included."""
    borrowed_steps_count: int
    """Widths of cache between the call and the rows behind its kernel: 0 measured, 1 next one, 2 from 16 bit to below
    8.
    """
    findings: tuple[Finding, ...] = ()
    """Which cache or query no row had (`unmeasured-attention`), and what else it computes in."""

    def provenance(self, of_constants: str) -> str:
        """Return the provenance of a time with constants of this provenance."""
        return OTHER_FORMAT if self.borrowed_steps_count else of_constants

    def factors(self, pairs: list[tuple[float, float]], phase: str) -> list[tuple[float, float]]:
        """Return interval factors as wide as the way of the constants and of the format together."""
        half_width = NARROW_HALF_WIDTH[phase] * math.sqrt(self.borrowed_steps_count)
        return [joined_factors(pair, half_width) for pair in pairs] if half_width else pairs


def cache_kernel(
    chip: AttentionChip, phase: str, activation: NumberFormat, kv: NumberFormat, widths: Sequence[str]
) -> CacheKernel:
    """Return the kernel of a call among those of the `widths` that have constants.

    A decode without 8-bit constants (A100) reads a narrow cache with the 16-bit kernel: the very step that was scored.
    Raises `UnsupportedError` for a query or cache that none reads, in this form or widened.
    """
    is_8bit = uses_8bit(chip, phase, activation, kv)
    is_unmeasured = is_cache_unmeasured(kv)
    size = kernel_bytes_per_element(kv) if is_unmeasured else kv.traffic_bytes_per_element
    steps_count = int(is_unmeasured)
    findings: list[Finding] = []
    if phase == "decode" and is_8bit and "8bit" not in widths:
        is_8bit, steps_count = False, steps_count + 1
        findings.append(
            finding("unmeasured-attention", kind="cache", format=kv.key, stand_in="the 16-bit cache", hardware=chip.key)
        )
    elif is_unmeasured:
        stand_in = "16-bit arithmetic" if phase == "prefill" and not is_8bit else "the FP8 cache"
        findings.append(finding("unmeasured-attention", kind="cache", format=kv.key, stand_in=stand_in))
    is_wide_query = activation.element_bits > 8
    if phase == "prefill" and is_8bit and is_wide_query:
        findings.append(finding("prefill-in-fp8", activation=activation.key))
    if phase == "decode" and not is_wide_query:
        findings.append(finding("unmeasured-attention", kind="queries", activation=activation.key))
    return CacheKernel(is_8bit, size, steps_count, tuple(findings))


def is_cache_unmeasured(kv: NumberFormat) -> bool:
    """Return whether no measured row had a cache of a format: all but 16-bit and FP8 ones."""
    return kv.element_bits < 8 or (kv.element_bits == 8 and (kv.kind != "float" or bool(kv.scales)))


def uses_8bit(chip: AttentionChip, phase: str, activation: NumberFormat, kv: NumberFormat) -> bool:
    """Return whether the 8-bit constants apply: to the arithmetic of a prefill, to the cache of a decode.

    Raises `UnsupportedError` for a format that no measured kernel computes in, or a cache wider than 16 bit.
    """
    if activation.element_bits not in (8, 16) or activation.kind != "float" or activation.scales:
        raise UnsupportedError(
            f"no expected attention with {activation.key} activations: BF16, FP16 and FP8 kernels were measured. "
            "The ideal time is used."
        )
    if kv.element_bits > 16:
        raise UnsupportedError(
            f"no expected attention with a {kv.key} cache: 16-bit and 8-bit caches were measured. The ideal time is "
            "used."
        )
    if phase == "decode":
        return kv.element_bits <= 8
    decider = kv if chip.rules.eight_bit_prefill == "cache" else activation
    is_8bit = decider.element_bits <= 8
    if is_8bit and chip.peak_8bit_flops_per_s is None:
        raise UnsupportedError(
            f"{chip.key} has no FP8 unit for attention in {activation.key}. Use BF16 activations; an 8-bit cache is "
            "widened."
        )
    return is_8bit
