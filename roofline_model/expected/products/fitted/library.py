"""The constants that ship with the package (`constants/*.toml`), and whose to use for a chip: its own, a sibling's, a relative's."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources

from roofline_model.core.errors import UnsupportedError
from roofline_model.expected.chip import ChipSpec
from roofline_model.expected.products.fitted.constants import FittedGemm
from roofline_model.expected.products.fitted.constants_file import read_constants
from roofline_model.expected.products.fitted.transfer import transferred

ATTENTION_PREFIX = "attention-"
"""Files of the attention model lie beside the GEMM ones."""


@cache
def shipped_gemm() -> tuple[FittedGemm, ...]:
    """Return every GEMM kernel family whose constants ship with the package, chip by chip."""
    folder = resources.files("roofline_model.expected").joinpath("constants")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return tuple(
        fitted
        for name in names
        if not name.startswith(ATTENTION_PREFIX)
        for fitted in read_constants(folder.joinpath(name).read_text(encoding="utf-8"), f"expected/constants/{name}")
    )


@lru_cache(maxsize=512)
def find_gemm(chip: ChipSpec, kernel_family: str, known: tuple[FittedGemm, ...] | None = None) -> FittedGemm:
    """Return the constants for `chip`: fitted on it, else transferred (same family, same class, other class).

    `known` replaces the shipped library (a fit's own result, or a library with one chip left out). Raises
    `UnsupportedError` when no chip was ever measured with this kernel family.
    """
    library = shipped_gemm() if known is None else known
    own = [one for one in library if one.chip.key == chip.key and one.family == kernel_family]
    if own:
        return own[0]
    found = transferred(chip, kernel_family, library)
    if found is None:
        measured = ", ".join(sorted({one.family for one in library})) or "none"
        raise UnsupportedError(
            f"no expected time for {kernel_family} products on {chip.key}: no chip was measured with them. "
            f"Measured: {measured}. Fit constants with `roofline fit --from FILE`; the ideal roofline stands."
        )
    return found
