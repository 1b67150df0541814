"""Options of a run: pytest options → one frozen value. Command line beats the ini file, which beats the default."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from results.records.limits import CONTROLS
from results.store.target import parse_target
from roofline_model.core.definition_text import shortened, user_path
from roofline_model.core.errors import InvalidValueError
from roofline_model.operators.case import MODES

if TYPE_CHECKING:
    import pytest

Value = TypeVar("Value")
Default = TypeVar("Default")

CACHE_CHOICES = ("cold", "warm", "flushed", "both")
ISOLATE_CHOICES = ("auto", "case", "none")
ATTRIBUTION_CHOICES = ("none", "cupti")
PROFILER_CHOICES = ("ncu",)
DEVICE_CHOICES = ("cpu", "cuda")
LEAST_TIMEOUT_S = 0.1
"""A watchdog that barks before a kernel could be loaded would fail every case."""
MAX_LABEL_CHARS = 200
_LISTS = "docs/reference/diff.md#quarantine"
"""Where the lists of a comparison are explained."""
MAX_SHAPES_CHARS = 1_000_000
"""Of a list MxNxK,…; a longer one belongs into a file."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Our options after parsing and checking; see `pytest --help`, group roofline."""

    hw: str = "auto"
    device: str | None = None
    """cpu, cuda, or None: cuda when an NVIDIA device is present."""
    db: str | None = None
    """Path or URL; None: $ROOFLINE_DB, else .roofline/results.db in the folder pytest was called from."""
    run_label: str = ""
    predict_only: bool = False
    model_formats: tuple[str, ...] | None = None
    """Formats to keep as they were given, for the model_quant cases: a weight's key, or `WEIGHT.ACTIVATION`."""
    shapes: str = "quick"
    model: str | None = None
    """Model of the model_quant cases; None: the workloads' own default."""
    batches: tuple[int, ...] | None = None
    contexts: tuple[int, ...] | None = None
    """Sequences and tokens per sequence of the model_quant cases; None: by `shapes`."""
    kv_formats: tuple[str, ...] = ()
    plan_paths: tuple[Path, ...] = ()
    method: str | None = None
    compile: bool = False
    text_path: Path | None = None
    cache: str = "cold"
    modes: tuple[str, ...] = ("eager",)
    """Modes of `roofline_model.operators.case.MODES`, each a case of its own."""
    target_ci_ratio: float = 0.01
    max_seconds: float = 0.7
    process_count: int | None = None
    """Fresh processes per case; None: not replicated."""
    isolate: str = "auto"
    timeout_s: float = 60.0
    """How long one case may take. What the user does not say grows with the sampling budget."""
    timer: str = "auto"
    attribution: str = "none"
    canary: bool = True
    profile_file: Path | None = None
    """Ceilings of this machine from a file, instead of its own measured ones."""
    profiler: str | None = None
    """ncu: print profiler commands instead of measuring."""
    power: bool | None = None
    """True: add a window long enough for power; None: sample the sensors, report no power; False: read no sensor."""
    json_path: Path | None = None
    baseline: str | None = None
    """What this run is compared with when it ends."""
    fail_on: tuple[str, ...] = ()
    """Conditions of that comparison that fail the session, as `results.diff.gate` reads them."""
    quarantine_path: Path | None = None
    annotations_path: Path | None = None
    """Lists of that comparison: cases that fail nothing, and expected changes."""
    require_measured: int | None = None
    force_measure: bool = False

    @property
    def is_model_given(self) -> bool:
        """Whether an option names a model or says how models are measured."""
        model_options = (self.model, self.batches, self.contexts, self.kv_formats, self.plan_paths, self.method)
        return any(value for value in model_options)

    @property
    def formats(self) -> tuple[str, ...] | None:
        """Weight format keys to keep, or None for all."""
        pairs = self.model_formats
        return None if pairs is None else tuple(dict.fromkeys(pair.partition(".")[0] for pair in pairs))

    @property
    def is_simulated(self) -> bool:
        """Whether times are invented or replayed."""
        return self.timer.partition(":")[0] in ("simulated", "replay")

    @classmethod
    def from_pytest_config(cls, config: pytest.Config) -> BenchOptions:
        """Read the options of one pytest session; raises a `RooflineError` naming the option that is wrong."""
        parsed, folder = vars(config.option), Path(str(config.invocation_params.dir))

        def given(
            name: str, read: Callable[..., Value], default: Default, *details: Any, **fix: str
        ) -> Value | Default:
            value = parsed[f"roofline_bench_{name}"]
            return default if value is None else read(f"--roofline-{name.replace('_', '-')}", value, *details, **fix)

        database = os.environ.get("ROOFLINE_DB")
        if database is not None and parsed["roofline_bench_db"] is None:
            parsed = {**parsed, "roofline_bench_db": database or None}
        baseline = given("baseline", _text, None, "the default")
        for name in ("fail_on", "quarantine", "annotations"):
            given(name, _needing_baseline, None, baseline)
        max_seconds = given("max_seconds", _positive, 0.7, "seconds", 86_400)
        # A burst rests more than it measures and takes several budgets; loading and warming up come on top.
        timeout_s = max(60.0, 30 + 10 * max_seconds)
        return cls(
            hw=given("hw", _text, "auto", "auto"),
            device=given("device", _choice, None, DEVICE_CHOICES),
            db=given("db", _located, str(folder / ".roofline" / "results.db"), folder),
            run_label=given("run", _label, ""),
            predict_only=bool(parsed["roofline_bench_predict_only"]),
            model_formats=given("formats", _format_pairs, None),
            shapes=given("shapes", _text, "quick", "quick", MAX_SHAPES_CHARS),
            model=given("model", _text, None, "the default"),
            batches=given("batch", _counts, None, "sequences"),
            contexts=given("context", _counts, None, "tokens"),
            kv_formats=given("kv", _format_pairs, ()),
            plan_paths=given("plan", _inputs, (), folder),
            method=given("method", _text, None, "the default"),
            compile=bool(parsed["roofline_bench_compile"]),
            text_path=given("text", _input, None, folder, fix="give a UTF-8 text file"),
            cache=given("cache", _choice, "cold", CACHE_CHOICES),
            modes=given("mode", _modes, ("eager",)),
            target_ci_ratio=given("target_ci", _positive, 1.0, "percent", 100) / 100,
            max_seconds=max_seconds,
            process_count=given("processes", _count, None, "processes", 1000),
            isolate=given("isolate", _choice, "auto", ISOLATE_CHOICES),
            timeout_s=given("timeout", _positive, timeout_s, "seconds", 86_400, LEAST_TIMEOUT_S),
            timer=given("timer", _text, "auto", "auto"),
            attribution=given("attribution", _choice, "none", ATTRIBUTION_CHOICES),
            canary=not parsed["roofline_bench_no_canary"],
            profile_file=given("profile_file", _input, None, folder, fix="`roofline calibrate -o FILE` writes one"),
            profiler=given("profile", _choice, None, PROFILER_CHOICES),
            power=parsed["roofline_bench_power"],
            json_path=given("json", _output, None, folder),
            baseline=baseline,
            fail_on=given("fail_on", _fail_on, ()),
            quarantine_path=given("quarantine", _input, None, folder, fix=f"see {_LISTS}"),
            annotations_path=given("annotations", _input, None, folder, fix=f"see {_LISTS}"),
            require_measured=given("require_measured", _count, None, "cases"),
            force_measure=bool(parsed["roofline_bench_force_measure"]),
        )


