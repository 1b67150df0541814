"""The roofline of a ranking, for notebooks: a point for each format of a product, computed when it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline_model.recommend.options import product_name

if TYPE_CHECKING:
    from roofline_model.core.answer import Ranking


def product_picture(ranking: Ranking) -> str:
    """Return the roofline of the options of a product as SVG; empty for a chip that is not registered."""
    from roofline_model.chips.hardware import get_hardware
    from roofline_model.core.errors import UnknownNameError
    from roofline_model.ideal.operator_sequence import predict_operator
    from roofline_model.ideal.roofline_picture import roofline_svg
    from roofline_model.operators.product import gemm

    question = ranking.question
    try:
        chip = get_hardware(question.hardware)
    except UnknownNameError:
        return ""
    predictions = {}
    for option in ranking.options:
        formats = dict(option.formats)
        M, N, K = (size for _, size in question.sizes)
        work = gemm(M, N, K, a=formats["a"], b=formats["b"], c=formats.get("c"))
        predictions[product_name(option)] = predict_operator(work, chip)
    return roofline_svg(predictions)
