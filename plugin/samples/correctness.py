"""Is the kernel right? Nothing is timed that was not compared with a reference first, and again after.

An output has the form of its reference (keys, places of None, shapes) and a type that is no narrower than its work,
arguments and reference ask for (`float_types`). Reals and complex numbers are compared number by number: the largest
error of n numbers may be `spreads_allowed(n)` times the tolerance, of the number's own size and that of the terms it is
made of (`term_sizes`), and the errors of all together the tolerance. NaN and Inf are right where the reference has
them, and Inf where the result's type holds nothing so large.

Integers and truth values are equal, with two exceptions. An index may be another one where an argument holds the same
value at both, or where the reference itself gives it for arguments a rounding away. And small integers that were made
of reals (16 bits and fewer: quantisation) may be the neighbour, as often as a rounding crosses the middle between two.

A tolerance that nobody gave is what rounding explains (`default_tolerance`); it follows from the types that work,
arguments and reference have, never from the output's own. A check of the caller's own may bring tolerances itself, as a
`Deviation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plugin.samples.float_types import Argument, FloatType, coarsest_roundoff, expected_type, float_type, names_codes
from plugin.samples.leaves import Leaf, element_count, leaves_of, paired, raw_leaves, read_tree, type_name
from plugin.samples.operand_data import copied
from plugin.samples.term_sizes import FEW, Terms, can_move, sizes_by_shape, sizes_by_trial, underflow_factors
from plugin.timers.clock import time
from roofline_model.core.errors import InvalidValueError
from roofline_model.formats.rounding import Deviation, mean_square_allowed, spreads_allowed, unit_roundoff, worst
from roofline_model.operators.product import Operator

Check = Callable[[Any], float | Deviation]

CHECK_TOLERANCE = 1e-2
"""Of a check that returns a number."""
NARROW_ROUNDINGS = 2
"""Of 16 bits and fewer, in typical errors: some four roundings to the format, each of which is half a unit roundoff
off.
"""
WIDE_ROUNDINGS = 16
"""Of 32 and 64 bits: exponentials and roots of kernels are right to four bits less than the format."""
MOST_NEIGHBOURS, FEW_NEIGHBOURS = 0.4, 3
"""Share of integers that rounding may turn into the neighbour; where it is more, their steps are finer than the reals'.
A few of them may do so at any rate.
"""
MANY_RATIO, MANY_SHARE = 16, 0.05
"""A twentieth of all numbers that is off by 16 tolerances of its own size is no chance: what cancels is rarer."""
ONE_FACTOR_SHARE = 0.1
"""What is left of the errors once a factor is taken out, as a ratio of it, where all numbers are off by that factor."""
_LOCAL = ("residual_add", "silu_mul", "gelu")
"""Operators that make each number of those at its place."""
_PRODUCTS = ("gemv", "gemm", "batched_gemm", "grouped_gemm")


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

    def learn(self, kernel: Callable[..., Any]) -> None:
        """Ask the kernel how large the terms of a few numbers are, where a fixed reference cannot say it."""
        if isinstance(self.check, _Comparison):
            self.check.learn(kernel)

    def verify(self, output: Any, when: str, fix: str = "") -> None:
        """Raise `WrongResultError` unless the output is within the tolerance, `InvalidValueError` for no error at
        all. `fix` says what may have gone wrong.
        """
        __tracebackhide__ = True
        try:
            checked = self.check(output)
        except WrongResultError as failure:
            raise WrongResultError(f"{when}: {failure}") from None
        deviation = checked if isinstance(checked, Deviation) else Deviation(_relative_error_of(checked), self.default)
        error, tolerance, where, values = deviation
        if math.isnan(error) or math.isinf(error):
            raise WrongResultError(f"{when}: the output holds NaN or Inf, or cannot be compared")
        self.worst_deviation = deviation if self.worst_deviation is None else worst([deviation, self.worst_deviation])
        if not deviation.is_right:
            place, advice = f" ({where})" if where else "", f"; {fix}" if fix else ""
            if len(values) == 2:
                raise WrongResultError(f"{when}: {where} is {values[0]}, the reference has {values[1]}{advice}")
            if values:
                raise WrongResultError(
                    f"{when}: all numbers are {values[0]} times the reference's (tolerance {tolerance:.3g}){advice}"
                )
            raise WrongResultError(
                f"{when}: relative error {error:.3g} exceeds the tolerance {tolerance:.3g}{place}{advice}"
            )


def make_verifier(
    reference: Any, check: Check | None, tolerance: float | None, arguments: Sequence[Any], *, work: Any = None
) -> Verifier | None:
    """Return the verifier for what the user gave, or None when there is nothing to compare with.

    `reference` is the expected output, or a callable that computes it from the same arguments; it is evaluated now,
    before anything is timed, and a callable a few times more with arguments a rounding away. `work`: what the kernel
    does; an operator names its output's type. Default tolerance: `default_tolerance`; 1e-2 for a check that returns a
    number. Raises `InvalidValueError` for a tolerance that no wrong result could exceed (an output of zeros has the
    error 1) and a reference without a number.
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
        return Verifier(check, CHECK_TOLERANCE if allowed is None else allowed)
    if reference is None:
        return None
    return Verifier(
        _Comparison.with_reference(reference, arguments, work, allowed), 0.0 if allowed is None else allowed
    )


