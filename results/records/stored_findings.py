"""Findings of predictions as databases and exports keep them, and the sentences that older versions stored in their
place.

Stored rows are never rewritten: each sentence becomes a finding when it is read. This is the one module that looks into
sentences. What no entry fits becomes a `legacy-note` that carries the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from roofline_model.core.finding import LEGACY_CODE, Finding, Value, finding, from_stored

LEGACY_NOTES: Final[tuple[tuple[str, str], ...]] = (
    ("operands-widened", "{format} {operand} are widened to {compute_format} before the product"),
    ("no-native-unit", "{reason=no .+ unit .*}"),
    ("rate-not-declared", "{hardware} declares no {format} rate: dequantised to {compute_format}"),
    (
        "peak-exceeded",
        (
            "{format} products of {best_flops_per_s} TFLOP/s were published for {hardware}, above this peak of "
            "{peak_flops_per_s} at {clock_hz} MHz: real clocks exceed the rated one, so the compute time can be beaten"
        ),
    ),
    (
        "peak-exceeded",
        (
            "{format} products of {best_flops_per_s} TFLOP/s were published for {hardware}, above this peak of "
            "{peak_flops_per_s}: real clocks exceed the rated one, so the compute time can be beaten"
        ),
    ),
    (
        "scales-not-counted",
        "{format} is counted without scales, as the original documents do; {format}.BF16 counts those of its groups",
    ),
    (
        "group-scales",
        (
            "{format} weights carry a {scale_bits}-bit scale per {group_count}: {bits} bits each; a kernel with zero "
            "points "
            "reads more"
        ),
    ),
    (
        "vector-rate-substituted",
        "{hardware} declares no {format} rate: elementwise arithmetic is counted at its {compute_format} rate",
    ),
    (
        "partly-cached",
        (
            "operands take {cache_share_ratio} % of {level} and are partly cached: expect a time between the roofs of "
            "DRAM and "
            "{level}"
        ),
    ),
    (
        "mostly-cached",
        "operands are partly cached in {level}: expect a time between the roofs of DRAM and {level}",
    ),
    (
        "cache-bandwidth-unknown",
        "operands fit in {level}, whose bandwidth is not known: may run faster than this roof",
    ),
    (
        "model-fits-cache",
        "the model fits in {level}: passes that follow each other may run faster than the roof of DRAM",
    ),
    (
        "ceilings-contended",
        (
            "ideal times are doubtful, most too long: other work ran while the ceilings of {hardware} were measured "
            "({disturbed_by}); `roofline calibrate` on a quiet machine measures them again"
        ),
    ),
    (
        "kernels-contended",
        (
            "expected times are doubtful, most too long: other work ran while the kernels of {hardware} were timed "
            "({disturbed_by}); `roofline calibrate` on a quiet machine times them again"
        ),
    ),
    ("call-cost-unmeasured", "the fixed cost of a call was not measured: left out"),
    ("rate-unmeasured", "no {format} product was measured here: the chip's own rate stands"),
    ("widening-unmeasured", "the cost of widening {format} to {compute_format} was not measured: left out"),
    (
        "extrapolated",
        (
            "extrapolated: {flops_factor} times the FLOPs of the largest product that was fitted; the loss of clock is "
            "taken "
            "to go on, where a chip settles at its power limit"
        ),
    ),
    (
        "ideal-is-limit",
        "fitted to kernels whose activations were in the L2: the ideal time of cold operands is the lower limit",
    ),
    (
        "pair-decoded",
        (
            "no kernel decodes {weight} and {activation} for one product: never faster than the weight-only "
            "{weight}.{compute_format}"
        ),
    ),
    (
        "weight-decoded-first",
        "the weight is decoded by a kernel of its own: its memory traffic and launch are added",
    ),
    ("kernel-timed", "{kernel} as timed here at {size_count} other sizes by roofline calibrate"),
    (
        "other-kernel-stands",
        "{kernel} was not calibrated: the time of {other_kernel} stands, the fastest one that was",
    ),
    ("other-result-format", "{kernel} was timed with a result in {timed_format}, not {format}"),
    ("rows-beyond-timed", "calibrated with {row_count} rows at most: beyond, the time grows with the rows"),
    ("rows-beyond-timed", "calibrated with {row_count} row at most: beyond, the time grows with the rows"),
    ("dram-share-limited", "at most {dram_share_ratio} % of the DRAM bandwidth, as published for {hardware}"),
    ("dram-share-of-wide-kernels", "share of the DRAM bandwidth taken from its 16-bit kernels"),
    ("constants-of-family", "constants of {chips}, the same family"),
    (
        "constants-of-other-family",
        "constants of {chips}, another family: memory and load rates scaled to the tensor peak",
    ),
    (
        "constants-of-other-class",
        "low confidence: no chip of this class was measured with this kernel family; constants of {chips}",
    ),
    ("scaled-by-other-kernels", "scaled by how this chip's {family} kernels compare with theirs"),
    (
        "slower-launch",
        "a launch takes {launch_factor} times that of its {family} kernels, as measured on those chips",
    ),
    (
        "published-rate-reached",
        "large products held to the {rate_flops_per_s} TFLOP/s published for {hardware}",
    ),
    ("held-to-wide-product", "not faster than the 16-bit product but for its smaller DRAM traffic"),
    ("activation-widened", "{activation} activations run on the {weight} kernel"),
    (
        "format-unmeasured",
        "{format} {operand} were not measured: {family} constants with its own bytes and peak",
    ),
    ("rows-fitted", "{row_count} measured rows, {mean_error_ratio} % mean error on unseen heads"),
    ("rows-fitted", "{row_count} measured rows"),
    (
        "exponentials-doubled",
        "prefill rates raised for twice the exponentials per clock (assumed)",
    ),
    ("attention-module", "time includes RoPE and the append to the cache"),
    (
        "attention-kernel-alone",
        "the kernel alone, without RoPE and the append to the cache, derived from its published sources",
    ),
    ("library-calls-other", "{kernel} calls TensorRT-LLM's kernels on this chip: their time stands in"),
    ("model-of-other-kernel", "{kernel} has no model of its own: {other_kernel}'s stands in"),
    (
        "unmeasured-queries",
        "decode with {activation} queries was not measured: times are those of 16-bit queries, as the cache decides",
    ),
    (
        "prefill-in-fp8",
        (
            "{activation} queries on a narrow cache: this chip's measured prefill computes in FP8 as soon as the cache is "
            "FP8"
        ),
    ),
    (
        "unsplit-cache",
        "the kernel timed for narrow caches does not split one over the SMs: few sequences leave most of them idle",
    ),
    ("experts-side-by-side", "products of experts: one product of the same matrices side by side"),
    ("heads-side-by-side", "products per head: one product of the same matrices side by side"),
    ("attention-of-equal-widths", "attention with values narrower than keys: that of equal ones, by its FLOPs"),
    ("activation-beside-product", "fused activation function: the product alone, beside which it runs"),
    ("elementwise-pass", "elementwise kernels: a launch and one pass over the bytes, at the rate of a large GEMV"),
    (
        "latent-decode",
        "MLA decode: a launch and the longer of its bytes and its FLOPs, at the rates of a large GEMV and a large GEMM",
    ),
    ("host-time-unknown", "the framework's own time between kernels is not known here and left out"),
    (
        "host-time-overlapped",
        "{source=the framework's own time: .+}; the device waits for it only where its kernels take less",
    ),
    ("host-time", "{source=the framework's own time: .+}"),
    (
        "weights-mapped-anew",
        "decoded weights of 32 MiB and more are mapped anew by every call: their page faults are counted",
    ),
    ("library-path", "{source=torchao's .+}"),
    ("model-not-fitted", "the interval is a judgement: no whole model was fitted"),
    ("copy-not-fitted", "no copy was fitted: bandwidth of the chip's file or of its 16-bit products"),
    ("mostly-bound", "mostly {binding}"),
    ("weight-already-quantised", "already held as {tensor}"),
    ("weight-parametrized", "its weight is computed by a parametrization"),
    ("weight-read-by-owner", "its owner ({owner}) reads the weight without calling the layer"),
    ("weight-not-float", "its weight is {dtype}, not a floating-point number"),
    ("weight-without-scales", "its weight is {dtype} already, without scales to decode it by"),
    ("weight-empty", "its weight is empty"),
    ("weight-shared", "its weight is {parameter}, and a quantised copy would be held beside it (untie=True makes one)"),
    ("no-recipe-for-format", "torchao has no Linear recipe for {format}: {instead} instead"),
    ("recipe-of-other-capability", "{config} needs compute capability ≥ {capabilities}, this GPU has {capability}"),
    (
        "recipe-of-other-capability",
        "{config} exists for compute capability {capabilities} only, this GPU has {capability}",
    ),
    ("recipe-without-package", "{config} needs {package}, which is not installed"),
    ("recipe-of-other-dtype", "{config} takes {dtypes} weights, this one is {dtype}"),
    (
        "recipe-of-other-multiple",
        "{config} needs {dimension} to be a multiple of {multiple_count}, {dimension} is {size_count}",
    ),
    ("group-does-not-divide", "group {wanted_count} does not divide K = {input_count}: group {used_count} used"),
    ("group-does-not-divide", "group {wanted_count} does not divide K = {input_count}"),
    ("group-not-of-kernel", "{config} takes groups of {group_sizes}: group {used_count} used"),
    ("group-not-of-kernel", "{config} takes groups of {group_sizes}"),
    ("method-of-other-formats", "{method} exists for {formats} weights: rounded to nearest"),
    ("layer-not-calibrated", "the calibration data never reached this layer: rounded to nearest"),
    ("torchao-fails", "torchao cannot quantise it: {cause}"),
    ("left-by-torchao", "torchao left it as it is (its own rule for this shape)"),
    ("codes-not-finite", "its codes or scales are not finite (a row or tensor of zeros, or too large for the format)"),
    ("product-fails", "its product fails: {cause}"),
    ("product-not-finite", "its product is not finite, the 16-bit one is"),
    ("weight-decoded-to-zero", "its decoded weight is zero everywhere, the original is not"),
    ("weight-decoded-wrong", "its decoded weight is {error_ratio}% off, more than {limit_ratio}%"),
)
"""Code → the sentence that was stored before findings had codes, its values in braces; `{name=PATTERN}` where not any
text is one.
"""

_PLACE = re.compile(r"\{(\w+)(?:=([^}]+))?\}")
_SCALES = {"_flops_per_s": 1e12, "_hz": 1e6, "_ratio": 0.01, "_factor": 1.0}
"""Unit of a number in the old sentences, by the end of its value's name: TFLOP/s, MHz, percent."""
_LISTS = frozenset({"disturbed_by", "chips", "dtypes", "formats", "group_sizes"})


