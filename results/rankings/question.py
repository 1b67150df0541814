"""What somebody asks of the stored runs; every part narrows the answer."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import PHASES, Case, Sizes, pass_name
from roofline_model.operators.product import GEMV_MAX_ROWS
from roofline_model.recommend.search.losses_file import MeasuredLosses

SubjectKey = tuple[str, tuple[tuple[str, int], ...]]
"""(operator, sizes) of a shape; (`model:NAME`, batch and context) of a model, all its phases."""


def subject_of(case: Case) -> SubjectKey:
    """Return what a case is about: what competes is about the same."""
    name = pass_name(case.op, case.shape)
    if name is None:
        return case.op, case.shape
    return f"model:{name.model_name}", (("batch", name.batch_count), ("context", name.context_count))


def phase_of(op: str, shape: Sizes) -> str:
    """Return decode for a product of few rows, prefill for any other; empty for operators that are no products."""
    row_count = dict(shape).get("M")
    if op not in ("gemv", "gemm") or row_count is None:
        return ""
    return "decode" if row_count <= GEMV_MAX_ROWS else "prefill"


@dataclass(frozen=True, slots=True)
class StoredQuestion:
    """Filters and limits. Raises `InvalidValueError` naming the field."""

    hardware_key: str = ""
    """A chip's key; empty: every chip that is stored."""
    model: str = ""
    """Passes of this model only; empty: shapes and models."""
    phase: str = ""
    """decode or prefill; empty: both, and operators that have none."""
    op: str = ""
    """This operator only: gemv, gemm, attention, …"""
    shape: tuple[int, ...] = ()
    """These sizes only, in the order of the operator's: M, N, K of a product; empty: all."""
    memory_limit_bytes: float | None = None
    max_loss_pct: float | None = None
    """Most that perplexity may rise, in percent: an option beyond it is excluded. None: the choice keeps
    `MAX_LOSS_PCT`, and faster ones stay in the ranking; infinite: any loss may be chosen.
    """
    losses: tuple[MeasuredLosses, ...] = ()
    """Measured losses of models by layer and format (`read_losses`): known where a run measured none."""
    is_forced: bool = False
    """Whether a result is named although the times behind it were disturbed or are implausible."""
    subjects: frozenset[SubjectKey] = frozenset()
    """These shapes and models only (`subject_of`); empty: all."""

    def __post_init__(self) -> None:
        if self.phase and self.phase not in PHASES:
            raise InvalidValueError(f"phase must be {' or '.join(PHASES)}, got {self.phase[:40]!r}")
        limit, loss = self.memory_limit_bytes, self.max_loss_pct
        if limit is not None and not 0 < limit < float("inf"):
            raise InvalidValueError(f"the memory limit must be a positive number of bytes, got {limit!r}")
        if loss is not None and not loss >= 0:
            raise InvalidValueError(f"the limit of the loss must be a percentage from 0, got {loss!r}")

    def is_about(self, case: Case) -> bool:
        """Return whether an answer needs a case, whatever chip it ran on: those that are asked for, and of a model
        every pass, because its quality may have been measured in another phase or at another context.
        """
        name_of_pass = pass_name(case.op, case.shape)
        if name_of_pass is None:
            return self.asks_for(case)
        if self.model and name_of_pass.model_name.lower() != self.model.lower():
            return False
        if self.subjects and all(name != f"model:{name_of_pass.model_name}" for name, _ in self.subjects):
            return False
        wanted_name = pass_name(self.op, case.shape)
        return not self.op or (
            wanted_name is not None and wanted_name.model_name.lower() == name_of_pass.model_name.lower()
        )

    def asks_for(self, case: Case) -> bool:
        """Return whether a case is of a ranking that is asked for, whatever chip it ran on."""
        name = pass_name(case.op, case.shape)
        if self.model and (name is None or name.model_name.lower() != self.model.lower()):
            return False
        if self.phase and self.phase != (phase_of(case.op, case.shape) if name is None else name.phase):
            return False
        if self.subjects and subject_of(case) not in self.subjects:
            return False
        if self.op and case.op.lower() != self.op.lower():
            return False
        return not self.shape or tuple(size for _, size in case.shape) == self.shape
