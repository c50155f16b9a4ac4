"""Parts of cases as Python expressions, alike in every framework."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.model.case import Array


def in_docstring(text: str) -> str:
    """A text from a case made safe for a docstring: on one line, and unable to end it."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def function(region: str) -> str:
    """The Python name of a region's function."""
    return region.replace("-", "_")


def listed(names: Iterable[str]) -> str:
    """An expression for a sequence of names."""
    written = [f'"{name}"' for name in names]
    return f"({', '.join(written)}{',' * (len(written) == 1)})"


def numpy_fill(array: Array) -> str:
    """A NumPy expression (float64 or int64) for the elements of an array; draws use `rng`."""
    shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
    numbers = array.fill.numbers
    if array.fill.kind == "full":
        return f"np.full({shape}, {numbers[0]!r})"
    if array.fill.kind == "values":
        return f"np.array({_lists(array.fill.values)})"
    if array.fill.kind == "arange":
        size = 1
        for length in array.shape:
            size *= length
        return f"({numbers[0]!r} + {numbers[1]!r} * np.arange({size})).reshape({shape})"
    if array.fill.kind == "normal":
        scale = "" if numbers[0] == 1 else f"{numbers[0]!r} * "
        return f"{scale}rng.standard_normal({shape})"
    if array.fill.kind == "uniform":
        return f"rng.uniform({numbers[0]!r}, {numbers[1]!r}, {shape})"
    return f"rng.integers({int(numbers[0])}, {int(numbers[1])}, {shape})"


def _lists(values: object) -> str:
    if isinstance(values, tuple):
        return f"[{', '.join(_lists(v) for v in values)}]"
    return repr(values)
