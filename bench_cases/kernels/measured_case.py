"""One case of a kernel: declared, checked, and measured with the `roofline` fixture, or skipped with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from bench_cases.kernels.guards import chip_reason, read_machine_facts, skip_reason
from bench_cases.kernels.spec import FILL, CaseSpec
from roofline_model.core.errors import UnsupportedError
from roofline_model.core.finding import reason_text


def measure_case(roofline: Any, spec: CaseSpec) -> None:
    """Declare, then skip with a reason or measure a case with the `roofline` fixture.

    torch is imported after `declare`, which skips when this machine must not measure: a prediction needs no torch.
    """
    roofline.declare(
        spec.case,
        spec.work,
        unavailable=chip_reason(spec.kernel, dict(spec.case.formats), roofline.hardware)
        or spec.kernel.reason_against(spec.case),
        extra={"fill": FILL, **({"origin": spec.origin} if spec.origin else {})},
    )

    from bench_cases.kernels.products.prepare import prepare
    from bench_cases.kernels.proof import KernelProof

    reason = skip_reason(spec, read_machine_facts(roofline.torch_device))
    if reason is not None:
        pytest.skip(reason_text(reason))
    try:
        kernel = prepare(spec, roofline.torch_device)
    except UnsupportedError as error:  # torch refuses this kernel for these very operands
        pytest.skip(str(error))
    proof = KernelProof(spec.kernel.name, spec.kernel.proof, lambda: kernel.fn(*kernel.make_args(0)))
    with kernel.settings():
        roofline.measure(
            kernel.fn, make_args=kernel.make_args, check=proof.checked(kernel.check), again=kernel.settings
        )
    if proof.facts:
        roofline.keep(ran=proof.facts)
