"""The evidence for a verdict, as typed fields. Messages are made from them; no program parses a message.

Imports nothing of `conformance`. The classes are msgspec structs, stored in results files unchanged.
"""

import math
from typing import Literal as OneOf

from msgspec import Struct

#: A float64, losslessly: JSON has no representation of the last three.
Number = float | OneOf["NaN", "Infinity", "-Infinity"]


def number(value: float) -> Number:
    """A float as JSON can write it."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def told_apart(observed: float, expected: float) -> tuple[str, str]:
    """Two numbers as text, with as many digits as they need to look different, seven at least."""
    texts = "", ""
    for digits in range(7, 18):
        texts = f"{observed:.{digits}g}", f"{expected:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


class _Fact(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="fact"):
    """Base of all facts. JSON omits fields with default values; its field `fact` names the class."""


class Count(_Fact, frozen=True, tag="count"):
    """How often a statement, or a region as a whole (`statement` empty), ran in a phase, and the counts
    that are right, with the reason where there are several. `region` is empty outside of regions."""

    region: str
    statement: str
    phase: OneOf["forward", "rerun"]
    observed: int
    allowed: tuple[int, ...]
    reason: str = ""


class Inert(_Fact, frozen=True, tag="inert"):
    """Nothing ran again in backward. `allowed` are the reruns that were expected of this region, or of
    this statement in it."""

    region: str
    statement: str
    allowed: tuple[int, ...]


class Bytes(_Fact, frozen=True, tag="bytes"):
    """Bytes held by the plain and by the recomputed run: between forward and backward, or at the peak.

    `most` is the most that the recomputed run may hold, `drop` by how much it must be below the plain
    run (`None` for no such demand), `unit` the bytes of the largest activation. The observer cannot
    resolve differences below `resolution` bytes. If `exact`, they are judged to the byte.
    """

    plain: int
    recomputed: int
    most: int
    drop: int | None
    unit: int
    resolution: int = 0
    exact: bool = False


class States(_Fact, frozen=True, tag="states"):
    """Copies of random state that are held between forward and backward, and their bytes."""

    copies: int
    nbytes: int
    allowed: int


class Difference(_Fact, frozen=True, tag="difference"):
    """How an array differs from what it should be.

    `of` is what is compared (`value`, `gradient`, …), `name` the tensor's name. `kind`: `none` where
    there should be an array; `zeros` or `not zero` where there should be `None`; `missing` if only one
    run has it; `shape`; `elements`, of which `wrong` out of `size` differ, most at index `place`.
    `against` is the other side of the comparison, `in_plain` says that the plain run differs, `may_draw`
    that the rerun may draw other random numbers here. `rounding` names the declaration that would allow
    the difference, where equality bit for bit is asked and it is no more than the tolerance.
    """

    of: str
    name: str
    kind: OneOf["none", "zeros", "not zero", "missing", "shape", "elements"]
    against: OneOf["plain run", "reference"]
    in_plain: bool = False
    may_draw: bool = False
    observed_shape: tuple[int, ...] = ()
    expected_shape: tuple[int, ...] = ()
    wrong: int = 0
    size: int = 0
    place: tuple[int, ...] = ()
    observed: Number | None = None
    expected: Number | None = None
    rounding: OneOf["", "exact", "exact_gradients"] = ""

    def words(self, *, numbers: bool = True) -> str:
        """The difference in a sentence; without `numbers`, it is the same for many variants."""
        free = "random state is not preserved here, and " if self.may_draw else ""
        link = "of" if self.of == "tangent" else "with respect to"
        title = self.name if self.of == "value" else f"{self.of} {link} {self.name}"
        return f"{free}{title} {self._how(numbers)}"

    def _how(self, numbers: bool) -> str:
        whose = "of the plain run " if self.in_plain else ""
        against = f" ({self.against})"
        match self.kind:
            case "none" if self.in_plain:
                return "is None in the plain run"
            case "none":
                return f"is None, but should be an array of shape {self.expected_shape}"
            case "zeros":
                return "is zeros, not None, but nothing depends on it"
            case "not zero":
                return "is not zero, but nothing depends on it"
            case "missing" if self.in_plain:
                return "is not there in the plain run"
            case "missing":
                return f"is not there{' in both runs' if self.against == 'plain run' else ''}"
            case "shape":
                shapes = f"{self.observed_shape}, but should be {self.expected_shape}"
                return f"{whose}is of shape {shapes}{against}"
        told = ""
        if numbers and self.observed is not None and self.expected is not None:
            place = f" at {list(self.place)}" if self.place else ""
            observed, expected = told_apart(float(self.observed), float(self.expected))
            told = f" in {self.wrong} of {self.size} elements, most{place}: {observed}, "
            told += f"but should be {expected}"
        if numbers and self.rounding:
            against += (
                f"; within the tolerance, which `{self.rounding}: false` declares to be enough"
            )
        return f"{whose}differs{told}{against}"


class Sampling(_Fact, frozen=True, tag="draws"):
    """Which random numbers the rerun drew.

    `kind`: the `same` as forward; `fresh` numbers; `nothing`. Where draws cannot be observed: `like` if
    the gradients match the numbers of forward, `unlike` if they do not, `unread` if no gradient depends
    on a draw, `unknown` if outputs differ, too. `later`: draws after the rerun differ from those of the
    plain run. `where` are the statements, as (region, statement); `generators` those left in another
    state than by the plain run.
    """

    kind: OneOf["same", "fresh", "nothing", "like", "unlike", "unread", "unknown", "later"]
    where: tuple[tuple[str, str], ...] = ()
    generators: tuple[str, ...] = ()


class Calls(_Fact, frozen=True, tag="calls"):
    """How often something was called (a hook, a side effect of the body), and how often without
    recompute. `observed` is `None` if it was never seen."""

    name: str
    observed: int | None
    expected: int


class State(_Fact, frozen=True, tag="state"):
    """State (such as running statistics) that differs from the plain run's, both in a few words. `times`
    is by what factor it changed more than it should; `None` if unknown."""

    name: str
    observed: str
    expected: str
    times: Number | None = None


class Growth(_Fact, frozen=True, tag="growth"):
    """A leak over repeated steps: it `grows` by the given amount per step, or that amount is `left`
    after each."""

    kind: OneOf["grows", "left"]
    what: OneOf["live tensors", "bytes"]
    observed: float
    plain: float


class Raised(_Fact, frozen=True, tag="raised"):
    """The error that a run ended with, and the one that was promised; empty if there is none."""

    type: str
    phase: str = ""
    promised: str = ""


class Unoffered(_Fact, frozen=True, tag="unoffered"):
    """Why a variant is not judged on a case: it `lacks` or `refuses` capabilities, or is `not run`."""

    how: OneOf["lacks", "refuses", "not run"]
    why: str
    capabilities: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The reason in a sentence whose subject is the variant."""
        verb = "is not run on this case:" if self.how == "not run" else self.how
        return f"{verb} {self.why}"


_Counted = Count | Inert | Bytes | States
#: Any of these facts.
Fact = _Counted | Difference | Sampling | Calls | State | Growth | Raised | Unoffered
