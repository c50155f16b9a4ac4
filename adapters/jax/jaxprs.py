"""Reading a jaxpr: which line of a program computes what, and which values are computed again.

Equations are numbered by value: two have the same number when they apply the same primitive with the
same parameters to operands of the same numbers. `jit`, `checkpoint` and custom derivatives are
looked into. So a value that backward computes once more is known as the value that it is, whatever
other work for gradients the same line of the program gives rise to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Primitive

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.program import Program, Site

from . import statements

RERUN = "rematted_computation"
#: Primitives that give their operand back.
IDENTITIES = frozenset({"copy", "copy_p", "reduce_precision", "optimization_barrier", "name"})
#: Parameters that hold the function that a primitive calls.
CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")
RECOMPUTED = frozenset({"remat", "remat2", "checkpoint"})
JITTED = frozenset({"jit", "pjit"})
CALLS = (
    RECOMPUTED
    | JITTED
    | {
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
    }
)
#: What of an operation with a `mask` of its own (`conformance.language.operations`) makes that mask.
MASKS = frozenset({"random_bits", "reduce_sum"})
#: What a mask is made of last, where a rerun may need it alone.
LAST = {"dropout": "lt", "rrelu": "max"}

_PLAIN = (bool, int, str)
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class _Computed:
    """What a loop does itself, as a primitive: `bind` computes it."""

    multiple_results = False

    def __init__(self, bind: Callable[..., Any]) -> None:
        self.bind = bind


SLICE = _Computed(lambda value, index: value[index])
STACK = _Computed(lambda *values: jnp.stack(values))


@dataclass(frozen=True)
class Place:
    """Where an equation comes from: the statement, the program's lines that led to it and its own, and
    which evaluation of a function it is part of."""

    site: Site
    lines: tuple[int, ...]
    frame: int


@dataclass(frozen=True)
class Value:
    """A value: its number, the place that made it, and its form in terms of what that place read."""

    number: int
    place: Place | None
    form: int


@dataclass(frozen=True)
class Event:
    """An equation, as the walk met it. `rerun` numbers the recomputed function that it is part of, 0
    outside any; `transposed` says whether it is part of a backward pass; `times` is how often the loops
    around it go round."""

    place: Place
    primitive: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    rerun: int
    transposed: bool
    times: int


@dataclass(frozen=True)
class Signature:
    """How a statement's work is known: the forms of its results, those of its mask, and the names of
    the primitives that make them."""

    results: frozenset[int]
    masks: frozenset[int]
    primitives: frozenset[str]


@dataclass
class Walk:
    """Numbers the values of jaxprs; one walk may go through several, and knows equal values."""

    program: Program
    events: list[Event] = field(default_factory=list)
    #: Numbers of values that something other than their own statement reads.
    escaped: set[tuple[Place, int]] = field(default_factory=set)
    #: The signatures of statements, once they are known.
    known: Mapping[Site, Signature] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _made: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    _values: dict[int, Any] = field(default_factory=dict)
    _frames: int = 0

    def run(self, closed: Any) -> tuple[Event, ...]:
        """Walk a closed jaxpr without arguments and return its equations that have a statement."""
        start = len(self.events)
        results = self._evaluate(closed.jaxpr, self._constants(closed), (), None, "", 0, 1)
        for value in results:
            self._escape(value)
        return tuple(self.events[start:])

    def calls(self, calls: Sequence[Any]) -> tuple[Event, ...]:
        """Walk what a program has called, in order, and return the equations that have a statement.

        Each call has the `executable.jaxpr` that was traced, and the arrays that it was `given` and
        that it `gave`. An array that a call before it gave is the value that it was there.
        """
        start = len(self.events)
        known: dict[int, Value] = {}
        for called in calls:
            closed = called.executable.jaxpr
            given = [known.get(id(array)) or self._given(array) for array in called.given]
            constants = self._constants(closed)
            found = self._evaluate(closed.jaxpr, constants, given, None, "", 0, 1)
            for value in (*given, *found):
                self._escape(value)
            known.update(zip(map(id, called.gave), found, strict=True))
        return tuple(self.events[start:])

    def _given(self, array: Any) -> Value:
        """An array that a program has made outside what it calls. Known as a constant are the inputs,
        which are equal to those of a walk before, and numbers such as a cotangent of one; a reference
        is known by itself."""
        if not isinstance(array, jax.Array):
            number = self._number(("reference", id(array)))
            self._made.setdefault(number, (_Computed(lambda: array), {}, (), 0))
            return Value(number, None, number)
        constant = self._constant_key(array)
        if constant in self._numbers or np.shape(array) == ():
            return self._constant(array)
        number = self._number(("given", constant))
        self._made.setdefault(number, (_Computed(lambda: array), {}, (), 0))
        return Value(number, None, number)

    # -- the walk ------------------------------------------------------------------------------

    def _evaluate(
        self,
        jaxpr: Any,
        constants: Sequence[Value],
        arguments: Sequence[Value],
        inside: Place | None,
        stack: str,
        block: int,
        times: int,
    ) -> list[Value]:
        self._frames += 1
        frame = self._frames
        known: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Value:
            return self._constant(atom.val) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            names = f"{stack}/{equation.source_info.name_stack}"
            place = inside or self._place(equation, frame)
            operands = [read(atom) for atom in equation.invars]
            name = equation.primitive.name
            called = self._called(equation)
            if called is not None:
                inner, consts = called
                own = self._frames + 1 if name in RECOMPUTED else block
                before = len(self._numbers)
                results = self._evaluate(inner, consts, operands, place, names, own, times)
                if name in JITTED:
                    self._make_by(equation, operands, results, before)
            elif name == "scan":
                results = self._loop(equation, operands, place, names, block, times)
            elif name == "cond":
                results = self._branch(equation, operands, place, names, block, times)
            elif name in IDENTITIES:
                results = operands
            elif name == "convert_element_type" and self._is_number(operands[0]):
                number = np.asarray(
                    self._made[operands[0].number][1]
                )  # done while tracing, at times
                results = [self._constant(number.astype(equation.params["new_dtype"]))]
            else:
                results = self._apply(equation, operands, place)
                if place is not None:
                    rerun = block if RERUN in names else 0
                    given, made = tuple(operands), tuple(results)
                    event = Event(place, name, given, made, rerun, "transpose(" in names, times)
                    self.events.append(event)
                for operand in operands:
                    if operand.place != place:
                        self._escape(operand)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _loop(
        self,
        equation: Any,
        operands: list[Value],
        place: Place | None,
        stack: str,
        block: int,
        times: int,
    ) -> list[Value]:
        """The results of a `scan`, whose body is walked once and counts for every round; once where the
        loop is one statement of the program."""
        params = equation.params
        body, fixed = params["jaxpr"], operands[: params["num_consts"]]
        if place is None and _draws(body.jaxpr):
            return self._rounds(params, operands, stack, block, times)
        carried = [self._unknown() for _ in body.jaxpr.invars[len(fixed) :]]
        rounds = times * (params["length"] if place is None else 1)
        constants, given = self._constants(body), [*fixed, *carried]
        made = self._evaluate(body.jaxpr, constants, given, place, stack, block, rounds)
        for value in (*operands, *made):
            self._escape(value)
        return [self._unknown() for _ in equation.outvars]

    def _rounds(
        self,
        params: Mapping[str, Any],
        operands: list[Value],
        stack: str,
        block: int,
        times: int,
    ) -> list[Value]:
        """The results of a `scan` whose body draws, walked round by round: each draws its own."""
        body, fixed = params["jaxpr"], operands[: params["num_consts"]]
        last = params["num_consts"] + params["num_carry"]
        carried, given = operands[params["num_consts"] : last], operands[last:]
        constants = self._constants(body)
        made: dict[int, list[Value]] = {}
        numbers = range(params["length"])
        for index in reversed(numbers) if params["reverse"] else numbers:
            taken = [*fixed, *carried, *(self._slice(value, index) for value in given)]
            found = self._evaluate(body.jaxpr, constants, taken, None, stack, block, times)
            carried, made[index] = found[: len(carried)], found[len(carried) :]
            for value in found:
                self._escape(value)
        for value in operands:
            self._escape(value)
        stacked = zip(*(made[index] for index in numbers), strict=True)
        return [*carried, *(self._stack(values) for values in stacked)]

    def _slice(self, value: Value, index: int) -> Value:
        """What a round is given of a value that a loop goes over."""
        primitive, _, numbers, _ = self._made[value.number]
        number = self._number(("slice", value.number, index))
        if primitive is STACK:
            number = numbers[index]
        self._made.setdefault(number, (SLICE, {"index": index}, (value.number,), 0))
        return Value(number, None, number)

    def _stack(self, values: Sequence[Value]) -> Value:
        """What all rounds gave."""
        numbers = tuple(value.number for value in values)
        number = self._number(("stack", numbers))
        self._made.setdefault(number, (STACK, {}, numbers, 0))
        return Value(number, None, number)

    def _branch(
        self,
        equation: Any,
        operands: list[Value],
        place: Place | None,
        stack: str,
        block: int,
        times: int,
    ) -> list[Value]:
        """The results of a `cond`, whose branches are all walked. What several of them compute counts
        once: one of them runs."""
        chosen, *given = operands
        start = len(self.events)
        made: list[list[Value]] = []
        for branch in equation.params["branches"]:
            constants = self._constants(branch)
            made.append(self._evaluate(branch.jaxpr, constants, given, place, stack, block, times))
        once = {(e.place, tuple(v.number for v in e.results)): e for e in self.events[start:]}
        self.events[start:] = once.values()
        for value in (*operands, *(value for values in made for value in values)):
            self._escape(value)
        results = []
        for values in zip(*made, strict=True):
            number = self._number(("branch", chosen.number, *(v.number for v in values)))
            self._made.setdefault(number, ("branch", None, (), 0))
            results.append(Value(number, None, number))
        return results

    def _unknown(self) -> Value:
        """A value that changes from round to round."""
        number = self._number(("round", len(self._numbers)))
        self._made[number] = ("round", None, (), 0)
        return Value(number, None, number)

    def _called(self, equation: Any) -> tuple[Any, list[Value]] | None:
        if equation.primitive.name not in CALLS:
            return None
        for key in CALLED:
            found = equation.params.get(key)
            if hasattr(found, "consts"):
                return found.jaxpr, self._constants(found)
            if hasattr(found, "eqns"):
                return found, []
        return None

    def _apply(self, equation: Any, operands: list[Value], place: Place | None) -> list[Value]:
        primitive, params = equation.primitive, equation.params
        what = (primitive.name, *((name, _as_words(params[name])) for name in sorted(params)))
        numbers = tuple(operand.number for operand in operands)
        forms = tuple(self._operand_form(operand, place) for operand in operands)
        results = []
        for index in range(len(equation.outvars)):
            number = self._number(("equation", what, numbers, index))
            self._made.setdefault(number, (primitive, params, numbers, index))
            form = self._number(("form", what, forms, index))
            results.append(Value(number, place, form))
        return results

    def _make_by(
        self, equation: Any, operands: Sequence[Value], results: Sequence[Value], before: int
    ) -> None:
        """Have the results of a jitted function that are new since number `before` computed by a call
        of it: it is compiled already, and its single primitives are not."""
        given = tuple(operand.number for operand in operands)
        for index, result in enumerate(results):
            made = self._made[result.number][0]
            if result.number >= before and isinstance(made, Primitive):
                self._made[result.number] = (equation.primitive, equation.params, given, index)

    def _operand_form(self, operand: Value, place: Place | None) -> object:
        """An operand as a form knows it: a scalar constant, the same place's work, or just there."""
        if self._is_number(operand):
            return operand.number
        if place is None or not self._together(operand.place, place):
            return "given"
        signature = self.known.get(place.site)  # a former execution may be in the same place
        return "given" if signature and operand.form in signature.results else operand.form

    def _together(self, one: Place | None, other: Place) -> bool:
        """Whether two places are one execution of a statement. Where signatures are known, it changes
        nothing that a part of it was moved out of a function, or of a loop."""
        if one is None or not self.known:
            return one == other
        return (one.site, one.lines) == (other.site, other.lines)

    def _is_number(self, value: Value) -> bool:
        """Whether a value is a constant without axes, and no key."""
        primitive, constant, _, _ = self._made[value.number]
        return primitive is None and np.shape(constant) == () and not _is_key(constant)

    def _escape(self, value: Value) -> None:
        if value.place is not None:
            self.escaped.add((value.place, value.number))

    def _constants(self, closed: Any) -> list[Value]:
        return [self._constant(constant) for constant in closed.consts]

    def _constant(self, constant: Any) -> Value:
        number = self._number(self._constant_key(constant))
        self._made.setdefault(number, (None, constant, (), 0))
        return Value(number, None, number)

    def _constant_key(self, constant: Any) -> object:
        array = np.asarray(jax.random.key_data(constant) if _is_key(constant) else constant)
        return "constant", str(array.dtype), array.shape, array.tobytes()

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _place(self, equation: Any, frame: int) -> Place | None:
        """The statement that an equation comes from: the outermost line of the program that is one.

        The outermost, because what a library function traced for one line it reuses for others.
        """
        traceback = equation.source_info.traceback
        if traceback is None:
            return None
        lines: list[int] = []
        for code, instruction in zip(*map(reversed, traceback.raw_frames()), strict=True):
            if code.co_filename != self.program.file:
                continue
            line = traceback.code_addr2line(code, instruction)
            site = self.program.lines.get(line)
            if site is not None and site.kind == "statement":
                own = statements.starts(self.program.text)[line]
                return Place(site, (*lines, own), frame)
            lines.append(line)
        return None

    # -- values --------------------------------------------------------------------------------

    def value(self, number: int) -> Any:
        """The value of that number, computed now by binding the primitives that made it."""
        if number not in self._values:
            primitive, what, operands, index = self._made[number]
            if primitive is None:
                self._values[number] = what
            else:
                results = primitive.bind(*(self.value(n) for n in operands), **what)
                several = primitive.multiple_results
                self._values[number] = results[index] if several else results
        return self._values[number]


