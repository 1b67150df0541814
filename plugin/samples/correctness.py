"""Is the kernel right? Nothing is timed that was not compared with a reference first, and again after.

The measure is norm-wise: ‖output − reference‖ / ‖reference‖ in float64. NaN and Inf never pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline_model.core.errors import InvalidValueError

Check = Callable[[Any], float]


class WrongResultError(AssertionError):
    """A kernel's output is not what it must be: a failed test, never a timing."""


@dataclass(slots=True)
class Verifier:
    """Checks the outputs of one kernel and remembers the largest error seen."""

    check: Check
    tolerance: float
    max_error: float = 0.0

    def verify(self, output: Any, when: str) -> None:
        """Raise `WrongResultError` unless the output is within the tolerance, `InvalidValueError` for no error at all."""
        __tracebackhide__ = True
        error = _relative_error_of(self.check(output))
        if math.isnan(error) or math.isinf(error):
            raise WrongResultError(f"{when}: the output holds NaN or Inf, or cannot be compared")
        self.max_error = max(self.max_error, error)
        if error > self.tolerance:
            raise WrongResultError(f"{when}: relative error {error:.3g} exceeds the tolerance {self.tolerance:.3g}")


def make_verifier(
    reference: Any, check: Check | None, tolerance: float | None, arguments: Sequence[Any]
) -> Verifier | None:
    """Return the verifier for what the user gave, or None when there is nothing to compare with.

    `reference` is the expected output, or a callable that computes it from the same arguments; it is evaluated once,
    before anything is timed. Default tolerance: 1e-2, right for 16-bit outputs. Raises `InvalidValueError` for a
    tolerance that no wrong result could exceed (an output of zeros has the error 1) and a reference without a number.
    """
    if check is not None and reference is not None:
        raise InvalidValueError("give either reference= or check=, not both")
    allowed = 1e-2 if tolerance is None else _checked_tolerance(tolerance)
    if check is not None and not callable(check):
        raise InvalidValueError(
            f"check must be a function of the kernel's output that returns the relative error, got {type(check).__name__}"
        )
    if check is not None:
        return Verifier(check, allowed)
    if reference is None:
        return None
    expected = _snapshot(reference(*arguments) if callable(reference) else reference)
    if not any(array.size for array in expected):
        raise InvalidValueError(
            "the reference holds no number, so every output would pass: give the expected output, or a function that returns it"
        )
    return Verifier(lambda output: _compared(output, expected), allowed)


def _checked_tolerance(tolerance: Any) -> float:
    if isinstance(tolerance, bool | str) or not hasattr(tolerance, "__float__"):
        raise InvalidValueError(f"tolerance must be a number such as 1e-2, got {_shown(tolerance)}")
    allowed = float(tolerance)
    if not 0 <= allowed < 1:
        raise InvalidValueError(
            f"tolerance must be ≥ 0 and below 1, got {allowed:g}: it is relative, and an output of zeros has the error 1"
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


def _compared(output: Any, expected: Sequence[Any]) -> float:
    """Return `relative_error`; raises `WrongResultError` naming both when the shapes differ."""
    __tracebackhide__ = True
    if output is None and expected:
        raise WrongResultError(
            "the kernel returned nothing to compare; return its output, or name the arguments it writes to in mutates="
        )
    shapes, expected_shapes = ([array.shape for array in _arrays(value)] for value in (output, expected))
    if shapes != expected_shapes:
        raise WrongResultError(f"the output has shape {_shapes(shapes)}, the reference has {_shapes(expected_shapes)}")
    return relative_error(output, expected)


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("×".join(map(str, shape)) or "one number" for shape in shapes) or "nothing"


def relative_error(output: Any, expected: Any) -> float:
    """Return ‖output − expected‖ / ‖expected‖ over all arrays of the two structures; NaN when they cannot be compared."""
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

    if isinstance(value, dict):
        for key in sorted(value):
            yield from _arrays(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif value is not None:
        if hasattr(value, "detach"):  # a torch tensor, without importing torch
            value = value.detach().double().cpu().numpy()
        yield np.asarray(value, dtype=np.float64)
