"""Where cases and adapters are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import ConformanceError
from conformance.paths import find_paths


def make(*folders: Path) -> None:
    for folder in folders:
        folder.mkdir(parents=True)


def test_options_win(tmp_path):
    make(tmp_path / "mine", tmp_path / "theirs")
    found = find_paths(tmp_path / "mine", tmp_path / "theirs", tmp_path / "out")
    assert (found.cases, found.adapters) == (tmp_path / "mine", tmp_path / "theirs")
    assert found.reports == tmp_path / "out"


def test_checkout_comes_before_what_is_bundled(tmp_path):
    package = tmp_path / "conformance"
    make(tmp_path / "cases", tmp_path / "adapters", package / "cases", package / "adapters")
    (tmp_path / "pyproject.toml").touch()
    found = find_paths(package=package)
    assert (found.cases, found.adapters) == (tmp_path / "cases", tmp_path / "adapters")


def test_folders_beside_an_installed_package_are_somebody_elses(tmp_path):
    package = tmp_path / "conformance"
    make(tmp_path / "adapters", package / "cases", package / "adapters")
    assert find_paths(package=package).adapters == package / "adapters"


def test_reports_are_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_paths().reports == tmp_path / "reports"


@pytest.mark.parametrize("option", ["cases", "adapters"])
def test_missing_folder_is_named(tmp_path, option):
    with pytest.raises(ConformanceError, match=f"no such folder of {option}"):
        find_paths(**{option: tmp_path / "nowhere"})


def test_nothing_found_says_so(tmp_path):
    with pytest.raises(ConformanceError, match="found no cases"):
        find_paths(package=tmp_path / "conformance")
