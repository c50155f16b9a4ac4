"""What was observed of a user's program, with and without recomputation.

These values come from the worker process in which the program ran, and are judged by
`conformance.checking.judge`. Bytes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: What is compared after a step.
What = Literal["loss", "gradients", "outputs", "parameters", "buffers", "random state"]


class Differs(Struct, frozen=True, omit_defaults=True):
    """How one array differs: `plain` and `recomputed` say what each has at `place`, or what is missing.

    `distance` is the largest absolute difference, `allowed` what rounding and the spread of two plain
    runs explain.
    """

    name: str
    kind: Literal["missing", "extra", "shape", "dtype", "values", "zeros"]
    plain: str
    recomputed: str
    place: tuple[int, ...] = ()
    distance: float = 0.0
    allowed: float = 0.0


class Compared(Struct, frozen=True, omit_defaults=True):
    """A comparison with the plain run: of `number` arrays, `wrong` differ, the worst of which are in
    `differs`. `largest` is the largest relative difference of all that do not."""

    what: What
    step: int
    number: int
    wrong: int = 0
    differs: tuple[Differs, ...] = ()
    largest: float = 0.0


class Raised(Struct, frozen=True, omit_defaults=True):
    """An exception: its type, its message, the line of the file that it came through, and where."""

    type: str
    message: str
    where: str = ""
    step: int = 0
    phase: str = ""


class Place(Struct, frozen=True, omit_defaults=True):
    """A layer, or a function of the file: how often it ran in a step, without and with recomputation."""

    name: str
    plain: int
    recomputed: int


class RegionSeen(Struct, frozen=True, omit_defaults=True):
    """A region that the framework's recompute function was called for, and how often in a step.

    `features` say what was seen of its calls, in the words of causes (`docs/adapters.md`). `variants`
    are those of the adapter that the options of its first call select; empty where that is not known.
    """

    name: str
    where: str
    calls: int = 1
    features: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()


class Bytes(Struct, frozen=True, omit_defaults=True):
    """Memory of one step beyond what was held before it: kept until backward, the peak, and what is
    left after it; `None` where that cannot be told."""

    kept: int | None = None
    peak: int | None = None
    left: int | None = None


class Checked(Struct, frozen=True, omit_defaults=True):
    """All that was observed. `plain` and `control` are two runs without recomputation: what differs
    between them does not repeat itself, whatever recomputation does."""

    framework: str
    versions: dict[str, str]
    #: Numbers of all parameters together, and how many parameters there are.
    size: int = 0
    parameters: int = 0
    steps: int = 0
    compared: tuple[Compared, ...] = ()
    #: Where two plain runs differ, at the first step that they do.
    control: tuple[Compared, ...] = ()
    #: With recomputation switched on and every region called plainly: what differs then is not
    #: recompute's doing. Empty where this was not run.
    through: tuple[Compared, ...] = ()
    plain_raised: Raised | None = None
    raised: Raised | None = None
    #: Whether every region that was called through raises nothing.
    through_raised: Raised | None = None
    places: tuple[Place, ...] = ()
    #: What `places` count, and why they are empty.
    unit: str = ""
    uncounted: str = ""
    regions: tuple[RegionSeen, ...] = ()
    #: The features that regions would show here if they had them.
    told: tuple[str, ...] = ()
    memory_plain: Bytes = Bytes()
    memory_recomputed: Bytes = Bytes()
    #: Whether the peak differs from step to step, so that it is known only roughly.
    peak_varies: bool = False
    unmeasured: str = ""
    #: Bytes held after each of some steps, beyond those after the first of them.
    grown: tuple[int, ...] = ()
    grown_plain: tuple[int, ...] = ()
    resolution: int = 0
    #: Seconds of the fastest step.
    seconds_plain: float = 0.0
    seconds_recomputed: float = 0.0
    #: The smallest set of regions with which it still deviates.
    smallest: tuple[str, ...] = ()
    #: Why no smallest set was looked for, where one was asked for.
    not_bisected: str = ""
    tolerance: float | None = None
    tolerance_why: str = ""
