"""Expected times through the seam of the recommendation: what a good kernel of the chip takes, asked case by case."""

from __future__ import annotations

from collections.abc import Callable

from roofline_model.case import Case
from roofline_model.expected.kernels.predict import KERNEL_VERSION
from roofline_model.expected.predict import EXPECTED_VERSION, PRODUCTS, predict_expected
from roofline_model.hardware import Device
from roofline_model.operators import gemm
from roofline_model.recommendation import TimeEstimate


def expected_times(device: Device) -> Callable[[Case], TimeEstimate | None]:
    """Return the function that gives the expected time of a product on `device`, for `recommend_quantization(times=…)`.

    It answers None for what is no product (gemv, gemm), where the chip has no expected time, and where all that is known are
    the ceilings of a calibrated machine: they do not say whether it has a kernel for the formats. The recommendation then
    falls back to the ideal and says so.
    """

    def times(case: Case) -> TimeEstimate | None:
        if case.op not in PRODUCTS:
            return None
        sizes, formats = dict(case.shape), dict(case.formats)
        work = gemm(sizes["M"], sizes["N"], sizes["K"], a=formats["a"], b=formats["b"], c=formats["c"])
        found = predict_expected(work, device, cache=case.cache)
        if found is None or found.model_version not in (EXPECTED_VERSION, KERNEL_VERSION):
            return None
        return TimeEstimate(found.time_s, "expected", found.low_s, found.high_s, found.provenance)

    return times
