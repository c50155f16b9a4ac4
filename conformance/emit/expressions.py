"""Parts of cases as Python expressions, alike in every framework."""

import math
import re
from collections.abc import Iterable

from conformance.model.case import Array

#: How Python shows a small number, `1e-05`, which people write `1e-5`.
_EXPONENT = re.compile(r"(?<=\d)e-0(\d)\b")


def in_docstring(text: str) -> str:
    """A text from a case made safe for a docstring: on one line, and unable to end it."""
    line = " ".join(text.split()).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def function(region: str) -> str:
    """The Python name of a region's function."""
    return region.replace("-", "_")


def class_name(region: str) -> str:
    """The name of the class of a region's modules: `MyBlock` for `my-block`, and `R1_1` for `r1_1`, as
    another one may be `r11`."""
    words = re.split(r"(?<!\d)_|_(?!\d)", function(region))
    return "".join(word[:1].upper() + word[1:] for word in words)


def unless_default(keyword: str, value: object, default: object) -> list[str]:
    """A keyword argument, in a list; empty where the value is the framework's default."""
    return [] if value == default else [f"{keyword}={short_exponents(repr(value))}"]


def listed(names: Iterable[str]) -> str:
    """An expression for a sequence of names."""
    written = [f'"{name}"' for name in names]
    return f"({', '.join(written)}{',' * (len(written) == 1)})"


def numpy_fill(array: Array, rank: str = "") -> str:
    """A NumPy expression (float64 or int64) for the elements of an array; draws use `rng`, and `own` for
    those of a `rank`."""
    if rank and array.fill.kind == "values":
        return f"{numpy_fill(array)}[{rank}]"
    if rank:
        return numpy_fill(array).replace("rng.", "own.")
    shape, numbers = array.shape, array.fill.numbers
    match array.fill.kind:
        case "full":
            return f"np.full({shape}, {numbers[0]!r})"
        case "values":
            return f"np.array({_lists(array.fill.values)})"
        case "arange":
            size = math.prod(shape)
            return f"({numbers[0]!r} + {numbers[1]!r} * np.arange({size})).reshape({shape})"
        case "normal":
            scale = "" if numbers[0] == 1 else f"{numbers[0]!r} * "
            return f"{scale}rng.standard_normal({shape})"
        case "uniform":
            return f"rng.uniform({numbers[0]!r}, {numbers[1]!r}, {shape})"
    return f"rng.integers({int(numbers[0])}, {int(numbers[1])}, {shape})"


def _lists(values: object) -> str:
    if isinstance(values, tuple):
        return f"[{', '.join(_lists(v) for v in values)}]"
    return repr(values)


def elements(array: Array, source: str) -> str:
    """The elements of an array as a user would write them, where `source` is a general expression."""
    if array.fill.kind == "values" and source.endswith(")"):  # else those of a rank
        return source.removeprefix("np.array(").removesuffix(")")
    if array.fill.kind == "full" and array.fill.numbers[0] in (0, 1):
        shape = array.shape[0] if len(array.shape) == 1 else array.shape
        return f"np.{'ones' if array.fill.numbers[0] else 'zeros'}({shape})"
    return source


def like_numpy(library: str, array: Array, source: str, dtype: str) -> str:
    """The expression that makes an array with the functions of a `library` (`mx`) that are named as
    NumPy's: `mx.zeros(3, mx.float32)`, `mx.array(0.5 * rng.standard_normal((3, 4)), mx.float32)`."""
    made = elements(array, source)
    if made.startswith(("np.full(", "np.ones(", "np.zeros(")):
        return f"{library}{made.removeprefix('np').removesuffix(')')}, {dtype})"
    return f"{library}.array({made}, {dtype})"


def short_exponents(text: str) -> str:
    """A text with its small numbers as people write them: `1e-5`, not `1e-05`."""
    return _EXPONENT.sub(r"e-\1", text)
