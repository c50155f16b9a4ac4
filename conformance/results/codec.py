"""Encoding results as lines and arrays, and decoding them.

What neither a comparison nor a report reads is left out: random samples where the rerun drew the
same, held bytes and live tensors of `release`, and how each check was observed (verdicts have it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET

from conformance.errors import ResultsError
from conformance.model.facts import Number, Sampling, number
from conformance.model.observation import (
    Allowed,
    Array,
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    RandomSample,
    Run,
    Tree,
)
from conformance.model.verdict import Verdict
from conformance.results import lines as m
from conformance.results.arrays import digest, stored
from conformance.results.model import Footer, Header, Result
from conformance.results.parts import LARGE, Furthest, Part, kept, made, positions

T = TypeVar("T")
_ENCODER = msgspec.json.Encoder()
#: The fields of what is written field by field.
_FIELDS: Mapping[type[Any], tuple[str, ...]] = {
    cls: tuple(field.name for field in fields(cls))
    for cls in (Header, Footer, ErrorSeen, ExpectedMemory)
}
_NO_RUN = Run()
_ABOUT_ARRAYS = frozenset({"value", "gradient", "structure", "randomness"})
_NOTHING: Mapping[str, Array | None] = {}


@dataclass(frozen=True)
class Encoded:
    """A result as it is written.

    `expected` is the key and the line of its expectation, which stands before the first result that
    refers to it; `arrays` are those that both lines name.
    """

    line: bytes
    expected: tuple[str, bytes] | None
    arrays: Mapping[str, Array]


def encode(result: Result) -> Encoded:
    """A result as lines and arrays. Raises `ResultsError` for an array or an output that cannot be
    stored."""
    names = _Names()
    expected, observation = result.expected, result.observation
    recomputed = plain = said = None
    if observation is not None:
        its_own = _Names(names.arrays, all_of_it=_at_fault(result))
        recomputed = _run_line(its_own, observation.recomputed, observation.plain, expected)
        recomputed.samples = _samples(names, result, observation.recomputed)
        # Nothing of it is anything away from itself, nor of the expectation.
        plain = _less(_run_line(names, observation.plain, observation.plain), recomputed)
    if expected is not None:
        said = _expected_line(names, expected)
    line = m.ResultLine(
        case=result.case,
        variant=result.variant,
        verdicts=list(result.verdicts),
        known=list(result.known),
        program=result.program,
        expected=said[0] if said else None,
        recomputed=recomputed,
        plain=plain,
        unobserved=dict(observation.unobserved) if observation else {},
        resolution=observation.resolution if observation else 0,
        seconds=round(observation.seconds, 6) if observation else 0.0,
    )
    return Encoded(to_json(line), said, names.arrays)


def _samples(names: _Names, result: Result, run: Run) -> list[m.SampleLine]:
    """Of statements whose rerun drew other numbers: the first sample in forward, and the first of
    the rerun that differs from it. Large ones are left out."""
    fresh = [
        place
        for verdict in result.verdicts
        for fact in verdict.facts
        if isinstance(fact, Sampling) and fact.kind == "fresh"
        for place in fact.where
    ]
    found = []
    for place in dict.fromkeys(fresh):
        of_it = [d for d in run.samples or () if (d.region, d.statement) == place]
        forward = next((d for d in of_it if d.phase == "forward"), None)
        if forward is None or forward.array.size > LARGE:
            continue
        again = (d for d in of_it if d.phase == "rerun")
        other = next((d for d in again if not np.array_equal(d.array, forward.array)), None)
        if other is not None and other.array.size <= LARGE:
            for sample in (forward, other):
                name = names.array(sample.array)
                assert isinstance(name, str)  # a part is kept of large arrays alone
                found.append(m.SampleLine(sample.region, sample.statement, sample.phase, name))
    return found


def _at_fault(result: Result) -> bool:
    """Whether a check of arrays failed; a comparison then shows how they differ."""
    return any(v.status.deviates and v.check in _ABOUT_ARRAYS for v in result.verdicts)


def header_line(header: Header, arrays: str) -> bytes:
    """A header as its line; `arrays` is the hash of all names of arrays."""
    return to_json(_as(m.HeaderLine, header, arrays=arrays))


def footer_line(footer: Footer) -> bytes:
    """A footer as its line."""
    return to_json(_as(m.FooterLine, footer))


def to_json(value: Any) -> bytes:
    """JSON on one line. Half of a surrogate pair, which UTF-8 has no bytes for, is written `\\ud800`."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(_printable(msgspec.to_builtins(value)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, list | tuple):
        return [_printable(part) for part in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(part) for key, part in value.items()}
    return value


