"""Conformance suite for recomputation (activation checkpointing) across frameworks."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

try:
    __version__ = version("recompute-conformance")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+checkout"


def __getattr__(name: str) -> Any:
    """`conformance.check`, imported when it is asked for: worker processes import this package too."""
    if name == "check":
        return import_module("conformance.checking").check
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
