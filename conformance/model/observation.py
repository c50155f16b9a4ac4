"""What was observed when a program ran, and what the reference expects.

Imports nothing of `conformance`. Arrays are `numpy.ndarray`; a `bfloat16` tensor arrives as float32
elements, with the dtype's name beside them. Memory is in bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated
from typing import Literal as OneOf

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

Array = NDArray[np.generic]
Phase = OneOf["forward", "rerun"]


@dataclass(frozen=True)
class Leaf:
    """A tensor in an output tree: its elements and its dtype's NumPy name (or `bfloat16`)."""

    array: Array
    dtype: str


if TYPE_CHECKING:
    #: An output as it came back: tensors as `Leaf`, containers as they were (`tuple`, `list`, `dict`),
    #: `None`, bools, numbers and strings as themselves, anything else as the name of its type.
    Scalar = None | bool | int | float | str
    Tree = Leaf | Scalar | tuple["Tree", ...] | list["Tree"] | dict[str, "Tree"]
else:
    # JSON does not keep a tuple and a list apart: for msgspec, an output is read by `results.codec`.
    Tree = object


class Execution(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """How often something ran in a phase. `statement` is a statement's label, or empty for the region as
    a whole; `region` is empty for statements outside any region."""

    region: str
    statement: str
    phase: Phase
    count: Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class RandomSample:
    """What a random statement produced, in one execution of it."""

    region: str
    statement: str
    phase: Phase
    array: Array
    rank: int = 0


@dataclass(frozen=True)
class ErrorSeen:
    """An exception as it reached the caller: its type's name, base types, message, and when."""

    type: str
    bases: tuple[str, ...]
    message: str
    phase: OneOf["forward", "backward", "unknown"]


class RandomState(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Random state kept between forward and backward: its bytes, and how many copies. The states of
    several generators that are kept together count as one copy."""

    nbytes: int
    copies: int


@dataclass(frozen=True)
class Run:
    """One run of a program's procedure. What an adapter could not observe is `None`, and
    `Observation.unobserved` says why.

    `losses` has one number per step; `gradients` are those of the last step; `again` those of a
    second backward or of the second order. `generators` are random numbers drawn after the run from
    each generator that the program uses: `implicit` (the framework's), `numpy`, `python`, and explicit
    ones by name. `retained` are the bytes of tensors held between forward and backward beyond inputs,
    parameters and outputs, `random_state` is the random state held then, and `peak` the most bytes of
    tensors held at any time beyond those held at the start of forward. `held` and `alive` are bytes and
    live tensors after each of several runs, with the garbage collector off. `error_after` is what a run
    raised that was to be good, before the error or after it.
    """

    outputs: Tree = None
    losses: tuple[float, ...] = ()
    gradients: Mapping[str, Array | None] = field(default_factory=dict)
    again: Mapping[str, Array | None] = field(default_factory=dict)
    parameters: Mapping[str, Array] = field(default_factory=dict)
    state: Mapping[str, Array] = field(default_factory=dict)
    executions: tuple[Execution, ...] | None = None
    samples: tuple[RandomSample, ...] | None = None
    generators: Mapping[str, Array] = field(default_factory=dict)
    retained: int | None = None
    random_state: RandomState | None = None
    peak: int | None = None
    held: tuple[int, ...] | None = None
    alive: tuple[int, ...] | None = None
    error: ErrorSeen | None = None
    good_run_before_error: bool | None = None
    good_run_after_error: bool | None = None
    error_after: ErrorSeen | None = None


#: Bytes. Below it, rounding, pooling and caching by allocators is as large as what recompute saves.
RESOLUTION = 256 * 1024


@dataclass(frozen=True)
class Observation:
    """The plain run and the recomputed one, and for each check how it was observed or why not. The
    observer cannot resolve retained bytes below `resolution`: 0 where it sees every tensor."""

    plain: Run
    recomputed: Run
    methods: Mapping[str, str] = field(default_factory=dict)
    unobserved: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    resolution: int = RESOLUTION
    #: What was seen on the further ranks, where there are several; this is rank 0's.
    others: tuple["Observation", ...] = ()


@dataclass(frozen=True)
class Allowed:
    """The correct counts, and the reason if there is more than one."""

    counts: tuple[int, ...]
    reason: str = ""

    def __contains__(self, count: object) -> bool:
        return count in self.counts

    def __str__(self) -> str:
        return " or ".join(str(c) for c in self.counts)


@dataclass(frozen=True)
class ExpectedMemory:
    """Bytes that the reference counts between forward and backward.

    `plain` and `recomputed` are (least, most) over what implementations may legitimately save; `drop`
    is the least that recomputing must free, `rise` what it may keep beyond the plain run where it need
    not free anything, `unit` the largest single activation. `peaks` are the most
    bytes held at any time, plain and recomputed, where gradients are freed as soon as they can be.
    `states` are the copies of random state that may be kept: one for each call of an outermost region
    that preserves it, or for each operation in it that draws. `left` are tensors and bytes that live as
    long as the outputs: those that regions keep whose graph no backward pass frees. `outside` are the
    bytes of what statements outside of regions make.
    """

    plain: tuple[int, int]
    recomputed: tuple[int, int]
    drop: int
    unit: int
    peaks: tuple[int, int] = (0, 0)
    states: int = 0
    left: tuple[int, int] = (0, 0)
    outside: int = 0
    rise: int = 0


@dataclass(frozen=True)
class Expected:
    """What the reference expects of a case under one discipline. Arrays are float64 (int64, bool), and
    `None` if the case draws random numbers and no samples were given: only the plain run can serve as
    control then. `executions` is keyed by (region, statement label or "", phase). `sums` says that three
    or more contributions to a gradient are added up, some of them from regions, or that a gradient may
    be laid out in another way."""

    outputs: Tree | None
    losses: tuple[float, ...] | None
    gradients: Mapping[str, Array | None] | None
    again: Mapping[str, Array | None] | None
    parameters: Mapping[str, Array] | None
    state: Mapping[str, Array] | None
    executions: Mapping[tuple[str, str, Phase], Allowed]
    memory: ExpectedMemory | None
    error: str | None
    sums: bool = False