_KEPT_PREFIX = re.compile(r"(?<![^ ])kept: ")
"""What stood before the reason of a layer that kept its 16-bit weight: the layer says so itself now."""


def fallbacks_of(items: Any) -> tuple[Finding, ...]:
    """Return why layers are not what was asked, from a stored list as `read_findings` takes it."""
    if type(items) is list:
        items = [_KEPT_PREFIX.sub("", item) if type(item) is str else item for item in items]
    return read_findings(items)


def read_findings(items: Any) -> tuple[Finding, ...]:
    """Return the findings of a stored list of `stored_form`s, or of sentences.

    Raises `ValueError` for anything else.
    """
    if type(items) is not list:
        raise ValueError("not a list of findings")
    findings: list[Finding] = []
    for item in items:
        findings += findings_of_note(item) if type(item) is str else [_checked(item)]
    return tuple(findings)


def _checked(form: Any) -> Finding:
    is_form = isinstance(form, dict) and form.keys() == {"code", "subject", "values"}
    if not is_form or not isinstance(form["code"], str) or not isinstance(form["subject"], str):
        raise ValueError("not a list of findings")
    values = form["values"]
    if not isinstance(values, dict) or not all(map(_is_value, values.values())):
        raise ValueError("not a list of findings: its values are no numbers and texts")
    return from_stored(form)


