"""Reads a jaxpr: which program line computes which value, and which values are computed again.

Equations are value-numbered: two have the same number when they apply the same primitive with the same
parameters to operands of the same numbers. The bodies of `jit`, `checkpoint` and custom derivatives are
walked too. A value that backward computes again thus has the number it had in forward, and is
distinguished from the work for gradients of the same program line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters.partial_eval import dce_jaxpr
from jax.extend.core import Literal, Primitive

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.program import Program, Site

from . import statements

RERUN = "rematted_computation"
CHECKPOINT = "/checkpoint/"
#: How a name stack shows the transformations that an equation went through, the outermost first:
#: `jvp(transpose(jvp()))` is a forward pass in which a gradient is taken, and the backward pass of that.
_TRANSFORMED = re.compile(r"\btranspose\((?:jvp\()?|\bjvp\(")
#: How many gradients a procedure takes of each other; one where it is not listed.
_ORDERS: Mapping[str, int] = {"inference": 0, "second_order": 2, "third_order": 3}
#: Primitives that return their operand.
IDENTITIES = frozenset({"copy", "reduce_precision", "optimization_barrier", "name"})
#: Primitives on a reference (`jax.new_ref`), whole, and how many operands they then have.
REFERRING = {"new_ref": 1, "get": 1, "swap": 2, "addupdate": 2, "freeze": 1}
RECOMPUTED = frozenset({"remat2", "checkpoint"})
JITTED = frozenset({"jit", "pjit"})
#: Primitives that call a function, and the parameters that hold one.
CALLS = (
    RECOMPUTED
    | JITTED
    | {"closed_call", "eval_jaxpr", "custom_jvp_call", "custom_vjp_call", "shard_map"}
)
CALLED = ("jaxpr", "call_jaxpr")
#: The primitives that make the mask of an operation that has one (`conformance.language.operations`).
MASKS = frozenset({"random_bits", "reduce_sum", "lu"})
#: By operation, the last primitive that a compiled rerun has of it where the result is not made by one:
#: its mask may be computed without the result, and XLA leaves out a product with one.
LAST = {"dropout": "lt", "rrelu": "max", "slope_of_sin": "cos"}

_PLAIN = (bool, int, str)
_ADDRESS = re.compile(r"0x[0-9a-f]+")


def in_backward(names: str, program: Program) -> bool:
    """Whether work with this name stack belongs to a backward pass of the program's procedure.

    A gradient that the forward pass takes itself has a backward pass of its own, which is forward work:
    it lies inside the transformations of the procedure's gradients.
    """
    own = _TRANSFORMED.findall(names)[: _ORDERS.get(program.procedure, 1)]
    return any(word.startswith("transpose") for word in own)


def _transformations(names: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\b(?:transpose|jvp)(?=\()", names))


def by_rule(names: str, program: Program, inside: Iterable[tuple[str, ...]] = ()) -> Sequence[str]:
    """The transformations in this name stack if its work is the forward pass of a gradient that is taken
    in backward: what a rule of `jax.custom_vjp` runs again, or the backward pass of what a gradient in
    forward runs. There is one more at the end than the rule itself has, which takes no gradient.
    `jax.checkpoint` names what it runs again, and the rest of it is work for gradients. Those `inside`
    the statement, which takes a gradient itself, are left out."""
    words = _transformations(names)
    own = max((w for w in inside if words[len(words) - len(w) :] == w), key=len, default=())
    words = words[: len(words) - len(own)]
    again = words[-_ORDERS.get(program.procedure, 1) - 1 :]
    forward = set(again) == {"jvp"} and CHECKPOINT not in names
    return words if forward and in_backward(names, program) else ()


class _Computed:
    """Stands for a primitive where values are sliced, stacked or chosen; `bind` computes it."""

    multiple_results = False

    def __init__(self, bind: Callable[..., Any]) -> None:
        self.bind = bind


SLICE = _Computed(lambda value, index: value[index])
STACK = _Computed(lambda *values: jnp.stack(values))
ADD = _Computed(jnp.add)
CHOOSE = _Computed(lambda index, *values: values[int(index)])


class Made(NamedTuple):
    """How a value is made: as a `result`, by its position, of what `by` gives with these parameters for
    the values of the numbers in `operands`. Where `by` is `None`, `params` is the value itself, a
    constant; where it is `UNKNOWN`, the value cannot be computed."""

    by: Any
    params: Any = None
    operands: tuple[int, ...] = ()
    result: int = 0


UNKNOWN = Made("unknown")


@dataclass(frozen=True)
class Place:
    """Where an equation comes from: its statement, the program's lines on its stack (the outermost
    first, its own included), and the number of the function evaluation that it is part of."""

    site: Site
    lines: tuple[int, ...]
    frame: int


@dataclass(frozen=True)
class Value:
    """A value: its number, the place that made it, and its `form`: the number of its expression in
    terms of what the statement reads, equal for equal expressions on other values."""

    number: int
    place: Place | None
    form: int


@dataclass(frozen=True)
class Event:
    """An equation that the walk has met. `rerun` is the number of the recomputed function that it is
    part of, 0 outside any; below 0 it is that of the forward pass that a rule may run again (`by_rule`).
    `transposed` says whether it is part of a backward pass of the procedure."""

    place: Place
    primitive: str
    results: tuple[Value, ...]
    rerun: int
    transposed: bool


@dataclass(frozen=True)
class Around:
    """What a jaxpr stands in: the statement whose line calls it, if one does; its name stack; the number
    of the recomputed function, 0 outside any; and whether that is run again with no gradient taken, for
    what it writes into references."""

    place: Place | None = None
    names: str = ""
    block: int = 0
    again: bool = False


@dataclass(frozen=True)
class Signature:
    """What identifies a statement's work: the forms of its results and of its mask, and the names of the
    primitives that make them."""

    results: frozenset[int]
    masks: frozenset[int]
    primitives: frozenset[str]


@dataclass
class Walk:
    """Numbers the values of jaxprs. One walk may go through several, and gives equal values in them the
    same number."""

    program: Program
    events: list[Event] = field(default_factory=list)
    #: Numbers of values that something other than their own statement reads.
    escaped: set[tuple[Place, int]] = field(default_factory=set)
    #: The signatures of statements, once they are known.
    known: Mapping[Site, Signature] = field(default_factory=dict)
    #: The transformations in the name stacks of statements that take a gradient themselves.
    _inside: dict[Site, set[tuple[str, ...]]] = field(default_factory=dict)
    #: Statements that compute one thing in one execution, and another in another.
    differing: set[Site] = field(default_factory=set)
    _numbers: dict[object, int] = field(default_factory=dict)
    _made: dict[int, Made] = field(default_factory=dict)
    _values: dict[int, Any] = field(default_factory=dict)
    #: By the number of a reference, the value that it holds.
    _holds: dict[int, Value] = field(default_factory=dict)
    _frames: int = 0
    #: By number, the first value that a statement makes; and whether one was told by its number alone.
    _first: dict[int, Value] = field(default_factory=dict)
    without_line: bool = False
    #: How many forward passes rules may have run again, and the transformations of the last one of them.
    _passes: int = 0
    _ruled: Sequence[str] = ()

    def run(self, closed: Any, given: Iterable[Any] = ()) -> tuple[Event, ...]:
        """Walk a closed jaxpr of arrays that the program starts from; returns its equations that have a
        statement."""
        start = len(self.events)
        own = [self._given(array, own=True) for array in given]
        self._escape(*self._evaluate(closed, own, Around()))
        return tuple(self.events[start:])

    def calls(self, calls: Sequence[Any]) -> tuple[Event, ...]:
        """Walk the jaxprs of a program's calls, in order; returns the equations that have a statement.

        Each call is a `Called`: its `executable.jaxpr`, and the arrays that it was `given` and `gave`.
        An array that an earlier call returned keeps the number that it had there.
        """
        start = len(self.events)
        known: dict[int, Value] = {}
        for called in calls:
            given = [known.get(id(array)) or self._given(array) for array in called.given]
            results = self._evaluate(_needed(called.executable.jaxpr), given, Around())
            self._escape(*given, *results)
            known.update(zip(map(id, called.gave), results, strict=True))
        return tuple(self.events[start:])

    def _given(self, array: Any, own: bool = False) -> Value:
        """The value of an array that was made outside of what is walked: an input, or a cotangent.
        It is numbered as a constant where there is one, so that equal inputs of another run get the
        same number, and so is a key or a cotangent, but not what has been the program's `own`; a mutable
        reference is numbered by identity."""
        key: object = ("reference", id(array))
        if isinstance(array, jax.Array):
            constant = self._constant_key(array)
            key = ("given", constant)
            fixed = constant in self._numbers or is_key(array) or _is_cotangent(array)
            if fixed and not own and key not in self._numbers:
                return self._constant(array)
        value = self._value(key, Made(_Computed(lambda: array), {}))
        if not isinstance(array, jax.Array):
            self._holds.setdefault(value.number, self._unknown())
        return value

    # -- the walk ------------------------------------------------------------------------------

    def _evaluate(self, jaxpr: Any, arguments: Sequence[Value], around: Around) -> list[Value]:
        """The results of a jaxpr, closed or without constants."""
        constants = [self._constant(constant) for constant in getattr(jaxpr, "consts", ())]
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        self._frames += 1
        frame = self._frames
        known: dict[Any, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Value:
            return self._constant(atom.val) if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            names = f"{around.names}/{equation.source_info.name_stack}"
            place = around.place or self._place(equation, frame)
            here = replace(around, names=names, place=place)
            results = self._results(equation, [read(atom) for atom in equation.invars], here)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _results(self, equation: Any, operands: list[Value], here: Around) -> list[Value]:
        """The results of an equation."""
        name = equation.primitive.name
        if name in CALLS:
            return self._call(equation, operands, here)
        if name == "scan":
            return self._loop(equation, operands, here)
        if name == "cond":
            return self._branch(equation.params["branches"], operands, here)
        if name in IDENTITIES:
            return operands
        if self._knows(name, operands):
            return self._refer(name, operands, here.place)
        if name == "convert_element_type" and self._is_number(operands[0]):
            # An array is made of a constant while tracing, at times.
            number = np.asarray(self._made[operands[0].number].params)
            return [self._constant(number.astype(equation.params["new_dtype"]))]
        place, results = here.place, self._apply(equation, operands, here.place)
        if place is None and by_rule(here.names, self.program):
            # While a rule runs, JAX knows the line of the region's call alone.
            results = [self._first.get(value.number, value) for value in results]
            place = results[0].place if results else None
            self.without_line |= place is not None
        if place is not None:
            if not self.known:
                self._inside.setdefault(place.site, set()).add(_transformations(here.names))
            # JAX runs a function again in the one around it where all that it reads is known.
            block = here.block or place.frame
            rerun = block if here.again or RERUN in here.names else 0
            back = in_backward(here.names, self.program)
            # What a rule runs again ends where the backward pass of it starts.
            if back and not rerun:
                ruled = by_rule(here.names, self.program, self._inside.get(place.site, ()))
                self._passes += bool(ruled) and ruled != self._ruled
                self._ruled, rerun = ruled, -self._passes if ruled else 0
            self.events.append(Event(place, name, tuple(results), rerun, back))
        self._escape(*(operand for operand in operands if operand.place != place))
        return results

    def _call(self, equation: Any, operands: Sequence[Value], here: Around) -> list[Value]:
        """The results of a call of a function.

        Those of a jitted function are computed by calling it when their values are asked for: it is
        compiled already, its primitives one by one are not. One that is given a reference is not called.
        """
        name = equation.primitive.name
        before = len(self._numbers)
        inner = here
        if name in RECOMPUTED:
            # One that has been differentiated is run in backward only.
            late = equation.params["differentiated"] and not in_backward(here.names, self.program)
            names, again = here.names + CHECKPOINT, here.again or late
            inner = replace(here, names=names, block=self._frames + 1, again=again)
        jaxpr = next(equation.params[key] for key in CALLED if key in equation.params)
        results = self._evaluate(jaxpr, operands, inner)
        if name in JITTED and not any(self._made[one.number] is UNKNOWN for one in operands):
            given = tuple(operand.number for operand in operands)
            for index, result in enumerate(results):
                primitive = isinstance(self._made[result.number].by, Primitive)
                if result.number >= before and primitive:
                    made = Made(equation.primitive, equation.params, given, index)
                    self._made[result.number] = made
        return results

    def _loop(self, equation: Any, operands: list[Value], here: Around) -> list[Value]:
        """The results of a `scan`. Its body is walked for each iteration; once, with values that are
        unknown, where the whole loop is one statement of the program, which then counts once."""
        params = equation.params
        body, length = params["jaxpr"], params["length"]
        if "ft_in" in params:  # since JAX 0.11
            consts, carries = (len(part) for part in params["ft_in"].unpack()[:2])
        else:
            consts, carries = params["num_consts"], params["num_carry"]
        fixed, carried = operands[:consts], operands[consts : consts + carries]
        self._escape(*operands)
        if here.place is not None:
            unknown = [self._unknown() for _ in body.in_avals[consts:]]
            self._escape(*self._evaluate(body, [*fixed, *unknown], here))
            numbers = tuple(operand.number for operand in operands)
            by, places = equation.primitive, range(len(equation.outvars))
            return [self._unknown(Made(by, params, numbers, place)) for place in places]
        scanned = operands[consts + carries :]
        stacked: dict[int, list[Value]] = {}
        for index in reversed(range(length)) if params["reverse"] else range(length):
            given = [*fixed, *carried, *(self._slice(value, index) for value in scanned)]
            made = self._evaluate(body, given, here)
            carried, stacked[index] = made[:carries], made[carries:]
            self._escape(*made)
        columns = zip(*(stacked[index] for index in range(length)), strict=True)
        return [*carried, *map(self._stack, columns)]

    def _slice(self, value: Value, index: int) -> Value:
        """The slice of a scanned value that iteration `index` reads."""
        made = self._made[value.number]
        if made.by is STACK:
            return Value(made.operands[index], None, made.operands[index])
        key = ("slice", value.number, index)
        return self._value(key, Made(SLICE, {"index": index}, (value.number,)))

    def _stack(self, values: Sequence[Value]) -> Value:
        """The stacked results of all iterations."""
        numbers = tuple(value.number for value in values)
        return self._value(("stack", numbers), Made(STACK, {}, numbers))

    def _branch(self, branches: Sequence[Any], operands: list[Value], here: Around) -> list[Value]:
        """The results of a `cond`. All branches are walked; what several compute counts once, since only
        one of them runs."""
        chosen, *given = operands
        start = len(self.events)
        made = [self._evaluate(branch, given, here) for branch in branches]
        once = {(e.place, tuple(v.number for v in e.results)): e for e in self.events[start:]}
        self.events[start:] = once.values()
        self._escape(*operands, *(value for values in made for value in values))
        results: list[Value] = []
        for values in zip(*made, strict=True):
            numbers = (chosen.number, *(value.number for value in values))
            results.append(self._value(("branch", *numbers), Made(CHOOSE, {}, numbers)))
        return results

    def _knows(self, name: str, operands: Sequence[Value]) -> bool:
        """Whether it is known what a primitive on a reference does: the reference was made in what is
        walked or handed to it, and it is read or written as a whole."""
        if REFERRING.get(name) != len(operands):
            return False
        return name == "new_ref" or operands[0].number in self._holds

    def _refer(self, name: str, operands: Sequence[Value], place: Place | None) -> list[Value]:
        """The results of a primitive on a reference, which moves values and computes none."""
        if name == "new_ref":
            reference = self._unknown()
            # What the program starts from is no constant where the reference is an argument.
            constant = self._made[operands[0].number].by is None
            self._holds[reference.number] = self._unknown() if constant else operands[0]
            return [reference]
        reference, *given = operands
        held = self._holds[reference.number]
        if name == "swap":
            self._holds[reference.number] = given[0]
        elif name == "addupdate":
            numbers = (held.number, given[0].number)
            added = self._value(("added", *numbers), Made(ADD, {}, numbers), place)
            self._holds[reference.number] = added
        return [] if name == "addupdate" else [held]

    def _unknown(self, made: Made = UNKNOWN) -> Value:
        """A new value that is equal to no other; one that cannot be computed unless it says how it is
        `made`: it changes from iteration to iteration, say."""
        return self._value(("unknown", len(self._numbers)), made)

    def _apply(self, equation: Any, operands: list[Value], place: Place | None) -> list[Value]:
        primitive, params = equation.primitive, equation.params
        what = (primitive.name, *((name, _as_words(params[name])) for name in sorted(params)))
        numbers = tuple(operand.number for operand in operands)
        forms = tuple(self._operand_form(operand, place) for operand in operands)
        results = []
        for index in range(len(equation.outvars)):
            form = self._number(("form", what, forms, index))
            made = Made(primitive, params, numbers, index)
            results.append(self._value(("equation", what, numbers, index), made, place, form))
        return results

    def _operand_form(self, operand: Value, place: Place | None) -> object:
        """An operand's part in a form: the number of a scalar constant, the form of a value that the
        same statement computed, or `"given"` for any other value."""
        if self._is_number(operand):
            return operand.number
        if place is None or not self._together(operand.place, place):
            return "given"
        signature = self.known.get(place.site)  # a former execution may be in the same place
        return "given" if signature and operand.form in signature.results else operand.form

    def _together(self, one: Place | None, other: Place) -> bool:
        """Whether two places are one execution of a statement. Once signatures are known they may be in
        different function evaluations, as JAX may move a part out of a function or a loop."""
        if one is None or not self.known:
            return one == other
        return (one.site, one.lines) == (other.site, other.lines)

    def _is_number(self, value: Value) -> bool:
        """Whether a value is a constant without axes, and no key."""
        made = self._made[value.number]
        return made.by is None and np.shape(made.params) == () and not is_key(made.params)

    def _escape(self, *values: Value) -> None:
        for value in values:
            if value.place is not None:
                self.escaped.add((value.place, value.number))

    def _constant(self, constant: Any) -> Value:
        return self._value(self._constant_key(constant), Made(None, constant))

    def _constant_key(self, constant: Any) -> object:
        if isinstance(constant, jax.core.Tracer):  # that a region has left in a list
            return "traced", id(constant)
        array = np.asarray(jax.random.key_data(constant) if is_key(constant) else constant)
        return "constant", str(array.dtype), array.shape, array.tobytes()

    def _value(
        self, key: object, made: Made, place: Place | None = None, form: int | None = None
    ) -> Value:
        """The value with this key; `made` says how, where it is new."""
        number = self._number(key)
        self._made.setdefault(number, made)
        value = Value(number, place, number if form is None else form)
        if place is not None:
            self._first.setdefault(number, value)
        return value

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _place(self, equation: Any, frame: int) -> Place | None:
        """The statement that an equation comes from."""
        traceback = equation.source_info.traceback
        if traceback is None:
            return None
        lines = (
            traceback.code_addr2line(code, instruction)
            for code, instruction in zip(*map(reversed, traceback.raw_frames()), strict=True)
            if code.co_filename == self.program.file
        )
        place = statements.outermost(self.program, lines)
        return None if place is None else Place(*place, frame)

    # -- values --------------------------------------------------------------------------------

    def value(self, number: int) -> Any:
        """The value of that number, computed now by binding the primitives that made it."""
        if number not in self._values:
            by, params, operands, index = self._made[number]
            if by is None:
                self._values[number] = params
            else:
                results = by.bind(*map(self.value, operands), **params)
                self._values[number] = results[index] if by.multiple_results else results
        return self._values[number]


def _needed(closed: Any) -> Any:
    """A jaxpr without equations that nothing reads: a compiler leaves them out."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.out_avals), instantiate=True)
    return closed.replace(jaxpr=jaxpr)


