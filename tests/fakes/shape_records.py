"""Records of one product on the b10 placeholder, for verdicts: hand numbers in, a record out."""

from __future__ import annotations

from dataclasses import replace

from run_makers import flat_measurement

from results.records.records import PredictionRecord, ProcessInfo, Record
from roofline_model.ideal.roofline import predict
from roofline_model.operators.attention import attention
from roofline_model.operators.product import gemm

DECODE = (1, 4096, 4096)


def record(
    b,
    a=None,
    kernel="matmul",
    median_s=None,
    *,
    low=0.99,
    high=1.01,
    flags=(),
    status=None,
    reason="",
    shape=DECODE,
    cache="cold",
    ideal_s=None,
    path=None,
    process=0,
    has_interval=True,
    work=None,
):
    """One record on the b10 placeholder (1000 GB/s); `ideal_s` and `path` overwrite the prediction, low and high are
    ratios, `work` stands in for the product.
    """
    work = work or gemm(*shape, a=a or b, b=b)
    ideal = PredictionRecord.from_prediction(predict(work, "b10"), "h", median_s)
    ideal = replace(ideal, time_s=ideal_s or ideal.time_s, path=path or ideal.path)
    measurement = None
    if median_s is not None:
        measurement = flat_measurement(
            median_s,
            9,
            samples_s=(),
            min_s=median_s * 0.9,
            max_s=median_s * 1.3,
            std_s=None,
            ci_low_s=median_s * low if has_interval else None,
            ci_high_s=median_s * high if has_interval else None,
            flags=tuple(flags),
        )
    return Record(
        record_id=f"{b}{a}{kernel}{process}",
        run_id="r",
        case=work.case(kernel, cache=cache),
        status=status or ("measured" if measurement else "predicted"),
        reason=reason,
        measurement=measurement,
        predictions=(ideal,),
        process=ProcessInfo(ordinal=process),
    )


def attention_record(q, kv, kernel, median_s=None, **more):
    """One record of decode over a cache of 8192 tokens, 32 query heads on 8."""
    return record(kv, q, kernel, median_s, work=attention(1, 32, 8, 1, 8192, 128, q=q, kv=kv, o="BF16"), **more)