def _is_value(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str | int | float)


def findings_of_note(text: str) -> tuple[Finding, ...]:
    """Return the findings that a stored remark stands for; several were joined by semicolons.

    >>> [item.code for item in findings_of_note("constants of h100-sxm, the same family; weights were odd")]
    ['constants-of-family', 'legacy-note']
    >>> findings_of_note("INT4 weights are widened to BF16 before the product")[0].value("compute_format")
    'BF16'
    """
    return _findings_of_note(text)


@lru_cache(maxsize=4096)
def _findings_of_note(text: str) -> tuple[Finding, ...]:
    parts = text.split("; ")
    findings: list[Finding] = []
    unknown: list[str] = []
    at = 0
    while at < len(parts):
        for end in range(len(parts), at, -1):
            item = _finding_of("; ".join(parts[at:end]))
            if item is not None:
                findings += [*_legacy(unknown), item]
                unknown, at = [], end
                break
        else:
            unknown.append(parts[at])
            at += 1
    return (*findings, *_legacy(unknown))


def _legacy(parts: list[str]) -> list[Finding]:
    return [finding(LEGACY_CODE, text="; ".join(parts))] if parts else []


def _finding_of(text: str) -> Finding | None:
    for code, pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        try:
            values = tuple((name, _value(name, value)) for name, value in match.groupdict().items())
        except ValueError:  # not a number after all
            continue
        return Finding(code, values=values)
    return None


def _value(name: str, text: str) -> Value:
    if name in _LISTS:
        return tuple(re.split(", | and | or ", text))
    if name.endswith("_count") or name == "scale_bits":
        return int(text.replace(",", ""))
    for suffix, scale in _SCALES.items():
        if name.endswith(suffix):
            return float(text) * scale
    return text


def _pattern(sentence: str) -> re.Pattern[str]:
    """Return the pattern of a sentence; a value that comes twice has to be the same both times."""
    pattern, end, names = "", 0, set[str]()
    for place in _PLACE.finditer(sentence):
        name, pattern_of_name = place[1], place[2]
        pattern += re.escape(sentence[end : place.start()])
        pattern += f"(?P={name})" if name in names else f"(?P<{name}>{pattern_of_name or '[^;]+?'})"
        names.add(name)
        end = place.end()
    return re.compile(pattern + re.escape(sentence[end:]))


_PATTERNS: Final = tuple((code, _pattern(sentence)) for code, sentence in LEGACY_NOTES)
