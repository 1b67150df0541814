"""What others made and we keep a copy of: as recorded, with its licence, fit to be inlined."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from loaded_scripts import load_script

from reports.page.html import script_policy, scripts


@pytest.fixture(scope="module")
def vendor():
    return load_script("vendor_front_end")


def test_vendored_files_are_as_recorded(vendor):
    assert vendor.check() == []


def test_a_changed_file_is_found(vendor, tmp_path, monkeypatch):
    monkeypatch.setattr(vendor, "ROOT", tmp_path)
    monkeypatch.setattr(vendor, "SHIPPED", tmp_path)
    monkeypatch.setattr(vendor, "TESTED", tmp_path / "none")
    (tmp_path / "a.js").write_text("1")
    (tmp_path / vendor.RECORD).write_text(f'[[file]]\npath = "a.js"\nsha256 = "{vendor.digest(tmp_path / "a.js")}"\n')
    assert vendor.check() == ["none/VENDORED.toml is missing"]
    (tmp_path / "a.js").write_text("2")
    assert any(line.startswith("a.js: recorded") for line in vendor.check())


def test_every_record_names_its_licence_and_source(vendor):
    for folder in (vendor.SHIPPED, vendor.TESTED):
        entries = tomllib.loads((folder / vendor.RECORD).read_text(encoding="utf-8"))["file"]
        assert all(entry["licence"] and entry["source"].startswith("npm") for entry in entries)
        listed = {entry["path"] for entry in entries} | {vendor.RECORD}
        assert listed == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_sources_are_locked_to_exact_versions_with_checksums(vendor):
    wanted = json.loads((vendor.SOURCES / "package.json").read_text(encoding="utf-8"))["dependencies"]
    locked = json.loads((vendor.SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, version in wanted.items():
        assert re.fullmatch(r"[0-9.]+", version)
        assert locked[f"node_modules/{name}"]["version"] == version
    assert all("integrity" in entry for name, entry in locked.items() if name)


def test_scripts_can_stand_in_a_page_and_need_no_function_constructor():
    for text in scripts():
        assert not re.search(r"</?script|<!--", text, re.IGNORECASE)
        assert not re.search(r"\bnew Function\(|(?<![\w.])eval\(|\r", text)
    script = scripts()[1]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser", script)
    assert script_policy().count("'sha256-") == 2
    assert "Copyright" in scripts()[0][:20_000]
