"""The arrays of a results file: each once, in a safetensors file beside it.

An array is named after the hash of its dtype, shape and elements. So results of several processes can
be put together without renaming, and a reader notices an array that is not the one that a line refers
to.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from conformance.errors import ResultsError
from conformance.model.observation import Array

#: The names of the dtypes that are stored, little-endian.
_NAMES: Mapping[np.dtype[Any], str] = {
    np.dtype(name).newbyteorder("<"): name
    for name in (
        *("bool", "float16", "float32", "float64", "complex64", "complex128"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
}
#: The dtypes that safetensors has no word for in all its versions: stored as pairs of floats.
_PAIRS: Mapping[str, str] = {"complex64": "float32", "complex128": "float64"}
_RUN_AGAIN = "both files are written by one run: run the adapter again"


def digest(*parts: bytes) -> str:
    """A hash of these bytes, 16 hexadecimal digits: the name of what they hold."""
    hashed = hashlib.blake2b(digest_size=8)
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()


def beside(path: Path) -> Path:
    """The file of arrays that belongs to a results file."""
    return path.with_suffix(".safetensors")


def stored(array: Array) -> tuple[str, Array]:
    """The name of an array in a line, and the array as it is stored.

    Raises `ResultsError` for anything but bools and numbers of up to 64 bits.
    """
    dtype = array.dtype.newbyteorder("<")
    name = _NAMES.get(dtype)
    if name is None:
        raise ResultsError(f"an array of dtype {array.dtype} cannot be stored", hint="cast it")
    # Not ascontiguousarray: that gives an array without dimensions one.
    plain = np.asarray(array, dtype, order="C").view(np.ndarray)
    key = _key(name, plain)
    if name not in _PAIRS:
        return key, plain
    return f"{key}:{name}", plain[..., np.newaxis].view(_PAIRS[name])


def joint_digest(names: Iterable[str]) -> str:
    """One hash for all names of a file: what binds it to its lines."""
    return digest(" ".join(sorted(names)).encode("utf-8", "replace"))


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by the names that they have in the file. Raises `OSError`."""
    try:
        save_file(dict(arrays), str(path), metadata={"arrays": joint_digest(arrays)})
    except SafetensorError as error:
        # An error of the system is one in its words only.
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


class ArrayFile:
    """The arrays of a results file, read whole; each is checked against its name when it is used."""

    def __init__(self, path: Path, arrays: Mapping[str, Array]) -> None:
        self.path, self._arrays = path, arrays
        self._checked: dict[str, Array] = {}

    @classmethod
    def read(cls, path: Path, names: str) -> ArrayFile:
        """The file, if it is the one whose names hash to `names`; raises `ResultsError`."""
        try:
            arrays = load(path.read_bytes())
        except OSError as error:
            raise ResultsError(
                f"the arrays of these results cannot be read: {error.strerror}",
                where=path,
                hint="copy it together with the .jsonl file of the same name",
            ) from error
        # A dtype that NumPy does not have is a KeyError, data that are no whole shape a ValueError.
        except (SafetensorError, KeyError, ValueError, OverflowError) as error:
            raise ResultsError(
                f"not a whole safetensors file of NumPy arrays: {error}",
                where=path,
                hint=_RUN_AGAIN,
            ) from error
        if joint_digest(arrays) != names:
            raise ResultsError(
                "these are the arrays of another run than the results beside them",
                where=path,
                hint=_RUN_AGAIN,
            )
        return cls(path, arrays)

    def get(self, name: str) -> Array:
        """The array of a name in a line, read-only. Raises `ResultsError`, without a place."""
        array = self._checked.get(name)
        if array is None:
            array = self._checked[name] = self._get(name)
        return array

    def _get(self, name: str) -> Array:
        key, _, dtype = name.partition(":")
        array = self._arrays.get(key)
        if array is None:
            raise ResultsError(f"there is no array {key} in {self.path.name}", hint=_RUN_AGAIN)
        if dtype:
            if array.dtype != _PAIRS[dtype] or array.shape[-1:] != (2,):
                raise ResultsError(
                    f"array {key} in {self.path.name} is {array.dtype.name}{array.shape}, which are "
                    f"no pairs for {dtype}",
                    hint=_RUN_AGAIN,
                )
            array = np.ascontiguousarray(array).view(dtype)[..., 0]
        if _key(_NAMES.get(array.dtype, ""), array) != key:
            raise ResultsError(
                f"array {key} in {self.path.name} is not the one that was written: it has other "
                "elements, another shape or another dtype",
                hint=_RUN_AGAIN,
            )
        array.flags.writeable = False
        return array


def _key(dtype: str, array: Array) -> str:
    return digest(f"{dtype}{array.shape}".encode("ascii"), array.tobytes())
