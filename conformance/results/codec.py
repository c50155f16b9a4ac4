"""Results as lines and arrays, and back.

msgspec writes and reads the lines; here is what JSON has no form for: arrays, which stand in a file of
their own under their names, tuples beside lists, NaN and the infinities, keys that are tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec.structs import asdict

from conformance.errors import ResultsError
from conformance.model.facts import Number, number
from conformance.model.observation import Allowed, Array, Expected, Leaf, Observation, Run, Tree
from conformance.model.result import Footer, Header, Result
from conformance.model.verdict import Verdict
from conformance.results import lines as m
from conformance.results.arrays import digest, stored
from conformance.results.parts import LARGE, Furthest, Part, make_part, positions
from conformance.results.reduced import reduced

T = TypeVar("T")
Line = TypeVar("Line", bound=msgspec.Struct)


@dataclass(frozen=True)
class Encoded:
    """A result as it is written.

    `shared` are the keys and lines of its expectation and its plain run: each stands before the first
    result that refers to it. `arrays` are those that all these lines name.
    """

    line: bytes
    shared: tuple[tuple[str, bytes], ...]
    arrays: Mapping[str, Array]


def encode(result: Result) -> Encoded:
    """A result as lines and arrays. Raises `ResultsError` for an array or an output that cannot be
    stored."""
    written = _Arrays()
    shared: dict[str, bytes] = {}

    def share(line: type[m.ExpectedLine | m.PlainLine], value: msgspec.Struct) -> str:
        written_out: Any = msgspec.Raw(to_json(value, written.line))
        key = digest(line.__name__.encode(), written_out)
        shared[key] = to_json(line(key, written_out))
        return key

    result = reduced(result)
    expected, observation = result.expected, result.observation
    line = m.ResultLine(
        case=result.case,
        variant=result.variant,
        verdicts=list(result.verdicts),
        program=result.program,
        expected=None if expected is None else share(m.ExpectedLine, _expectation_line(expected)),
    )
    if observation is not None:
        line.plain = share(m.PlainLine, _run_line(observation.plain))
        line.recomputed = _run_line(observation.recomputed)
        line.unobserved = dict(observation.unobserved)
        line.seconds, line.resolution = observation.seconds, observation.resolution
    return Encoded(to_json(line, written.line), tuple(shared.items()), written.arrays)


class _Arrays:
    """The arrays of a result: how its lines refer to each, and what is stored of it by its name."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._lines: dict[int, m.ArrayLine] = {}  # by identity: the result holds its arrays

    def line(self, array: Any) -> m.ArrayLine:
        """How a line refers to an array."""
        line = self._lines.get(id(array))
        if line is None:
            line = self._lines[id(array)] = self._line(np.asanyarray(array))
        return line

    def _line(self, array: Array) -> m.ArrayLine:
        name, elements = stored(array)
        self.arrays[name.partition(":")[0]] = elements
        if not isinstance(array, Part):
            return name
        sides = (_furthest_line(side) for side in (array.from_plain, array.from_expected))
        return m.PartLine(name, list(array.whole), array.peak, *sides)


def header_line(header: Header, arrays: str) -> bytes:
    """A header as its line; `arrays` is the hash of all names of arrays."""
    return to_json(_line(m.HeaderLine, header, arrays=arrays))


def footer_line(footer: Footer) -> bytes:
    """A footer as its line."""
    return to_json(_line(m.FooterLine, footer))


