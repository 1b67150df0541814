"""One format of a question on one chip, in the terms that a page's tables, figures and sentences share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline_model.chips.hardware import Device
from roofline_model.core.finding import reason_text, short_text
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.formats.catalog import Pair, pair_label
from roofline_model.ideal.roofline import Prediction
from roofline_model.models.llm import ModelPrediction
from roofline_model.models.model_memory import ModelMemory
from roofline_model.models.step_expected import ExpectedStep
from roofline_model.predictions.attention import AttentionPrediction
from roofline_model.predictions.model import PassPrediction
from roofline_model.predictions.product import ProductPrediction

Kernel = ProductPrediction | AttentionPrediction


@dataclass(frozen=True, slots=True)
class Row:
    """A prediction of one kernel or of one pass of a model. Missing is None; times are seconds, the rest SI as well."""

    predicted: Kernel | PassPrediction
    chip: Device
    key: str
    """Formats as they are asked for: `INT4.BF16`, or a plan in words."""
    label: str
    """What people call them: `INT4 (W4A16)`."""

    @classmethod
    def of(cls, kernel: Kernel, chip: Device, pair: Pair) -> Row:
        """Return the row of one kernel."""
        return cls(kernel, chip, pair_label(pair), kernel.formats_name)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel; None of a pass."""
        return None if isinstance(self.predicted, PassPrediction) else self.predicted

    @property
    def ideal(self) -> Prediction | ModelPrediction:
        """Time, bound, work and bytes at the speed of light."""
        return self.predicted.ideal if isinstance(self.predicted, PassPrediction) else self.predicted

    @property
    def expected(self) -> ExpectedPrediction | ExpectedStep | None:
        """What good kernels take; None where nobody knows."""
        return self.predicted.expected

    @property
    def parts_s(self) -> dict[str, float]:
        """Part of one kernel's expected time → seconds; empty of a pass, and without an expected time."""
        return dict(self.expected.parts) if isinstance(self.expected, ExpectedPrediction) else {}

    @property
    def memory(self) -> ModelMemory | None:
        """What a model takes; None of one kernel."""
        return self.predicted.ideal.memory if isinstance(self.predicted, PassPrediction) else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second of a pass by the time it is judged by; None of one kernel."""
        return self.ideal.token_count / self.judged_s if isinstance(self.ideal, ModelPrediction) else None

    @property
    def moved_bytes(self) -> float:
        """Bytes that are read and written."""
        if isinstance(self.ideal, ModelPrediction):
            return self.ideal.moved_bytes
        return self.ideal.read_bytes + self.ideal.write_bytes

    @property
    def intensity_flop_per_byte(self) -> float:
        """Work for each byte that is moved."""
        return self.ideal.flops / self.moved_bytes

    @property
    def peak_flops_per_s(self) -> float | None:
        """Dense peak of its path, of a pass that of its layers' activations; None where the chip has none."""
        if self.kernel is not None:
            return self.kernel.peak_flops_per_s
        path = self.chip.paths.get(self.predicted.activation_format)
        return None if path is None else path.dense.value

    @property
    def unit(self) -> tuple[str, str]:
        """The format whose unit computes, and how: native, emulated or dequantize; empty of a pass."""
        if self.kernel is not None:
            return self.kernel.compute_format, self.kernel.path
        path = self.chip.paths.get(self.predicted.activation_format)
        return self.predicted.activation_format if path is None else path.compute_format, ""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Of the memory that it reads."""
        return self.chip.bandwidth.value if self.kernel is None else self.kernel.bandwidth_bytes_per_s

    @property
    def memory_level(self) -> str:
        """The memory that it reads: `DRAM`, or a cache."""
        return "DRAM" if self.kernel is None else self.kernel.memory_level

    @property
    def ridge_flop_per_byte(self) -> float | None:
        """Intensity from which on the peak binds."""
        return None if self.peak_flops_per_s is None else self.peak_flops_per_s / self.bandwidth_bytes_per_s

    @property
    def gap(self) -> Literal["", "kernel", "engine"]:
        """What is missing to run it: nothing, any kernel, or a serving engine where a library has one."""
        gap = self.predicted.kernel_gap
        return "" if gap is None else "kernel" if gap.value("library") is None else "engine"

    @property
    def fits(self) -> bool | None:
        """Whether it fits the chip's memory; None where nobody knows, and for one kernel."""
        return None if self.memory is None else self.memory.fits

    @property
    def is_possible(self) -> bool:
        """Whether nothing is known to be missing."""
        return not self.gap and self.fits is not False

    @property
    def judged_s(self) -> float:
        """The time it is judged by: the expected one where there is one."""
        return (self.expected or self.ideal).time_s

    @property
    def gain_ratio(self) -> float | None:
        """Over the 16-bit baseline: expected against expected where both are known, else ideal against ideal."""
        ratio = self.predicted.expected_speedup_ratio
        return self.predicted.speedup_ratio if ratio is None else ratio

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the prediction itself says, in words."""
        predicted, expected = self.predicted, self.expected
        note = predicted.coverage if isinstance(predicted, PassPrediction) else predicted.engine_gap
        of_parts = expected.findings if isinstance(expected, ExpectedPrediction) else ()
        findings = (note, None if expected is None else expected.beside_ideal, *of_parts, *predicted.findings)
        why_not = [] if predicted.expected_reason is None else [reason_text(predicted.expected_reason)]
        return (*(short_text(each) for each in findings if each is not None), *why_not)
