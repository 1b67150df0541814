"""How large is what the numbers of an output are made of? A small remainder of large terms has their roundings.

A reference that is a function tells it itself (`sizes_by_trial`): it is asked again with all arguments a rounding away,
a few times, and what that changes in a number is the size of its terms, times the rounding. So each number of an
elementwise kernel is held against its own size, a dot product against the norm of its products, LayerNorm of offset
data against the offset. What a function hides, because it takes terms away that no argument shows (the 1 of
1 + erf(x)), is known from arguments of the output's own shape, and counted where a number changes much faster than its
argument, or is so small beside it that FP32 could not tell it from 0.

Of a fixed reference only shapes are known (`sizes_by_shape`): the typical number of the output stands for its terms,
and of a few numbers the arguments do.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plugin.samples.float_types import float_type, is_byte
from plugin.samples.leaves import Leaf, leaves_of, raw_leaves, read_tree, type_name
from plugin.timers.clock import time
from roofline_model.formats.rounding import unit_roundoff

TRIALS = 8
"""Enough that no number of a million seems to have no terms by chance."""
MOST_SECONDS = 4.0
"""A reference that takes longer for all trials is taken as fixed; its very first call may have loaded a library."""
STEEP_RATIO = 3.0
"""A product of several arguments changes by their number's root; what changes faster is a remainder of larger terms."""
MOST_TURNS = 6
"""Times that an elementwise function goes through its own order; 64 numbers at random do so twenty times."""
MOST_SAMPLED = 1 << 16
"""Numbers of a large array that its statistics are made from, about."""
FEW = 16
"""Numbers of an output that are too few to have a typical one."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known of the terms of one array of an output."""

    sizes: Any
    """Of each number, itself among them; None where nothing is known yet."""
    own_sizes: Any = None
    """The same without what other places may add, which most numbers hardly need; None where places tell nothing."""
    underflow: Any = 1.0
    """By how much a kernel may multiply what its type cannot hold any more."""
    seen: tuple[Any, ...] = ()
    """Integers that the reference gave for arguments a rounding away: what no right kernel need agree on."""


def sizes_by_trial(
    reference: Callable[..., Any], arguments: Sequence[Any], expected: Sequence[Leaf], roundoff: float, took_s: float
) -> list[Terms] | None:
    """Return the terms of each array of a reference that is a function; None where it cannot be asked again.

    roundoff: of the type that kernels compute with (ratio); took_s: seconds of the first call.
    """
    import numpy as np

    if took_s > MOST_SECONDS or not can_move(arguments):
        return None
    has_reals = not all(leaf.is_exact for leaf in expected)
    step = max([2 * roundoff, *(_own_step(raw, has_reals) for raw in raw_leaves(tuple(arguments)))])
    changes = [np.zeros(leaf.array.shape) for leaf in expected]
    seen: list[list[Any]] = [[] for _ in expected]
    noise, began_s = Noise(), time.perf_counter()
    for trial in range(TRIALS):
        noise.next_is_half = bool(trial % 2)
        if trial and (time.perf_counter() - began_s) * TRIALS > MOST_SECONDS * trial:
            return None
        try:
            moved = tuple(_moved(argument, step, has_reals, noise) for argument in arguments)
            given = leaves_of(read_tree(reference(*moved)))
        except Exception:  # whatever a function raises that was not made for such arguments
            return None
        if [leaf.array.shape for leaf in given] != [leaf.array.shape for leaf in expected]:
            return None
        for position, (leaf, own) in enumerate(zip(given, expected, strict=True)):
            if own.is_exact:
                seen[position] += [leaf.array] if not np.array_equal(leaf.array, own.array) else []
            else:
                change = np.abs(leaf.array - own.array)
                changes[position] = np.hypot(changes[position], np.where(np.isfinite(change), change, 0.0))
    change_to_size = 1 / (step * Noise.RMS * math.sqrt(TRIALS))
    return [
        Terms(None, seen=tuple(others))
        if own.is_exact
        else Terms(_with_hidden(own, change * change_to_size, arguments))
        for own, change, others in zip(expected, changes, seen, strict=True)
    ]


def _with_hidden(own: Leaf, changes: Any, arguments: Sequence[Any]) -> Any:
    """Return the sizes of numbers that change so much in proportion to their arguments."""
    import numpy as np

    size = np.where(np.isfinite(own.array), np.abs(own.array), 0.0)
    alike = [each for each in _alike(own.array.shape, arguments) if each.shape == own.array.shape]
    hidden: Any = 0.0
    if alike:
        together = np.maximum(sum(alike), math.prod(alike))
        together *= min(1.0, _rms(size) / (_rms(together) or 1.0))
        is_remainder = (changes > STEEP_RATIO * size) | (size < unit_roundoff("FP32") * together)
        hidden = np.where(is_remainder, together, 0.0)
    return np.hypot(size, changes) + hidden