def to_json(value: Any, written: Callable[[Any], Any] | None = None) -> bytes:
    """JSON on one line; `written` is how an array is. Half of a surrogate pair, which UTF-8 has no bytes
    for, is written `\\ud800`."""
    try:
        return msgspec.json.encode(value, enc_hook=written)
    except UnicodeEncodeError:
        return msgspec.json.encode(_printable(msgspec.to_builtins(value, enc_hook=written)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_printable(part) for part in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(part) for key, part in value.items()}
    return value


# -- to lines --------------------------------------------------------------------------------------


def _line(cls: type[Line], value: object, **other: Any) -> Line:
    """The line with the fields of a value, but for those that are given in `other`."""
    alike = (name for name in cls.__struct_fields__ if name not in other)
    return cls(**{name: getattr(value, name) for name in alike}, **other)


def _run_line(run: Run) -> m.RunLine:
    return _line(
        m.RunLine,
        run,
        outputs=_packed(run.outputs),
        losses=[number(loss) for loss in run.losses],
        samples=None if run.samples is None else [_line(m.SampleLine, s) for s in run.samples],
        error=None if run.error is None else _line(m.ErrorLine, run.error),
    )


def _expectation_line(expected: Expected) -> m.ExpectationLine:
    return _line(
        m.ExpectationLine,
        expected,
        outputs=_packed(expected.outputs),
        losses=None if expected.losses is None else [number(loss) for loss in expected.losses],
        executions=[
            m.AllowedLine(*key, list(allowed.counts), allowed.reason)
            for key, allowed in expected.executions.items()
        ],
        memory=None if expected.memory is None else _line(m.MemoryLine, expected.memory),
    )


def _furthest_line(furthest: Furthest | None) -> m.FurthestLine | None:
    if furthest is None:
        return None
    return m.FurthestLine(number(furthest.distance), furthest.place, furthest.pair)


def _packed(tree: Tree) -> Any:
    """An output tree as it is written, its arrays as they are."""
    match tree:
        case Leaf():
            return m.TensorLine(tree.array, tree.dtype)  # type: ignore[arg-type]
        case None | bool() | str():
            return tree
        case int():
            return int(tree)
        case float():
            return m.FloatLine(number(tree))
        case dict():
            return m.DictLine({str(key): _packed(part) for key, part in tree.items()})
        case tuple():
            return m.TupleLine([_packed(part) for part in tree])
        case list():
            return m.ListLine([_packed(part) for part in tree])
    raise ResultsError(f"an output of type {type(tree).__name__} cannot be stored")


# -- from lines ------------------------------------------------------------------------------------


class Decoder:
    """Decodes lines into results. What several results refer to, or have alike, they share, so that a
    file of many variants takes little more memory than one of a single variant.

    `array` gives the array of a name, and raises `ResultsError` where there is none.
    """

    def __init__(self, array: Callable[[str], Array]) -> None:
        self._stored = array
        self._verdicts: dict[Verdict, Verdict] = {}
        self._expected: dict[str, Expected] = {}
        self._plain: dict[str, Run] = {}

    def expectation(self, line: m.ExpectedLine) -> None:
        """Keep an expectation for the results that refer to it. Raises `ResultsError` for a key used
        before."""
        values = line.expected
        executions = {
            (allowed.region, allowed.statement, allowed.phase): Allowed(
                tuple(allowed.counts), allowed.reason
            )
            for allowed in values.executions
        }
        losses = None if values.losses is None else _floats(values.losses)
        expected = self._convert(Expected, values, executions=executions, losses=losses)
        if self._expected.setdefault(line.key, expected) is not expected:
            raise ResultsError("it is there a second time")

    def plain(self, line: m.PlainLine) -> None:
        """Keep a plain run for the results that refer to it. Raises `ResultsError` for a key used
        before."""
        plain = self._run(line.run)
        if self._plain.setdefault(line.key, plain) is not plain:
            raise ResultsError("it is there a second time")

    def result(self, line: m.ResultLine) -> Result:
        """Decode a result. Raises `ResultsError` if the line is inconsistent."""
        return Result(
            case=line.case,
            variant=line.variant,
            verdicts=tuple(self._verdicts.setdefault(v, v) for v in line.verdicts),
            observation=self._observation(line),
            expected=_above(self._expected, line.expected, "expectation"),
            program=line.program,
        )

    def _observation(self, line: m.ResultLine) -> Observation | None:
        plain = _above(self._plain, line.plain, "plain run")
        if (plain is None) != (line.recomputed is None):
            raise ResultsError("of the plain run and the recomputed one there is one alone")
        if plain is None or line.recomputed is None:
            return None
        recomputed = self._run(line.recomputed)
        return Observation(plain, recomputed, {}, line.unobserved, line.seconds, line.resolution)

    def _run(self, line: m.RunLine) -> Run:
        return self._convert(Run, line, losses=_floats(line.losses))

    def _convert(self, cls: type[T], line: msgspec.Struct, **other: Any) -> T:
        """The value with the fields of a line, but for those that are given in `other`."""
        return msgspec.convert(asdict(line) | other, cls, from_attributes=True, dec_hook=self._hook)

    def _hook(self, cls: type[Any], value: Any) -> Any:
        """What msgspec cannot make itself: an output tree, or else an array."""
        return self._unpacked(value) if cls is object else self._array(value)

    def _unpacked(self, tree: m.TreeLine) -> Tree:
        match tree:
            case m.TensorLine():
                return Leaf(self._array(tree.array), tree.dtype)
            case m.FloatLine():
                return float(tree.value)
            case m.TupleLine():
                return tuple(map(self._unpacked, tree.parts))
            case m.ListLine():
                return list(map(self._unpacked, tree.parts))
            case m.DictLine():
                return {key: self._unpacked(part) for key, part in tree.parts.items()}
        return tree

    def _array(self, line: m.ArrayLine) -> Array:
        """An array or a part of one, read-only."""
        if isinstance(line, str):
            return self._stored(line)
        whole = tuple(line.shape)
        size = math.prod(whole)
        if not LARGE < size < 2**40:
            raise ResultsError(f"of an array of shape {whole}, no part is kept")
        elements = self._stored(line.elements)
        if elements.shape not in ((size,), positions(size).shape):
            raise ResultsError(
                f"array {line.elements} has shape {elements.shape}, but of an array of shape {whole} "
                f"{positions(size).size} elements are kept"
            )
        plain, expected = (
            None
            if furthest is None
            else Furthest(float(furthest.distance), min(furthest.place, size - 1), furthest.pair)
            for furthest in (line.from_plain, line.from_expected)
        )
        return make_part(elements, whole, line.peak, plain, expected)


def header_from(line: Any) -> Header:
    """The header of a line."""
    return msgspec.convert(line, Header, from_attributes=True)


def footer_from(line: Any) -> Footer:
    """The footer of a line."""
    return msgspec.convert(line, Footer, from_attributes=True)


def _floats(numbers: Iterable[Number]) -> tuple[float, ...]:
    return tuple(map(float, numbers))


def _above(lines: Mapping[str, T], key: str | None, name: str) -> T | None:
    """What a result refers to, if it refers to anything. Raises `ResultsError` where it is not there."""
    if key is not None and key not in lines:
        raise ResultsError(f"there is no {name} {key} above")
    return None if key is None else lines[key]
