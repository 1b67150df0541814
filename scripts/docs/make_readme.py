"""Write the outputs in README.md, docs/index.md and docs/reference/measuring.md anew: each is what the command above it
prints.

A block under `<!-- output: N -->` holds one command, and the first N lines that it prints at 80 columns. Commands that
read stored runs see those of a CPU in examples/runs. A block under `<!-- summary: N lines of CASE in FOLDER/RUN -->` is
what pytest prints at the end of a run: N lines, and the verdict of a longer case. `--check` writes nothing and exits 1
when a page is stale.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

from plugin.terminal.summary import summary_lines
from results.exchange.exported.load import read_export

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "reference" / "measuring.md")
EXAMPLES = ROOT / "examples" / "runs"
RUNS = tuple(
    path for folder in ("cpu-amd-epyc-2t", "simulated-nights") for path in sorted((EXAMPLES / folder).glob("*.json"))
)
BLOCK = re.compile(r"(<!-- output: (\d+) -->\n```console\n\$ roofline ([^\n]*)\n)(.*?)(```\n)", re.DOTALL)
SUMMARY = re.compile(r"(<!-- summary: (\d+) lines of ([^\n]*) in ([\w/-]+) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
ELLIPSIS = "…\n"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_module(module: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a module of this environment and return what it printed."""
    return subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of the commands: 80 columns, and a database of their own in `folder`."""
    return {**os.environ, "COLUMNS": "80", "ROOFLINE_DB": str(folder / "examples.db"), "NO_COLOR": "1"}


def import_examples(folder: Path, run: Run = run_module) -> None:
    """Import the runs that the pages speak of into the database of `environment(folder)`."""
    done = run("roofline_cli", "import", *map(str, RUNS), cwd=ROOT, env=environment(folder))
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def with_outputs(text: str, folder: Path, run: Run = run_module) -> str:
    """Return a page's text with the output of every marked command as it is now."""

    def anew(block: re.Match[str]) -> str:
        head, count, command, _, end = block.groups()
        arguments = shlex.split(command.partition("  #")[0])
        done = run("roofline_cli", *arguments, cwd=ROOT, env=environment(folder))
        if done.returncode not in (0, 1) or not done.stdout:  # 1 is an answer of `diff`
            raise SystemExit(f"roofline {command}: exit code {done.returncode}\n{done.stderr}")
        lines = [line.rstrip() for line in done.stdout.rstrip().splitlines()]
        shown = lines[: int(count)]
        return head + "\n".join(shown) + "\n" + (ELLIPSIS if len(lines) > len(shown) else "") + end

    return SUMMARY.sub(summary_anew, BLOCK.sub(anew, text))


def summary_anew(block: re.Match[str]) -> str:
    """Return a block of pytest's summary as it is now."""
    head, count, case, run, _, end = block.groups()
    lines = [line.text for line in summary_lines(read_export(EXAMPLES / f"{run}.json").records, width=100)]
    begin = next(i for i, line in enumerate(lines) if line.startswith(case))
    shown, case_lines = lines[begin : begin + int(count)], list(takewhile(bool, lines[begin:]))
    if len(case_lines) > len(shown):
        verdict = next(i for i, line in enumerate(case_lines) if line.startswith("  →"))
        shown += [f"  {ELLIPSIS.strip()}", *case_lines[verdict:]]
    return head + "".join(f"{line}\n" for line in shown) + end


def main() -> int:
    """Write the pages, or with `--check` compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when a page is stale")
    check = parser.parse_args().check
    stale = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        import_examples(folder)
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            new = with_outputs(text, folder)
            if new != text:
                stale.append(page.relative_to(ROOT).as_posix())
                if not check:
                    page.write_text(new, encoding="utf-8")
    for page_name in stale:
        print(f"{page_name} {'is stale; run `make readme`' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
