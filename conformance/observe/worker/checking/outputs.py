"""The values that a program returns, as named leaves: containers are followed, their keys make names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from conformance.model.observation import Leaf

#: What is no tensor but is compared: as an array of one element, or as the text that it is.
_NUMBERS = (bool, int, float, complex, np.generic)


def named(value: Any, leaf: Callable[[Any], Leaf | None], name: str = "") -> dict[str, Leaf | None]:
    """The leaves of a value by name: `outputs[0].a`. Other things than tensors and numbers are compared
    by their type, and texts by what they say."""
    return dict(_named(value, leaf, name))


def _named(
    value: Any, leaf: Callable[[Any], Leaf | None], name: str
) -> Iterator[tuple[str, Leaf | None]]:
    name = name or "result"
    if value is None:
        yield name, None
        return
    tensor = leaf(value)
    if tensor is not None:
        yield name, tensor
    elif isinstance(value, np.ndarray):
        yield name, Leaf(np.array(value), str(value.dtype))
    elif isinstance(value, _NUMBERS):
        yield name, Leaf(np.array(value), type(value).__name__)
    elif isinstance(value, str):
        yield name, Leaf(np.array(list(value.encode()), np.uint8), f"text {value!r}"[:60])
    elif isinstance(value, Mapping):
        yield f"{name}: type", _type_of(value)
        for key, part in value.items():
            yield from _named(part, leaf, f"{name}[{key!r}]")
    elif isinstance(value, tuple | list):
        yield f"{name}: type", _type_of(value)
        for index, part in enumerate(value):
            yield from _named(part, leaf, f"{name}[{index}]")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield f"{name}: type", _type_of(value)
        for one in dataclasses.fields(value):
            yield from _named(getattr(value, one.name), leaf, f"{name}.{one.name}")
    else:
        yield name, _type_of(value)


def _type_of(value: Any) -> Leaf:
    length = len(value) if isinstance(value, tuple | list | Mapping) else 0
    return Leaf(np.array(length), type(value).__name__)
