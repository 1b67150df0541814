"""Attention computed wrongly on purpose, by every kernel's arithmetic and mask: each is caught. Right ones on random
operands: none is.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
from counts import FULL

torch = pytest.importorskip("torch")

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS  # noqa: E402
from bench_cases.kernels.attention.prepare import (  # noqa: E402
    AttentionSources,
    attention_deviation,
    attention_reference,
    build_attention,
)
from bench_cases.kernels.attention.spec import stored_keys, value_size, visible_keys  # noqa: E402
from bench_cases.kernels.attention.structures import small_sizes, structured_operands  # noqa: E402
from bench_cases.kernels.products.prepare import imported  # noqa: E402
from bench_cases.shapes.attention import AttentionShape  # noqa: E402

OUTPUT = {"FP32": torch.float32, "BF16": torch.bfloat16, "FP16": torch.float16, "FP8_E4M3": torch.float8_e4m3fn}
SHAPES = {
    "decode": AttentionShape(2, 8, 2, 1, 75, 32, False, None, ""),
    "causal": AttentionShape(2, 8, 2, 33, 33, 32, True, None, ""),
    "window": AttentionShape(1, 8, 2, 33, 33, 32, True, 9, ""),
    "latent": AttentionShape(2, 8, 1, 1, 75, 48, False, None, "", None, 32, True),
    "narrow": AttentionShape(1, 4, 4, 33, 33, 48, True, None, "", None, 32),
}


@dataclasses.dataclass
class Parts:
    """What attention is made of; wrong kernels have one of them wrong."""

    scale: float
    first_key: int = 0
    """Keys that are lost at the beginning and at the end, of those that a query sees."""
    last_key: int = 0
    more_keys: int = 0
    """Keys behind the last one that are seen as well."""
    base: float = math.e
    padding: int = 0
    """Keys of score 0 and value 0 that are counted."""
    values_off: int = 0
    head: str = "group"
    weights: torch.dtype = torch.float64
    sums: torch.dtype = torch.float64


def attend(sizes, q, k, v, parts):
    """Return O (B, Hq, Sq, Dv) in float64: q (B·Hq·Sq, D), k (B·Hkv·keys, D), v (…, Dv)."""
    Hq, Hkv, Sq, keys = sizes["Hq"], sizes["Hkv"], sizes["Sq"], stored_keys(sizes)
    q, v = q.view(-1, Sq, q.shape[1]), v.roll(parts.values_off, dims=0)
    k, v = (matrix.view(-1, keys, matrix.shape[1]) for matrix in (k, v))
    first, last = torch.tensor([visible_keys(sizes, query) for query in range(Sq)]).unsqueeze(1).unbind(dim=2)
    key = torch.arange(keys)
    hidden = (key < first + parts.first_key) | (key >= last - parts.last_key + parts.more_keys)
    sequence, own_head = torch.arange(len(q)) // Hq, torch.arange(len(q)) % Hq
    cache = (
        sequence * Hkv + {"group": own_head // (Hq // Hkv), "modulo": own_head % Hkv, "first": 0 * own_head}[parts.head]
    )
    scores = (q @ k[cache].transpose(1, 2)).to(parts.sums).double() * parts.scale
    scores = scores.masked_fill(hidden, -math.inf)
    largest = scores.amax(dim=2, keepdim=True)
    weights = torch.exp((scores - largest) * math.log(parts.base)).nan_to_num()
    total = weights.sum(dim=2, keepdim=True) + parts.padding * torch.exp(-largest)
    output = (weights.to(parts.weights).double() @ v[cache] / total).nan_to_num()
    return output.view(sizes["B"], Hq, Sq, -1)


def operands(built):
    return [held.rows64(slice(None)) for held in (built.q, built.k, built.v)]


def with_parts(**changes):
    def wrong(sizes, built):
        scale = changes.get("scale", lambda D: D**-0.5)(sizes["D"])
        rest = {name: value for name, value in changes.items() if name != "scale"}
        return attend(sizes, *operands(built), Parts(scale, **rest))

    return wrong


right = with_parts()


def on_output(change):
    """Change what a right kernel returns, which is computed once for all changes of the same operands."""

    def wrong(sizes, built):
        if id(built) not in RIGHT:
            RIGHT[id(built)] = right(sizes, built)
        return change(RIGHT[id(built)].clone())

    return wrong


RIGHT: dict[int, object] = {}
"""Operands of the present case, by identity, and what a right kernel returns for them."""


def without_scales(which):
    """Forget the scales of a narrow cache."""

    def wrong(sizes, built):
        held = getattr(built, which)
        if held.scales is None and held.tensor_scale == 1:
            return None
        scales = None if held.scales is None else torch.ones_like(held.scales.float())
        return right(
            sizes, dataclasses.replace(built, **{which: dataclasses.replace(held, scales=scales, tensor_scale=1.0)})
        )

    return wrong


def of_another_mask(**changes):
    """Attend with the mask of other sizes to the same keys."""

    def wrong(sizes, built):
        other = {**sizes, **{name: change(sizes[name]) for name, change in changes.items()}}
        if other == sizes or sizes["Sq"] == 1 or stored_keys(other) != stored_keys(sizes):
            return None
        return right(other, built)

    return wrong


def element(output):
    output[0, -1, -1, 5] += 3.0
    return output


def lost_element(output):
    flat = output.view(-1)
    flat[int(flat.abs().argmax())] = 0
    return output


def last_row_lost(output):
    output[-1, -1, -1] = 0
    return output


def nan(output):
    output[-1, -1, -1, -1] = float("nan")
    return output


def rows_off_by_one(output):
    return output.flatten(0, 2).roll(1, dims=0).view(output.shape)


WRONG = {
    "scale of the scores missing": with_parts(scale=lambda D: 1.0),
    "scores over D": with_parts(scale=lambda D: 1 / D),
    "scores over the root of twice D": with_parts(scale=lambda D: (2 * D) ** -0.5),
    "scale of the scores twice": with_parts(scale=lambda D: 2 * D**-0.5),
    "base 2": with_parts(base=2.0),
    "one key too many": with_parts(more_keys=1),
    "own key lost": with_parts(last_key=1),
    "first key lost": with_parts(first_key=1),
    "tail of the keys lost": with_parts(last_key=3),
    "first block of keys lost": with_parts(first_key=4),
    "padding counted": with_parts(padding=5),
    "values off by one": with_parts(values_off=1),
    "heads modulo": with_parts(head="modulo"),
    "all heads read the first": with_parts(head="first"),
    "weights in FP8": with_parts(weights=torch.float8_e4m3fn),
    "scores in FP8": with_parts(sums=torch.float8_e4m3fn),
    "no mask": of_another_mask(causal=lambda causal: 0),
    "window off by one": of_another_mask(window=lambda window: window + 1 if window else 0),
    "window short by one": of_another_mask(window=lambda window: window - 1 if window else 0),
    "no window": of_another_mask(window=lambda window: 0),
    "scale of the keys missing": without_scales("k"),
    "scale of the values missing": without_scales("v"),
    "scale of the queries missing": without_scales("q"),
    "result off by 1 %": on_output(lambda o: o * 1.01),
    "result off by 10 %": on_output(lambda o: o * 0.9),
    "one element off by 3": on_output(element),
    "one element lost": on_output(lost_element),
    "last row lost": on_output(last_row_lost),
    "rows off by one": on_output(rows_off_by_one),
    "heads off by one": on_output(lambda o: o.roll(1, dims=1)),
    "columns off by one": on_output(lambda o: o.roll(1, dims=3)),
    "columns reversed": on_output(lambda o: o.flip(3)),
    "sequences off by one": lambda sizes, built: right(sizes, built).roll(1, dims=0) if sizes["B"] > 1 else None,
    "sign lost": on_output(torch.abs),
    "not finite": on_output(nan),
    "nothing written": on_output(torch.zeros_like),
    "clipped": on_output(lambda o: o.clamp(-o.std(), o.std())),
}
FP8_BLIND = {"weights in FP8", "scores in FP8", "result off by 1 %"}
"""What a kernel that rounds queries, weights or results to FP8 may be off by itself: half a step of E4M3 is 6 %."""


COMPILED_BLIND = {"scores over the root of twice D"}
"""What shows on the operands with a structure only, on which kernels that are compiled are not tried."""


def is_offered(kernel, shape):
    sizes = dict(kernel.work(shape).shape)
    return kernel.takes(shape) and all(rule(sizes) is None for rule in kernel.rules)


def given(output, kernel, built):
    """Return what a kernel that computes `output` returns: in its format, divided by the scale that its users multiply
    with.
    """
    divisor = built.v.tensor_scale if kernel.o == "FP8_E4M3" else 1
    return (output / divisor).to(OUTPUT[kernel.o])


def each_case():
    return [
        pytest.param(kernel, shape, id=f"{kernel.key}-{name}")
        for kernel in ATTENTION_KERNELS
        for name, shape in SHAPES.items()
        if is_offered(kernel, shape)
    ]


def checked_on(kernel, shape):
    """Yield sizes, operands and reference of what a case is checked on: random operands, and those with a structure."""
    sizes = dict(kernel.work(shape).shape)
    yield sizes, (built := build_attention(kernel, sizes, "cpu")), attention_reference(kernel, sizes, built)
    small = small_sizes(sizes)
    for _, q, k, v in structured_operands(small):
        values = k[:, : value_size(small)] if kernel.is_latent else v
        built = imported(kernel.implementation)(kernel, AttentionSources(small, q, k, values))
        yield small, built, attention_reference(kernel, small, built, is_random=False)


@pytest.mark.parametrize(("kernel", "shape"), each_case())
def test_every_wrong_kernel_is_caught_by_every_kernels_law(kernel, shape):
    RIGHT.clear()
    checks = list(checked_on(kernel, shape))
    if "torch.compile" in kernel.needs:
        checks = checks[:1]  # the others are for kernels that are not compiled

    def is_caught(wrong):
        outputs = [(built, reference, wrong(sizes, built)) for sizes, built, reference in checks]
        if any(output is None for _, _, output in outputs):
            return None
        return not all(
            attention_deviation(built, reference, given(output, kernel, built)).is_right
            for built, reference, output in outputs
        )

    assert is_caught(right) is False
    caught_by_name = {name: caught for name, wrong in WRONG.items() if (caught := is_caught(wrong)) is not None}
    allowed = set(FP8_BLIND) if kernel.q == "FP8_E4M3" else set()
    if kernel.q == "FP8_E4M3" and len(checks) == 1:
        allowed |= COMPILED_BLIND
    if shape.kv_heads == 1:
        allowed |= {"all heads read the first"}
    if shape.kv_heads in (1, shape.query_heads):
        allowed |= {"heads modulo"}
    if shape.query_count == 1:
        allowed |= {"one key too many"}
    assert {name for name, caught in caught_by_name.items() if not caught} <= allowed
    assert len(caught_by_name) - len(allowed) >= 20


def runs_here(kernel):
    return kernel.device == "cpu" or kernel.name in ("sdpa_math", "unfused", "latent_math", "latent_unfused")


RANDOM_INPUTS = 1000 if FULL else 20


@pytest.mark.parametrize("kernel", ATTENTION_KERNELS, ids=lambda kernel: kernel.key)
def test_no_right_kernel_fails_on_random_operands(kernel):
    """The kernel itself where a CPU can run it, else its result from the operands it would get."""
    shapes = [shape for shape in SHAPES.values() if is_offered(kernel, shape)]
    failed = []
    for seed in range(RANDOM_INPUTS):
        shape = dataclasses.replace(shapes[seed % len(shapes)], batch_size=1)
        sizes, generator = dict(kernel.work(shape).shape), torch.Generator().manual_seed(seed)
        queries, cached = (sizes["B"] * sizes[heads] for heads in ("Hq", "Hkv"))
        q, k, v = (
            torch.randn(rows, width, generator=generator) * (1, 1, 4)[seed % 3]
            for rows, width in (
                (queries * sizes["Sq"], sizes["D"]),
                (cached * stored_keys(sizes), sizes["D"]),
                (cached * stored_keys(sizes), value_size(sizes)),
            )
        )
        built = imported(kernel.implementation)(
            kernel, AttentionSources(sizes, q, k, k[:, : value_size(sizes)] if kernel.is_latent else v)
        )
        reference = attention_reference(kernel, sizes, built)
        with built.settings() if runs_here(kernel) else torch.no_grad():
            output = built.fn(*built.args) if runs_here(kernel) else given(right(sizes, built), kernel, built)
        deviation = attention_deviation(built, reference, output)
        if not deviation.is_right:
            failed.append((seed, deviation))
    assert failed == []
