"""Which times of a pass may be held against each other: what a kernel takes, what a machine's ceilings allow, the
ideal.

On a calibrated machine the expected time of a kernel that was timed there is what it takes; that of any other kernel is
what the measured ceilings allow, and a library may be far from it or have no such kernel at all. A plan that rests on
the second must not win against one that rests on the first. Where no kernel of a CPU was timed at all its ceilings have
nothing to stand beside: plans have their ideal times, as everywhere else.
"""

from __future__ import annotations

from dataclasses import replace

from roofline_model.chips.hardware import Device
from roofline_model.core.answer import Estimate
from roofline_model.expected.calibrated import CALIBRATED_VERSION
from roofline_model.expected.prediction import ExpectedPrediction
from roofline_model.kernels.known_kernels import why_no_time_here
from roofline_model.models.decoder_step import Workload
from roofline_model.models.llm import ModelPrediction
from roofline_model.models.step_expected import PRODUCTS, expected_step
from roofline_model.operators.product import Operator
from roofline_model.recommend.search.pass_times import remembering

UNTIMED_RATIO = 0.1
"""Share of the reference's ideal time in products and attention that may rest on ceilings without saying so."""


class ExpectedPasses:
    """Expected times of passes on one chip: the usual estimate of a recommendation. Asks for every operator once.

    The first pass asked for a workload is the reference, 16 bit: a later one rests on ceilings where one of its
    products, or its attention, does that was timed in the reference.
    """

    def __init__(self, device: Device) -> None:
        self._device, self._remembered = device, remembering()
        self._reference: dict[Workload, frozenset[str]] = {}

    def __call__(self, prediction: ModelPrediction) -> Estimate | None:
        """Return the expected time, as `ceilings` where it rests on kernels that were not timed; None without one."""
        if why_no_time_here(self._device):
            return None
        untimed: set[Operator] = set()

        def ask(work: Operator, device: Device) -> ExpectedPrediction | None:
            remembered = self._remembered(work, device)
            if remembered is not None and remembered.model_version == CALIBRATED_VERSION and work.op in PRODUCTS:
                untimed.add(work)
            return remembered

        step = expected_step(prediction, self._device, estimate=ask)
        if step is None:
            return None
        rests_on_ceilings = self._rests_on_ceilings(prediction, untimed)
        return replace(step.estimate, source="ceilings") if rests_on_ceilings else step.estimate

    def _rests_on_ceilings(self, prediction: ModelPrediction, untimed: set[Operator]) -> bool:
        products = [kernel for kernel in prediction.kernels if kernel.kernel.work.op in PRODUCTS]
        works = {product.kernel.work for product in products}
        # Experts are timed by products that stand in for them: one of these that was not timed counts for all experts.
        is_stranger_untimed = any(work not in works for work in untimed)
        resting = [
            product
            for product in products
            if product.kernel.work in untimed
            or (is_stranger_untimed and product.kernel.work.op in ("grouped_gemm", "batched_gemm"))
        ]
        names = frozenset(product.kernel.name for product in resting)
        if prediction.workload not in self._reference:
            is_mostly = sum(product.time_s for product in resting) > UNTIMED_RATIO * sum(
                product.time_s for product in products
            )
            # What the reference itself does not know excuses others, unless it knows next to nothing: then all are
            # alike.
            self._reference[prediction.workload] = frozenset() if is_mostly else names
            return is_mostly
        return bool(names - self._reference[prediction.workload])