# How options are read: the flag and what the user wrote come in; `InvalidValueError` names both.


def _located(option: str, db: str, folder: Path) -> str:
    """Make a plain path independent of later changes of folder; URLs stay as they are."""
    if not db.strip():
        raise InvalidValueError(f"{option} is empty; give a path such as .roofline/results.db or a database URL")
    if db.startswith(":"):
        raise InvalidValueError(f"{option} {_shown(db)}: a run must outlive its process; give a path or a database URL")
    path = _path(option, db)
    parse_target(db)  # what may hold a password is refused before a folder is put in front of it
    return db if "://" in db else str(folder / path)


def _label(option: str, value: str) -> str:
    """Return the label without the spaces around it; refuses one that no list of runs could show."""
    label = value.strip()
    if not label or len(label) > MAX_LABEL_CHARS or CONTROLS.search(label):
        option_texts = (
            "is blank"
            if not label
            else f"is {len(label):,} characters long"
            if len(label) > MAX_LABEL_CHARS
            else "has several lines"
            if len(label.splitlines()) > 1
            else "holds a control character"
        )
        raise InvalidValueError(
            f"{option} {option_texts}; give one line of 1 to {MAX_LABEL_CHARS} characters, or leave it out"
        )
    return label


def _path(option: str, value: str) -> Path:
    try:
        return user_path(value)
    except InvalidValueError as error:
        raise InvalidValueError(f"{option} {error}") from None


def _shown(value: str) -> str:
    return repr(shortened(value))


def _text(option: str, value: str, default: str, most: int = 4096) -> str:
    if not value.strip():
        raise InvalidValueError(f"{option} is empty; leave it out for {default}")
    if len(value) > most:
        raise InvalidValueError(f"{option} is {len(value):,} characters long, no name or path is: {_shown(value)}")
    return value.strip()


