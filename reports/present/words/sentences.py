"""What every surface says of the order of a ranking, and of what an expected time stands for."""

from __future__ import annotations

ORDER_OF_MEASURED = (
    "by time. Intervals that overlap within 10 % of the fastest are a tie: the smaller loss goes first, then less memory. "
    "A lossy option goes before a lossless one only where their 95 % intervals are apart; without an interval it must be "
    "more than 5 % faster"
)
GOOD_KERNELS = "Times and intervals are of kernels alone; an engine adds its own overhead."


def order_of_predictions(source: str, *, has_intervals: bool) -> str:
    """Return by what predicted options are ranked; `source` of their times: expected, ideal or ceilings."""
    if not has_intervals:
        return f"by {source} time. Times within 5 % are a tie: the smaller loss goes first, then less memory"
    return (
        f"by the slow end of the 80 % interval of the {source} time. Ends within 5 % are a tie: the shorter {source} time "
        "goes first. Where times are within 5 %, too, the smaller loss decides (unknown last), then less memory. A "
        f"lossless option goes before a lossy one that is {source} as fast"
    )
