"""POST /api/sweep: vectorised predictions in a process or thread of its own, piece by piece, so that nothing else waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from reports.api.analysis_models import SweepAnswer, SweepRequest
from reports.api.chip_lookup import DEFAULT_CHIP, HardwareKey, find_chip
from reports.api.problem import FieldProblem, ProblemError, naming
from roofline_model.errors import UnsupportedError
from roofline_model.formats import NumberFormat
from roofline_model.hardware import Device
from roofline_model.operators import compute_format

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

router = APIRouter(tags=["grids"])

PIECE_ROWS = 8_192
"""Rows predicted at a time: long enough for numpy, short enough to hold no lock for long."""
PIECE_BYTES = 262_144

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Pairs = tuple[tuple[NumberFormat, NumberFormat], ...]


@router.post("/api/sweep", response_model=SweepAnswer, summary="Predict a whole grid")
async def sweep(request: Request, body: SweepRequest, hardware_key: HardwareKey = DEFAULT_CHIP) -> StreamingResponse:
    """Ideal and expected times of every combination of sizes, chips and formats, as columns."""
    service = request.app.state.service
    if body.hardware is None:
        chips = [find_chip(hardware_key)]
    else:
        chips = [find_chip(name, "hardware", "body") for name in body.hardware]
    chips = list({chip.key: chip for chip in chips}.values())
    async with service.sweeping:
        pieces = await service.workers.run(
            _answer, body, [chip.key for chip in chips], service.limits.max_sweep_points_count
        )
    return StreamingResponse(
        _slices(pieces), media_type="application/json", headers={"Content-Length": str(len(pieces))}
    )


def _answer(body: SweepRequest, chip_keys: Sequence[str], most: int) -> bytes:
    """Return the `SweepAnswer` as JSON."""
    from roofline_model.sweep import format_pairs

    chips = [find_chip(key) for key in chip_keys]
    with naming("formats"):
        pairs = tuple(dict.fromkeys(format_pairs(body.formats)))
    axes = (_axis("M", body.M, most), _axis("N", body.N, most), _axis("K", body.K, most))
    shape_count = len(axes[0]) * len(axes[1]) * len(axes[2])
    point_count = shape_count * len(chips) * len(pairs)
    if point_count > most:
        raise _too_many("M", f"{point_count:,} predictions: {shape_count:,} products × {len(chips)} chips × {len(pairs)} formats", most)  # fmt: skip
    series = [_series(axes, chip, pair, body.cache, body.with_expected) for chip in chips for pair in pairs]
    shapes = _shapes(axes)
    return b"".join(
        [b'{"point_count":%d,"cache":"%s","shapes":' % (point_count, body.cache.encode()), shapes, b',"series":[', b",".join(series), b"]}"]
    )  # fmt: skip


def _axis(name: str, given: int | list[int] | str, most: int) -> tuple[int, ...]:
    """Return the sizes of one axis, sorted, each once."""
    from roofline_model.sweep import parse_axis

    if isinstance(given, int):
        return (given,)
    if isinstance(given, list):
        return tuple(sorted(set(given)))
    for part in given.split(","):
        bounds = [piece.strip() for piece in part.split(":")]
        # A range is counted before it is made: it may name a million sizes in a few characters.
        if len(bounds) == 3 and all(one.isdecimal() and one.isascii() and len(one) < 12 for one in bounds):
            start, stop, step = map(int, bounds)
            if step and (stop - start) // step >= most:
                raise _too_many(name, f"{(stop - start) // step + 1:,} sizes in {part.strip()[:40]!r}", most)
    with naming(name):
        return parse_axis(name, given)


def _too_many(field: str, what: str, most: int) -> ProblemError:
    message = f"the sweep has {what}, more than {most:,}: use coarser steps, fewer formats or fewer chips"
    return ProblemError(
        422, "sweep-too-large", message, fields=(FieldProblem(field=field, location="body", message=message),)
    )


def _series(
    axes: Axes, chip: Device, pair: tuple[NumberFormat, NumberFormat], cache: str, with_expected: bool
) -> bytes:
    """Return one `SweepSeries` as JSON."""
    from roofline_model.sweep import GemmGrid, sweep_gemm

    columns: dict[str, list[bytes]] = {}
    reason, provenance = "", ""
    for sizes in _pieces(axes):
        table = sweep_gemm(GemmGrid(*sizes, (chip,), (pair,)), cache=cache, with_expected=with_expected)
        for name, values in _values(table, with_expected).items():
            columns.setdefault(name, []).append(_list_items(values))
        reason = reason or str(table["reason"].iat[0])
        provenance = provenance or (str(table["provenance"].iat[0]) if with_expected else "")
    weight, activation = pair
    head = {
        "hardware": chip.key, "weight_format": weight.key, "activation_format": activation.key,
        "reason": reason or None, "provenance": provenance or None, "peak_flops_per_s": _peak(chip, pair),
        "bandwidth_bytes_per_s": chip.bandwidth.value,
    }  # fmt: skip
    if not with_expected:
        head |= dict.fromkeys(("expected_s", "expected_low_s", "expected_high_s"))
    lists = [b'"%s":[%s]' % (name.encode(), b",".join(parts)) for name, parts in columns.items()]
    return b"%s,%s}" % (to_json(head)[:-1], b",".join(lists))


def _values(table: pd.DataFrame, with_expected: bool) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    ideal_s = table["ideal_s"].to_numpy()
    bound = table["bound"].to_numpy(dtype=object)
    is_memory = np.full(len(bound), None, dtype=object)
    is_memory[bound == "memory"], is_memory[bound == "compute"] = True, False
    found = {
        "ideal_s": ideal_s,
        "is_memory_bound": is_memory,
        "intensity_flop_per_byte": table["flops"].to_numpy() / table["bytes"].to_numpy(),
    }
    if with_expected:
        found |= {name: table[name].to_numpy() for name in ("expected_s", "expected_low_s", "expected_high_s")}
    return found


def _peak(chip: Device, pair: tuple[NumberFormat, NumberFormat]) -> float | None:
    weight, activation = pair
    try:
        return chip.peak_flops_per_s(compute_format(activation, weight))
    except UnsupportedError:
        return None


def _shapes(axes: Axes) -> bytes:
    """Return `SweepShapes` as JSON: M slowest, K fastest."""
    m, n, k = axes
    inner = len(n) * len(k)
    columns = {
        "M": [size for size in m for _ in range(inner)],
        "N": [size for size in n for _ in k] * len(m),
        "K": list(k) * (len(m) * len(n)),
    }
    return b"{" + b",".join(b'"%s":[%s]' % (name.encode(), _list_items(values)) for name, values in columns.items()) + b"}"  # fmt: skip


def _list_items(values: Any) -> bytes:
    """Return numbers as the inside of a JSON list, in pieces; NaN and infinity become null."""
    plain = values if isinstance(values, list) else values.tolist()
    parts = [plain[at : at + PIECE_ROWS] for at in range(0, len(plain), PIECE_ROWS)]
    return b",".join(to_json(part, inf_nan_mode="null")[1:-1] for part in parts)


def _pieces(axes: Axes) -> Iterator[Axes]:
    """Cut a grid into grids of at most `PIECE_ROWS` products that follow each other in its own order."""
    m, n, k = axes
    if len(m) * len(n) * len(k) <= PIECE_ROWS:
        yield axes
        return
    # The slowest axis that has more than one size is halved, so that the order stays.
    at = next(index for index, axis in enumerate(axes) if len(axis) > 1)
    middle = len(axes[at]) // 2
    for half in (axes[at][:middle], axes[at][middle:]):
        cut = [*axes]
        cut[at] = half
        yield from _pieces((cut[0], cut[1], cut[2]))


async def _slices(content: bytes):
    for at in range(0, len(content), PIECE_BYTES):
        yield content[at : at + PIECE_BYTES]
