"""Display names of operators and shapes: `gemv 1x4096x4096`; of a whole model `llama, decode, batch 1, 128 tokens`.

Whole models are recognised by their identity alone (`decode:MODEL` or `prefill:MODEL` with the sizes B, Sq, Skv), so
that the names are the same in the terminal, the reports and for runs that were imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline_model.operators.case import Case

PHASES = ("decode", "prefill")
Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PassName:
    """One pass of a whole model, as the case names it."""

    model_name: str
    phase: str
    batch_count: int
    new_count: int
    """New tokens of each sequence."""
    context_count: int
    """Tokens of each sequence after the pass."""

    @property
    def sizes_text(self) -> str:
        """`batch 1, 128 tokens`; new tokens are said where the phase does not (a step of several, a prompt on a
        cache).
        """
        usual = 1 if self.phase == "decode" else self.context_count
        new = "" if self.new_count == usual else f", {self.new_count} of them new"
        return f"batch {self.batch_count}, {self.context_count} token{'' if self.context_count == 1 else 's'}{new}"

    @property
    def title(self) -> str:
        """`seeded-llama-156m, decode, batch 1, 128 tokens`."""
        return f"{self.model_name}, {self.phase}, {self.sizes_text}"


def pass_name(op: str, shape: Sizes) -> PassName | None:
    """Return the model and pass that an operator and its sizes name; None for any other operator."""
    phase, _, model = op.partition(":")
    if phase not in PHASES or not model:
        return None
    sizes = dict(shape)
    if tuple(sizes) != ("B", "Sq", "Skv"):
        return None
    return PassName(model, phase, sizes["B"], sizes["Sq"], sizes["Skv"])


def is_model_case(case: Case) -> bool:
    """Return whether a case is a pass of a whole model."""
    return pass_name(case.op, case.shape) is not None


def op_title(case: Case) -> str:
    """Return the operator in words: `gemv`, `seeded-llama-156m decode`."""
    name = pass_name(case.op, case.shape)
    return case.op if name is None else f"{name.model_name} {name.phase}"


def case_title(op: str, shape: Sizes) -> str:
    """Return operator and sizes in words: `gemv 1x4096x4096`, `seeded-llama-156m, decode, batch 1, 128 tokens`."""
    name = pass_name(op, shape)
    if name is not None:
        return name.title
    return f"{op} {'x'.join(str(size) for _, size in shape)}".rstrip()


def is_meant(case: Case, words: Iterable[str]) -> bool:
    """Return whether all words stand in the case's id, operator or sizes, in any order; capitals do not matter.

    So a name that any table, diff or warning printed finds its case, also where it was cut short with a `…`.
    """
    text = f"{case.op} {case.id} {case_title(case.op, case.shape)}".lower()
    return all(word.lower().rstrip("…") in text for word in words)
