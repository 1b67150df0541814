"""What kernels return and take, as trees of arrays: mappings, sequences, None, and numbers of some type at the ends.

Reals become float64 and complex numbers complex128; integers and truth values keep their type, so that nothing of them
is lost. A sparse tensor is read as the dense one that it stands for, or, where that were too large, as its indices and
values. Neither torch nor any other library is imported for it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plugin.samples.float_types import FloatType, float_type
from roofline_model.core.errors import InvalidValueError

MOST_DENSE = 1 << 27
"""Numbers that a sparse tensor may stand for to be compared as a dense one (1 GiB of float64)."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a tree."""

    type_name: str
    """As the library calls it: `bfloat16`, `int64`; of a plain number Python's, which binds nobody to its width."""
    array: Any
    """float64, complex128, or integers and truth values in their own type."""

    @property
    def float_type(self) -> FloatType | None:
        """The type of reals, or of the parts of complex numbers; None of others and of plain numbers."""
        return float_type(self.type_name)

    @property
    def is_exact(self) -> bool:
        """Whether it holds integers or truth values."""
        return self.array.dtype.kind in "biuO"

    @property
    def is_complex(self) -> bool:
        """Whether its numbers have an imaginary part."""
        return bool(self.array.dtype.kind == "c")


Tree = dict[Any, "Tree"] | list["Tree"] | Leaf | None


def raw_leaves(value: Any) -> Iterator[Any]:
    """Yield what lies at the ends of a structure as it is, without None; dictionaries in the order of their keys."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            yield from raw_leaves(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from raw_leaves(item)
    elif value is not None:
        yield value


def type_name(raw: Any) -> str:
    """Return the name of the type of a tensor's, array's or plain number's elements; empty for anything else."""
    if isinstance(raw, bool | int | float | complex):
        return type(raw).__name__
    return str(getattr(raw, "dtype", "")).removeprefix("torch.")


def element_count(raw: Any) -> int:
    """Return how many numbers a tensor or array has; 1 for anything else."""
    return math.prod(int(extent) for extent in getattr(raw, "shape", ()))


def read_tree(value: Any, *, copied: bool = False) -> Tree:
    """Return a structure of tensors, arrays and numbers as a tree of leaves; `copied`: with memory of their own.

    Raises `InvalidValueError` naming the type of what holds no numbers.
    """
    if isinstance(value, dict):
        return {key: read_tree(item, copied=copied) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [read_tree(item, copied=copied) for item in value]
    if value is None:
        return None
    if _is_sparse(value) and element_count(value) > MOST_DENSE:
        coordinates = value.detach().to_sparse_coo().coalesce()
        return read_tree({"indices": coordinates.indices(), "values": coordinates.values()}, copied=copied)
    array = _read(value)
    return Leaf(type_name(value), array.copy() if copied else array)


def leaves_of(tree: Tree) -> list[Leaf]:
    """Return the leaves of a tree in their order."""
    return list(raw_leaves(tree))


def paired(output: Tree, reference: Tree, place: str = "") -> Iterator[tuple[str, Leaf, Leaf]]:
    """Yield the leaves that stand at the same place of two trees, with its name; empty where there is only one.

    Lists and tuples are alike, and one of a single part is as good as that part. Raises `InvalidValueError` naming the
    place where one tree has what the other has not.
    """
    if isinstance(output, list) and len(output) == 1 and not isinstance(reference, list):
        output = output[0]
    if isinstance(reference, list) and len(reference) == 1 and not isinstance(output, list):
        reference = reference[0]
    if isinstance(output, dict) and isinstance(reference, dict) and output.keys() == reference.keys():
        for key, item in reference.items():
            yield from paired(output[key], item, f"{place}[{key!r}]")
    elif isinstance(output, list) and isinstance(reference, list) and len(output) == len(reference):
        for position, (mine, item) in enumerate(zip(output, reference, strict=True)):
            yield from paired(mine, item, f"{place}[{position}]" if len(reference) > 1 else place)
    elif isinstance(output, Leaf) and isinstance(reference, Leaf):
        yield place, output, reference
    elif output is not None or reference is not None:
        where = f" at {place}" if place else ""
        raise InvalidValueError(f"the output{where} is {_form(output)}, the reference is {_form(reference)}")


def _form(tree: Tree) -> str:
    if isinstance(tree, dict):
        return f"a mapping of {', '.join(map(repr, tree)) or 'nothing'}"
    if isinstance(tree, list):
        return f"a sequence of {len(tree)}"
    return "None" if tree is None else "one array"


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "detach") and str(value.layout) != "torch.strided"


def _read(value: Any) -> Any:
    """Return the numbers of a tensor, array or plain number as an array of numpy."""
    import numpy as np

    try:
        if hasattr(value, "detach"):  # a torch tensor, without importing torch
            return _read_tensor(value.detach())
        array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)  # scipy's sparse matrices
        if array.dtype.kind in "biu" or isinstance(value, int):
            return array
        if array.dtype.kind == "c":
            return array.astype(np.complex128)
        if array.dtype.kind in "fV" and array.dtype.names is None:  # V: the types of ml_dtypes
            return array.astype(np.int64 if "int" in array.dtype.name else np.float64)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise InvalidValueError(f"a {type(value).__name__} cannot be compared: {str(error)[:120]}") from None
    raise InvalidValueError(f"a {type(value).__name__} holds no numbers to compare")


def _read_tensor(tensor: Any) -> Any:
    if getattr(tensor, "is_quantized", False):
        tensor = tensor.dequantize()
    if _is_sparse(tensor):
        tensor = tensor.to_dense()
    if str(tensor.dtype).startswith("torch.float4"):  # two numbers a byte, which torch does not take apart
        return tensor.view(sys.modules["torch"].uint8).cpu().numpy()
    if tensor.is_complex():
        return tensor.cpu().cdouble().resolve_conj().resolve_neg().numpy()
    if tensor.is_floating_point():
        return tensor.double().cpu().numpy()
    return tensor.cpu().numpy()