def _needing_baseline(option: str, value: str, baseline: str | None) -> None:
    if baseline is None:
        raise InvalidValueError(f"{option} needs --roofline-baseline: what should this run be compared with?")


def _fail_on(option: str, value: str) -> tuple[str, ...]:
    """Return the conditions as texts; refuses what means nothing."""
    from results.diff.gate import parse_fail_on

    try:
        return tuple(rule.text for rule in parse_fail_on([value]))
    except InvalidValueError as error:
        raise InvalidValueError(str(error).replace("--fail-on", option)) from None


def _choice(option: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidValueError(f"{option} must be {' or '.join(choices)}, got {_shown(value)}")
    return value


def _positive(option: str, value: str, unit: str, most: float, least: float = 0.0) -> float:
    try:
        number = float(value) if value.isascii() else math.nan  # Python reads digits of other scripts, people rarely do
    except ValueError:
        raise InvalidValueError(f"{option} must be a number of {unit}, got {_shown(value)}") from None
    if not math.isfinite(number) or not 0 < number <= most or number < least:
        lowest = f"at least {least:g}" if least else "above 0"
        raise InvalidValueError(f"{option} must be {lowest} and at most {most:g} {unit}, got {_shown(value)}")
    return number


def _count(option: str, value: str, what: str, most: int = 10**9) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) <= len(str(most))) or not 1 <= int(value) <= most:
        raise InvalidValueError(
            f"{option} takes a whole number of {what} from 1 to {most}, got {_shown(value)}; write {option}=N"
        )
    return int(value)


def _counts(option: str, value: str, what: str) -> tuple[int, ...]:
    """Return the whole numbers of a list `1,8`, each once."""
    counts = [_count(option, part.strip(), what) for part in value.split(",") if part.strip()]
    if not counts:
        raise InvalidValueError(f"{option} is empty; give whole numbers of {what} such as 1,8 or leave it out")
    return tuple(dict.fromkeys(counts))


def _modes(option: str, value: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip().lower() for part in value.split(",") if part.strip()))
    if names == ("all",):
        return MODES
    wrong = [name for name in names if name not in MODES]
    if wrong or not names:
        raise InvalidValueError(f"{option} must be some of {', '.join(MODES)}, or all; got {_shown(value)}")
    return names


def _input(option: str, value: str, folder: Path, fix: str) -> Path:
    path = folder / _path(option, value)
    if not value.strip() or not os.path.isfile(path):
        raise InvalidValueError(f"{option} {_shown(value)} is not a file; {fix}")
    return path


def _inputs(option: str, value: str, folder: Path) -> tuple[Path, ...]:
    """Return the files of a list `a.json,b.json`."""
    names = [part for part in value.split(",") if part.strip()] or [""]
    return tuple(_input(option, name, folder, fix='give JSON files such as {"ffn": "INT4"}') for name in names)


def _output(option: str, value: str, folder: Path) -> Path:
    """Return the path of a file to be written; refuses what cannot become one, and a file that is no earlier export."""
    from results.exchange.exported.export import EXPORT_FORMAT

    path = folder / _path(option, value)
    if not value.strip() or (os.path.exists(path) and not os.path.isfile(path)):
        raise InvalidValueError(
            f"{option} {_shown(value)} is not a file that can be written; give a path such as run.json"
        )
    try:
        with path.open("rb") as stream:
            start = stream.read(200)
    except FileNotFoundError:
        start = b""
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        reason = getattr(error, "strerror", None) or error
        raise InvalidValueError(f"{option} {_shown(value)} cannot be written ({reason})") from None
    if start.startswith(b"SQLite format 3"):
        raise InvalidValueError(f"{option} {_shown(value)} is a results database; give another path, such as run.json")
    if start and EXPORT_FORMAT.encode() not in start:
        raise InvalidValueError(
            f"{option} {_shown(value)} is there already and no export of a run: it is not overwritten; remove it, or "
            "give another path, such as run.json"
        )
    return path


def _format_pairs(option: str, value: str) -> tuple[str, ...]:
    """Return the formats of a list in canonical spelling, each once: `INT4`, `INT4.INT8`."""
    from roofline_model.formats.catalog import split_precision

    names = [name for name in value.split(",") if name.strip()]
    if not names:
        raise InvalidValueError(f"{option} is empty; give keys such as BF16,INT4 or leave it out")
    pairs = [split_precision(name.strip()) for name in names]
    return tuple(dict.fromkeys(".".join(each.key for each in pair if each is not None) for pair in pairs))
