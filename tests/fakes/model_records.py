"""Records of whole models with invented times and true predictions: a seeded Llama of 156 M parameters on GB10."""

from __future__ import annotations

from functools import cache
from typing import Any

from bench_cases.models.model_cases import ModelCase
from bench_cases.models.reference import find_model
from bench_cases.quantization.target import Target
from plugin.run.pending import expected_record
from results.records.records import EnvironmentInfo, HardwareProfile, Measurement, PredictionRecord, Record, RunInfo
from roofline_model.chips.hardware import get_hardware

CHIP = get_hardware("gb10")
RUN_ID = "0193" + "ab" * 14
ISSUE_S = {"BF16": 6e-3, "INT8": 7e-3, "INT4": 7.5e-3}
"""What the host takes to issue a pass: longer than an INT4 step, shorter than all others."""
HELD = {"BF16": 311_462_144, "INT8": 189_045_248, "INT4": 130_885_888}
KL = {"INT8": 2.8e-4, "INT4": 0.035}
TIMES_S = {
    ("decode", "BF16"): 12.9e-3, ("decode", "INT8"): 36.2e-3, ("decode", "INT4"): 5.2e-3,
    ("prefill", "BF16"): 84e-3, ("prefill", "INT8"): 131e-3, ("prefill", "INT4"): 1.93,
}  # fmt: skip
"""As they are on a two-core CPU: INT4 wins decode, and nothing wins prefill."""


@cache
def _predicted(case: ModelCase, has_expected: bool) -> tuple[PredictionRecord, ...]:
    work = case.work(Target("cuda", (12, 1)))
    assert work is not None
    ideal = work.ideal(CHIP)
    expected = work.expected(CHIP)
    assert expected is not None
    stored = PredictionRecord.from_prediction(ideal, CHIP.content_hash, None)
    return (stored, expected_record(expected, ideal, CHIP.content_hash, None)) if has_expected else (stored,)


def model_record(
    precision: str = "INT4",
    phase: str = "decode",
    median_s: float | None = None,
    *,
    kv: str = "BF16",
    batch: int = 1,
    context: int = 128,
    status: str = "",
    reason: str = "",
    has_expected: bool = True,
    half_width_ratio: float = 0.01,
    quality: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    name: str | None = None,
    issue_s: float | None = None,
    **measurement: Any,
) -> Record:
    """One record; measured where a time is given, else predicted. `quality`, `model`: stored facts that differ."""
    case = ModelCase(find_model(name), precision, phase, batch, context, kv)
    predictions = _predicted(case, has_expected)
    identity = case.case
    timed = None
    if median_s is not None:
        values: dict[str, Any] = {
            "samples_s": (median_s,) * 12,
            "calls_per_sample": 1,
            "median_s": median_s,
            "min_s": median_s * 0.99,
            "max_s": median_s * 1.02,
            "mean_s": median_s,
            "std_s": median_s * 0.01,
            "q1_s": median_s,
            "q3_s": median_s,
            "sample_count": 12,
            "ci_low_s": median_s * (1 - half_width_ratio),
            "ci_high_s": median_s * (1 + half_width_ratio),
            "stop_reason": "converged",
            **measurement,
        }
        timed = Measurement(**values)
    plain = precision == "BF16"
    facts = {
        "name": case.model.name,
        "precision": precision,
        "phase": phase,
        "method": "" if plain else "round-to-nearest",
    }
    extra: dict[str, Any] = {"model": facts | (model or {}), "tokens_per_call": case.workload.row_count}
    if issue_s is not None:
        extra["issue_s"] = issue_s
    if timed is not None:
        if not plain:
            extra["model"] |= {
                "layers": {precision: 57},
                "kernels": ["a kernel"],
                "is_emulated": precision == "INT8",
            } | (model or {})
        extra["memory"] = {
            "original_bytes": HELD["BF16"],
            "held_bytes": HELD[precision],
            "stated_bytes": None if plain else HELD[precision],
            "cache_bytes": 1_048_576,
            "peak_bytes": 66_718_336 if precision == "INT8" else 1_247_872,
            "process_bytes": 800_000_000,
        }
        extra["quality"] = _quality(KL.get(precision, 6e-5), plain and kv == "BF16") | (quality or {})
    return Record(
        record_id=identity.case_key.ljust(32, "0"),
        run_id=RUN_ID,
        case=identity,
        status=status or ("measured" if timed else "predicted"),  # type: ignore[arg-type]
        reason=reason,
        measurement=timed,
        predictions=predictions,
        extra=extra,
    )


def model_run_records() -> list[Record]:
    """Two phases of three precisions, and an INT8 cache."""
    records = [
        model_record(precision, phase, time_s, energy_j=41 * time_s, issue_s=ISSUE_S[precision])
        for (phase, precision), time_s in TIMES_S.items()
    ]
    return [*records, model_record("BF16", "decode", 15.1e-3, kv="INT8")]


def model_run() -> RunInfo:
    """The run of the records."""
    return RunInfo(
        run_id=RUN_ID,
        started_at="2026-11-21T09:00:00+00:00",
        finished_at="2026-11-21T09:01:00+00:00",
        label="models",
        status="complete",
        exit_code=0,
        hardware_key=CHIP.key,
        command="pytest bench_cases -k model_quant",
        environment=EnvironmentInfo({}, {}),
    )


def model_profile() -> HardwareProfile:
    """The chip of the predictions."""
    return HardwareProfile(CHIP.key, CHIP.name, CHIP.content_hash, CHIP.to_dict())


def _quality(kl: float, is_reference: bool) -> dict[str, Any]:
    if is_reference:
        return {"source": "reference"}

    def around(value: float, ratio: float) -> dict[str, float]:
        return {"value": value, "low": value * (1 - ratio), "high": value * (1 + ratio)}

    return {
        "source": "measured",
        "text": "random tokens",
        "is_language": False,
        "tokens_count": 504,
        "kl_nats_per_token": around(kl, 0.05),
        "top1_agreement_ratio": around(0.5, 0.1),
        "perplexity_ratio": around(1.01, 0.01),
        "reference_perplexity": around(40_000.0, 0.05),
    }