def _as(line: type[Any], value: Any, **more: Any) -> Any:
    """Encode a dataclass as the line type with the same fields."""
    return line(**{name: getattr(value, name) for name in _FIELDS[type(value)]}, **more)


def _from(cls: type[T], line: Any) -> T:
    """Decode the line type into the dataclass with the same fields."""
    return cls(**{name: getattr(line, name) for name in _FIELDS[cls]})


# -- to lines --------------------------------------------------------------------------------------


class _Names:
    """Names for arrays, and the arrays to be stored under them; of large ones `all_of_it` or a part."""

    def __init__(self, arrays: dict[str, Array] | None = None, *, all_of_it: bool = False) -> None:
        self.arrays: dict[str, Array] = {} if arrays is None else arrays
        self.all_of_it = all_of_it

    def array(
        self, array: Array, plain: Array | None = None, expected: Array | None = None
    ) -> m.ArrayLine:
        """How a line refers to an array; `plain` and `expected` are its counterparts in the plain
        run and in the expectation.
        """
        kept_of_it = kept(np.asanyarray(array), plain, expected, all_of_it=self.all_of_it)
        name, elements = stored(kept_of_it)
        self.arrays[name.partition(":")[0]] = elements
        if not isinstance(kept_of_it, Part):
            return name
        return m.PartLine(
            name,
            list(kept_of_it.whole),
            kept_of_it.peak,
            _furthest_line(kept_of_it.from_plain),
            _furthest_line(kept_of_it.from_expected),
        )

    def maybe(
        self,
        arrays: Mapping[str, Array | None],
        plain: Mapping[str, Array | None] = _NOTHING,
        expected: Mapping[str, Array | None] | None = _NOTHING,
    ) -> m.MaybeArrays:
        """Arrays by name, some of which may be `None`."""
        wanted = expected or _NOTHING
        return {
            k: None if a is None else self.array(a, plain.get(k), wanted.get(k))
            for k, a in arrays.items()
        }

    def tree(self, tree: Tree, plain: Tree = None, expected: Tree = None) -> m.TreeLine:
        """Encode an output tree. `plain` and `expected` are its counterparts in the plain run and
        in the expectation, and may differ from it in structure.
        """
        if isinstance(tree, Leaf):
            others = (o.array if isinstance(o, Leaf) else None for o in (plain, expected))
            return m.TensorLine(self.array(tree.array, *others), tree.dtype)
        if tree is None or isinstance(tree, bool | str):
            return tree
        if isinstance(tree, int):
            return int(tree)
        if isinstance(tree, float):
            return m.FloatLine(number(tree))
        if isinstance(tree, dict):
            a, b = (other if isinstance(other, dict) else {} for other in (plain, expected))
            return m.DictLine({str(k): self.tree(v, a.get(k), b.get(k)) for k, v in tree.items()})
        if isinstance(tree, tuple | list):
            sides = [
                other if isinstance(other, tuple | list) and len(other) == len(tree) else None
                for other in (plain, expected)
            ]
            filled = [side if side is not None else [None] * len(tree) for side in sides]
            parts = [self.tree(*three) for three in zip(tree, *filled, strict=True)]
            return m.TupleLine(parts) if isinstance(tree, tuple) else m.ListLine(parts)
        raise ResultsError(f"an output of type {type(tree).__name__} cannot be stored")


def _furthest_line(furthest: Furthest | None) -> m.FurthestLine | None:
    if furthest is None:
        return None
    return m.FurthestLine(number(furthest.distance), furthest.place, furthest.pair)


