"""The products of a mixture of experts: only the experts that some token visits are read.

Which ones depends on the text. Counted is the mean over uniform routing, in which every token picks its experts at
random and on its own: of E experts, E·(1 − (1 − k/E)^tokens) are visited. Trained routers are less even, and
neighbouring tokens agree more often than chance: at small batches they visit fewer, so this is the upper side of the
truth.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline_model.core.cost import OpCost
from roofline_model.formats.catalog import get_format
from roofline_model.models.model_shapes import Experts
from roofline_model.operators.elementwise import residual_add
from roofline_model.operators.operand_formats import activation_format, product_format
from roofline_model.operators.product import FormatLike, Operator, check_dimension


@dataclass(frozen=True, slots=True)
class ExpertProduct(Operator):
    """A grouped product whose number of groups is a mean. `shape` has it rounded, the cost and this field as it is."""

    visited_count: float


def visited_count(tokens: float, active_count: int, spread_count: float) -> float:
    """Return the distinct experts that tokens visit on average, of `spread_count` that each draws from evenly."""
    if spread_count <= active_count:
        return float(active_count)
    missed_ratio = 1 - active_count / spread_count
    return float(spread_count * (1 - missed_ratio**tokens))


def visited_experts(rows: int, experts: Experts) -> float:
    """Return how many routed experts `rows` tokens visit on average under uniform routing."""
    check_dimension("rows", rows)
    return visited_count(rows, experts.active_count, experts.expert_count)


def expert_product(
    rows: int, experts: Experts, N: int, K: int, *, a: FormatLike, b: FormatLike, c: FormatLike
) -> ExpertProduct:
    """Return the grouped product of one layer's experts: every token with each of its experts' K×N matrix.

    Counts: 2·rows·active·N·K FLOPs; each visited expert's matrix once; the token for each of its experts, and the
    output. The shape's `groups` is the visited experts, rounded; its M the tokens of all of them together.
    """
    visits = rows * experts.active_count
    for name, size in (("rows", rows), ("N", N), ("K", K), ("M", visits)):
        check_dimension(name, size)
    fa, fb, fc = activation_format("a", a), get_format(b), activation_format("c", c)
    visited = visited_experts(rows, experts)
    cost = OpCost(
        flops={product_format("a", fa, "b", fb): 2 * visits * N * K},
        read_bytes={
            "A": visits * K * fa.traffic_bytes_per_element,
            "B": visited * K * N * fb.traffic_bytes_per_element,
        },
        write_bytes={"C": visits * N * fc.traffic_bytes_per_element},
    )
    shape = (("groups", max(1, round(visited))), ("M", visits), ("N", N), ("K", K))
    return ExpertProduct("grouped_gemm", shape, (("a", fa.key), ("b", fb.key), ("c", fc.key)), cost, visited)


def combine_experts(rows: int, hidden: int, inputs: int, *, a: FormatLike = "BF16") -> Operator:
    """Return the weighted sum of `inputs` expert outputs of each token.

    Counts: every output read once, the sum written once, one MAC per element.
    """
    check_dimension("inputs", inputs)
    addition = residual_add(rows, hidden, a=a)
    size = rows * hidden * get_format(a).traffic_bytes_per_element
    cost = OpCost(
        flops={name: 2 * inputs * rows * hidden for name, _ in addition.cost.flops},
        read_bytes={"X": inputs * size},
        write_bytes={"Y": size},
    )
    return Operator("combine_experts", (("rows", rows), ("width", hidden), ("inputs", inputs)), addition.formats, cost)
