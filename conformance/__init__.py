"""Conformance suite for recomputation (activation checkpointing) across frameworks."""

from __future__ import annotations

__version__ = "0.1.0"