def sizes_by_shape(own: Leaf, arguments: Sequence[Any], *, is_local: bool) -> Terms:
    """Return the terms of an array of a reference that is fixed.

    is_local: each number is made of those at its place, so that no typical one stands for it.
    """
    import numpy as np

    size = np.where(
        np.isfinite(own.array.astype(own.array.dtype if own.is_complex else np.float64)), np.abs(own.array), 0
    )
    size = size.astype(np.float64)
    alike = _alike(size.shape, arguments)
    own_sizes = size + sum(_gain(size, argument) * argument for argument in alike)
    if is_local or _is_function(own, arguments):
        return Terms(own_sizes)
    typical = _rms(size) if alike or size.size >= FEW else _of_few(size, arguments)
    return Terms(np.maximum(own_sizes, typical), own_sizes if alike else None)


def _is_function(own: Leaf, arguments: Sequence[Any]) -> bool:
    """Return whether an output is a smooth function of its one argument, number by number: neighbours give neighbours.

    In the order of the argument such an output goes through its own order a few times; one that other places have a
    part in jumps at every number.
    """
    import numpy as np

    reals = [raw for raw in raw_leaves(tuple(arguments)) if _is_inexact(raw)]
    leaf = read_tree(reals[0]) if len(reals) == 1 else None
    if not isinstance(leaf, Leaf) or leaf.array.shape != own.array.shape or leaf.is_complex or own.is_complex:
        return False
    argument, output = (_sampled(array).astype(np.float64) for array in (leaf.array, own.array))
    is_finite = np.isfinite(argument) & np.isfinite(output)
    argument, output = argument[is_finite], output[is_finite]
    if output.size < 4 * FEW:
        return False
    ranks = np.unique(output, return_inverse=True)[1].reshape(-1)[np.argsort(argument, kind="stable")]
    return int(np.abs(np.diff(ranks)).sum()) <= MOST_TURNS * int(ranks.max())


def _gain(size: Any, argument: Any) -> float:
    """Return how fast an output changes with an argument of its shape, along the axis where that is most."""
    import numpy as np

    if argument.shape != size.shape:
        return 0.0
    size, argument = _sampled(size), _sampled(argument)
    ratios = [0.0]
    for axis in (None, *range(size.ndim)):
        spread_of_output, spread = np.std(size, axis=axis), np.std(argument, axis=axis)
        rms = lambda values: float(np.sqrt(np.mean(np.square(values))))  # noqa: E731
        ratios += [rms(spread_of_output) / rms(spread)] if rms(spread) > 0 else []
    return max(ratios)


