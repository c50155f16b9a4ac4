"""Emitted programs do not depend on the release of ruff that formats them.

`tox run -e ruff-ends` installs the oldest and the newest release that `pyproject.toml` takes, and names
them in `RUFF_ENDS`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.adapter import Adapter, all_adapters
from conformance.emit import finishing
from tests.every_program import every_program

ENDS = [path for path in os.environ.get("RUFF_ENDS", "").split(os.pathsep) if path]
ADAPTERS = all_adapters(Path(__file__).parents[1] / "adapters")


@pytest.mark.skipif(len(ENDS) < 2, reason="RUFF_ENDS names no two releases: tox run -e ruff-ends")
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_every_release_formats_programs_alike(adapter: Adapter, monkeypatch: Any) -> None:
    by_release = {}
    for ruff in ENDS:
        release = subprocess.run([ruff, "--version"], capture_output=True, text=True, check=True)
        monkeypatch.setattr(finishing, "find_ruff_bin", lambda ruff=ruff: ruff)
        by_release[release.stdout] = {
            key: text for key, (_, _, text) in every_program(adapter).items()
        }
    assert len(by_release) == len(ENDS), "these are the same release"
    first, *others = by_release.values()
    assert all(other == first for other in others)