def _as_words(parameter: Any) -> object:
    """A hashable stand-in for an equation's parameter, equal for equal parameters. Uncommon types are
    turned into text without addresses."""
    kind = type(parameter)
    if kind is tuple:
        return tuple(map(_as_words, parameter))
    if parameter is None or kind in _PLAIN or isinstance(parameter, np.dtype):
        return kind, parameter
    return _ADDRESS.sub("", str(parameter))


def _is_cotangent(array: Any) -> bool:
    """Whether an array may be what a program gives a backward pass: a one or a zero."""
    return np.shape(array) == () and np.asarray(array) in (0, 1)


def is_key(value: Any) -> bool:
    """Whether a value is an array of keys."""
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def signatures(walk: Walk, events: Sequence[Event]) -> Mapping[Site, Signature]:
    """The signature of each statement, from the events of a forward pass without gradients.

    A statement has none, and is among `walk.differing`, if a flag or a number makes its executions
    differ: the gradient of one may compute what is the result of another.
    """
    results: dict[Site, set[int]] = {}
    executed: dict[Site, dict[Place, set[int]]] = {}
    masks: dict[Site, set[int]] = {}
    primitives: dict[Site, set[str]] = {}
    for event in events:
        site = event.place.site
        for value in event.results:
            if (event.place, value.number) in walk.escaped:
                results.setdefault(site, set()).add(value.form)
                by_place = executed.setdefault(site, {})
                by_place.setdefault(event.place, set()).add(value.form)
                primitives.setdefault(site, set()).add(event.primitive)
            needs = OPERATIONS[site.op].needs.values()
            own = site.op in RANDOM or any("mask" in words for sets in needs for words in sets)
            if own and event.primitive in MASKS:
                masks.setdefault(site, set()).add(value.form)
    for site, names in primitives.items():
        names |= {LAST[site.op]} if site.op in LAST else set()
    walk.differing = {s for s in results if not set.intersection(*executed[s].values())}
    return {
        site: Signature(
            frozenset(forms), frozenset(masks.get(site, ())), frozenset(primitives[site])
        )
        for site, forms in results.items()
        if site not in walk.differing
    }
