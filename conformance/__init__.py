"""Conformance suite for recomputation (activation checkpointing) across frameworks."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("recompute-conformance")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+checkout"