def _as_words(parameter: Any) -> object:
    """A parameter of an equation, so that equal ones are equal: as text without addresses, where it is
    none of the types that most are of."""
    kind = type(parameter)
    if kind is tuple:
        return tuple(map(_as_words, parameter))
    if parameter is None or kind in _PLAIN or isinstance(parameter, np.dtype):
        return kind, parameter
    return _ADDRESS.sub("", str(parameter))


def _draws(jaxpr: Any) -> bool:
    """Whether a jaxpr, or one inside it, draws random numbers."""
    for equation in jaxpr.eqns:
        inner = (getattr(found, "jaxpr", found) for found in equation.params.values())
        if equation.primitive.name == "random_bits":
            return True
        if any(hasattr(found, "eqns") and _draws(found) for found in inner):
            return True
    return False


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def signatures(walk: Walk, events: Sequence[Event]) -> Mapping[Site, Signature]:
    """The signature of each statement, from a forward pass of which no gradient is taken."""
    results: dict[Site, set[int]] = {}
    masks: dict[Site, set[int]] = {}
    primitives: dict[Site, set[str]] = {}
    for event in events:
        site = event.place.site
        for value in event.results:
            if (event.place, value.number) in walk.escaped:
                results.setdefault(site, set()).add(value.form)
                primitives.setdefault(site, set()).add(event.primitive)
            needs = OPERATIONS[site.op].needs.values()
            own = site.op in RANDOM or any("mask" in words for sets in needs for words in sets)
            if own and event.primitive in MASKS:
                masks.setdefault(site, set()).add(value.form)
    for site, names in primitives.items():
        names |= {LAST[site.op]} if site.op in LAST else set()
    return {
        site: Signature(
            frozenset(forms), frozenset(masks.get(site, ())), frozenset(primitives[site])
        )
        for site, forms in results.items()
    }