def default_tolerance(roundoff: float, length: int) -> float:
    """Return the typical relative error that rounding explains: of the whole output, or of one number.

    roundoff: of the coarsest type on the way (ratio); length: terms of the longest sum there can be. A few roundings to
    that type, and √length roundings of a running sum in FP32, or FP64 where everything is.
    """
    wide = min(roundoff, unit_roundoff("FP32"))
    roundings = NARROW_ROUNDINGS * roundoff if roundoff > wide else 0.0
    return max(roundings, WIDE_ROUNDINGS * wide) + wide * math.sqrt(length)


def _longest_sum(work: Any, arguments: Sequence[Any]) -> int:
    """Return how many terms the longest sum of a kernel has: as its work says, else as many as its largest argument."""
    if isinstance(work, Operator) and work.op in (*_LOCAL, *_PRODUCTS):
        return dict(work.shape).get("K", 1)
    return max(map(element_count, raw_leaves(tuple(arguments))), default=1)


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


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Compares outputs with one reference."""

    expected: Any
    """The reference, as a tree of leaves of its own."""
    terms: dict[int, Terms]
    """Of the leaves of the reference, by their `id`."""
    arguments: Sequence[Any]
    work: Any
    tolerance: float | None
    has_trials: bool
    """Whether the reference is a function, which tells the terms itself."""

    @classmethod
    def with_reference(
        cls, reference: Any, arguments: Sequence[Any], work: Any, tolerance: float | None
    ) -> _Comparison:
        import numpy as np

        began_s = time.perf_counter()
        given = reference(*arguments) if callable(reference) else reference
        expected = read_tree(given, copied=True)
        took_s = time.perf_counter() - began_s
        leaves = leaves_of(expected)
        comparison = cls(expected, {}, arguments, work, tolerance, callable(reference))
        if not any(leaf.array.size and not _is_nan(leaf.array).all() for leaf in leaves):
            raise InvalidValueError(
                "the reference holds no number, so every output would pass: give the expected output, or a function "
                "that returns it"
            )
        with np.errstate(all="ignore"):
            comparison._find_terms(reference if callable(reference) else None, leaves, took_s)
        return comparison

    def _find_terms(self, reference: Any, leaves: Sequence[Leaf], took_s: float) -> None:
        """Learn how large the terms of each array are; `reference`: None where it is fixed."""
        trials = None
        if reference is not None:
            types = [each for leaf in leaves for each in (self._type(leaf), leaf.float_type)]
            roundoff = coarsest_roundoff(self._given, *types)
            trials = sizes_by_trial(reference, self.arguments, leaves, roundoff, took_s)
        is_local = isinstance(self.work, Operator) and self.work.op in _LOCAL
        for leaf, tried in zip(leaves, trials or [Terms(None)] * len(leaves), strict=True):
            terms = tried
            if terms.sizes is None:
                terms = replace(sizes_by_shape(leaf, self.arguments, is_local=is_local), seen=tried.seen)
            if any(each is not None and each.exponent_bits < 8 for each in (self._type(leaf), leaf.float_type)):
                terms = replace(terms, underflow=underflow_factors(leaf.array.shape, self.arguments))
            self.terms[id(leaf)] = terms

    def learn(self, kernel: Callable[..., Any]) -> None:
        """Take the terms of outputs of a few numbers from the kernel, asked with arguments a rounding away.

        Whatever it computes, it shows how far roundings carry: of a mean not as far as of a sum. A wrong kernel is as
        wrong by that as by a typical number, which a few numbers do not have.
        """
        import numpy as np

        leaves = leaves_of(self.expected)
        is_few = any(leaf.array.size < FEW and not leaf.is_exact for leaf in leaves)
        if self.has_trials or not is_few or not can_move(self.arguments):
            return
        began_s = time.perf_counter()
        try:
            given = leaves_of(read_tree(kernel(*copied(tuple(self.arguments))), copied=True))
        except Exception:  # a kernel that takes no copies says nothing
            return
        took_s = time.perf_counter() - began_s
        types = [each for leaf in leaves for each in (self._type(leaf), leaf.float_type)]
        with np.errstate(all="ignore"):
            trials = sizes_by_trial(kernel, self.arguments, given, coarsest_roundoff(self._given, *types), took_s)
        if trials is None or [leaf.array.shape for leaf in given] != [leaf.array.shape for leaf in leaves]:
            return
        for leaf, tried in zip(leaves, trials, strict=True):
            if leaf.array.size < FEW and tried.sizes is not None:
                size = np.where(np.isfinite(leaf.array), np.abs(leaf.array), 0.0)
                self.terms[id(leaf)] = replace(self.terms[id(leaf)], sizes=np.maximum(size, tried.sizes))

    def __call__(self, output: Any) -> Deviation:
        """Return what is furthest from right; raises `WrongResultError` for another form, shape or a narrower type."""
        __tracebackhide__ = True
        import numpy as np

        if output is None:
            raise WrongResultError(
                "the kernel returned nothing to compare; return its output, or give the positions of the arguments it "
                "writes to in mutates="
            )
        try:
            pairs = list(paired(read_tree(output), self.expected))
        except InvalidValueError as error:
            raise WrongResultError(str(error)) from None
        with np.errstate(all="ignore"):
            return worst([self._deviation(place, leaf, right) for place, leaf, right in pairs])

    def _deviation(self, place: str, output: Leaf, right: Leaf) -> Deviation:
        __tracebackhide__ = True
        which = f"output {place} " if place else ""
        if output.array.shape != right.array.shape:
            raise WrongResultError(
                f"the {which or 'output '}has shape {_shape(output)}, the reference has {_shape(right)}"
            )
        if not right.array.size:
            return Deviation(0.0, 0.0)
        terms = self.terms[id(right)]
        if output.is_exact and not self._is_rounded(output):
            return self._integers(output.array, right.array, terms.seen, which)
        expected, own = self._type(right), output.float_type
        narrowest = 16 if expected is None else expected.bits
        is_scale = names_codes(self.work) or (own is not None and not own.mantissa_bits)
        if own is not None and own.bits < narrowest and not is_scale:
            name = "16 bits" if expected is None else expected.name
            raise WrongResultError(
                f"the {which or 'output '}is {own.name}, narrower than {name}: if that is meant, name it as the output's "
                "format in work=, or return it from the reference"
            )
        if output.is_exact and self.tolerance is None:
            return _quantised(output.array, right.array, self._default_tolerance(right, None), which)
        return self._reals(output, right, expected or own, which)

    # Types ---------------------------------------------------------------------------------------------------

    @property
    def _given(self) -> list[Argument]:
        shaped = [raw for raw in raw_leaves(tuple(self.arguments)) if hasattr(raw, "shape")]
        return [Argument(type_name(raw), tuple(map(int, raw.shape))) for raw in shaped]

    def _type(self, right: Leaf) -> FloatType | None:
        return expected_type(self.work, self._given, right.float_type, right.array.shape)

    def _is_rounded(self, output: Leaf) -> bool:
        """Whether integers may have been rounded from real arguments: indices and counts take more than 16 bits."""
        if output.array.dtype.kind not in "iu" or output.array.dtype.itemsize > 2:
            return False
        names = [type_name(raw) for raw in raw_leaves(tuple(self.arguments))]
        return any(name == "float" or float_type(name) is not None for name in names)

    def _default_tolerance(self, right: Leaf, expected: FloatType | None) -> float:
        roundoff = coarsest_roundoff(self._given, expected, right.float_type)
        return default_tolerance(roundoff, _longest_sum(self.work, self.arguments))

    # Numbers -------------------------------------------------------------------------------------------------

    def _reals(self, output: Leaf, right: Leaf, own: FloatType | None, which: str) -> Deviation:
        """Compare number by number: NaN and Inf by place, the others by what rounding explains."""
        __tracebackhide__ = True
        import numpy as np

        kind = np.complex128 if output.is_complex or right.is_complex else np.float64
        values, exact = output.array.astype(kind, copy=False), right.array.astype(kind, copy=False)
        terms, tolerance, count = self.terms[id(right)], self.tolerance, values.size
        if not (np.isfinite(values).all() and np.isfinite(exact).all()):
            is_finite = _finite(values, exact, math.inf if own is None else own.largest * (1 - 2 * own.roundoff), which)
            values, exact = np.where(is_finite, values, 0), np.where(is_finite, exact, 0)
            count = int(is_finite.sum())
        off, size = values - exact, np.abs(exact)
        error, bound = np.abs(off), 0.0
        if tolerance is None:
            tolerance = self._default_tolerance(right, own)
            bound = 0.0 if own is None or own.bits >= 16 else 2 * own.roundoff
            error = np.maximum(error - (0.0 if own is None else own.smallest * terms.underflow) - bound * size, 0.0)
        is_wide = self.tolerance is None and own is not None and own.bits >= 32
        unit = float(terms.sizes.max()) or 1.0  # squares of the largest and smallest numbers are none
        together = _together(error / unit, terms.sizes / unit, tolerance, is_given=self.tolerance is not None)
        deviations = [
            together,
            _largest(error, terms.sizes, size, tolerance * spreads_allowed(count), which, has_hidden=is_wide),
        ]
        if terms.own_sizes is not None:
            deviations.append(_many(error, terms.own_sizes, tolerance))
        if self.tolerance is None:
            deviations.append(_factor(off / unit, exact / unit, terms.sizes / unit, tolerance + bound))
        return worst(deviations)

    def _integers(self, output: Any, right: Any, seen: Sequence[Any], which: str) -> Deviation:
        """Compare integers and truth values: equal, or an index as good as the reference's."""
        import numpy as np

        differs = _differs(output, right)
        for other in seen:
            differs &= _differs(output, other)
        if not differs.any() or _holds_the_same(output, right, self.arguments):
            return Deviation(0.0, 0.0)
        at = int(np.argmax(differs))
        mine, other = output.reshape(-1)[at].item(), right.reshape(-1)[at].item()
        error = max(1.0, abs(float(mine) - float(other))) / max(1.0, abs(float(other)))
        return Deviation(error, 0.0, _numbered(which, differs, at), (mine, other))


