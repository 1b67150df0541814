"""Is the kernel right? Nothing is timed that was not compared with a reference first, and again after.

An output is compared in float64, as a whole (‖output − reference‖ / ‖reference‖) and number by number: the largest
error of n numbers may be `spreads_allowed(n)` times the tolerance, of the number's size or of the typical one's,
whichever is more. A number wrong by itself is too small for a norm, and an error of all numbers is too small for a
single one. NaN and Inf never pass.

A tolerance that nobody gave is what rounding explains (`default_tolerance`). A check of the caller's own may bring
tolerances itself, as a `Deviation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.rounding import Deviation, spreads_allowed, unit_roundoff, worst

Check = Callable[[Any], float | Deviation]

INTEGER_TOLERANCE = 1e-2
"""Of integers made from floats: a number between two integers may become either."""
NARROW_ROUNDINGS = 2
"""Of 16 bits and fewer, in typical errors: some four roundings to the format, each of which is half a unit roundoff
off.
"""
WIDE_ROUNDINGS = 16
"""Of 32 and 64 bits: exponentials and roots of kernels are right to four bits less than the format."""
_FORMATS = {
    "float64": "FP64",
    "float32": "FP32",
    "bfloat16": "BF16",
    "float16": "FP16",
    "float8_e4m3fn": "FP8_E4M3",
    "float8_e5m2": "FP8_E5M2",
}
"""Names of numpy's, ml_dtypes' and torch's float types."""


class WrongResultError(AssertionError):
    """A kernel's output is not what it must be: a failed test, never a timing."""


@dataclass(slots=True)
class Verifier:
    """Checks the outputs of one kernel and remembers what was furthest from right."""

    check: Check
    default: float
    """Tolerance of a check that returns a number."""
    worst_deviation: Deviation | None = None

    @property
    def max_error(self) -> float:
        """Return the error that used most of its tolerance (ratio)."""
        return 0.0 if self.worst_deviation is None else self.worst_deviation.error

    @property
    def tolerance(self) -> float:
        """Return the tolerance of that error (ratio)."""
        return self.default if self.worst_deviation is None else self.worst_deviation.tolerance

    def verify(self, output: Any, when: str, fix: str = "") -> None:
        """Raise `WrongResultError` unless the output is within the tolerance, `InvalidValueError` for no error at
        all. `fix` says what may have gone wrong.
        """
        __tracebackhide__ = True
        checked = self.check(output)
        deviation = checked if isinstance(checked, Deviation) else Deviation(_relative_error_of(checked), self.default)
        error, tolerance, where = deviation
        if math.isnan(error) or math.isinf(error):
            raise WrongResultError(f"{when}: the output holds NaN or Inf, or cannot be compared")
        self.worst_deviation = deviation if self.worst_deviation is None else worst([deviation, self.worst_deviation])
        if not deviation.is_right:
            place, advice = f" ({where})" if where else "", f"; {fix}" if fix else ""
            raise WrongResultError(
                f"{when}: relative error {error:.3g} exceeds the tolerance {tolerance:.3g}{place}{advice}"
            )


def make_verifier(
    reference: Any, check: Check | None, tolerance: float | None, arguments: Sequence[Any]
) -> Verifier | None:
    """Return the verifier for what the user gave, or None when there is nothing to compare with.

    `reference` is the expected output, or a callable that computes it from the same arguments; it is evaluated once,
    before anything is timed. Default tolerance: `default_tolerance`; 1e-2 for a check that returns a number. Raises
    `InvalidValueError` for a tolerance that no wrong result could exceed (an output of zeros has the error 1) and a
    reference without a number.
    """
    if check is not None and reference is not None:
        raise InvalidValueError("give either reference= or check=, not both")
    allowed = None if tolerance is None else _checked_tolerance(tolerance)
    if check is not None and not callable(check):
        raise InvalidValueError(
            "check must be a function of the kernel's output that returns the relative error, got "
            f"{type(check).__name__}"
        )
    if check is not None:
        return Verifier(check, INTEGER_TOLERANCE if allowed is None else allowed)
    if reference is None:
        return None
    given = reference(*arguments) if callable(reference) else reference
    expected = _snapshot(given)
    if not any(array.size for array in expected):
        raise InvalidValueError(
            "the reference holds no number, so every output would pass: give the expected output, or a function that "
            "returns it"
        )
    around = [_kind(leaf) for leaf in _leaves((given, tuple(arguments)))]
    length = max((_size(leaf) for leaf in _leaves(tuple(arguments))), default=1)

    def compared(output: Any) -> Deviation:
        __tracebackhide__ = True
        limit = allowed
        if limit is None:
            limit = default_tolerance([_kind(leaf) for leaf in _leaves(output)], around, length)
        return _compared(output, expected, limit)

    return Verifier(compared, 0.0 if allowed is None else allowed)


