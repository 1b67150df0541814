"""Skips that nobody allowed fail the CI run."""

from __future__ import annotations

from pathlib import Path

from loaded_scripts import load_script

ROOT = Path(__file__).resolve().parents[2]
check_skips = load_script("check_skips")

ALLOWED = "# comment\n\nneeds an NVIDIA GPU\n"


def test_unexpected_skips_of_a_real_report(pytester):
    pytester.makepyfile(
        """
        import pytest
        def test_gpu(): pytest.skip("needs an NVIDIA GPU")
        def test_gone(): pytest.skip("comment on this: package gone")
        @pytest.mark.xfail
        def test_known(): assert False
        def test_good(): pass
        """
    )
    pytester.runpytest_subprocess("--junitxml=junit.xml", "-p", "no:cacheprovider")
    junit = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    skipped = check_skips.skipped_tests(junit)
    assert sorted(reason for _, reason in skipped) == ["comment on this: package gone", "needs an NVIDIA GPU"]
    wrong = check_skips.unexpected(skipped, ALLOWED)
    assert [reason for _, reason in wrong] == ["comment on this: package gone"]
    assert wrong[0][0].endswith("::test_gone")


def test_exit_code(tmp_path, capsys):
    junit = tmp_path / "junit.xml"
    case = (
        '<testsuites><testsuite><testcase classname="a" name="b"><skipped '
        'message="{}"/></testcase></testsuite></testsuites>'
    )
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED, encoding="utf-8")
    junit.write_text(case.format("needs an NVIDIA GPU"), encoding="utf-8")
    assert check_skips.main(str(junit), str(allowed)) == 0
    junit.write_text(case.format("typo"), encoding="utf-8")
    assert check_skips.main(str(junit), str(allowed)) == 1
    assert "unexpected skip: a::b: typo" in capsys.readouterr().err


def test_the_projects_own_list_is_valid():
    allowed = (ROOT / ".ci" / "allowed_skips.txt").read_text(encoding="utf-8")
    assert check_skips.unexpected([("t", "needs an NVIDIA GPU"), ("t", "no g++ here"), ("t", "other")], allowed) == [
        ("t", "other")
    ]
