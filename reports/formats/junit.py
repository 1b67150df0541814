"""A diff as JUnit XML: every case a test, so that any CI shows which got slower, and keeps the history of each."""

from __future__ import annotations

from xml.etree import ElementTree as xml

from reports.present.display_text import shown
from reports.present.words.diff_text import (
    case_sentence,
    changed_metric_texts,
    failure_text,
    incomparable_texts,
    listed_headline,
    run_text,
)
from results.diff.case_diff import CaseDiff, SuiteDiff
from results.diff.gate import EXIT_SAME, GateResult
from roofline_model.core.finding import code_text, findings_text, short_text

SUITE = "roofline diff"


def diff_junit(diff: SuiteDiff, result: GateResult) -> str:
    """Return the document. A case that fails the gate is a failure; what could not be judged is skipped with its
    reason.

    An exit code that no single case explains (not comparable, machine state, too ambiguous) is an error of a case of
    its own.
    """
    suite = xml.Element("testsuite", name=SUITE)
    whys: dict[str, list[str]] = {}
    for failure in result.failures:
        whys.setdefault(failure.case.case_key, []).append(f"{failure.rule.text}: {failure_text(failure)}")
    differing = "; ".join((*incomparable_texts(diff), *(difference.text for difference in diff.permitted))) or "nothing"
    for case in diff.cases:
        _add(suite, case, whys.get(case.case_key, []), differing)
    if result.exit_code != EXIT_SAME and not result.failures:
        lone = xml.SubElement(suite, "testcase", classname=SUITE, name="comparable")
        xml.SubElement(
            lone, "error", message=_text(findings_text(result.reasons)), type=f"exit code {result.exit_code}"
        )
    runs = [run_text(run) for run in (*diff.before, *diff.after)]
    output = xml.SubElement(suite, "system-out")
    output.text = _text(f"{listed_headline(diff, result)} | {' → '.join(runs)} | differs: {differing}", 4000)
    return _document(suite)


def empty_junit(text: str) -> str:
    """Return a document without cases: nothing to compare with yet."""
    suite = xml.Element("testsuite", name=SUITE)
    xml.SubElement(suite, "system-out").text = _text(text)
    return _document(suite)


def _add(suite: xml.Element, case: CaseDiff, whys: list[str], differing: str) -> None:
    test = xml.SubElement(
        suite, "testcase", classname=_text(f"{SUITE}.{case.case.op}"), name=_text(case.case.id or case.case.op)
    )
    if case.after_s is not None:
        test.set("time", f"{case.after_s:.9f}")
    message = f"{case.verdict}: {case_sentence(case)} ({code_text(case.reason)})"
    parts = [message, case.detail, *map(short_text, case.set_aside), *changed_metric_texts(case)]
    text = _text("; ".join(part for part in parts if part), 2000)
    if whys:
        failure = xml.SubElement(test, "failure", message=_text("; ".join(whys)), type=case.verdict)
        failure.text = f"{text}; environment differs in: {_text(differing, 2000)}"
    elif case.quarantine_reason:
        xml.SubElement(test, "skipped", message=_text(f"on the quarantine list: {case.quarantine_reason}; {message}"))
    elif case.expected_reason:
        xml.SubElement(test, "skipped", message=_text(f"expected: {case.expected_reason}; {message}"))
    elif case.verdict in ("AMBIGUOUS", "INVALID", "GONE"):
        xml.SubElement(test, "skipped", message=text)
    elif case.verdict != "SAME":
        xml.SubElement(test, "system-out").text = text


def _document(suite: xml.Element) -> str:
    tests = suite.findall("testcase")
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(test.find(tag) is not None for test in tests)))
    suite.set("tests", str(len(tests)))
    root = xml.Element("testsuites")
    root.append(suite)
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _text(text: str, limit: int = 400) -> str:
    """Return text that XML can hold: printable, bounded."""
    return shown(text, limit)