def _run_line(
    names: _Names, run: Run, plain: Run = _NO_RUN, expected: Expected | None = None
) -> m.RunLine:
    def arrays(field: str) -> Any:
        wanted = getattr(expected, field, None)
        return names.maybe(getattr(run, field), getattr(plain, field), wanted)

    return m.RunLine(
        outputs=names.tree(run.outputs, plain.outputs, expected.outputs if expected else None),
        losses=[number(loss) for loss in run.losses],
        gradients=arrays("gradients"),
        again=arrays("again"),
        parameters=arrays("parameters"),
        state=arrays("state"),
        executions=None if run.executions is None else list(run.executions),
        drew=run.samples is not None or bool(run.generators),
        retained=run.retained,
        random_state=run.random_state,
        peak=run.peak,
        error=None if run.error is None else _as(m.ErrorLine, run.error),
    )


def _less(plain: m.RunLine, recomputed: m.RunLine) -> Any:
    """The plain run without the fields that equal those of the recomputed run."""
    own = {}
    for name in plain.__struct_fields__:
        value = getattr(plain, name)
        # As JSON: False is not 0 there, and 0.0 not -0.0.
        if to_json(value) != to_json(_as_plain(getattr(recomputed, name))):
            own[name] = value
    return m.PlainLine(**own)


def _as_plain(value: Any) -> Any:
    """Encoded arrays of the recomputed run, for a plain run that has the same ones: without the
    differences from the expectation, which are not used for plain runs.
    """
    if isinstance(value, m.PartLine):
        return m.PartLine(value.elements, value.shape, value.peak, value.from_plain, None)
    if isinstance(value, dict):
        return {key: _as_plain(part) for key, part in value.items()}
    if isinstance(value, m.TensorLine):
        return m.TensorLine(_as_plain(value.array), value.dtype)
    if isinstance(value, m.TupleLine | m.ListLine):
        return type(value)([_as_plain(part) for part in value.parts])
    if isinstance(value, m.DictLine):
        return m.DictLine(_as_plain(value.parts))
    return value


def _expected_line(names: _Names, expected: Expected) -> tuple[str, bytes]:
    def arrays(field: str) -> Any:
        given = getattr(expected, field)
        return None if given is None else names.maybe(given, expected=given)

    line = m.ExpectedLine(
        key="",
        outputs=names.tree(expected.outputs, expected=expected.outputs),
        losses=None if expected.losses is None else [number(loss) for loss in expected.losses],
        gradients=arrays("gradients"),
        again=arrays("again"),
        parameters=arrays("parameters"),
        state=arrays("state"),
        executions=[
            m.AllowedLine(*key, list(allowed.counts), allowed.reason)
            for key, allowed in expected.executions.items()
        ],
        memory=None if expected.memory is None else _as(m.MemoryLine, expected.memory),
        error=expected.error,
    )
    key = digest(to_json(line))
    return key, to_json(msgspec.structs.replace(line, key=key))


# -- from lines ------------------------------------------------------------------------------------