def _sampled(array: Any) -> Any:
    """Return some of a large array: every so many of its longest axis."""
    longest = max(range(array.ndim), key=lambda axis: array.shape[axis], default=0)
    step = max(1, array.size // MOST_SAMPLED)
    return array[(slice(None),) * longest + (slice(None, None, step),)] if array.ndim else array


def _of_few(size: Any, arguments: Sequence[Any]) -> float:
    """Return the size of the sums that a few numbers are, by the arguments that are summed."""
    reals = sorted(
        (each for each in map(_magnitudes, raw_leaves(tuple(arguments))) if each is not None and each.ndim),
        key=lambda each: -each.size,
    )
    if not reals or not size.size:
        return _rms(size)
    if len(reals) > 1:
        terms = math.sqrt(reals[0].size * reals[1].size / size.size)
        return max(_rms(size), _rms(reals[0]) * _rms(reals[1]) * math.sqrt(terms))
    rms, terms = _rms(reals[0]), reals[0].size / size.size
    # A mean is no larger than that; a sum seldom so small.
    is_mean = _rms(size) <= 6.5 * rms / math.sqrt(terms)
    return max(_rms(size), rms if is_mean else rms * math.sqrt(terms))


def _alike(shape: tuple[int, ...], arguments: Sequence[Any]) -> list[Any]:
    """Return the magnitudes of arguments of the output's shape, or spread to it; empty where some cannot be."""
    import numpy as np

    magnitudes = []
    for raw in raw_leaves(tuple(arguments)):
        values = _magnitudes(raw)
        if values is None or not values.ndim:
            continue
        try:
            fits = np.broadcast_shapes(values.shape, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            return []
        magnitudes.append(values)
    return magnitudes


def _magnitudes(raw: Any) -> Any:
    """Return the magnitudes of an argument of real or complex numbers, 0 where not finite; None of anything else."""
    import numpy as np

    if not _is_inexact(raw):
        return None
    leaf = read_tree(raw)
    if not isinstance(leaf, Leaf) or leaf.is_exact:
        return None
    return np.where(np.isfinite(leaf.array), np.abs(leaf.array), 0.0)


def underflow_factors(shape: tuple[int, ...], arguments: Sequence[Any]) -> Any:
    """Return by how much a kernel may multiply what its type cannot hold any more: by its arguments at that place, else
    by the largest, to 2¹⁰.
    """
    import numpy as np

    alike = _alike(shape, arguments)
    if alike:
        return np.clip(np.max(np.broadcast_arrays(*alike), axis=0), 1.0, 1024.0)
    magnitudes = [_magnitudes(raw) for raw in raw_leaves(tuple(arguments))]
    largest = max((float(each.max()) for each in magnitudes if each is not None and each.size), default=1.0)
    return min(max(largest, 1.0), 1024.0)


def _rms(values: Any) -> float:
    import numpy as np

    largest = float(np.max(values, initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(values / largest)))) if largest > 0 else 0.0


# Arguments a rounding away --------------------------------------------------------------------------------------


def can_move(arguments: Sequence[Any]) -> bool:
    """Whether an argument holds numbers that roundings can move."""
    return any(map(_is_inexact, raw_leaves(tuple(arguments))))


def _is_inexact(raw: Any) -> bool:
    """Whether a value is an array or tensor that roundings can move."""
    return hasattr(raw, "shape") and (float_type(type_name(raw)) is not None or type_name(raw) in ("int8", "uint8"))


def _own_step(raw: Any, has_reals: bool) -> float:
    """Return the smallest change that the type of an argument shows (ratio)."""
    import numpy as np

    own = float_type(type_name(raw)) if hasattr(raw, "shape") else None
    if own is not None:
        return 2 * own.roundoff
    if not (has_reals and _is_inexact(raw) and is_byte(type_name(raw))):
        return 0.0
    leaf = read_tree(raw)
    return 1 / max(1.0, _rms(np.abs(leaf.array.astype(np.float64)))) if isinstance(leaf, Leaf) else 0.0


def _moved(value: Any, step: float, has_reals: bool, noise: Noise) -> Any:
    """Return a copy of an argument with each of its numbers changed by half a step to two, either way."""
    if isinstance(value, dict):
        return type(value)((key, _moved(item, step, has_reals, noise)) for key, item in value.items())
    if isinstance(value, list | tuple):
        items = [_moved(item, step, has_reals, noise) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    is_torch = type(value).__name__ in ("Tensor", "Parameter") and hasattr(value, "untyped_storage")
    if not is_torch and not hasattr(value, "__array_interface__"):
        return value  # a plain number, or something of a type of its own
    is_whole = float_type(type_name(value)) is None
    if not _is_inexact(value) or (is_whole and not has_reals):
        return value.clone() if is_torch else value.copy()
    return _moved_tensor(value, step, noise) if is_torch else _moved_array(value, step, noise)


def _moved_array(array: Any, step: float, noise: Noise) -> Any:
    import numpy as np

    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    moved = _off(wide, step, noise.of(array.shape), array.dtype, np)
    narrow = moved.astype(array.dtype)
    return np.where(np.isfinite(narrow.astype(wide.dtype)), narrow, array)


def _moved_tensor(tensor: Any, step: float, noise: Noise) -> Any:
    torch = sys.modules["torch"]
    if tensor.layout == torch.sparse_coo:
        tensor = tensor.detach().coalesce()
        values = _moved_tensor(tensor.values(), step, noise)
        return torch.sparse_coo_tensor(tensor.indices(), values, tensor.shape, check_invariants=False)
    if tensor.layout != torch.strided:
        return tensor  # its other operands tell enough
    given = tensor.detach()
    wide = given.cdouble() if given.is_complex() else given.double()
    factors = torch.from_numpy(noise.of(tuple(given.shape))).to(given.device)
    moved = torch.empty_like(given).copy_(_off(wide, step, factors, given.dtype, torch))
    back = moved.to(wide.dtype)
    moved.copy_(torch.where(back.isfinite(), back, wide))
    return moved.requires_grad_(tensor.requires_grad) if tensor.requires_grad else moved


def _off(wide: Any, step: float, noise: Any, dtype: Any, library: Any) -> Any:
    """Return float64 numbers, each off by a step; integers by the step of the typical one."""
    if str(dtype).removeprefix("torch.") not in ("int8", "uint8"):
        return wide * (1 + step * noise)
    limits = library.iinfo(dtype)
    size = float((wide * wide).mean()) ** 0.5
    return (wide + (noise * max(1.0, step * size)).round()).clip(limits.min, limits.max)


class Noise:
    """Numbers from 1 to 2 of either sign, every other array of half the size, so that equal terms of two arguments do
    not change alike. One stretch of numbers is repeated: its length fits no array's sides.
    """

    LENGTH = 65_537
    RMS = math.sqrt((1 + 1 / 4) / 2 * 7 / 3)
    """Of an array that is now whole, now half."""

    def __init__(self) -> None:
        import numpy as np

        self._generator = np.random.default_rng(0)
        self.next_is_half = False

    def of(self, shape: tuple[int, ...]) -> Any:
        """Return an array of `shape`."""
        import numpy as np

        count, scale = math.prod(shape), 0.5 if self.next_is_half else 1.0
        self.next_is_half = not self.next_is_half
        values = self._generator.uniform(-1, 1, min(count, self.LENGTH))
        return np.resize(scale * (values + np.sign(values)), shape)
