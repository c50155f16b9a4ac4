"""The bytes of tensors that are kept between forward and backward, and the most that are held at any
time: those of the plain run, where no region is recomputed, and those of the recomputed one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.language.operations import CASTS, COSTLY, OPERATIONS, RANDOM, SCALING, VIEWS
from conformance.model.case import Case
from conformance.model.observation import ExpectedMemory
from conformance.model.steps import ever_asking
from conformance.oracle import tape
from conformance.oracle.dataflow import Assumption, Call, Dataflow, Step, assumptions
from conformance.oracle.executions import Unit, minimal_units

#: Bytes by what is kept: a tensor by its number, the mask of a step, the factor of its gradient, or what
#: a tensor is cast to.
_Kept = dict[int | Step | tuple[Step | int, str], int]
#: Operations whose gradient is a product with a factor that they can already compute in forward.
_SINES = frozenset(
    {"sin", "cos", "noted_sin", "sin_or_cos", "switched_sin", "counted_sin", "accumulate_sin"}
)
_FACTORS = _SINES | {"slope_of_sin", "loop_sin", "tanh", "sigmoid", "softmax", "sqrt", "square"}
#: Operations that give a part of a complex tensor, which may be a view of all of it.
_PARTS = frozenset(o.name for o in OPERATIONS.values() if o.parts)
#: Operations that may keep the deviations from a mean in place of their argument.
_NORMALISING = frozenset({"batch_norm", "layer_norm"})
#: Operations whose mask holds the place of a maximum for each element of the result.
_INDICES = frozenset({"max", "max_pool2d"})


def expected_memory(
    case: Case, dataflow: Dataflow, declared: Mapping[str, str], discipline: str
) -> ExpectedMemory:
    """Bytes beyond inputs, parameters, state, outputs and loss, at the tensors' own dtypes.

    The least and the most over every assumption, over reshaped tensors that are views or copies, and
    over narrow and wide masks. `declared` is what the variant declares of residuals, see `expect`.
    """
    plain: list[int] = []
    recomputed: list[int] = []
    both: list[tuple[int, int]] = []
    pairs: list[tuple[int, int]] = []
    for assumed in assumptions(case, dataflow, declared, alternatives=True):
        own = (dataflow.loss, dataflow.second_loss)
        ends = own if "loss" in assumed.regions else (*dataflow.outputs, dataflow.loss)
        alive = dataflow.differentiated(assumed.active, ends)
        held = _held(dataflow, assumed.active, ends)
        units = minimal_units(assumed)
        # Without a reshaped tensor, or without a mask, ways to lay them out differ in nothing.
        ops = {step.statement.op for step in dataflow.steps}
        views = (True, False) if ops & VIEWS else (False,)
        parts = ("apart", "shared", "copied") if ops & _PARTS else ("apart",)
        masks = any(
            "mask" in assumed.residuals(step) or _padded(dataflow, step) or _by_reciprocal(step)
            for step in dataflow.steps
        )
        for view, part, wide in itertools.product(views, parts, (False, True)[: 1 + masks]):
            shared = frozenset().union(VIEWS if view else (), _PARTS if part != "apart" else ())
            lower, copied = bool(case.autocast), part == "copied"
            way = _Way(assumed, alive, held, shared, wide, lower, copied)
            before = way.plain()
            least, most = way.recomputed(units)
            spared = way.spared() if "cheap" in assumed.regions else before
            plain += [before, spared]
            recomputed += [least, most]
            both.append((min(before, spared), most))
            if not (shared or wide):
                pairs.append(
                    (_Backward(way).peak(dataflow.steps), _Backward(way).peak(dataflow.body))
                )
    sizes = [t.nbytes for t in dataflow.tensors if t.producer is not None and t.floating]
    # Under autocast, activations may have half of their bytes; so may what a region keeps, unless it was
    # cast back.
    low = case.autocast or any(region.autocast for region in case.regions())
    makers = (dataflow.tensors[n].producer for call in dataflow.calls for n in call.held)
    cast = any(step is not None and step.statement.op in CASTS for step in makers)
    half, of_kept = 2 if low else 1, 2 if low and not cast else 1
    return ExpectedMemory(
        plain=(min(plain), max(plain)),
        recomputed=(min(recomputed), max(recomputed)),
        drop=max(0, min(before // half - most // of_kept for before, most in both)),
        rise=max(0, max(most - before for before, most in both)),
        unit=max((1, *sizes)),
        peaks=min(pairs, key=lambda pair: pair[0] - pair[1], default=(0, 0)),
        states=sum(_random_states(call, discipline == "minimal") for call in dataflow.calls),
        left=_left(case, dataflow),
        outside=sum(
            dataflow.tensors[n].nbytes for s in dataflow.steps if s.call is None for n in s.results
        ),
    )


def _left(case: Case, dataflow: Dataflow) -> tuple[int, int]:
    """The tensors, and their bytes, that outermost regions keep after the backward passes, since these
    do not go through all of their graph: what the regions read, and what leads to it."""
    # What is frozen in one step may have a graph in another.
    asking = ever_asking(case)
    active = dataflow.active(asking)
    # With `part`, backward goes to the tensors that are asked for alone.
    wanted = dataflow.active(case.wrt) if case.procedure.kind == "part" else active
    # Gradients that are differentiated themselves leave the graph of forward as it is.
    ends = () if case.procedure.order > 1 else (dataflow.loss, dataflow.second_loss)
    freed = dataflow.differentiated(wanted, ends)
    held = _held(dataflow, active, dataflow.outputs) - freed
    calls = [c for c in dataflow.calls if c.parent is None and not held.isdisjoint(c.steps)]
    kept = {n for call in calls for n in call.held - call.made}
    # Regions that are made once are methods of an object, which holds all that the program starts from.
    kept |= {*dataflow.leaves.values()} if calls and case.procedure.made == "once" else set()
    # The graph of an argument that no gradient reads is not in the plain run.
    more = held - dataflow.differentiated(active, dataflow.outputs)
    outside = [step for step in more if step.call is None]
    kept |= {n for step in outside for n in (*step.reads, *step.results)}
    # Under autocast, what an operation reads is also kept in low precision.
    lowered = [s for s in outside if case.autocast and OPERATIONS[s.statement.op].lowered]
    every = [*kept, *(n for step in lowered for n in step.reads)]
    return len(every), sum(dataflow.tensors[n].nbytes for n in every)


def _held(
    dataflow: Dataflow, active: frozenset[int], ends: Iterable[int | None]
) -> frozenset[Step]:
    """The steps that may save residuals in the recomputed run: those that the ends depend on, and those
    that arguments of regions do. A region keeps an argument that no gradient reads, and so its graph."""
    kept: set[int | None] = set(ends)
    while True:
        held = dataflow.differentiated(active, kept)
        calls = [call for call in dataflow.calls if not held.isdisjoint(call.steps)]
        taken = {n for call in calls if call.parent is None for n in call.held}
        if taken <= kept:
            return held
        kept |= taken


def _random_states(call: Call, compiled: bool) -> int:
    """Copies of the random state that a call of a region may keep: one, or one for each statement that
    draws, since a compiler may keep it by operation. An inner region keeps none, since it reads the
    state again when the outer one is rerun."""
    if call.parent is not None or not call.region.preserve_rng:
        return 0
    draws = sum(step.statement.op in RANDOM for step in call.steps)
    return max(1, draws) if compiled else 1


@dataclass(frozen=True)
class _Way:
    """One way to run a case: what is assumed, the steps that save residuals in the plain run (`alive`)
    and at most in the recomputed one (`held`), and how what is kept is laid out.

    The results of operations in `views` share the memory of their argument. With `wide`, masks take the
    most bytes per element that implementations use, a convolution keeps a copy with zeros, a
    normalisation deviations, and a division of a number the divisor's inverse, else the least. Where
    the variant says `factors`, `sin`, `cos` and `tanh` keep the factor of their gradient, an array other
    than the program's tensors, and `abs` a byte per element, the sign.
    """

    assumed: Assumption
    alive: frozenset[Step]
    held: frozenset[Step]
    views: frozenset[str]
    wide: bool
    #: Whether the program runs under autocast.
    low: bool = False
    #: Whether what is saved of such a view is a copy, since kernels cannot read these as they are. A
    #: region keeps the view.
    copied: bool = False

    @property
    def dataflow(self) -> Dataflow:
        return self.assumed.dataflow

    @cached_property
    def free(self) -> Set[int]:
        """Tensors that the program starts from or returns: they are held anyway, and never counted."""
        flow = self.dataflow
        return {self.root(n) for n in (*flow.leaves.values(), *flow.outputs)}

    def root(self, number: int) -> int:
        """The number of the tensor that owns a tensor's memory."""
        tensors = self.dataflow.tensors
        while (step := tensors[number].producer) is not None:
            operation = OPERATIONS[step.statement.op]
            # A hook is on the tensor itself; a view may be another tensor.
            if not operation.hooks and operation.name not in self.views:
                break
            source = step.arguments["x"][0]
            same = tensors[source].dtype == tensors[number].dtype
            if not same and step.statement.op not in _PARTS:
                break
            number = source
        return number

    def tensors(self, numbers: Iterable[int]) -> _Kept:
        """What is kept of tensors, by number: shared memory once."""
        roots = {self.root(number) for number in numbers}
        return {n: self.dataflow.tensors[n].nbytes for n in roots - self.free}

    def residuals(self, step: Step) -> _Kept:
        words: Iterable[str] = self.assumed.residuals(step)
        kept: _Kept = {step: self.mask(step)} if "mask" in words else {}
        if "number" in words:
            kept[step, "number"] = tape.itemsize(self.dataflow.tensors[step.results[0]].dtype)
        if self.wide and "x" in words and (size := _padded(self.dataflow, step)):
            kept = {(step, "padded"): size}
        if self.wide and "x" in words and step.statement.op in _NORMALISING:
            kept[step, "deviation"] = self.dataflow.tensors[step.results[0]].nbytes
            words = set(words) - {"x"}
        if self.wide and _by_reciprocal(step):
            kept[step, "reciprocal"] = self.dataflow.tensors[step.results[0]].nbytes
        if "factors" not in self.assumed.regions:
            pass
        elif step.statement.op in _FACTORS:
            # Of a loop, a factor for each iteration; of a gradient taken inside, its cotangent, too.
            inside = step.statement.op == "slope_of_sin"
            times = step.statement.options.get("times", 2 if inside else 1)
            assert isinstance(times, int)
            kept = {(step, "factor"): self.dataflow.tensors[step.results[0]].nbytes * times}
            words = {"out"} if step.statement.op == "tanh" else ()  # (1 + out) times (1 - out)
        elif step.statement.op == "abs":
            kept, words = {(step, "sign"): self.dataflow.tensors[step.results[0]].size}, ()
        elif step.statement.op in SCALING and len(step.reads) == 1:
            # The number, as an array of its own.
            kept = {(step, "factor"): tape.itemsize(self.dataflow.tensors[step.results[0]].dtype)}
        read = {n for word in words for n in step.named(word)}
        views = {n for n in read if self.root(n) != n} if self.copied else set[int]()
        size = sum(self.dataflow.tensors[n].nbytes for n in views)
        return kept | self.tensors(read - views) | ({(step, "copies"): size} if size else {})

    def mask(self, step: Step) -> int:
        """Bytes of a mask: one to four per element of the result, as many as its dtype has for what is
        drawn; indices of maxima one to eight.

        A normalisation keeps two numbers per mean, at the dtype of its result or four bytes each;
        `rrelu` its slopes, and `slope_of_sin` the cotangent inside it, as large as the result;
        `loop_sin` the results of all iterations but one; `solve` the factors of its matrix, and where
        its rows went.
        """
        op, out = step.statement.op, self.dataflow.tensors[step.results[0]]
        if not out.size:
            return 0
        if op in ("batch_norm", "layer_norm"):
            gamma = self.dataflow.tensors[step.arguments["gamma"][0]]
            means = gamma.size if op == "batch_norm" else out.size // max(1, gamma.size)
            return 2 * means * (4 if self.wide else out.nbytes // max(1, out.size))
        if op in ("rrelu", "slope_of_sin"):
            return out.nbytes
        if op == "solve":
            a = self.dataflow.tensors[step.arguments["a"][0]]
            return a.nbytes + math.isqrt(a.size) * (8 if self.wide else 4)
        if op == "loop_sin":
            times = step.statement.options["times"]
            assert isinstance(times, int)
            return out.nbytes * (times - 1)
        if not self.wide:
            return out.size
        most = 8 if op in _INDICES else max(4, out.nbytes // out.size) if op in RANDOM else 4
        return out.size * most

    def plain(self) -> int:
        """Bytes of all residuals: what the plain run keeps."""
        return _bytes(map(self.residuals, self.alive))

    def spared(self) -> int:
        """Bytes that the plain run keeps if a compiler runs all cheap operations again: masks, and the
        results of costly operations that residuals are computed from."""
        masks: _Kept = {}
        wanted: list[int] = []
        for step in self.alive:
            for word in self.assumed.residuals(step):
                if word == "mask" and step.statement.op == "loop_sin":
                    wanted += step.reads
                elif word == "mask":
                    masks[step] = self.mask(step)
                else:
                    wanted += step.named(word)
        seen: set[int] = set()
        costly: set[int] = set()
        while wanted:
            number = wanted.pop()
            producer = self.dataflow.tensors[number].producer
            if producer is None or producer.statement.op in COSTLY:
                costly.add(number)
            elif number not in seen:
                wanted += producer.reads
            seen.add(number)
        return _bytes((masks, self.tensors(costly)))

    def recomputed(self, units: Iterable[Unit]) -> tuple[int, int]:
        """Bytes that the recomputed run keeps, (least, most): a region keeps only the outside tensors
        that its gradients need, or all its arguments, results and captured tensors."""
        outermost = [
            unit
            for unit in units
            if unit.calls[0].parent is None and not self.assumed.runs_plainly(unit.calls[0])
        ]
        least: set[int] = set()
        most: set[int] = set()
        for unit in outermost:
            if not self.alive.isdisjoint(unit.steps):
                least |= unit.reads | unit.kept_results
            if not self.held.isdisjoint(unit.steps):
                around = {n for c in unit.calls for n in (*c.held, *c.gives)}
                most |= around.difference(unit.producers) | unit.kept_results
                most = most.union(*(call.kept for call in unit.calls))
        fewest = _bytes((*self.outside(self.alive), self.tensors(least)))
        # What the plain run does not keep may take the most bytes where what it keeps takes the least.
        late = replace(self, wide=True).outside(self.held - self.alive)
        added = (*late, self.tensors(most), self.casts(most), self.copies())
        return fewest, _bytes((*self.outside(self.held & self.alive), *added))

    def casts(self, kept: Set[int]) -> _Kept:
        """What autocast keeps in low precision outside of regions and the plain run does not: of tensors
        that regions keep as they are, or in the graph of an argument."""
        steps = [s for s in self.held if s.call is None and OPERATIONS[s.statement.op].lowered]
        both = kept & {n for step in steps for n in step.reads}
        late = {n for step in steps if step not in self.alive for n in step.reads}
        tensors = self.dataflow.tensors
        return {(n, "cast"): tensors[n].nbytes // 2 for n in both | late if self.low}

    def copies(self) -> _Kept:
        """What may be kept in the graph of a region's argument, and not in the plain run, in place of
        views: kernels that cannot read these as they are save a copy for each argument."""
        late = [step for step in self.held - self.alive if step.call is None]
        return {
            (step, word): sum(self.dataflow.tensors[n].nbytes for n in views)
            for step in late
            for word in self.assumed.residuals(step)
            if (views := [n for n in step.named(word) if self.root(n) != n])
        }

    def outside(self, steps: Iterable[Step]) -> list[_Kept]:
        """What the steps among these keep that are not recomputed."""
        if "program" in self.assumed.regions:
            return []
        plainly = self.assumed.runs_plainly
        return [self.residuals(s) for s in steps if s.call is None or plainly(s.call)]


def _by_reciprocal(step: Step) -> bool:
    """Whether it divides a number by a tensor: PyTorch takes 1 / b first, and keeps it."""
    return step.statement.op == "divide" and not step.arguments.get("a")


def _padded(dataflow: Dataflow, step: Step) -> int:
    """Bytes of a copy that a convolution may make of its argument, a row or a column of zeros longer,
    where it needs more zeros on one side than on the other; else 0."""
    if step.statement.options.get("padding") != "same":
        return 0
    x, w = (dataflow.tensors[step.arguments[name][0]] for name in "xw")
    stride = step.statement.options.get("stride", 1)
    assert isinstance(stride, int)
    window = tape.Window.of(x.shape, w.shape[2:], stride, "same")
    uneven = [before != after for before, after in window.zeros]
    longer = math.prod(n + more for n, more in zip(x.shape, uneven, strict=True))
    return longer * tape.itemsize(x.dtype) if any(uneven) else 0


def _bytes(parts: Iterable[_Kept]) -> int:
    return sum({key: size for kept in parts for key, size in kept.items()}.values())


class _Backward:
    """Bytes held during a backward pass that goes through the statements in reverse and frees each value
    after its last use: outputs, what is kept, and cotangents not yet used (`flowing`).

    A region is rerun as a whole before the first gradient inside it is computed. A region inside it
    keeps what it reads until it is rerun itself.
    """

    def __init__(self, way: _Way) -> None:
        self.way, self.dataflow = way, way.dataflow
        self.saved: dict[Step | Call, _Kept] = {}
        #: How many statements and regions read what is kept.
        self.readers: Counter[object] = Counter()
        self.cotangents: dict[int, int] = {}
        self.kept = self.flowing = self.most = 0
        tensors = [self.dataflow.tensors[n] for n in set(self.dataflow.outputs)]
        self.outputs = sum(t.nbytes for t in tensors if t.producer is not None)

    def peak(self, items: Sequence[Step | Call]) -> int:
        """The most bytes held, beyond what the program starts from, at the tensors' own dtypes. `items`
        are what runs: every region recomputed, or only statements."""
        flow = self.dataflow
        self.keep(items)
        self.add_cotangents(flow.outputs if flow.loss is None else (flow.loss,))
        self.back(items)
        return self.most

    def keep(self, items: Iterable[Step | Call]) -> None:
        for item in items:
            self.saved[item] = self.residuals(item)
            for key, size in self.saved[item].items():
                if not self.readers[key]:
                    self.kept += size
                self.readers[key] += 1
        self.note()

    def free(self, item: Step | Call) -> None:
        """Free what a statement or region saved and no other one reads."""
        for key, size in self.saved[item].items():
            self.readers[key] -= 1
            if not self.readers[key]:
                self.kept -= size

    def residuals(self, item: Step | Call) -> _Kept:
        """What a statement's gradients read, or what a region keeps of what is around it."""
        way = self.way
        if isinstance(item, Step):
            return way.residuals(item) if item in way.alive else {}
        if way.assumed.runs_plainly(item):
            return {k: n for step in item.steps for k, n in self.residuals(step).items()}
        if way.alive.isdisjoint(item.steps):
            return {}
        return way.tensors((item.read.union(item.taken) - item.made) | item.kept)

    def back(self, items: Sequence[Step | Call]) -> None:
        for item in reversed(items):
            if isinstance(item, Step):
                self.differentiate(item)
            else:
                self.keep(item.body)
                self.back(item.body)
            self.free(item)

    def differentiate(self, step: Step) -> None:
        """Take the gradients of a step's arguments, and free those of its results."""
        active = self.way.assumed.active
        if step not in self.way.assumed.differentiated:
            return
        names = self.dataflow.differentiable(step, active)
        self.add_cotangents(n for name in names for n in step.arguments[name] if n in active)
        self.note()
        for number in step.results:
            self.flowing -= self.cotangents.pop(number, 0)

    def add_cotangents(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self.cotangents:
                self.cotangents[number] = self.dataflow.tensors[number].nbytes
                self.flowing += self.cotangents[number]

    def note(self) -> None:
        self.most = max(self.most, self.outputs + self.kept + self.flowing)
