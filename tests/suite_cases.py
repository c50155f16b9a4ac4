"""The suite's own cases, read once for all tests of a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.case import Case
from conformance.load import load_folder

CASES: tuple[Case, ...] = tuple(load_folder(Path(__file__).resolve().parents[1] / "cases"))
BY_ID: Mapping[str, Case] = {case.id: case for case in CASES}
