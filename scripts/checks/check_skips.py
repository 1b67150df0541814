"""Fail when a test was skipped for a reason that nobody allowed: `check_skips.py JUNIT.xml ALLOWED.txt`.

A skip is how a test says that this machine cannot run it. One that appears unasked (a missing package, a renamed
option) would quietly take its test out of CI.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path


def skipped_tests(junit_xml: str) -> list[tuple[str, str]]:
    """Return (test, reason) of each skipped test of a JUnit report; expected failures are not skips."""
    return [
        (f"{case.get('classname')}::{case.get('name')}", skip.get("message") or "no reason given")
        for case in ElementTree.fromstring(junit_xml).iter("testcase")
        for skip in case.findall("skipped")
        if skip.get("type") != "pytest.xfail"
    ]


def unexpected(skipped: Iterable[tuple[str, str]], allowed: str) -> list[tuple[str, str]]:
    """Return the skipped tests whose reason matches no line of `allowed` (regular expressions, # comments)."""
    lines = [line.strip() for line in allowed.splitlines()]
    patterns = [re.compile(line) for line in lines if line and not line.startswith("#")]
    return [(test, reason) for test, reason in skipped if not any(pattern.search(reason) for pattern in patterns)]


def main(junit_path: str, allowed_path: str) -> int:
    """Print unexpected skips and return 1 when there are any."""
    skipped = skipped_tests(Path(junit_path).read_text(encoding="utf-8"))
    wrong = unexpected(skipped, Path(allowed_path).read_text(encoding="utf-8"))
    for test, reason in wrong:
        print(f"unexpected skip: {test}: {reason}", file=sys.stderr)
    if wrong:
        print(f"{len(wrong)} tests were skipped for reasons that {allowed_path} does not list", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
