"""The lines of a results file: what may stand in the JSON, and its schema.

Nothing here is pickled or evaluated. Values that are their field's default are left out. Floats that
JSON cannot write are the strings `NaN`, `Infinity` and `-Infinity`; an output tree tags its
containers, so that a tuple stays a tuple. Arrays are named here and stored beside this file.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from conformance.model.facts import Number
from conformance.model.observation import ErrorSeen, Execution, ExpectedMemory, Phase, RandomState
from conformance.model.result import Footer, Header
from conformance.model.verdict import Verdict

Count = Annotated[int, Meta(ge=0)]
#: The name of an expectation, a plain run or an array: 16 hexadecimal digits of a hash of what it holds.
Key = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
#: An array in the file of arrays, and its dtype where that file has no word for it.
Name = Annotated[str, Meta(pattern="^[0-9a-f]{16}(:complex(64|128))?$")]


class _Line(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Strict: nothing may stand in a line that has no meaning."""


class _Row(Struct, forbid_unknown_fields=True, array_like=True):
    """As an array: names of fields would be longer than what they hold."""


def _struct(cls: type[Any], tag: str | None = None, *more: tuple[str, Any]) -> type[Struct]:
    """The line of a dataclass of ours whose fields are JSON values: all of them, by name."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: list[Any] = list(more)
    for field in dataclasses.fields(cls):
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = msgspec.field(default_factory=field.default_factory)
        optional = () if default is dataclasses.MISSING else (default,)
        fields.append((field.name, hints[field.name], *optional))
    line = msgspec.defstruct(
        cls.__name__, fields, bases=(_Line,), tag=tag, kw_only=True, omit_defaults=False
    )
    line.__doc__ = cls.__doc__
    return line


#: The first line; `arrays` is the hash of the names of all arrays that belong to it.
HeaderLine = _struct(Header, "header", ("arrays", Key))
#: The last line: without it, the run did not finish.
FooterLine = _struct(Footer, "footer")
ErrorLine = _struct(ErrorSeen)
MemoryLine = _struct(ExpectedMemory)


# -- arrays and trees ------------------------------------------------------------------------------


class FurthestLine(_Row):
    """The largest absolute difference from another array, and its place in C order; the two elements
    in words where it is not finite."""

    distance: Number
    place: Count
    pair: tuple[str, str]


class PartLine(_Row):
    """Part of a large array: the name of its elements, the array's shape, its greatest magnitude, and
    where the whole of it lay furthest from the plain run's array and from the expected one."""

    elements: Name
    shape: list[Count]
    peak: float
    from_plain: FurthestLine | None
    from_expected: FurthestLine | None


ArrayLine = Name | PartLine


class TensorLine(_Row, tag="tensor"):
    """A tensor of an output tree; its dtype may be `bfloat16` while its elements are float32."""

    array: ArrayLine
    dtype: str


class TupleLine(_Row, tag="tuple"):
    """A tuple of an output tree."""

    parts: list[TreeLine]


class ListLine(_Row, tag="list"):
    """A list of an output tree."""

    parts: list[TreeLine]


class DictLine(_Row, tag="dict"):
    """A dict of an output tree, in order."""

    parts: dict[str, TreeLine]


class FloatLine(_Row, tag="float"):
    """A Python float of an output tree; tagged, because JSON does not keep 1.0 and 1 apart."""

    value: Number


TreeLine = bool | int | str | FloatLine | TensorLine | TupleLine | ListLine | DictLine | None
Arrays = dict[str, ArrayLine]
MaybeArrays = dict[str, ArrayLine | None]


# -- results ---------------------------------------------------------------------------------------


class AllowedLine(_Row):
    """The counts that are right for a region or a statement in a phase."""

    region: str
    statement: str
    phase: Phase
    counts: list[Count]
    reason: str


class SampleLine(_Row):
    """What a random statement of a region gave, in forward or when it ran again."""

    region: str
    statement: str
    phase: Phase
    array: Name


class RunLine(_Line):
    """A run. Null is what was not seen, and `samples` where nothing was drawn; they are those of
    statements whose rerun drew other numbers."""

    outputs: TreeLine = None
    losses: list[Number] = []
    gradients: MaybeArrays = {}
    again: MaybeArrays = {}
    parameters: Arrays = {}
    state: Arrays = {}
    executions: list[Execution] | None = None
    samples: list[SampleLine] | None = None
    retained: int | None = None
    random_state: RandomState | None = None
    peak: int | None = None
    error: ErrorLine | None = None  # type: ignore[valid-type]


class PlainLine(_Line, tag="plain"):
    """A plain run, once for all results that refer to its key."""

    key: Key
    run: RunLine


class ExpectationLine(_Line):
    """What the reference says; null where the case draws random numbers."""

    outputs: TreeLine = None
    losses: list[Number] | None = None
    gradients: MaybeArrays | None = None
    again: MaybeArrays | None = None
    parameters: Arrays | None = None
    state: Arrays | None = None
    executions: list[AllowedLine] = []
    memory: MemoryLine | None = None  # type: ignore[valid-type]
    error: str | None = None


class ExpectedLine(_Line, tag="expected"):
    """What is expected, once for all results that refer to its key."""

    key: Key
    expected: ExpectationLine


class ResultLine(_Line, tag="result"):
    """One case on one variant. Without `recomputed`, nothing could be observed."""

    case: str
    variant: str
    verdicts: list[Verdict]
    program: str = ""
    expected: Key | None = None
    plain: Key | None = None
    recomputed: RunLine | None = None
    unobserved: dict[str, str] = {}
    seconds: float = 0.0
    resolution: int = 0


Line = HeaderLine | ExpectedLine | PlainLine | ResultLine | FooterLine


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of a results file."""
    # By way of JSON, so that it is what is printed: a default may be a tuple.
    printed: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Line)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of a results file of recompute-conformance",
        **printed,
    }
