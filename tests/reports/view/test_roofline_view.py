"""The data behind the plot: roofs, ridge points, points and the highlight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.view.roofline_view import roofline_view
from results.cases.case_result import case_results
from results.cases.shape_verdict import shape_verdicts


def view_of(records, device=None):
    rows = case_results(records)
    return roofline_view(
        rows, shape_verdicts(case_results(records)), hardware_key="x", title="t", subtitle="s", device=device
    )


def test_roof_and_ridge_of_each_format_by_hand(make):
    view = view_of([make.record((1, 4096, 4096), b, b, "k", device=make.GPU) for b in ("BF16", "FP8_E4M3", "FP32")])
    by_name = {roof.precision: roof for roof in view.roofs}
    assert list(by_name) == ["FP8 (W8A8)", "BF16", "FP32"]  # highest first
    assert by_name["BF16"].critical_intensity_flop_per_byte == pytest.approx(989.4e12 / 4.8e12)
    assert by_name["FP8 (W8A8)"].critical_intensity_flop_per_byte == pytest.approx(1979 / 4.8)
    assert by_name["BF16"].rate_flops_per_s(1.0) == 4.8e12
    assert by_name["BF16"].rate_flops_per_s(1e6) == 989.4e12
    assert (view.unit_flops_per_s, view.unit_label) == (1e12, "TFLOP/s")


def test_a_weight_only_format_stands_under_the_roof_of_the_unit_it_uses(make):
    (roof,) = view_of([make.record((1, 4096, 4096), "INT4", "BF16", "tinygemm", device=make.GPU)]).roofs
    assert (roof.precision, roof.compute_format, roof.path) == ("INT4 (W4A16)", "BF16", "dequantize")
    assert roof.peak_flops_per_s == 989.4e12


def test_a_case_that_mixes_formats_draws_no_roof_of_its_own(make):
    pure = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", device=make.GPU)

    def mixed(peak_flops_per_s):
        ideal = replace(pure.ideal, compute_format="BF16+FP32", peak_flops_per_s=peak_flops_per_s)
        return replace(pure, case=replace(pure.case, op="unfused", kernel=str(peak_flops_per_s)), predictions=(ideal,))

    mixes = [mixed(873e12), mixed(783e12)]
    assert [roof.peak_flops_per_s for roof in view_of([pure, *mixes]).roofs] == [989.4e12]
    # Alone they stand under the roof of their main format; without its chip under the highest that was stored.
    assert [(roof.precision, roof.peak_flops_per_s) for roof in view_of(mixes, make.GPU).roofs] == [("BF16", 989.4e12)]
    assert [roof.peak_flops_per_s for roof in view_of(mixes).roofs] == [873e12]


def test_points_are_the_rows_rates(make):
    record = make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 1e-3)
    (point,) = view_of([record]).points
    assert point.measured_flops_per_s == pytest.approx(2 * 4096 * 4096 / 1e-3)
    assert point.predicted_flops_per_s == pytest.approx(
        76e9 * point.intensity_flop_per_byte
    )  # memory-bound: on the slope


def test_skipped_and_failed_cases_draw_neither_point_nor_roof(make):
    view = view_of(
        [
            make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3),
            make.record((1, 64, 64), "INT8", "INT8", "k", status="skipped", reason="x"),
            make.record((1, 64, 64), "FP32", "FP32", "k", 1e-3, status="failed", reason="x"),
        ]
    )
    assert [point.precision for point in view.points] == ["BF16"]
    assert [roof.precision for roof in view.roofs] == ["BF16"]


def test_a_warm_case_gives_the_cache_slope_and_keeps_the_dram_roof(make):
    view = view_of(
        [
            make.record((1, 1024, 1024), "BF16", "BF16", "k", 1e-5, cache="warm"),
            make.record((1, 4096, 4096), "BF16", "BF16", "k", 1e-3),
        ]
    )
    assert [(cache_roof.name, cache_roof.bandwidth_bytes_per_s) for cache_roof in view.cache_roofs] == [("L3", 390e9)]
    assert [roof.bandwidth_bytes_per_s for roof in view.roofs] == [76e9]
    assert view.memory_bandwidth_bytes_per_s == 76e9


def test_the_device_adds_cache_levels_that_no_case_used(make):
    records = [make.record((1, 4096, 4096), "BF16", "BF16", "k", device=make.GPU)]
    assert view_of(records).cache_roofs == ()
    assert [cache_roof.name for cache_roof in view_of(records, make.GPU).cache_roofs] == ["L2"]


def test_highlight_says_what_how_long_and_how_much_faster(make):
    view = view_of(
        [
            make.record((1, 4096, 4096), "BF16", "BF16", "matmul", 2e-3),
            make.record((1, 4096, 4096), "INT8", "BF16", "int8pack", 1e-3),
        ]
    )
    assert view.highlight.lines == (
        "Fastest: INT8 (W8A16) · int8pack",
        "1x4096x4096: 1 ms measured",
        "2.0× BF16, measured",
    )
    assert view.highlight.rate_flops_per_s == pytest.approx(2 * 4096 * 4096 / 1e-3)
    assert [(point.precision, point.standing) for point in view.points if point.is_best] == [
        ("INT8 (W8A16)", "fastest")
    ]


def test_the_fastest_that_others_are_level_with_is_not_called_best(make):
    shape = (1, 4096, 4096)
    records = [
        make.record(shape, "BF16", "BF16", "matmul", 2e-3),
        make.record(shape, "INT8", "BF16", "int8pack", 1e-3),
        make.record(shape, "INT8", "INT8", "int_mm", 1.001e-3),
    ]
    view = view_of(records)
    sentence = "tied with INT8 (W8A8) · int_mm"
    assert view.highlight.lines[0] == "Fastest: INT8 (W8A16) · int8pack"
    assert view.highlight.lines[2:] == ("2.0× BF16, measured", sentence)
    assert [(point.is_best, point.standing) for point in view.points] == [
        (False, ""),
        (False, f"fastest, {sentence}"),
        (False, ""),
    ]
    # Level with the baseline: no speed-up is told, here as in the verdict.
    near = view_of([records[0], make.record(shape, "INT8", "BF16", "int8pack", 1.999e-3)])
    assert near.highlight.lines[0].startswith("Fastest: ")
    assert near.highlight.lines[2:] == ("tied with INT8 (W8A16) · int8pack",)


def test_one_case_is_not_called_best(make):
    view = view_of([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3)])
    assert view.highlight.lines[0] == "Only configuration: BF16 · k"
    assert not any(point.is_best for point in view.points)


def test_empty_and_prediction_less_runs_say_what_is_missing(make):
    empty = view_of([])
    assert (empty.roofs, empty.points, empty.highlight) == ((), (), None)
    assert empty.missing == ("the run holds no cases",)
    bare = view_of([make.record((1, 64, 64), "BF16", "BF16", "k", 1e-3, device=None)])
    assert "no prediction was stored" in bare.missing[0]
    assert bare.points == ()


def test_predictions_only_says_so(make):
    view = view_of([make.record((1, 64, 64), "BF16", "BF16", "k")])
    assert "nothing was measured" in view.missing[0]
    assert view.measured_count == 0


def test_the_callout_claims_no_figure_that_a_doubtful_baseline_does_not_bear(make):
    """The trial's finding: `8.3× FP16, measured` over a baseline of ± 41 %."""

    def shape_of(size, *flags, width):
        base = make.record(
            (1, size, size),
            "BF16",
            "BF16",
            "matmul",
            4.15e-3,
            flags=flags,
            ci_low_s=4.15e-3 * (1 - width),
            ci_high_s=4.15e-3 * (1 + width),
        )
        return [base, make.record((1, size, size), "INT8", "BF16", "int8pack", 0.5e-3)]

    doubtful = shape_of(4096, "noisy", width=0.41)
    assert view_of(doubtful).highlight.lines[2:] == (
        "about 8× BF16 (4.9× to 12×), measured",
        "the baseline's time is doubtful: measure again",
    )
    wide = view_of(shape_of(4096, width=0.41)).highlight
    assert wide.lines[2:] == ("8.3× BF16 (4.9× to 12×), measured",)
    # A smaller gain that nothing disturbs is the better one to show.
    sure = [
        make.record((1, 2048, 2048), "BF16", "BF16", "matmul", 2e-3),
        make.record((1, 2048, 2048), "INT8", "BF16", "int8pack", 1e-3),
    ]
    assert view_of([*doubtful, *sure]).highlight.lines[1:] == ("1x2048x2048: 1 ms measured", "2.0× BF16, measured")


@pytest.mark.parametrize("flag", ["contended", "quarantined", "stolen"])
def test_no_medal_rests_on_a_busy_machine(make, flag):
    busy = [
        make.record((1, 2048, 2048), "BF16", "BF16", "matmul", 8e-3, flags=(flag,)),
        make.record((1, 2048, 2048), "INT8", "BF16", "int8pack", 0.1e-3),
    ]
    view = view_of(busy)
    assert view.highlight is None
    assert not any(point.is_best or point.standing for point in view.points)
