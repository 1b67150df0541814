"""The twelve columns that a frame shows first."""

from __future__ import annotations

import pytest

from results import load_frame
from results.exchange.exported.frame import FIRST_COLUMNS
from roofline_model import InvalidValueError


def test_a_frame_says_the_speedup_over_bf16(request: pytest.FixtureRequest) -> None:
    golden = request.config.rootpath / "examples/runs/cpu-amd-epyc-2t/quick.json"
    from results import import_any, open_store

    place = request.getfixturevalue("tmp_path") / "r.db"
    with open_store(place) as store:
        import_any(store, golden)
    frame = load_frame(place)
    assert tuple(frame.columns) == FIRST_COLUMNS
    assert len(frame.columns) == 12
    everything = load_frame(place, columns="all")
    assert len(everything) == len(frame)
    assert len(everything.columns) > 100
    has_speedup = frame["speedup_ratio"].notna()
    assert has_speedup.any()
    assert (frame.loc[has_speedup, "speedup_ratio"] > 0).all()
    baseline = frame[(frame["format"] == "BF16") & has_speedup]
    assert (baseline["speedup_ratio"] <= 1).all()
    with pytest.raises(InvalidValueError):
        load_frame(place, columns="some")  # type: ignore[arg-type]
