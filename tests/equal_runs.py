"""Whether two runs were seen alike, to the last bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


def differences(found: Any, other: Any, where: str = "") -> list[str]:
    """Where two observations, or parts of them, differ."""
    if isinstance(found, np.ndarray) and isinstance(other, np.ndarray):
        alike = found.dtype == other.dtype and found.shape == other.shape
        return [] if alike and found.tobytes() == other.tobytes() else [where]
    if type(found) is not type(other):
        return [where]
    if dataclasses.is_dataclass(found):
        names = [field.name for field in dataclasses.fields(found)]
        pairs = {name: (getattr(found, name), getattr(other, name)) for name in names}
    elif isinstance(found, Mapping):
        if list(found) != list(other):
            return [where]
        pairs = {str(key): (found[key], other[key]) for key in found}
    elif isinstance(found, list | tuple):
        if len(found) != len(other):
            return [where]
        pairs = {str(i): pair for i, pair in enumerate(zip(found, other, strict=True))}
    else:
        return [] if repr(found) == repr(other) else [where]
    return [d for name, pair in pairs.items() for d in differences(*pair, f"{where}.{name}")]
