"""Which chip a question about stored runs means: one that is stored, one that is known but was never run, or none at
all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from roofline_model.chips.hardware import list_hardware
from roofline_model.core.errors import InvalidValueError, UnknownNameError


def stored_chip(name: str, stored: Collection[str], find_key: Callable[[str], str], *, all_of_them: str) -> str:
    """Return the key of the chip of a name, of `stored` keys or, where nothing at all is stored, of any chip.

    `find_key`: name, alias, … → key of a chip that exists; raises `UnknownNameError` where there is none.
    `all_of_them`: how to ask about every stored chip, in the words of the caller. Raises `InvalidValueError` for a chip
    without stored runs and `UnknownNameError` with the nearest names for what is not a chip; both name the stored ones.
    """
    wanted = name.strip().lower()
    exact = next((key for key in sorted(stored) if key.lower() == wanted), None)
    if exact is not None:
        return exact
    listed = f"stored chips: {', '.join(sorted(stored)) or 'none yet'}"
    try:
        key = find_key(name)
    except UnknownNameError:
        chips = list_hardware()
        names = {*stored, *(chip.key for chip in chips), *(alias for chip in chips for alias in chip.aliases)}
        raise UnknownNameError("hardware", name, names, fix=f"{listed[0].upper()}{listed[1:]}.") from None
    if key in stored or not stored:
        return key
    raise InvalidValueError(
        f"no run of {key} is stored, so there is nothing to recommend from; {listed}. {all_of_them}"
    )
