from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from plugin.run.options import BenchOptions
from results.diff.gate import parse_fail_on, rules_for
from results.diff.rules import DiffRules
from roofline_model.core.errors import RooflineError

NAMES = [
    "hw",
    "device",
    "db",
    "run",
    "predict_only",
    "formats",
    "shapes",
    "cache",
    "target_ci",
    "max_seconds",
    "timer",
    "power",
    "json",
    "require_measured",
    "force_measure",
    "mode",
    "processes",
    "isolate",
    "timeout",
    "attribution",
    "no_canary",
    "profile_file",
    "profile",
    "model",
    "batch",
    "context",
    "kv",
    "plan",
    "method",
    "text",
    "compile",
    "baseline",
    "fail_on",
    "quarantine",
    "annotations",
]


def parse(tmp_path, **given):
    values = {f"roofline_bench_{name}": None for name in NAMES}
    values.update({f"roofline_bench_{name}": value for name, value in given.items()})
    config = SimpleNamespace(option=SimpleNamespace(**values), invocation_params=SimpleNamespace(dir=tmp_path))
    return BenchOptions.from_pytest_config(config)


def test_defaults(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFLINE_DB", raising=False)
    options = parse(tmp_path)
    assert options == BenchOptions(db=str(tmp_path / ".roofline" / "results.db"))


def test_everything_given(tmp_path):
    options = parse(
        tmp_path,
        hw="gb10",
        device="cuda",
        db="x.db",
        run="nightly",
        predict_only=True,
        formats="bf16, fp8",
        shapes="1x2x3",
        cache="both",
        target_ci="0.5",
        max_seconds="2",
        timer="simulated",
        power=True,
        json="out.json",
        require_measured="3",
        force_measure=True,
    )
    assert options.formats == ("BF16", "FP8_E4M3")
    assert options.target_ci_ratio == 0.005
    assert options.db == str(tmp_path / "x.db")
    assert options.json_path == tmp_path / "out.json"
    assert (options.require_measured, options.power, options.force_measure) == (3, True, True)


def test_a_baseline_and_what_fails(tmp_path):
    options = parse(tmp_path, baseline=" latest ", fail_on="Slower:5%, gone")
    assert (options.baseline, options.fail_on) == ("latest", ("slower:5%", "gone"))
    assert parse(tmp_path, baseline="latest").fail_on == ()
    with pytest.raises(RooflineError, match="needs --roofline-baseline"):
        parse(tmp_path, fail_on="slower")
    for option in (
        {"baseline": " "},
        {"baseline": "latest", "fail_on": ""},
        {"baseline": "latest", "fail_on": "slower:5"},
        {"quarantine": "list.toml"},
        {"annotations": "list.toml"},
        {"baseline": "latest", "quarantine": "no.toml"},
    ):
        with pytest.raises(RooflineError, match="--roofline-"):
            parse(tmp_path, **option)


@pytest.mark.parametrize("text", ["slower:0.00001%", "slower:12.345678%", "slower:100%"])
def test_a_condition_means_the_same_at_the_end_of_the_run(tmp_path, text):
    options = parse(tmp_path, baseline="latest", fail_on=text)
    assert parse_fail_on(options.fail_on) == parse_fail_on([text])
    assert rules_for(parse_fail_on(options.fail_on), DiffRules()).limit_ratio == parse_fail_on([text])[0].least_ratio


def test_options_of_whole_models(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "book.txt").write_text("text")
    options = parse(
        tmp_path,
        model=" org/name ",
        batch="8,1,8",
        context="128",
        kv="int8,fp8",
        plan="a.json",
        method="awq",
        text="book.txt",
    )
    assert (options.model, options.batches, options.contexts) == ("org/name", (8, 1), (128,))
    assert options.kv_formats == ("INT8", "FP8_E4M3")
    assert (options.plan_paths, options.method, options.text_path) == (
        (tmp_path / "a.json",),
        "awq",
        tmp_path / "book.txt",
    )


def test_environment_names_the_database_and_urls_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLINE_DB", "postgresql+psycopg://host/db")
    assert parse(tmp_path).db == "postgresql+psycopg://host/db"
    assert parse(tmp_path, db="mine.db").db == str(Path(tmp_path) / "mine.db")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("formats", "bf17", "Did you mean"),
        ("formats", " , ", "--roofline-formats is empty"),
        ("device", "tpu", "cpu or cuda"),
        ("cache", "hot", "cold or warm or flushed or both"),
        ("target_ci", "0", "above 0"),
        ("target_ci", "abc", "number of percent"),
        ("max_seconds", "-1", "above 0"),
        ("max_seconds", "nan", "above 0"),
        ("require_measured", "0", "=N"),
        ("require_measured", "bench_cases", "=N"),
        ("db", "  ", "--roofline-db is empty"),
        ("db", ":memory:", "must outlive its process"),
        ("json", "", "not a file that can be written"),
        ("json", ".", "not a file that can be written"),
        ("require_measured", "9" * 5000, "=N"),
        ("require_measured", "٣", "=N"),
        ("shapes", "", "--roofline-shapes is empty"),
        ("db", "~nobodyx/r.db", "--roofline-db '~nobodyx/r.db' begins with a home folder that is not known here"),
        ("json", "~nobodyx/r.json", "--roofline-json '~nobodyx/r.json' begins with a home folder"),
        ("profile_file", "~nobodyx/p.toml", "--roofline-profile-file '~nobodyx/p.toml' begins with a home folder"),
        ("profile_file", "p" * 5000, "is not a file"),
        ("json", "j" * 5000, "cannot be written .File name too long"),
        ("json", "a\0b", "cannot be written .embedded null byte"),
        ("hw", "h" * 5000 + ".toml", "--roofline-hw is 5,005 characters long, no name or path is: 'hhh"),
        ("timer", "t" * 5000, "--roofline-timer is 5,000 characters long"),
        ("run", "", "--roofline-run is blank; give one line of 1 to 200 characters"),
        ("run", " \t", "--roofline-run is blank"),
        ("run", "two\nlines", "--roofline-run has several lines"),
        ("run", "x" * 201, "--roofline-run is 201 characters long"),
        ("timeout", "0.09", "--roofline-timeout must be at least 0.1 and at most 86400 seconds"),
        ("model", " ", "--roofline-model is empty; leave it out for the default"),
        ("model", "m" * 5000, "--roofline-model is 5,000 characters long"),
        ("batch", "1,x", "--roofline-batch takes a whole number of sequences from 1"),
        ("batch", ",", "--roofline-batch is empty; give whole numbers of sequences such as 1,8"),
        ("context", "0", "--roofline-context takes a whole number of tokens from 1"),
        ("kv", "bf17", "Did you mean"),
        ("kv", ",", "--roofline-kv is empty"),
        ("plan", "no.json", "--roofline-plan 'no.json' is not a file; give JSON files such as"),
        ("plan", ",", "--roofline-plan '' is not a file"),
        ("text", "no.txt", "--roofline-text 'no.txt' is not a file; give a UTF-8 text file"),
        ("timeout", "-1", "--roofline-timeout must be at least 0.1"),
    ],
)
def test_bad_values_say_what_to_write(tmp_path, option, value, message):
    with pytest.raises(RooflineError, match=message):
        parse(tmp_path, **{option: value})


@pytest.mark.parametrize(
    "option",
    [
        "hw",
        "timer",
        "db",
        "json",
        "profile_file",
        "device",
        "cache",
        "mode",
        "timeout",
        "processes",
        "require_measured",
        "isolate",
        "formats",
    ],
)
def test_a_long_value_is_not_echoed_whole(tmp_path, option):
    with pytest.raises(RooflineError) as caught:
        parse(tmp_path, **{option: ":" + "x" * 100_000})
    assert len(str(caught.value)) < 1000
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "limit_s"),
    [
        ({}, 60.0),
        ({"max_seconds": "20"}, 230.0),
        ({"timeout": "5", "max_seconds": "20"}, 5.0),
        ({"timeout": "60", "max_seconds": "20"}, 60.0),
        ({"timeout": "90"}, 90.0),
    ],
)
def test_the_watchdog_waits_for_a_long_sampling_budget_unless_told_otherwise(tmp_path, given, limit_s):
    assert parse(tmp_path, **given).timeout_s == limit_s


def test_a_label_keeps_no_space_around_it(tmp_path):
    assert parse(tmp_path, run="  night  ").run_label == "night"
    assert len(parse(tmp_path, run="x" * 200).run_label) == 200
