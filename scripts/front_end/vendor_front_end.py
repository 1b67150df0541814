"""Renew the vendored front-end files: `vendor_front_end.py` builds them with npm, `--check` only says whether they are
as recorded.

Versions and checksums of all sources stand in `scripts/front_end/package.json` and `package-lock.json`. What is built
goes to `reports/page/vendor` (shipped, inlined into every interactive report) and `tests/vendor` (test data), with its
licences; each folder's `VENDORED.toml` records version, source and sha256. The build is exact: equal versions give
equal files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "scripts" / "front_end"
SHIPPED, TESTED = ROOT / "reports" / "page" / "vendor", ROOT / "tests" / "vendor"
RECORD = "VENDORED.toml"
BUNDLE = "plotly-report.min.js"


def check() -> list[str]:
    """Return what differs between the vendored files and their records, one line each."""
    wrong = []
    for folder in (SHIPPED, TESTED):
        record = folder / RECORD
        if not record.is_file():
            wrong.append(f"{record.relative_to(ROOT)} is missing")
            continue
        for entry in tomllib.loads(record.read_text(encoding="utf-8"))["file"]:
            path = folder / entry["path"]
            actual = digest(path) if path.is_file() else "missing"
            if actual != entry["sha256"]:
                wrong.append(f"{path.relative_to(ROOT)}: recorded {entry['sha256'][:12]}…, found {actual[:12]}…")
    return wrong


def renew() -> None:
    """Install the sources as locked, build, and write files, licences and records."""
    with tempfile.TemporaryDirectory(prefix="front-end-") as name:
        folder = Path(name)
        for source in SOURCES.iterdir():
            shutil.copy(source, folder)
        _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
        _run("node", "build.mjs", "bundle.js", "packages.json", cwd=folder)
        modules = folder / "node_modules"
        packages = json.loads((folder / "packages.json").read_text(encoding="utf-8"))
        script = (folder / "bundle.js").read_text(encoding="utf-8")
        _check_inlinable(script)
        banner = _notice(modules, packages)
        _check_inlinable(banner)
        SHIPPED.mkdir(parents=True, exist_ok=True)
        (SHIPPED / BUNDLE).write_text(f"/*!\n{banner}*/\n{script.rstrip()}\n", encoding="utf-8")
        (SHIPPED / "LICENSES.txt").write_text(_licences(modules, packages), encoding="utf-8")
        version = _about(modules / "plotly.js")["version"]
        _write_record(
            SHIPPED,
            [
                (
                    BUNDLE,
                    f"plotly.js {version}: core, scatter, bar, box and scattergl (strict)",
                    "MIT, with parts under ISC, BSD and MIT: LICENSES.txt",
                    "npm: plotly.js, built by scripts/front_end/build.mjs",
                ),
                (
                    "LICENSES.txt",
                    "licences of every package inside the bundle",
                    "as stated",
                    "npm: the packages' own files",
                ),
            ],
        )
        axe = TESTED / "axe-core"
        axe.mkdir(parents=True, exist_ok=True)
        for file in ("axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt"):
            shutil.copyfile(modules / "axe-core" / file, axe / file)
        about = f"axe-core {_about(modules / 'axe-core')['version']}, unchanged; used by tests alone, never shipped"
        files = ("axe.min.js", "LICENSE", "LICENSE-3RD-PARTY.txt")
        _write_record(TESTED, [(f"axe-core/{file}", about, "MPL-2.0", "npm: axe-core") for file in files])


def digest(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(*command: str, cwd: Path) -> None:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**os.environ, "NO_UPDATE_NOTIFIER": "1"}
    )
    if done.returncode:
        sys.exit(f"error: {' '.join(command[:2])} failed: {(done.stderr or done.stdout).strip()[-800:]}")


def _check_inlinable(script: str) -> None:
    """End unless a text may stand inside a script element as it is."""
    if match := re.search(r"</?script|<!--|\bnew Function\(|(?<![\w.])eval\(", script, re.IGNORECASE):
        sys.exit(f"error: the bundle holds {match[0]!r}: it cannot be inlined under the page's policy")


def _about(package: Path) -> dict[str, str]:
    about: dict[str, str] = json.loads((package / "package.json").read_text(encoding="utf-8"))
    return about


def _licence_text(package: Path) -> str:
    files = sorted(
        path for path in package.iterdir() if path.name.lower().startswith(("licen", "copying")) and path.is_file()
    )
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").strip() for path in files)


def _notice(modules: Path, packages: list[str]) -> str:
    """Return what has to travel with the code: name, version, licence and copyright of every package, and the MIT
    terms.
    """
    lines = [
        (
            "plotly.js, a partial bundle (core, scatter, bar, box, scattergl), with what it needs. Permission notices of "
            "all:"
        )
    ]
    for name in packages:
        about = _about(modules / name)
        owners = [
            line.strip(" *#")
            for line in _licence_text(modules / name).splitlines()
            if re.match(r"[ *#]*copyright.*(\(c\)|[0-9]{4})", line, re.IGNORECASE)
        ]
        owner = " ".join(owners[:2]) or f"by {_author(about)}"
        lines.append(f"  {name} {about['version']} ({about.get('license', 'see LICENSES.txt')}) {owner}")
    plotly = _licence_text(modules / "plotly.js")
    return "\n".join([*lines, "", plotly, ""]).replace("*/", "* /")


def _author(about: dict[str, object]) -> str:
    author = about.get("author") or "its authors"
    return str(author.get("name", "its authors")) if isinstance(author, dict) else str(author)


def _licences(modules: Path, packages: list[str]) -> str:
    parts = ["The licences of the packages whose code is in " + BUNDLE + ".\n"]
    for name in packages:
        about = _about(modules / name)
        text = (
            _licence_text(modules / name)
            or f"{about.get('license', 'unknown')}; the package carries no file of it. Author: {_author(about)}"
        )
        parts.append(
            f"{'=' * 78}\n{name} {about['version']} ({about.get('license', 'see below')})\n{'=' * 78}\n{text}\n"
        )
    return "\n".join(parts)


def _write_record(folder: Path, files: list[tuple[str, str, str, str]]) -> None:
    lines = ["# Written by scripts/front_end/vendor_front_end.py: what others made and we keep a copy of."]
    for path, about, licence, source in files:
        place = folder / path
        lines += [
            "",
            "[[file]]",
            f'path = "{path}"',
            f'about = "{about}"',
            f'licence = "{licence}"',
            f'source = "{source}"',
            f"size_bytes = {place.stat().st_size}",
            f'sha256 = "{digest(place)}"',
        ]
    (folder / RECORD).write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Check, or build anew; returns 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(
        description="Renew the vendored front-end files (needs npm and node), or check them."
    )
    parser.add_argument("--check", action="store_true", help="only compare the files with their recorded checksums")
    if not parser.parse_args().check:
        renew()
    wrong = check()
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