def _finite(values: Any, exact: Any, largest: float, which: str) -> Any:
    """Return where two arrays hold numbers to compare; raises `WrongResultError` where one has NaN or Inf by itself.

    largest: what the expected type holds; beyond it a value may be infinite.
    """
    __tracebackhide__ = True
    import numpy as np

    def alike(mine: Any, right: Any) -> Any:
        return (mine == right) | ((mine != mine) & (right != right)) | (np.isfinite(mine) & np.isfinite(right))

    is_beyond = np.isinf(values) & (np.sign(values.real) == np.sign(exact.real)) & (np.abs(exact) > largest)
    same = alike(values.real, exact.real)
    if values.dtype.kind == "c":
        same &= alike(values.imag, exact.imag)
    strange = ~(same | is_beyond)
    if strange.any():
        raise WrongResultError(
            f"the {which or 'output '}holds NaN or Inf where the reference holds another number, or the reverse "
            f"({_numbered('', strange, int(np.argmax(strange)))})"
        )
    return np.isfinite(values) & np.isfinite(exact)


def _together(error: Any, sizes: Any, tolerance: float, *, is_given: bool) -> Deviation:
    """Return the errors of all numbers together, as a ratio of all sizes."""
    import numpy as np

    scale = float(np.vdot(sizes, sizes))
    if scale == 0:
        return Deviation(float(error.max()), 0.0, "all numbers")
    squares = sizes * sizes
    independent = max(1, int(scale**2 / float(np.vdot(squares, squares))))
    slack = 1.0 if is_given else math.sqrt(mean_square_allowed(independent))
    return Deviation(math.sqrt(float(np.vdot(error, error)) / scale), tolerance * slack, "all numbers")


