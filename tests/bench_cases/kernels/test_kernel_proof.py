"""A case that names a kernel proves that it ran: what torch dispatched, seen once, and never beside a sample."""

from __future__ import annotations

import shutil

import pytest
from counts import FULL

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from bench_cases.kernels.attention.catalog import ATTENTION_KERNELS  # noqa: E402
from bench_cases.kernels.attention.prepare import build_attention  # noqa: E402
from bench_cases.kernels.inputs import activation_source, weight_source  # noqa: E402
from bench_cases.kernels.operators.catalog import OPERATOR_KERNELS  # noqa: E402
from bench_cases.kernels.operators.prepare import build_operator  # noqa: E402
from bench_cases.kernels.products.catalog import KERNELS  # noqa: E402
from bench_cases.kernels.products.prepare import load_implementation  # noqa: E402
from bench_cases.kernels.proof import (  # noqa: E402
    KernelProof,
    OtherKernelError,
    _launch_count,
    compiled_alone,
    dispatched,
    launch_count,
)
from bench_cases.kernels.spec import COMPILED_PROOF  # noqa: E402
from bench_cases.shapes.attention import AttentionShape  # noqa: E402

LATENT = AttentionShape(2, 4, 1, 1, 40, 24, False, None, "", value_dim=16, is_latent=True)
PLAIN = AttentionShape(2, 4, 2, 1, 40, 16, False, None, "")
NARROW = AttentionShape(2, 4, 4, 33, 33, 24, True, None, "", value_dim=16)


def looked(name, proof, call):
    """What a proof says of a call; raises what it raises."""
    seen = KernelProof(name, proof, call)
    assert seen.checked(lambda output: output + 1)(1) == 2
    return seen.facts


def runs_here(kernel):
    return kernel.device == "cpu" or kernel.name not in ("tinygemm", "scaled_mm_block")


@pytest.mark.parametrize("kernel", [k for k in KERNELS if runs_here(k)], ids=lambda k: k.key)
def test_a_product_is_seen_by_its_own_operator(kernel):
    built = load_implementation(kernel)(kernel, activation_source(32, 256, "cpu"), weight_source(64, 256, "cpu"))
    with built.settings():
        facts = looked(kernel.name, kernel.proof, lambda: built.fn(*built.args))
    assert facts["operator"].startswith(kernel.proof)
    others = (
        {other.proof for other in KERNELS} - {kernel.proof} - {("aten::mm",)}
    )  # FP8 is decoded and multiplied so on a CPU
    for proof in others:
        if not facts["operator"].startswith(proof):
            with pytest.raises(
                OtherKernelError, match=f"^another did not run: none of {proof[0]} was dispatched, but aten::"
            ):
                looked("another", proof, lambda: built.fn(*built.args))


@pytest.mark.parametrize("kernel", [k for k in ATTENTION_KERNELS if k.device == "cpu"], ids=lambda k: k.key)
def test_attention_is_seen_by_the_backend_that_the_case_names(kernel):
    shape = LATENT if kernel.is_latent else NARROW if kernel.values == ("narrow",) else PLAIN
    built = build_attention(kernel, dict(kernel.work(shape).shape), "cpu")
    with built.settings():
        facts = looked(kernel.name, kernel.proof, lambda: built.fn(*built.args))
    assert facts == {"operator": facts["operator"], "seen_by": "torch-dispatcher"}
    assert facts["operator"].startswith(kernel.proof)


def test_another_backend_of_attention_than_the_case_names_is_a_failure():
    flash = next(kernel for kernel in ATTENTION_KERNELS if kernel.name == "sdpa_flash" and kernel.q == "BF16")
    built = build_attention(flash, dict(flash.work(PLAIN).shape), "cpu")
    with (
        sdpa_kernel(SDPBackend.MATH),
        pytest.raises(OtherKernelError, match=r"sdpa_flash did not run: .*_scaled_dot_product_attention_math"),
    ):
        looked("sdpa_flash", flash.proof, lambda: built.fn(*built.args))


