"""A framework in one file and its adapter, on which running is tested for real."""

from __future__ import annotations

from pathlib import Path

from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.paths import Paths

FOLDER = Path(__file__).parent
CASES = FOLDER / "cases"
ADAPTERS = FOLDER / "adapters"


def adapter(name: str = "mini") -> Adapter:
    """The miniature adapter, or another one that lies beside it."""
    return find_adapter(name, ADAPTERS)


def variant(name: str) -> Variant:
    """A variant of the miniature adapter."""
    return adapter().variant(name)


def case(name: str) -> Case:
    """A case of the miniature family, without the family's name."""
    return next(c for c in load_folder(CASES) if c.id == f"mini/{name}")


def paths(reports: Path) -> Paths:
    """Where the miniature's cases and adapters lie."""
    return Paths(CASES, ADAPTERS, reports)
