"""Power of a chip while an engine serves, from how busy it is and how much its tensor cores compute.

Fitted on 506 rows of GB10 (Django de Vreng, dgx-spark-benchmarks, CC BY 4.0): the GPU's own telemetry, not the wall and
not the memory, whose power no row tells. Other chips have no constants.
"""

from __future__ import annotations

from roofline_model.engines.engine import PowerConstants
from roofline_model.engines.loads import ClientTimes, Load
from roofline_model.engines.steps import StepModel


def mean_power_w(steps: StepModel, load: Load, times: ClientTimes, constants: PowerConstants) -> float:
    """Return the mean power under a load, watts."""
    busy = min(1.0, load.request_count)
    model = steps.model
    head_flops = 2 * model.elements["lm_head"] * load.output_tokens
    layer_flops = 2 * model.active_count * (load.input_tokens + load.output_tokens)
    attention_flops = sum(model.attention_flops(load.input_tokens, load.cached_tokens))
    flops_per_request = layer_flops + head_flops + attention_flops
    seconds_per_request = (times.token_s * load.output_tokens + times.first_token_s * (load.kind == "single")) / max(
        1.0, times.decoding_count
    )
    tensor = min(1.0, flops_per_request / seconds_per_request / steps.device.peak_flops_per_s(model.wide))
    return constants.idle_w * (1 - busy) + constants.busy_w * busy + constants.tensor_w * tensor
