"""Runs, expectations and arrays as a database keeps them: JSON, and compressed elements.

Nothing that is read is trusted: JSON is decoded by types, arrays by dtype and shape, and control
characters in strings are escaped. What is malformed raises `ValueError` or `zlib.error`.
"""

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import msgspec
import numpy as np

from conformance.errors import ConformanceError
from conformance.model.containers import Fields, Named, Object
from conformance.model.facts import number
from conformance.model.observation import Allowed, Array, Expected, Leaf, Run, Tree
from conformance.words import printable

#: The dtypes that are stored, little-endian, by name.
_DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<")
    for name in (
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
#: Most bytes of an array that is read, so that a crafted file cannot exhaust memory.
_LARGEST = 2**31
#: Fields of a run that are stored as numbers of their own, or not at all.
_NOT_IN_JSON = frozenset(
    {
        *("retained", "random_state", "peak", "generators", "held", "alive"),
        *("good_run_before_error", "good_run_after_error", "error_after"),
    }
)
T = TypeVar("T")
Content = TypeVar("Content", Run, Expected)


def to_json(value: Run | Expected, put: Callable[[Array], int]) -> str:
    """A run or an expectation as JSON; `put` stores an array and returns its number."""
    kept = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in _NOT_IN_JSON}
    kept["outputs"] = _packed(value.outputs)
    if value.losses is not None:
        kept["losses"] = [number(loss) for loss in value.losses]
    if isinstance(value, Expected):
        kept["executions"] = [
            (*key, allowed.counts, allowed.reason) for key, allowed in value.executions.items()
        ]
    else:  # whether executions were counted, and whether random numbers were drawn
        kept["executions"] = None if value.executions is None else ()
        kept["samples"] = None if value.samples is None and not value.generators else ()
    return encode(kept, lambda array: put(np.asanyarray(array)))


def from_json(
    text: str, kind: type[Content], arrays: Mapping[int, Array], **more: object
) -> Content:
    """A run or an expectation from its JSON, with other fields in `more`."""
    kept = decode(text, dict[str, Any]) | more
    if kept["losses"] is not None:
        kept["losses"] = tuple(map(float, kept["losses"]))
    if kind is Expected:
        kept["executions"] = {
            (region, statement, phase): Allowed(tuple(counts), reason)
            for region, statement, phase, counts, reason in kept["executions"]
        }

    def array_or_tree(cls: type[Any], value: Any) -> Any:
        return _unpacked(value, arrays) if cls is object else arrays[value]

    return msgspec.convert(kept, kind, from_attributes=True, dec_hook=array_or_tree)


def _packed(tree: Tree) -> Any:
    """An output tree as JSON that keeps types apart: tensors, containers and floats are tagged."""
    match tree:
        case Leaf():
            return ["tensor", tree.array, tree.dtype]
        case None | bool() | str():
            return tree
        case int():
            return int(tree)
        case float():
            return ["float", number(tree)]
        case Fields():
            return [tree.kind, {key: _packed(part) for key, part in tree.items()}]
        case dict():
            return ["dict", {str(key): _packed(part) for key, part in tree.items()}]
        case tuple() | list():
            kind = "tuple" if isinstance(tree, tuple) else "list"
            return [kind, *map(_packed, tree)]
    raise ConformanceError(f"an output of type {type(tree).__name__} cannot be stored")


def _unpacked(tree: Any, arrays: Mapping[int, Array]) -> Tree:
    match tree:
        case ["tensor", int(array), str(dtype)]:
            return Leaf(arrays[array], dtype)
        case ["float", value]:
            return float(value)
        case ["tuple", *parts]:
            return tuple(_unpacked(part, arrays) for part in parts)
        case ["list", *parts]:
            return [_unpacked(part, arrays) for part in parts]
        case ["named" | "object" as kind, dict(parts)]:
            made = {key: _unpacked(part, arrays) for key, part in parts.items()}
            return Named(made) if kind == "named" else Object(made)
        case ["dict", dict(parts)]:
            return {key: _unpacked(part, arrays) for key, part in parts.items()}
        case None | bool() | int() | str():
            return tree
    raise ValueError("an output that no program returns")


def encode(value: object, array: Callable[[Any], int] | None = None) -> str:
    """JSON on one line. Half of a surrogate pair, which UTF-8 has no bytes for, is escaped."""
    try:
        return msgspec.json.encode(value, enc_hook=array).decode()
    except UnicodeEncodeError:
        builtins = msgspec.to_builtins(value, enc_hook=array)
        return msgspec.json.encode(_mapped(builtins, printable)).decode()


def decode(text: str, kind: type[T]) -> T:
    """A value from JSON, with control characters in its strings escaped."""
    if "\\" not in text:
        return msgspec.json.decode(text, type=kind)
    return msgspec.convert(_mapped(json.loads(text), printable), kind)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """JSON with all its strings changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_mapped(part, change) for part in value]
    if isinstance(value, dict):
        return {_mapped(key, change): _mapped(part, change) for key, part in value.items()}
    return value


def elements_of(array: Array) -> tuple[str, str, bytes]:
    """The dtype, the shape (JSON) and the elements of an array, not compressed yet.

    Raises `ConformanceError` for anything but bools and numbers of up to 64 bits.
    """
    name = _NAMES.get(array.dtype) or _NAMES.get(array.dtype.newbyteorder("<"))
    if name is None:
        raise ConformanceError(f"an array of dtype {array.dtype} cannot be stored", hint="cast it")
    return name, encode(array.shape), np.asarray(array, _DTYPES[name], order="C").tobytes()


def array_from(dtype: str, shape: str, compressed: bytes) -> Array:
    """An array, read-only."""
    sizes = decode(shape, tuple[int, ...])
    if dtype not in _DTYPES or min(sizes, default=0) < 0:
        raise ValueError(f"no array has dtype {dtype!r} and shape {shape}")
    wanted = math.prod(sizes) * _DTYPES[dtype].itemsize
    if wanted > _LARGEST:
        raise ValueError(f"an array of {wanted} bytes")
    elements = zlib.decompressobj().decompress(compressed, wanted + 1)
    if len(elements) != wanted:
        raise ValueError(f"an array that does not have the elements of shape {shape}")
    return np.frombuffer(elements, _DTYPES[dtype]).reshape(sizes)
