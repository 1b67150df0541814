"""An engine: a TOML file with its defaults and, for each class of chips, the constants that were fitted for it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from roofline_model.chips.hardware import Device, list_hardware
from roofline_model.core.errors import UnknownNameError
from roofline_model.core.finding import finding, unsupported

CATALOG = Path(__file__).parent / "catalog"
_UNKNOWN_INTERVAL = (0.5, 2.0)
"""Where no row tells: a judgement."""


class PowerConstants(NamedTuple):
    """Watts of a chip that is idle, that has a request in flight, and that its tensor cores add at their peak."""

    idle_w: float
    busy_w: float
    tensor_w: float


class Protocol(NamedTuple):
    """How a benchmark with a fixed number of requests in flight meets an engine."""

    prefill_ratio: float
    """Time of a prompt computed beside others over that of one computed alone."""
    wave_count: float
    """Waves of prompts over which the queue of the first one is spread."""
    first_token_step_count: float
    """Steps until the client sees the first token: some engines stream every twentieth."""
    client_s: float
    """Seconds from a request to the engine and back to the client."""


@dataclass(frozen=True, slots=True)
class EngineConstants:
    """How an engine runs on a class of chips. Shares are of the chip's rated bandwidth and dense peaks."""

    bandwidth_ratio: float
    """Share of the bandwidth that products reach which read their weights once."""
    layer_s: float
    """Seconds per layer and step beside bytes and FLOPs: launches, norms, casts, routing."""
    tensor_ratio: float
    """Share of the dense peak that large products in 16 bit reach."""
    first_token_step_count: float | None = None
    """Steps that a short prompt, its first token and the client take together, where no prompt was timed by itself: the
    first token is not predicted then. None: prompts were timed.
    """
    expert_bandwidth_ratio: float | None = None
    """The same share of routed experts; None: as of other products."""
    expert_tile_rows: tuple[float, float] = (16.0, 64.0)
    """Rows that tiles of a grouped product add, from and to, by the rows an expert gets (gpt-oss, B200 and H100)."""
    expert_spread_ratio: float = 1.0
    """Share of the experts that a workload's tokens are spread over."""
    narrow_tensor_ratio: float = 1.0
    """What is left of `tensor_ratio` where activations are narrower than 16 bit."""
    four_bit_tensor_ratio: float = 1.0
    """The same where activations, or weights multiplied in 16 bit, have four bits."""
    multiplied_wide: tuple[str, ...] = ()
    """Formats of weights that its kernels here multiply in 16 bit, though the chip could do otherwise."""
    unpacking_ratios: Mapping[str, float] = field(default_factory=dict)
    """Kind of unpacking → the bytes that a weight costs over those it has."""
    cache_ratio: float | None = None
    """Share of the bandwidth that attention reads the cache with; None: as of products."""
    wide_cache_ratio: float | None = None
    """The same of heads of 512 and of a latent cache."""
    attention_ratio: float = 1.0
    """Share of the 16-bit peak that attention reaches in a prefill."""
    wide_attention_ratio: float = 1.0
    """The same of heads of 512."""
    elementwise_ratio: float = 1.0
    """Traffic of elementwise kernels over what was counted."""
    expert_layer_ratio: float = 0.0
    """What experts add to `layer_s`, as a share of it."""
    block_scale_layer_ratio: float = 0.0
    """What FP8 with block scales adds to `layer_s`, as a share of it."""
    recurrent_layer_ratio: float = 0.0
    """What a recurrent layer adds to `layer_s`, as a share of it."""
    post_norm_layer_ratio: float = 0.0
    """What norms behind attention and feed-forward add to `layer_s`, as a share of it."""
    latent_layer_s: float = 0.0
    """What latent attention adds to a layer, seconds."""
    sparse_layer_s: float = 0.0
    """What picking tokens by an index adds to a layer, seconds."""
    sequence_layer_s: float = 0.0
    """Per layer and sequence, seconds: attention, rotary positions, cache writes."""
    step_s: float = 0.0
    """Per step, seconds."""
    prefill_norm_order: float = 4.0
    """Order of the norm of reading and computing in a prefill; 1: they follow one another."""
    prompt_chunk_tokens: int = 8192
    """Tokens of a prompt that one pass computes at most."""
    mixed_prefill_ratio: float = 1.0
    """Time of a prompt computed beside decodes over that of one computed alone."""
    client_s: float = 0.0
    """Seconds from a request to the engine and back to the client."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """Way of benchmarking with a fixed number of requests in flight → what its first token waits for."""
    memory_ratio: float = 0.9
    """Share of the memory that the engine takes."""
    memory_own_bytes: float = 3e9
    """What the engine needs of that for itself."""
    fitted_chips: tuple[str, ...] = ()
    """Chips whose rows are behind the constants."""
    similar_chips: tuple[str, ...] = ()
    """Chips of the same kind that they are taken for without rows."""
    most_device_count: int | None = None
    """Devices that runs behind the constants were spread over at most; None: as many as split the model evenly."""
    sweep_together: tuple[tuple[int, int], tuple[int, int]] | None = None
    """Lengths of input and output, from and to, at which the sweeps behind the constants start all requests at once; of
    validation alone.
    """
    power: PowerConstants | None = None
    """Watts, where telemetry was there to fit them."""
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """Quantity → load, or load of a class of models (`single-moe`) → factors of the 80 % interval, from rows of models
    left out of the fit.
    """

    def interval(self, quantity: str, load: str, model_class: str) -> tuple[float, float]:
        """Return the factors of the 80 % interval of a quantity under a load, for a class of models where that was
        told apart; the widest of that quantity where that load was not fitted.
        """
        by_load = self.intervals.get(quantity)
        if by_load is None:
            return _UNKNOWN_INTERVAL
        lows, highs = zip(*by_load.values(), strict=True)
        return by_load.get(f"{load}-{model_class}") or by_load.get(load) or (min(lows), max(highs))

    def answers(self, load: str) -> bool:
        """Return whether runs of such a load are behind the constants, or runs of a fixed number in flight, whose form
        arrivals share (as good on 2,122 runs of data-centre chips: 7.6 % against 7.5 %).
        """
        fitted = {key.partition("-")[0] for key in self.intervals.get("tpot", {})}
        return load in fitted or "steady" in fitted

    def multiplied_in(self, weights: str, device: Device) -> str:
        """Return the format that products of such weights multiply in on a chip: their own where it has the units and
        the engine the kernels; MXFP4 experts on Blackwell in FP8, as in vLLM's recipe of gpt-oss.
        """
        has_units = device.declares(weights) and device.path(weights).kind == "native"
        if weights in self.multiplied_wide or not has_units:
            return "BF16"
        return "FP8_E4M3" if weights == "MXFP4" else weights


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine."""

    key: str
    name: str
    versions: str
    """Versions that the constants were fitted on."""
    source: str
    """Rows behind the constants, and where they come from."""
    formats: tuple[str, ...]
    """Formats of weights that it loads: keys of the catalog, GGUF mixes and MLX's integers by name."""
    constants: tuple[EngineConstants, ...]
    """One for each kind of chips; the first that knows a chip is its own."""
    stores_gguf: bool = False
    """Whether it loads GGUF files, whose mixes give each role a type of its own."""
    captures_graphs: bool = False
    """Whether it captures steps as CUDA graphs, unless told otherwise."""
    least_capability: Mapping[str, int] = field(default_factory=dict)
    """Format of weights → least major compute capability that it multiplies them on."""
    around: str | None = None
    """Key of the engine that it runs: its constants, and what it loads."""
    kernels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Format of weights → major compute capability → the kernel of its products, as its log names it."""
    default_weights: str | None = None
    """Format of the weights that it fetches where none is asked for; None: the maker's own."""
    runs_in: Mapping[str, str] = field(default_factory=dict)
    """Part of a model's tag → engine that runs such models for it."""

    def kernel(self, weights: str, device: Device) -> str | None:
        """Return the kernel that it is known to take for a format of weights on a chip; None where nobody read it."""
        capability = device.match.capability
        return None if capability is None else self.kernels.get(weights, {}).get(str(capability[0]))

    def check_multiplies(self, weights: str, device: Device) -> None:
        """Raise `UnsupportedError` for a format that it has no kernel for on a chip."""
        least, capability = self.least_capability.get(weights), device.match.capability
        if least is not None and (capability is None or capability[0] < least):
            raise unsupported(
                finding("engine-excluded", self.name, kind="kernel", weight_format=weights, hardware=device.key)
            )

    def constants_for(self, chip_key: str) -> EngineConstants:
        """Return the constants for a chip. Raises `UnsupportedError` where there are none."""
        for each in self.constants:
            if chip_key in each.fitted_chips or chip_key in each.similar_chips:
                return each
        described = {key for each in self.constants for key in (*each.fitted_chips, *each.similar_chips)}
        keys = tuple(sorted(described & {device.key for device in list_hardware()}))
        raise unsupported(finding("engine-excluded", self.name, kind="chip", hardware=chip_key, chips=keys))


