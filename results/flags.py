"""The flags a measurement may carry: the one list of warnings, what each says, and whether it puts the time in doubt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flag:
    """One warning about a measurement."""

    key: str
    """As stored with the measurement."""
    meaning: str
    """What it says, for the line below a table: no capital, no full stop."""
    is_doubtful: bool
    """Whether the time itself is in doubt; False for a fact that only has to be known."""


_ALL = (
    Flag("noisy", "the median's interval inside a process is wider than ±5 %", True),
    Flag(
        "few-samples",
        "too few independent samples for an interval of the median; --roofline-max-seconds gives more",
        False,
    ),
    Flag("drift", "the times rose or fell while they were taken", True),
    Flag(
        "bimodal",
        "the times fall into two groups: the median lies in one of them or between, look at the samples",
        True,
    ),
    Flag(
        "capped", "the clock was held down (power, heat or supply) in every try: the time is of the capped chip", True
    ),
    Flag("quarantined", "the canary kernel beside it ran slower than it should: the machine was in a slow state", True),
    Flag(
        "contended",
        "other processes used more than 10 % of the CPUs: times are too long, measure on a quiet machine",
        True,
    ),
    Flag("stolen", "the hypervisor gave more than 2 % of the CPUs to other machines: times are too long", True),
    Flag("shared-device", "another process used the GPU meanwhile: times are too long", True),
    Flag("cold-unproven", "the last-level cache's size is unknown: operands may have come from cache", True),
    Flag(
        "above-roof",
        "far faster than the chip's ceilings allow: the test declares more FLOPs or bytes than its kernel has (its `work=`), the kernel does not touch its operands, or the ceilings were measured on a busy machine (`roofline calibrate`)",
        True,
    ),
    Flag("launch-gaps", "the host could not queue the calls in time: launches are in the times", True),
    Flag("not-steady", "power or clock were still moving when sampling began: this is not the sustained speed", True),
    Flag(
        "outliers", "more than 5 % of the samples lie far from the rest; the median is robust, the tail is real", False
    ),
    Flag("autocorrelated", "successive samples resemble each other; the interval is widened for it", False),
    Flag(
        "energy-pace",
        "in the energy windows, seconds of the kernel alone, a call took over 10 % more or less time than when it was timed: energy and power are of that pace",
        False,
    ),
    Flag(
        "energy-disagrees",
        "the energy counter and the integrated power differ by more than 10 %: trust neither alone",
        False,
    ),
    Flag("unchecked", "no reference was given: the result was not checked", False),
    Flag("simulated", "times come from the simulated or replayed timer, not from this machine", False),
    Flag("forced", "measured with --roofline-force-measure on a machine that is not this chip", False),
)

FLAGS = {flag.key: flag for flag in _ALL}
"""Every flag by key, in the order they are explained."""

DOUBTFUL_FLAGS = frozenset(flag.key for flag in _ALL if flag.is_doubtful)
"""Flags of a measurement that put its time in doubt."""