class Decoder:
    """Decodes lines into results. Equal parts of several results are shared, so that a file of many
    variants takes little more memory than one of a single variant.

    `array` gives the array of a name, and raises `ResultsError` where there is none.
    """

    def __init__(self, array: Callable[[str], Array]) -> None:
        self._stored = array
        self._executions: dict[Execution, Execution] = {}
        self._texts: dict[str, str] = {}
        self._verdicts: dict[Verdict, Verdict] = {}
        self._expected: dict[str, Expected] = {}

    def expectation(self, line: m.ExpectedLine) -> None:
        """Store an expectation that later results refer to. Raises `ResultsError` for a key used
        before.
        """
        if line.key in self._expected:
            raise ResultsError(f"a second expectation {line.key}")
        self._expected[line.key] = Expected(
            outputs=self.tree(line.outputs),
            losses=None if line.losses is None else self.numbers(line.losses),
            gradients=self.maybe_none(line.gradients),
            again=self.maybe_none(line.again),
            parameters=self.maybe_none(line.parameters),
            state=self.maybe_none(line.state),
            executions={
                (self.text(e.region), self.text(e.statement), e.phase): Allowed(
                    tuple(e.counts), self.text(e.reason)
                )
                for e in line.executions
            },
            memory=None if line.memory is None else _from(ExpectedMemory, line.memory),
            error=line.error,
        )

    def result(self, line: m.ResultLine) -> Result:
        """Decode a result. Raises `ResultsError` if the line is inconsistent."""
        expected = None if line.expected is None else self._expected.get(line.expected)
        if line.expected is not None and expected is None:
            raise ResultsError(f"there is no expectation {line.expected} above")
        return Result(
            case=self.text(line.case),
            variant=self.text(line.variant),
            verdicts=tuple(self._verdicts.setdefault(v, v) for v in line.verdicts),
            observation=self.observation(line),
            expected=expected,
            program=line.program,
            known=tuple(line.known),
        )

    def observation(self, line: m.ResultLine) -> Observation | None:
        """Both runs, or `None` where there are none."""
        recomputed, plain = line.recomputed, line.plain
        if recomputed is None:
            if plain is not None:
                raise ResultsError("a plain run without a recomputed one")
            return None
        observed = self.run(recomputed)
        own: dict[str, Any] = {} if plain is None else msgspec.structs.asdict(plain)
        given = {k: v for k, v in own.items() if v is not UNSET}
        whole = m.RunLine(**(msgspec.structs.asdict(recomputed) | given))
        control = observed if not given else self.run(whole, observed, set(given))
        unobserved = {self.text(k): self.text(v) for k, v in line.unobserved.items()}
        return Observation(control, observed, {}, unobserved, line.seconds, line.resolution)

    def run(self, line: m.RunLine, like: Run | None = None, own: Iterable[str] = ()) -> Run:
        """Decode a run; fields that it lacks are taken from another run."""
        made = {
            name: getattr(like, name)
            if like is not None and name not in own
            else self._field(name, getattr(line, name))
            for name in ("outputs", "losses", "gradients", "again", "parameters", "state")
        }
        shared = like is not None and "executions" not in own
        return Run(
            **made,
            executions=like.executions if like and shared else self.executions(line.executions),
            samples=self.samples(line.samples) if line.drew else None,
            retained=line.retained,
            random_state=line.random_state,
            peak=line.peak,
            error=None if line.error is None else _from(ErrorSeen, line.error),
        )

    def samples(self, lines: Iterable[m.SampleLine]) -> tuple[RandomSample, ...]:
        """The random samples that are kept."""
        return tuple(
            RandomSample(self.text(d.region), self.text(d.statement), d.phase, self.array(d.array))
            for d in lines
        )

    def _field(self, name: str, value: Any) -> Any:
        if name == "outputs":
            return self.tree(value)
        return self.numbers(value) if name == "losses" else self.maybe(value)

    def executions(self, lines: Iterable[Execution] | None) -> tuple[Execution, ...] | None:
        """Executions; equal ones share one object."""
        if lines is None:
            return None
        return tuple(self._executions.setdefault(line, line) for line in lines)

    def text(self, text: str) -> str:
        """A text; equal ones share one object."""
        return self._texts.setdefault(text, text)

    def numbers(self, numbers: Iterable[Number]) -> tuple[float, ...]:
        """Floats, including NaN and the infinities, which JSON lacks."""
        return tuple(float(number) for number in numbers)

    def array(self, line: m.ArrayLine) -> Array:
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
        return made(elements, whole, line.peak, plain, expected)

    def maybe(self, arrays: Mapping[str, m.ArrayLine | None]) -> dict[str, Array | None]:
        """Arrays by name."""
        return {self.text(k): None if a is None else self.array(a) for k, a in arrays.items()}

    def maybe_none(self, arrays: Mapping[str, m.ArrayLine | None] | None) -> Any:
        """Arrays by name, where there are any at all."""
        return None if arrays is None else self.maybe(arrays)

    def tree(self, tree: m.TreeLine) -> Tree:
        """An output tree."""
        if isinstance(tree, m.TensorLine):
            return Leaf(self.array(tree.array), self.text(tree.dtype))
        if isinstance(tree, m.FloatLine):
            return float(tree.value)
        if isinstance(tree, m.TupleLine):
            return tuple(self.tree(part) for part in tree.parts)
        if isinstance(tree, m.ListLine):
            return [self.tree(part) for part in tree.parts]
        if isinstance(tree, m.DictLine):
            return {key: self.tree(part) for key, part in tree.parts.items()}
        return tree


def header_from(line: Any) -> Header:
    """The header of a line."""
    return _from(Header, line)


def footer_from(line: Any) -> Footer:
    """The footer of a line."""
    return _from(Footer, line)
