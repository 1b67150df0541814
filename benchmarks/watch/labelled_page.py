"""Write docs/theory/labelled_truth.md: `nice python -m benchmarks.watch.labelled_page [--quick] [-o FILE]`.

Everything is simulated from fixed seeds: another run writes the same numbers. About ten minutes of one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.watch.labelled_nights import BUSY, QUIET
from benchmarks.watch.labelled_truth import (
    CASES,
    GATES,
    LEVELS,
    NIGHTS,
    NOISES,
    PROCESSES,
    SHARES,
    STEPS,
    Alarms,
    Detection,
    Power,
    detection,
    false_alarms,
    power_of,
    upper_bound,
)

TARGET = Path(__file__).resolve().parents[2] / "docs" / "theory" / "labelled_truth.md"
SERIES, ROUNDS, POWER_ROUNDS = 5, 10, 300
QUICK_SERIES, QUICK_ROUNDS, QUICK_POWER_ROUNDS = 1, 1, 10

INTRODUCTION = f"""\
# Diffs and histories against labelled truth

Simulated nights in which it is known what changed. The same series go through `roofline diff` and `roofline history` and
through the rules of other tools, which are written anew from their descriptions (`benchmarks/watch/rivals.py` names them).
`python -m benchmarks.watch.labelled_page` writes this page; seeds are fixed.

{CASES} cases, {PROCESSES} processes a night, {NIGHTS} nights. Ours is `--against BASELINE` (the newest five nights), nothing stored.

| machine | between processes | common to a night | second state | drift in a run | wave over the nights | stolen |
|---|---|---|---|---|---|---|
"""


def render(*, quick: bool) -> str:
    """Return the whole page."""
    series, rounds, power_rounds = (
        (QUICK_SERIES, QUICK_ROUNDS, QUICK_POWER_ROUNDS) if quick else (SERIES, ROUNDS, POWER_ROUNDS)
    )
    machines = (QUIET, BUSY)
    kinds = "".join(
        f"| {machine.name} | {percent(machine.between_sd, 1)}{'' if machine.tail_df > 99 else f', t with {machine.tail_df:g} df'} "
        f"| {percent(machine.night_sd, 2)} | +{percent(machine.state_step, 0)} in {percent(machine.two_state_ratio, 0)} of the cases "
        f"| up to {percent(machine.drift_high, 1)} in {percent(machine.drifting_ratio, 0)} | ±{percent(machine.wander, 1)} "
        f"| {percent(machine.stolen_ratio, 0)} of the processes by 5 to 30 %; one in five unnoticed |\n"
        if machine.stolen_ratio
        else f"| {machine.name} | {percent(machine.between_sd, 1)} | {percent(machine.night_sd, 2)} | +{percent(machine.state_step, 0)} in "
        f"{percent(machine.two_state_ratio, 0)} of the cases | up to {percent(machine.drift_high, 1)} in {percent(machine.drifting_ratio, 0)} "
        f"| ±{percent(machine.wander, 1)} | none |\n"
        for machine in machines
    )
    alarms = [false_alarms(machine, series) for machine in machines]
    steps = [detection(machine, step, share, rounds) for machine in machines for step in STEPS for share in SHARES]
    powers = [power_of(noise, step, power_rounds) for noise in NOISES for step in (0.0, *STEPS)]
    return INTRODUCTION + kinds + alarm_text(alarms) + detection_text(steps) + power_text(powers)


def percent(ratio: float, digits: int) -> str:
    """Return a share as the pages write it: `2.5 %`."""
    return f"{100 * ratio:.{digits}f} %"


def alarm_text(machines: Sequence[Alarms]) -> str:
    """Return the section on unchanged nights."""
    head = "".join(f" {alarms.machine} |" for alarms in machines)
    lines = [
        "\n## Nothing changed\n",
        "Gates that fail in 20 nights (aim: fewer than 1).\n",
        f"| gate |{head}",
        f"|---|{'---|' * len(machines)}",
    ]
    for name in GATES:
        cells = [
            f" {20 * alarms.nights[name] / alarms.night_count:.2g} "
            f"(95 %: < {20 * upper_bound(alarms.nights[name], alarms.night_count):.2g}) |"
            for alarms in machines
        ]
        lines.append(f"| {name} |{''.join(cells)}")
    lines += [
        f"\n{machines[0].night_count} nights each; of the cases "
        + ", ".join(
            f"{percent(alarms.ambiguous_ratio, 0)} are AMBIGUOUS on the {alarms.machine} machine" for alarms in machines
        )
        + ".\n",
        f"Rises that a search for change points raises in 100 series of {NIGHTS} nights, asked anew every night.\n",
        f"| history |{head}",
        f"|---|{'---|' * len(machines)}",
    ]
    for name in LEVELS:
        cells = [f" {100 * alarms.histories[name] / alarms.history_count:.2g} |" for alarms in machines]
        lines.append(f"| {name} |{''.join(cells)}")
    return "\n".join(lines) + "\n"


def detection_text(steps: Sequence[Detection]) -> str:
    """Return the section on injected steps."""
    names = (*GATES, *LEVELS)
    lines = [
        "\n## Some cases got slower\n",
        (
            "Share of the slower cases that is found: by a gate on the night of the step, by a history within five nights. The last "
            "columns are our verdicts on those that `slower` does not call.\n"
        ),
        f"| machine, step, share of the cases | {' | '.join(names)} | AMBIGUOUS | SAME |",
        f"|---|{'---|' * (len(names) + 2)}",
    ]
    for step in steps:
        cells = " | ".join(f"{percent(step.rates[name], 0)}" for name in names)
        lines.append(
            f"| {step.machine}, +{percent(step.step, 0)}, {percent(step.share, 0)} | {cells} | {percent(step.ambiguous_ratio, 0)} "
            f"| {percent(step.same_ratio, 0)} |"
        )
    lines.append("\n`slower:5%` asks for what is surely beyond 5 %: a step of 5 % is not.\n")
    return "\n".join(lines)


def power_text(powers: Sequence[Power]) -> str:
    """Return the section on power by noise and true step."""
    lines = [
        "\n## What three processes a side see\n",
        (
            f"{CASES} cases, normal noise, no drift, one case slower, nothing stored. ± is the 95 % half width of a change. A true +5 % "
            "is called SAME at most as often as a 95 % interval misses on one side, 2.5 %.\n"
        ),
        "| between processes | ± | unchanged: AMBIGUOUS | +3 % SLOWER | +5 % SLOWER | +5 % AMBIGUOUS | +5 % SAME | +10 % SLOWER |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for noise in dict.fromkeys(power.noise for power in powers):
        unchanged, three, five, ten = (power for power in powers if power.noise == noise)
        lines.append(
            f"| {percent(noise, 2)} | {percent(unchanged.half_width_ratio, 1)} | {percent(unchanged.ambiguous, 1)} | {percent(three.slower, 0)} "
            f"| {percent(five.slower, 0)} | {percent(five.ambiguous, 1)} | {percent(five.same, 1)} | {percent(ten.slower, 0)} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it works, not what is true")
    parser.add_argument("-o", "--output", type=Path, default=TARGET, metavar="FILE")
    options = parser.parse_args(arguments)
    options.output.write_text(render(quick=options.quick), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
