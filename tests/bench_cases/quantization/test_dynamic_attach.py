from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from bench_cases.quantization.dynamic.quantizer import DynamicQuantizer  # noqa: E402
from bench_cases.quantization.plans.precisions import parse_precision  # noqa: E402
from roofline_model.core.errors import InvalidValueError, RooflineError, UnsupportedError  # noqa: E402
from roofline_model.core.finding import finding, short_text  # noqa: E402
from roofline_model.models.strategies.config import MixedPrecisionConfig  # noqa: E402
from roofline_model.models.strategies.dynamic_config import DynamicQuantConfig  # noqa: E402
from roofline_model.models.strategies.module_names import strategy_layer_plan  # noqa: E402
from roofline_model.models.strategies.precision_selector import AdaptivePrecisionSelector  # noqa: E402
from roofline_model.models.strategies.strategies import create_layerwise_gradient, get_strategy  # noqa: E402

HIDDEN, FFN, VOCAB, LAYERS = 64, 160, 100, 3


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(HIDDEN, HIDDEN, bias=name == "q_proj"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            projection(x).unflatten(-1, (4, 16)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(attended.transpose(1, 2).flatten(2))


class Ffn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(HIDDEN, FFN, bias=False)
        self.down_proj = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn, self.mlp = Attention(), Ffn()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """A small decoder with the module names of Llama, and a head tied to the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


@pytest.fixture
def model() -> Decoder:
    torch.manual_seed(0)
    return Decoder().eval()


TOKENS = torch.arange(24).reshape(2, 12) % VOCAB


def quantizer(precision: str = "INT8", **more) -> DynamicQuantizer:
    return DynamicQuantizer(
        DynamicQuantConfig(precision, **{"calibration_mode": "absmax", "outlier_threshold_ratio": 1e6, **more})
    )


def relative_error(output: torch.Tensor, exact: torch.Tensor) -> float:
    return float((output - exact).norm() / exact.norm())


@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [
        ("INT8", 1e-4, 0.03),
        ("FP8_E4M3", 1e-3, 0.10),
        ("NVFP4", 1e-2, 0.4),
        ("INT8.FP16", 1e-4, 0.02),
        ("FP16", 1e-6, 1e-2),
    ],
)
def test_an_attached_model_computes_with_quantised_operands(model, precision: str, least: float, most: float) -> None:
    with torch.no_grad():
        exact = model(TOKENS)
    attached = quantizer(precision)
    report = attached.attach(model)
    assert len(report.attached) == 7 * LAYERS + 1
    assert set(report.attached.values()) == {"INT8.INT8" if precision == "INT8" else precision}  # W8A8
    assert not report.left_wide
    output = model(TOKENS)
    assert least < relative_error(output, exact) < most
    assert set(attached.states) == set(report.attached)
    assert attached.states["layers.2.mlp.down_proj"].stats.shape == (2, 12, FFN)


def test_detaching_leaves_no_trace(model) -> None:
    with torch.no_grad():
        exact = model(TOKENS)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attached = quantizer()
    attached.attach(model)
    assert list(model.state_dict()) == list(weights)  # names are the same while attached
    assert not torch.equal(model(TOKENS), exact)
    attached.detach()
    attached.detach()  # nothing is attached: nothing happens
    assert torch.equal(model(TOKENS).detach(), exact)
    assert all("forward" not in module.__dict__ for module in model.modules())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert model.lm_head.weight is model.embed_tokens.weight
    copy.deepcopy(model)
    attached.attach(model)  # and again
    assert attached.states["lm_head"].calls_count == 1
    model(TOKENS)
    assert attached.states["lm_head"].calls_count == 2


def test_a_linear_with_a_bias_adds_it_in_float(model) -> None:
    x = torch.randn(2, 5, HIDDEN)
    linear = model.layers[0].self_attn.q_proj
    exact, bias = linear(x).detach(), linear.bias.detach()
    attached = quantizer()
    attached.attach(model)
    direct, _ = quantizer().quantize_dynamic(x, linear.weight, "alone")
    assert torch.equal(linear(x), direct + bias)
    assert relative_error(linear(x), exact) < 0.02


def test_a_strategy_gives_each_layer_its_format(model) -> None:
    strategy = create_layerwise_gradient(LAYERS, ["FP16", "FP8_E4M3", "NVFP4"])
    attached = quantizer()
    report = attached.attach(model, strategy)
    assert report.left_wide["layers.0.mlp.up_proj"] == finding("layer-stays-wide", kind="format", format="FP16")
    assert report.left_wide["lm_head"] == finding("layer-stays-wide", kind="format", format="FP16")
    assert {report.attached[f"layers.1.{leaf}"] for leaf in ("self_attn.k_proj", "mlp.down_proj")} == {"FP8_E4M3.FP16"}
    assert report.attached["layers.2.self_attn.o_proj"] == "NVFP4.FP16"
    model(TOKENS)
    assert "layers.0.mlp.up_proj" not in attached.states
    assert attached.states["layers.2.mlp.up_proj"].precision == "FP16"  # weight-only: the activation is not quantised
    attached.detach()
    report = quantizer().attach(model, get_strategy("fp8_balanced"))
    assert set(report.attached.values()) == {"FP8_E4M3"}


def test_torchao_plans_understand_a_strategy(model) -> None:
    """The same strategy as a per-layer plan of `apply_plan`: the words mean the same there."""
    names = ["layers.0.mlp.up_proj", "lm_head"]
    plan = {
        name: [parse_precision(text).name for text in strategy_layer_plan(get_strategy(name), names).values()]
        for name in ("fp16_baseline", "fp8_balanced", "w4a16_aggressive", "nvfp4_blackwell")
    }
    assert plan == {
        "fp16_baseline": ["FP16", "FP16"],
        "fp8_balanced": ["FP8", "FP16"],
        "w4a16_aggressive": ["INT4", "FP16"],
        "nvfp4_blackwell": ["NVFP4.BF16", "FP16"],
    }
    w8a8 = MixedPrecisionConfig("w8a8", "", {"ffn_up": "INT8"}, "INT8")
    assert parse_precision(strategy_layer_plan(w8a8, names)["layers.0.mlp.up_proj"]).name == "INT8.INT8"


def test_a_narrower_strategy_is_further_from_float(model) -> None:
    with torch.no_grad():
        exact = model(TOKENS)
    errors = []
    for name in ("fp16_baseline", "fp8_balanced", "nvfp4_blackwell"):
        attached = quantizer()
        attached.attach(model, get_strategy(name))
        errors.append(relative_error(model(TOKENS).detach(), exact))
        attached.detach()
    assert errors[0] == 0.0 < errors[1] < errors[2]


def test_layers_by_name(model) -> None:
    report = quantizer().attach(model, {"lm_head": "FP8", "layers.0.mlp.up_proj": "INT4.INT8"}, skip=("lm_head",))
    assert report.attached == {"layers.0.mlp.up_proj": "INT4.INT8"}
    assert report.left_wide["lm_head"] == finding("layer-stays-wide", kind="skipped")
    assert report.left_wide["layers.0.mlp.down_proj"] == finding("layer-stays-wide", kind="without-format")


def test_a_selector_sees_decode_and_prefill(model) -> None:
    attached = DynamicQuantizer(
        DynamicQuantConfig(calibration_mode="absmax", outlier_threshold_ratio=1e6), selector=AdaptivePrecisionSelector()
    )
    report = attached.attach(model)
    assert set(report.attached.values()) == {"by selector"}
    model(torch.arange(40).reshape(40, 1))  # fewer than 1000 values have no 99.9th percentile below their maximum
    reasons = {decision.reason.partition("; ")[2] for decision in attached.selector.decisions.values()}
    assert "decode is bound by memory" in reasons
    attached.selector.reset()
    model(TOKENS)
    reasons = {decision.reason.partition("; ")[2] for decision in attached.selector.decisions.values()}
    assert "decode is bound by memory" not in reasons
    assert "prefill computes" in reasons


def test_layers_that_cannot_take_the_format_stay_float_or_refuse(model) -> None:
    model.layers[1].mlp.down_proj = nn.Linear(FFN - 5, HIDDEN, bias=False)  # 155: no multiple of 16
    with torch.no_grad():
        model.layers[0].self_attn.o_proj.weight.zero_()
        model.layers[0].self_attn.v_proj.weight[0, 0] = float("nan")
    with pytest.raises(UnsupportedError) as caught:
        quantizer("NVFP4").attach(model, strict=True)
    assert str(caught.value).startswith(
        "3 of 22 layers cannot be quantised, and strict allows no exception; the model is unchanged."
    )
    assert all("forward" not in module.__dict__ for module in model.modules())
    report = quantizer("NVFP4").attach(model)
    assert set(report.left_wide) == {"layers.1.mlp.down_proj", "layers.0.self_attn.o_proj", "layers.0.self_attn.v_proj"}
    assert "K = 155 is not a multiple of 16" in short_text(report.left_wide["layers.1.mlp.down_proj"])
    assert "its weight is all zero" in short_text(report.left_wide["layers.0.self_attn.o_proj"])
    assert "its weight holds NaN" in short_text(report.left_wide["layers.0.self_attn.v_proj"])


def test_zero_input_is_exact_and_nan_names_the_layer(model) -> None:
    attached = quantizer()
    attached.attach(model)
    linear = model.layers[0].self_attn.q_proj
    assert torch.equal(linear(torch.zeros(1, 3, HIDDEN)), linear.bias.expand(1, 3, HIDDEN))
    assert linear(torch.empty(1, 0, HIDDEN)).shape == (1, 0, HIDDEN)
    assert not attached.states
    with pytest.raises(InvalidValueError, match=r"layers\.0\.self_attn\.q_proj: activation holds NaN"):
        linear(torch.full((1, 3, HIDDEN), float("nan")))
    assert not attached.states


def test_shared_modules_and_a_bare_linear() -> None:
    shared = nn.Linear(32, 32)
    model = nn.Sequential(shared, nn.ReLU(), shared)
    attached = quantizer()
    assert list(attached.attach(model).attached) == ["0"]  # one module, one operator
    model(torch.randn(4, 32))
    assert attached.states["0"].calls_count == 2
    attached.detach()
    bare = quantizer()
    assert list(bare.attach(shared).attached) == ["linear"]
    shared(torch.randn(4, 32))
    assert bare.states["linear"].calls_count == 1


class OwnLinear(nn.Linear):
    """Somebody's subclass: what its forward does is not ours to replace."""


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (lambda: nn.Sequential(nn.ReLU()), {}, "Sequential has no nn.Linear: nothing to attach to"),
        (lambda: nn.Sequential(OwnLinear(8, 8)), {}, "has no nn.Linear"),
        (lambda: "model", {}, "model must be an nn.Module, got a str"),
        (lambda: nn.Sequential(nn.Linear(8, 8)), {"skip": ("lm_head",)}, "'lm_head' is not an nn.Linear of the model"),
        (lambda: nn.Sequential(nn.Linear(8, 8)), {"precisions": {"1": "INT8"}}, "'1' is not an nn.Linear of the model"),
        (lambda: nn.Sequential(nn.Linear(8, 8)), {"precisions": {"0": "FP9"}}, "unknown format 'FP9'"),
    ],
)
def test_what_cannot_be_attached_to_is_refused(make, options: dict, words: str) -> None:
    model, attached = make(), quantizer()
    with pytest.raises(RooflineError) as caught:
        attached.attach(model, **options)
    assert words in str(caught.value)
    if isinstance(model, nn.Module):
        assert all("forward" not in module.__dict__ for module in model.modules())
        attached.attach(nn.Sequential(nn.Linear(8, 8)))  # the quantiser is free still


def test_attaching_twice_is_refused(model) -> None:
    first, second = quantizer(), quantizer()
    first.attach(model)
    with pytest.raises(InvalidValueError, match="attached to a model already"):
        first.attach(model)
    with pytest.raises(InvalidValueError, match="forward is already replaced"):
        second.attach(model)
    first.detach()
    second.attach(model)


def test_a_forward_replaced_since_is_not_thrown_away(model) -> None:
    attached = quantizer()
    attached.attach(model)
    linear = model.layers[0].self_attn.q_proj
    ours = linear.forward
    linear.forward = lambda input: ours(input)
    with pytest.raises(InvalidValueError, match="forward was replaced after attaching"):
        attached.detach()
    linear.forward = ours
    attached.detach()
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_a_layer_on_the_meta_device_is_kept() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8))
    assert quantizer().attach(model).left_wide["0"] == finding("weight-not-loaded")
