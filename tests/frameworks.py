"""Frameworks, imported for the tests of their adapters as a worker imports them."""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from conformance.drivers.adapter import read_adapter

ADAPTERS = Path(__file__).resolve().parents[1] / "adapters"


def framework(adapter: str, module: str) -> ModuleType:
    """The module, in the environment that the adapter asks for; skips a file of tests without it.

    What is set already stays: a process that a test starts may have its variant's environment.
    """
    found = read_adapter(ADAPTERS / adapter)
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        pytest.skip(f"{found.model.title} is not installed here", allow_module_level=True)
    for name, value in found.model.environment.items():
        os.environ.setdefault(name, value)
    return importlib.import_module(module)