@dataclass(frozen=True)
class Counts:
    """Executions of each statement in forward and in reruns, and what random statements drew.

    `entered` is how often each region ran forward: as its busiest line did. `drawn` are
    (statement, whether in a rerun, number of the value).
    """

    forward: Counter[Site]
    rerun: Counter[Site]
    entered: Counter[str]
    drawn: tuple[tuple[Site, bool, int], ...]


def count(
    events: Sequence[Event], known: Mapping[Site, Signature], *, higher: bool = False
) -> Counts:
    """Executions of statements: how often a result of theirs is computed.

    A statement ran again where one of its results, or its mask, is computed in a rerun. Work for
    gradients that the same line gives rise to has other forms, and the gradient of a recomputed
    statement may compute its value as well: in one recomputed function a value counts once. So it does
    in one forward evaluation where gradients are of a `higher` order: the second derivative of a sine
    is that sine again.
    """
    forward: Counter[tuple[Site, int]] = Counter()
    again: Counter[tuple[Site, int]] = Counter()
    lines: Counter[tuple[Site, int, int]] = Counter()
    seen: set[tuple[object, int]] = set()
    drawn: list[tuple[Site, bool, int]] = []
    for event in events:
        site = event.place.site
        signature = known.get(site)
        if signature is None or (event.transposed and not event.rerun):
            continue
        for value in event.results:
            wanted = signature.results | (signature.masks if event.rerun else frozenset())
            if value.form not in wanted:
                continue
            if event.rerun or higher:
                key = (event.rerun or event.place, value.number)
                if key in seen:
                    continue
                seen.add(key)
            (again if event.rerun else forward)[site, value.form] += event.times
            if not event.rerun:
                lines[site, event.place.lines[-1], value.form] += event.times
            if site.op in RANDOM and value.form in signature.results:
                drawn.append((site, bool(event.rerun), value.number))
    entered: Counter[str] = Counter()
    for (site, _, _), number in lines.items():
        entered[site.region] = max(entered[site.region], number)
    return Counts(_most(forward), _most(again), entered, tuple(drawn))


def _most(counts: Mapping[tuple[Site, int], int]) -> Counter[Site]:
    """By statement: how often its most frequent result was computed."""
    found: Counter[Site] = Counter()
    for (site, _), number in counts.items():
        found[site] = max(found[site], number)
    return found
