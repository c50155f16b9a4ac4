"""The suite's own cases, read once for all tests of a process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.language.load import FOUND, load_folder
from conformance.model.case import Case

CASES: tuple[Case, ...] = tuple(
    case
    for case in load_folder(Path(__file__).resolve().parents[1] / "cases")
    if case.family != FOUND  # of a run of generated programs on this machine
)
BY_ID: Mapping[str, Case] = {case.id: case for case in CASES}