def _factor(off: Any, exact: Any, sizes: Any, tolerance: float) -> Deviation:
    """Return how far the factor between output and reference is from 1: what one scale does wrong to all numbers."""
    import numpy as np

    power = float(np.vdot(exact, exact).real)
    if power == 0:
        return Deviation(0.0, tolerance)
    weighted = sizes * np.abs(exact)
    spread = tolerance * math.sqrt(float(np.vdot(weighted, weighted))) / power
    factor = complex(np.vdot(exact, off)) / power
    allowed = tolerance + spreads_allowed(1) * spread
    if factor.imag or not factor:
        return Deviation(abs(factor), allowed, "one factor")
    rest = off - factor.real * exact
    is_all = float(np.vdot(rest, rest).real) < ONE_FACTOR_SHARE**2 * factor.real**2 * power
    digits = 2 + max(2, math.ceil(-math.log10(abs(factor))))
    values = (f"{1 + factor.real:.{digits}g}",) if is_all else ()
    return Deviation(abs(factor), allowed, "one factor", values)


def _largest(error: Any, sizes: Any, right_size: Any, tolerance: float, which: str, *, has_hidden: bool) -> Deviation:
    """Return the error of the number that is furthest off, as a ratio of its own size where it has one.

    has_hidden: of 32 bits and more. What a kernel adds and takes away by itself shows in no trial: the 1 of log(1 + x)
    rounds a small x away. So a twentieth of all numbers may be off like a number of 1, by less than half of itself.
    """
    import numpy as np

    is_beyond = error > tolerance * sizes
    unit = min(1.0, float(np.sqrt(np.mean(np.square(right_size)))))
    if has_hidden and 0 < is_beyond.mean() <= MANY_SHARE:
        error = np.where(is_beyond & (error <= tolerance * unit) & (error < right_size / 2), 0.0, error)
    shares = np.divide(error, sizes, out=np.where(error > 0, np.inf, 0.0), where=sizes > 0)
    at = int(np.argmax(shares))
    off, of_terms, own = (float(values.reshape(-1)[at]) for values in (error, sizes, right_size))
    scale = own or of_terms or 1.0
    return Deviation(off / scale, tolerance * of_terms / scale, _numbered(which, shares, at))