def engine_names() -> tuple[str, ...]:
    """Return the keys of all engines."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.toml")))


def distinct_engines() -> tuple[str, ...]:
    """Return the keys of engines whose times are their own, not those of another that they run."""
    return tuple(name for name in engine_names() if get_engine(name).around is None)


@cache
def get_engine(name: str) -> Engine:
    """Return an engine by its key. Raises `UnknownNameError` for another name."""
    path = CATALOG / f"{name}.toml"
    if name not in engine_names():
        raise UnknownNameError("engine", name, engine_names())
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    shared, chips = data.pop("every_chip", {}), data.pop("chips", {})
    if "around" in data:
        inner = get_engine(data["around"])
        data |= {"formats": inner.formats, "constants": inner.constants, "stores_gguf": inner.stores_gguf}
    else:
        data["constants"] = tuple(_constants(shared | own) for own in chips.values())
    return Engine(**data | {"key": name, "formats": tuple(data["formats"])})


def _constants(values: Mapping[str, Any]) -> EngineConstants:
    """Return the constants of one kind of chips; a key that is none of theirs is a `TypeError`."""
    made: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if "protocols" in made:
        made["protocols"] = {name: Protocol(**own) for name, own in made["protocols"].items()}
    if "power" in made:
        made["power"] = PowerConstants(**made["power"])
    return EngineConstants(**made)
