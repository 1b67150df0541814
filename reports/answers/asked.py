"""A question as it is typed on the command line: pairs of option and value, and how a shell reads them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline_model.chips.hardware import Device

Asked = Sequence[tuple[str, str]]
"""(option, value) of what was asked, defaults left out; the value is empty for a switch."""
OF_PRINTING = frozenset({"--all", "--json", "--plot", "--output", "--layers"})
"""Options about how an answer is shown: no part of the question."""


def option_words(asked: Asked, *, without: Collection[str] = (), only: Collection[str] | None = None) -> str:
    """Return options for a shell, each with a space before it: those of `only`, but for those about printing and of
    `without`.
    """
    left_out = OF_PRINTING | set(without)
    kept = [pair for pair in asked if pair[0] not in left_out and (only is None or pair[0] in only)]
    return "".join(f" {option} {shlex.quote(value)}" if value else f" {option}" for option, value in kept)


def asked_chip_words(chip: Device) -> Asked:
    """Return the chip as `--hw` takes it; nothing for this machine, which was measured and has no key there."""
    return () if chip.calibration is not None else (("--hw", chip.key),)


def place_of(asked: Asked) -> str:
    """Return where something is measured: on this machine, or on one with the chip that was asked about."""
    chip = dict(asked).get("--hw", "auto")
    return "on this machine" if chip == "auto" else f"on a machine with {chip}"