def _many(error: Any, own_sizes: Any, tolerance: float) -> Deviation:
    """Return the error that a twentieth of all numbers exceeds, as a ratio of their own sizes."""
    import numpy as np

    shares = np.divide(error, own_sizes, out=np.where(error > 0, np.inf, 0.0), where=own_sizes > 0)
    typical = float(np.quantile(shares, 1 - MANY_SHARE, method="lower"))
    return Deviation(min(typical, 1e300), MANY_RATIO * tolerance, "many numbers")


def _quantised(output: Any, right: Any, tolerance: float, which: str) -> Deviation:
    """Compare small integers that were rounded from reals: the neighbour is right as often as rounding explains."""
    import numpy as np

    values, exact = output.astype(np.float64), right.astype(np.float64)
    size, error = np.abs(exact), np.abs(values - exact)
    limit = 1 + tolerance * size
    at = int(np.argmax(error / limit))
    scale = max(1.0, float(size.reshape(-1)[at]))
    furthest = Deviation(
        float(error.reshape(-1)[at]) / scale, float(limit.reshape(-1)[at]) / scale, _numbered(which, error, at)
    )
    expected = tolerance * float(size.mean()) / 2  # a number lies so near the middle of two integers that often
    if expected >= MOST_NEIGHBOURS:
        return furthest
    count = error.size * expected
    most = count + spreads_allowed(1) * math.sqrt(count) + FEW_NEIGHBOURS
    others = Deviation(float((error > 0.5).mean()), most / error.size, f"{which}share of neighbouring integers")
    return worst([furthest, others])