def test_every_kernel_of_the_three_catalogs_has_a_proof():
    assert all(kernel.proof for kernel in (*KERNELS, *ATTENTION_KERNELS, *OPERATOR_KERNELS))
    compiled = [kernel for kernel in (*ATTENTION_KERNELS, *OPERATOR_KERNELS) if "torch.compile" in kernel.needs]
    assert compiled
    assert {kernel.proof for kernel in compiled} == {COMPILED_PROOF}


@pytest.mark.parametrize("kernel", [k for k in OPERATOR_KERNELS if not k.is_compiled], ids=lambda k: k.key)
def test_an_operator_is_seen_by_what_its_code_calls(kernel):
    sizes = {"rows": 4, "width": 256, "hidden": 64, "intermediate": 128}
    built = build_operator(kernel, sizes, "cpu")
    assert looked(kernel.name, kernel.proof, lambda: built.fn(*built.args))["operator"].startswith(kernel.proof)


def test_a_call_without_any_operator_of_torch_says_that_nothing_was_seen():
    assert looked("mine", ("aten::mm",), lambda: None) == {"operator": None, "seen_by": "torch-dispatcher"}
    assert looked("mine", ("aten::mm",), lambda: torch.empty(3).view(3, 1)) == {
        "operator": None,
        "seen_by": "torch-dispatcher",
    }


def test_nothing_is_looked_for_where_nothing_can_take_the_kernels_place():
    assert looked("eager", (), lambda: pytest.fail("called")) == {}


def test_the_look_is_taken_once():
    calls = []
    proof = KernelProof("mm", ("aten::mm",), lambda: calls.append(torch.mm(torch.ones(2, 2), torch.ones(2, 2))))
    check = proof.checked(lambda output: output)
    assert [check(1), check(2), check(3)] == [1, 2, 3]
    assert len(calls) == 1


# torch.compile ---------------------------------------------------------------------------------------------------


LIMIT = 8 if FULL else 2
"""Recompilations after which Dynamo gives up: eight by default."""


class Counting:
    """A backend that counts the graphs it is given and the calls of them, and computes nothing."""

    def __init__(self):
        self.graphs, self.calls = 0, 0

    def __call__(self, graph, inputs):
        self.graphs += 1

        def run(*arguments):
            self.calls += 1
            return (torch.zeros_like(arguments[0]),)

        return run


def test_every_shape_of_flex_attention_is_compiled_not_only_the_first_eight():
    """Dynamo's limit of recompilations is per code object: from the ninth case on torch ran the scores eagerly."""
    backend = Counting()
    with torch.compiler.set_stance("default"), torch._dynamo.config.patch(recompile_limit=LIMIT):
        for count in range(1, LIMIT + 3):
            q = torch.ones(1, 2, 16 + count, 8)
            attend = compiled_alone(flex_attention, backend=backend)
            for _ in range(2):
                assert not attend(q, q, q).any()  # the backend's zeros, no attention
            assert (backend.graphs, backend.calls) == (count, 2 * count)
    torch.compiler.reset()


def test_without_forgetting_a_ninth_shape_raises_instead_of_running_eagerly():
    backend = Counting()
    with torch.compiler.set_stance("default"), torch._dynamo.config.patch(recompile_limit=LIMIT):
        attend = compiled_alone(flex_attention, backend=backend)
        for count in range(LIMIT):
            attend(*[torch.ones(1, 2, 16 + count, 8)] * 3)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            attend(*[torch.ones(1, 2, 16 + LIMIT, 8)] * 3)
    torch.compiler.reset()
    assert backend.graphs == LIMIT


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("stance", ["force_eager", "default"])
def test_eager_code_in_the_place_of_a_compiled_kernel_is_a_failure(stance):
    q = torch.ones(1, 2, 17, 8)
    # What Dynamo itself falls back to compiles once more inside, without Inductor: no graph of Inductor's is seen.
    attend = compiled_alone(flex_attention) if stance == "force_eager" else flex_attention
    with torch.compiler.set_stance(stance), pytest.raises(OtherKernelError, match="flex did not run"):
        looked("flex", COMPILED_PROOF, lambda: attend(q, q, q))
    torch.compiler.reset()


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs g++ on a CPU")


