"""Programs about features of one framework alone (`adapters/*/programs`): each shows a deviation."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformance
from tests.adapters.test_checking import installed

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = sorted((ROOT / "adapters").glob("*/programs/*.py"))


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda f: f"{f.parents[1].name}/{f.stem}")
def test_a_program_deviates(file: Path) -> None:
    adapter = file.parents[1].name
    if not installed(adapter):
        pytest.skip(f"{adapter} is not installed here")
    result = conformance.check(file, time_limit=60.0)
    assert result.checked.framework == adapter
    assert result.checked.plain_raised is None
    assert not result.ok, str(result)