def _differs(output: Any, right: Any) -> Any:
    if {output.dtype.kind, right.dtype.kind} == {"i", "u"}:  # int64 and uint64 would meet as float64
        return output.astype(object) != right.astype(object)
    return output != right


def _holds_the_same(output: Any, right: Any, arguments: Sequence[Any]) -> bool:
    """Return whether both are indices into an argument that holds equal values there, each of them named once."""
    import numpy as np

    if output.dtype.kind not in "iu" or right.dtype.kind not in "iu":
        return False
    for raw in raw_leaves(tuple(arguments)):
        held = read_tree(raw) if hasattr(raw, "shape") else None
        if not isinstance(held, Leaf) or not held.array.ndim:
            continue
        if not output.ndim:
            candidates = [(held.array.reshape(-1), 0)]
        else:
            candidates = [(held.array, axis) for axis in range(held.array.ndim)]
        for array, axis in candidates:
            mine, other = (_along(array, indices, axis) for indices in (output, right))
            if (
                mine is not None
                and other is not None
                and np.array_equal(mine, other, equal_nan=array.dtype.kind in "fc")
            ):
                return True
    return False


def _along(array: Any, indices: Any, axis: int) -> Any:
    """Return what an array holds at indices along an axis; None where they do not fit it, or name a place twice."""
    import numpy as np

    if indices.ndim == array.ndim - 1:
        indices = np.expand_dims(indices, axis)
    fits = indices.ndim == array.ndim and all(
        mine == own for at, (mine, own) in enumerate(zip(indices.shape, array.shape, strict=True)) if at != axis
    )
    if not fits or not indices.size or indices.min() < 0 or indices.max() >= array.shape[axis]:
        return None
    in_order = np.sort(indices, axis=axis)
    if (np.diff(in_order, axis=axis) == 0).any():
        return None
    return np.take_along_axis(array, indices.astype(np.intp), axis=axis)


def _is_nan(array: Any) -> Any:
    return array != array


def _numbered(which: str, array: Any, at: int) -> str:
    import numpy as np

    place = ", ".join(str(int(index)) for index in np.unravel_index(at, array.shape)) if array.shape else "0"
    return f"{which}number {place}"


def _shape(leaf: Leaf) -> str:
    return "×".join(map(str, leaf.array.shape)) or "one number"
