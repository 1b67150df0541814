"""Write roofline_model/expected/lent_intervals.toml from a table of measured kernels: python
scripts/fit/make_lent_intervals.py KERNELS.csv

How much wider than its lender's the interval of lent constants is: every chip of the table is predicted by the shipped
constants of the others, as a chip without rows would be (`expected/fitting/transfer_drift.py`). The rows are not in
this repository, so CI does not run this; the file says which table it was (SHA-256).
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "roofline_model" / "expected" / "lent_intervals.toml"

sys.path.insert(0, str(ROOT))  # the checkout this script stands in, whatever else is installed

from roofline_model.expected.attention.fitted.library import shipped_attention  # noqa: E402
from roofline_model.expected.fitting.fit import FitPlan, TableFit, planned_sets  # noqa: E402
from roofline_model.expected.fitting.table import read_kernel_table  # noqa: E402
from roofline_model.expected.fitting.transfer_drift import estimated, lent_text, transfers  # noqa: E402
from roofline_model.expected.products.fitted.library import shipped_gemm  # noqa: E402

HEAD = """\
# How much an interval of lent constants is wider than that of its lender: half-widths (logs, 80 %) by step.
# Written by scripts/fit/make_lent_intervals.py; transfers = 0: no chip of the rows can be left out for this step.
"""
PLAN = FitPlan(date="", source="", is_generic=True)
"""Rows grouped by chip and kernel family; nothing is fitted."""


def main(arguments: Sequence[str]) -> int:
    """Write the half-widths; returns the exit code."""
    if len(arguments) != 1:
        print("usage: python scripts/fit/make_lent_intervals.py KERNELS.csv", file=sys.stderr)
        return 2
    table = read_kernel_table(arguments[0])
    lenders = TableFit(shipped_gemm(), shipped_attention(), (), ())
    source = f"{table.name}, {len(table)} rows, SHA-256 {table.sha256}"
    drifts = estimated(transfers(planned_sets(table, PLAN)[0], lenders))
    TARGET.write_text(HEAD + lent_text(drifts, source=source, date=f"{datetime.date.today()}"), encoding="utf-8")
    print(TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