def default_tolerance(output: Sequence[str], around: Sequence[str], length: int) -> float:
    """Return the typical relative error that rounding explains: of the whole output, or of one number.

    output: names of the output's types; around: those of the arguments and of the reference; length: terms of the
    longest sum there can be, which is the size of the largest argument. Roundings to the coarsest float type on the
    way, and √length roundings of a running sum in FP32, or FP64 where everything is. Integers made of integers are
    exact.
    """
    units = [unit_roundoff(_FORMATS[kind]) for kind in (*output, *around) if kind in _FORMATS]
    if not any(kind in _FORMATS for kind in output):
        # A reference is FP64 whatever it is about.
        is_made_of_floats = any(_FORMATS.get(kind, "FP64") != "FP64" for kind in around)
        return INTEGER_TOLERANCE if is_made_of_floats else 0.0
    coarsest, wide = max(units), min(max(units), unit_roundoff("FP32"))
    roundings = NARROW_ROUNDINGS * coarsest if coarsest > wide else 0.0
    return max(roundings, WIDE_ROUNDINGS * wide) + wide * math.sqrt(length)


def _kind(leaf: Any) -> str:
    """Return the name of the type of a tensor's, array's or plain number's elements."""
    if isinstance(leaf, bool | int):
        return "int64"
    return "float64" if isinstance(leaf, float) else str(getattr(leaf, "dtype", "")).removeprefix("torch.")


def _size(leaf: Any) -> int:
    shape = getattr(leaf, "shape", ())
    return math.prod(int(extent) for extent in shape)


def _checked_tolerance(tolerance: Any) -> float:
    if isinstance(tolerance, bool | str) or not hasattr(tolerance, "__float__"):
        raise InvalidValueError(f"tolerance must be a number such as 1e-2, got {_shown(tolerance)}")
    allowed = float(tolerance)
    if not 0 <= allowed < 1:
        raise InvalidValueError(
            f"tolerance must be ≥ 0 and below 1, got {allowed:g}: it is relative, and an output of zeros has the error "
            "1"
        )
    return allowed


def _relative_error_of(returned: Any) -> float:
    """Return the result of a user's check as a number; raises `InvalidValueError` if it is no number, or below 0."""
    __tracebackhide__ = True
    expectation = "return the relative error, 0.0 = exact"
    is_truth = isinstance(returned, bool) or str(getattr(returned, "dtype", "")) in ("bool", "torch.bool")
    if returned is None or is_truth or isinstance(returned, str | bytes):
        raise InvalidValueError(f"check returned {_shown(returned)}: {expectation}")
    try:
        error = float(returned)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidValueError(f"check returned {_shown(returned)}: {expectation}") from None
    if error < 0:
        raise InvalidValueError(f"check returned {error:g}, below 0: {expectation}")
    return error


def _shown(value: Any) -> str:
    """Return a small value as it is written, anything else as its type."""
    is_small = value is None or isinstance(value, bool | int | float | str | bytes)
    text = repr(value) if is_small else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}…"


def _compared(output: Any, expected: Sequence[Any], tolerance: float) -> Deviation:
    """Return what is furthest from right; raises `WrongResultError` naming both shapes when they differ."""
    __tracebackhide__ = True
    if output is None and expected:
        raise WrongResultError(
            "the kernel returned nothing to compare; return its output, or name the arguments it writes to in mutates="
        )
    shapes, expected_shapes = ([array.shape for array in _arrays(value)] for value in (output, expected))
    if shapes != expected_shapes:
        raise WrongResultError(f"the output has shape {_shapes(shapes)}, the reference has {_shapes(expected_shapes)}")
    deviations = [Deviation(relative_error(output, expected), tolerance, "all numbers")]
    for position, (values, right) in enumerate(zip(_arrays(output), expected, strict=True)):
        if right.size:
            deviations.append(_largest(values, right, tolerance, f"output {position} " if len(expected) > 1 else ""))
    return worst(deviations)


def _largest(values: Any, right: Any, tolerance: float, which: str) -> Deviation:
    """Return the error of the number that is furthest off, as a ratio of its size or of the typical one's."""
    import numpy as np

    size = np.maximum(np.abs(right), np.sqrt(np.mean(np.square(right))))
    error = np.abs(values - right)
    ratios = np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0)
    at = int(np.argmax(ratios))
    place = ", ".join(str(int(index)) for index in np.unravel_index(at, ratios.shape)) if ratios.shape else "0"
    return Deviation(float(ratios.flat[at]), tolerance * spreads_allowed(right.size), f"{which}number {place}")


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("×".join(map(str, shape)) or "one number" for shape in shapes) or "nothing"


def relative_error(output: Any, expected: Any) -> float:
    """Return ‖output − expected‖ / ‖expected‖ over all arrays of the two structures; NaN when they cannot be
    compared.
    """
    import numpy as np

    outputs, references = list(_arrays(output)), list(_arrays(expected))
    if len(outputs) != len(references) or any(a.shape != b.shape for a, b in zip(outputs, references, strict=True)):
        return math.nan
    difference = math.fsum(float(np.sum(np.square(a - b))) for a, b in zip(outputs, references, strict=True))
    scale = math.fsum(float(np.sum(np.square(b))) for b in references)
    if scale == 0:
        return 0.0 if difference == 0 else math.inf
    return math.sqrt(difference / scale)


def _snapshot(value: Any) -> Any:
    """Return the arrays of a reference as float64 copies, so that a kernel writing in place cannot change them."""
    return [array.copy() for array in _arrays(value)]


def _arrays(value: Any) -> Iterator[Any]:
    import numpy as np

    for leaf in _leaves(value):
        if hasattr(leaf, "detach"):  # a torch tensor, without importing torch
            leaf = leaf.detach().double().cpu().numpy()
        yield np.asarray(leaf, dtype=np.float64)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what a nested structure of outputs or arguments holds, without None."""
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value