@pytest.mark.parametrize(
    "kernel",
    [
        lambda x: x @ x.t(),  # no code for g++, which takes ten seconds for a line
        pytest.param(lambda x: torch.nn.functional.silu(x) * x, marks=[pytest.mark.full, needs_compiler]),
    ],
    ids=["of another library", "fused"],
)
def test_a_graph_of_inductors_is_seen(kernel):
    x = torch.ones(4, 8)
    with torch.compiler.set_stance("default"):
        call = compiled_alone(kernel)
        call(x)
        facts = looked("silu_mul", COMPILED_PROOF, lambda: call(x))
        assert not [name for name in dispatched(lambda: call(x)) if name.startswith("aten::silu")]
    torch.compiler.reset()
    assert facts == {"operator": "Call CompiledFxGraph", "seen_by": "torch-dispatcher"}


X = torch.ones(4, 4)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda: X @ X, 1),
        (lambda: torch.nn.functional.linear(X, X), 1),
        (lambda: X.t().unsqueeze(0).expand(3, 4, 4)[1:].reshape(-1)[None], 1),  # the reshape copies
        (lambda: X.view(-1).reshape(2, 8).transpose(0, 1).detach().to(torch.float32).contiguous(), 1),
        (lambda: X.view(-1).reshape(2, 8).transpose(0, 1).detach().to(torch.float32).split(2), 0),
        (lambda: torch.empty(3).resize_(2).shape, 0),
        (lambda: X[0, 0].item(), 0),
        (lambda: torch.nn.functional.dropout(X, 0.1, training=False).type_as(X), 0),
        (lambda: torch.broadcast_tensors(X, X[0]), 0),
        (lambda: torch.autograd.profiler.record_function("my::scope").__enter__(), 0),
        (lambda: torch.nn.functional.silu(X) * X, 2),
        (lambda: X.to(torch.bfloat16).to(torch.float32).add_(1), 3),
    ],
)
def test_launches_are_operators_that_move_data_and_call_no_other(call, count):
    assert launch_count(call) == count


def test_a_step_of_a_model_launches_what_its_layers_do():
    """Scopes, views and allocations launch nothing; an operator that calls others is not counted beside them."""
    q = torch.ones(1, 2, 8, 16)

    def layer():
        with torch.autograd.profiler.record_function("a scope"):
            scores = torch.nn.functional.scaled_dot_product_attention(q, q, q)
            return torch.nn.functional.rms_norm(scores.transpose(1, 2).reshape(8, 32), (32,))

    once = launch_count(layer)
    assert launch_count(lambda: [layer() for _ in range(5)]) == 5 * once
    names = [name for name in dispatched(layer) if name.startswith("aten::")]
    assert 2 <= once < len(names)


class Recorded:
    """An event of torch's record."""

    def __init__(self, name, *called):
        self.name, self.cpu_children = name, called


def test_a_graph_of_inductors_counts_as_the_kernels_in_it():
    graph = "## Call CompiledFxGraph f00 ##"
    kernels = Recorded("triton_poi_fused_mul_0"), Recorded("aten::mm", Recorded("aten::resolve_conj"))
    scopes = Recorded("TorchDynamo Cache Lookup"), Recorded("Pregraph bytecode")
    assert _launch_count(Recorded("Torch-Compiled Region: 0/0", *scopes, Recorded(graph, *kernels))) == 2
    assert _launch_count(Recorded("Torch-Compiled Region: 0/0", *scopes, Recorded(graph))) == 1
    assert _launch_count(Recorded("Torch-Compiled Region: 0/0", *scopes)) == 0


def test_the_record_leaves_the_tracing_interface_alone(monkeypatch):
    """Kineto holds CUPTI once it is prepared, and `--roofline-attribution cupti` then finds it taken."""

    def prepared(*_):
        raise AssertionError("Kineto was started")

    monkeypatch.setattr(torch.autograd.profiler, "_prepare_profiler", prepared)
    monkeypatch.setattr(torch.autograd.profiler, "_enable_profiler", prepared)
    x = torch.ones(4, 4)
    assert "aten::mm" in dispatched(lambda: x @ x)
    assert not torch.autograd.profiler._is_profiler_enabled
