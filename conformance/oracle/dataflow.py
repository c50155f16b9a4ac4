"""The dataflow of a case: which statement made each tensor, which statements read it, and where.

`Dataflow` is the program unrolled, as one forward pass ran it: each call of a region is a `Call`, each
execution of a statement a `Step`, and each tensor has a number, its index in `Dataflow.tensors`.
How often a statement runs again in backward and how many bytes are kept are computed from it, and from
what an implementation may choose to save for backward.

A correct implementation has choices: the gradient of `tanh` may read its argument or its result, and a
framework may compute gradients of parameters that nobody asked for. Each consistent combination of
choices is an `Assumption`. The oracle counts under every one; what any of them comes to is allowed.

A residual is a tensor of the forward pass that a gradient reads (what PyTorch calls a saved tensor). It
is named by a word: the name of an operation's argument, `out` for its result, or `mask` for what is no
tensor of the program (a dropout mask, indices of maxima, statistics of a normalisation).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from conformance.language.operations import OPERATIONS, RANDOM, SCALING
from conformance.language.reach import STEPWISE
from conformance.model.case import Case, Region, Statement
from conformance.oracle import tape

#: The name of a region (empty outside of regions), and the label of a statement (empty for the region).
Key = tuple[str, str]


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of the program: its shape, its dtype by name, and the step that made it (`None` for one
    that the program starts from)."""

    shape: tape.Shape
    dtype: str
    producer: Step | None

    @cached_property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """Bytes at its own dtype."""
        return self.size * tape.itemsize(self.dtype)

    @cached_property
    def floating(self) -> bool:
        """Whether its dtype is a floating one, so that a gradient can flow through it."""
        return tape.is_float(self.dtype)


@dataclass(eq=False)
class Call:
    """One call of a region, `parent` the call that it is inside of.

    By their numbers: `taken` are all tensors in its arguments, `saved_on_entry` those that are
    positional arguments themselves, not in a container, and `gives` those that it returned. `body` is
    what ran in it, in order; it is not changed any more once the forward pass is over.
    """

    region: Region
    parent: Call | None
    taken: tuple[int, ...]
    saved_on_entry: tuple[int, ...]
    gives: tuple[int, ...] = ()
    body: list[Step | Call] = field(default_factory=list)
    #: What its function reads by closure, whether or not that runs.
    captured: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        """The region's name, and no label."""
        return (self.region.name, "")

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls around it and itself, the outermost first."""
        return (*(self.parent.chain if self.parent else ()), self)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step in it, those of inner regions included."""
        return _steps(self.body)

    @cached_property
    def made(self) -> frozenset[int]:
        """The tensors that its steps made."""
        return frozenset(n for step in self.steps for n in step.results)

    @cached_property
    def kept(self) -> frozenset[int]:
        """The tensors made in it, outside of inner regions, that the policy of its region keeps."""
        kept = (item for item in self.body if isinstance(item, Step) and item.kept)
        return frozenset(n for step in kept for n in step.results)

    @cached_property
    def read(self) -> frozenset[int]:
        """The tensors among the arguments of its steps, and of the calls in it."""
        given = (i.taken if isinstance(i, Call) else i.reads for i in walk(self.body))
        return frozenset(number for numbers in given for number in numbers)

    @cached_property
    def held(self) -> frozenset[int]:
        """All tensors that go into it, or that are read in it."""
        return self.read.union(self.taken, self.captured)


@dataclass(eq=False)
class Step:
    """One execution of a statement in the forward pass.

    `call` is the innermost call of a region around it, `arguments` are the numbers of its tensors by
    the operation's argument names, and `results` those of the tensors that it made.
    """

    statement: Statement
    call: Call | None
    arguments: Mapping[str, tuple[int, ...]]
    results: tuple[int, ...] = ()

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls of regions around it, the outermost first."""
        return self.call.chain if self.call else ()

    @property
    def key(self) -> Key:
        """The region's name and the statement's label."""
        return (self.call.region.name if self.call else "", self.statement.label)

    @property
    def kept(self) -> bool:
        """Whether the policy of the region around it keeps its results."""
        return self.call is not None and self.call.region.saves(self.statement)

    def named(self, word: str) -> tuple[int, ...]:
        """The numbers of the tensors that a residual's word stands for; none for a mask."""
        return self.results if word == "out" else self.arguments.get(word, ())

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The numbers of all tensors among its arguments."""
        return tuple(n for numbers in self.arguments.values() for n in numbers)

    @cached_property
    def mask_reads(self) -> tuple[int, ...]:
        """The numbers of the tensors that its mask depends on: none for what is drawn, and none that it
        only adds, whose gradient reads nothing, such as the bias of a normalisation."""
        if self.statement.op in RANDOM:
            return ()
        needs = OPERATIONS[self.statement.op].needs
        added = {name for name, ways in needs.items() if not any(ways)}
        return tuple(n for name, ns in self.arguments.items() if name not in added for n in ns)


class Dataflow:
    """One forward pass of a case, unrolled.

    `body` is what ran outside of regions, and the calls of regions, in order. `leaves` are the tensors
    that the program starts from, by name; `outputs`, `loss` and `second_loss` are the tensors that
    it returns and those that are differentiated (before they are summed), by number.
    """

    def __init__(self) -> None:
        self.body: list[Step | Call] = []
        self.tensors: list[TensorInfo] = []
        self.leaves: dict[str, int] = {}
        self.outputs: tuple[int, ...] = ()
        self.loss: int | None = None
        self.second_loss: int | None = None

    # What follows is to be asked for once the forward pass is over.

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step, in the order of the forward pass."""
        return _steps(self.body)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a region, an outer one before its inner ones."""
        return tuple(item for item in walk(self.body) if isinstance(item, Call))

    @cached_property
    def items(self) -> tuple[Step | Call, ...]:
        """Every step, then every call."""
        return (*self.steps, *self.calls)

    @cached_property
    def passed(self) -> frozenset[int]:
        """The tensors made in one outermost region that a statement in another one reads."""
        home = {n: step.chain[0] for step in self.steps if step.chain for n in step.results}
        inside = ((step.chain[0], n) for step in self.steps if step.chain for n in step.reads)
        return frozenset(n for call, n in inside if home.get(n, call) is not call)

    def merged_into(self, call: Call) -> list[Call]:
        """The calls that take the results of a call with `merge_adjacent`: these are not kept."""
        if not call.region.merge_adjacent:
            return []
        made = call.made.intersection(call.gives)
        return [c for c in self.calls if c.parent is call.parent and made & set(c.taken)]

    def active(self, names: Iterable[str]) -> frozenset[int]:
        """The tensors that depend differentiably on the named leaves, these included."""
        active = {self.leaves[name] for name in names}
        for step in self.steps:
            if self.differentiable(step, active):
                active |= {n for n in step.results if self.tensors[n].floating}
        return frozenset(active)

    def differentiable(self, step: Step, active: set[int] | frozenset[int]) -> list[str]:
        """The names of a step's arguments that a gradient flows to, given the active tensors."""
        names: list[str] = []
        for name in OPERATIONS[step.statement.op].needs:
            for number in step.arguments.get(name, ()):  # `any` takes twice as long
                if number in active and self.tensors[number].floating:
                    names.append(name)
                    break
        return names

    def differentiated(self, active: frozenset[int], ends: Iterable[int | None]) -> frozenset[Step]:
        """The steps whose gradients are taken when `ends` are differentiated with respect to what
        `active` depends on. `None` among the ends is passed over."""
        wanted = {n for n in ends if n in active}
        steps: set[Step] = set()
        for step in reversed(self.steps):
            if wanted.isdisjoint(step.results):
                continue
            names = self.differentiable(step, active)
            if names:
                steps.add(step)
                wanted |= {n for name in names for n in step.arguments[name] if n in active}
        return frozenset(steps)

    def bent(self, active: frozenset[int], end: int | None) -> frozenset[Step]:
        """The steps that gradients of the tangent of `end` go through: their tangents depend on tensors
        that are `active`, or these tensors come from them."""
        bent: set[int] = set()
        for step in self.steps:
            if self._bends(step, active) or not bent.isdisjoint(step.reads):
                bent.update(step.results)
        tangents, values, steps = {end} & bent, set[int](), set[Step]()
        for step in reversed(self.steps):
            read = active.intersection(step.reads)
            if not tangents.isdisjoint(step.results):
                tangents |= read & bent
                values |= self._bends(step, active)
                steps.add(step)
            if not values.isdisjoint(step.results):
                values |= read
                steps.add(step)
        return frozenset(steps)

    def _bends(self, step: Step, active: frozenset[int]) -> frozenset[int]:
        """The active tensors that the tangent of a step depends on."""
        needs = OPERATIONS[step.statement.op].needs
        names = () if step.statement.op in STEPWISE else self.differentiable(step, active)
        words = {word for name in names for word in needs[name][0]}
        return active.intersection(n for word in words for n in step.named(word))


def walk(items: Iterable[Step | Call]) -> Iterator[Step | Call]:
    """The items and what is in them, in order, a call before what is in it."""
    for item in items:
        yield item
        if isinstance(item, Call):
            yield from walk(item.body)


def _steps(items: Iterable[Step | Call]) -> tuple[Step, ...]:
    return tuple(item for item in walk(items) if isinstance(item, Step))


@dataclass(frozen=True)
class Assumption:
    """One consistent way to compute the gradients of a case, whose `dataflow` it is about.

    `alternatives` has, for an operation whose gradient can be written in several ways, the index into
    what `OPERATIONS` lists under `needs`. `declared` are the residuals that the variant declares for
    operations (`residuals` in its adapter.yaml, words separated by blanks), which take precedence.
    `active` are the tensors through which gradients flow, `differentiated` the steps whose gradients
    are taken. `mask_alone`: a mask can be recomputed from what it depends on alone: that of a dropout
    without the tensor that it masks, the statistics of a normalisation without the bias.
    `merged_to_end`: a region with `merge_adjacent` that no other one follows runs again to its end.
    `through`: cheap statements outside of regions run again for the gradients that read their results.
    `mask_kept`: a policy that keeps the results of an operation keeps its mask, too.
    """

    dataflow: Dataflow
    alternatives: Mapping[str, int]
    declared: Mapping[str, str]
    active: frozenset[int]
    differentiated: frozenset[Step]
    mask_alone: bool
    merged_to_end: bool
    through: bool = False
    mask_kept: bool = True
    #: The tensors that gradients are taken with respect to, by name.
    wanted: frozenset[str] = frozenset()
    _residuals: dict[Step, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def regions(self) -> frozenset[str]:
        """The declarations about all regions, `residuals: {region: …}`: words of `REGION_RESIDUALS`."""
        return frozenset(self.declared.get("region", "").split())

    def residuals(self, step: Step) -> frozenset[str]:
        """The words for what the gradients of a step read; none where no gradient flows through it."""
        if step not in self._residuals:
            op = step.statement.op
            names, needed = self.dataflow.differentiable(step, self.active), set[str]()
            for name in names:
                needed |= self._needed(op, name)
            # The factor of `multiply(x, 2.0)` is no tensor, nor the divisor of `divide(x, 2.0)`.
            words = {w for w in needed if step.named(w) or w not in OPERATIONS[op].tensors}
            if words and "together" in self.regions:
                words = words.union(*(self._needed(op, name) for name in OPERATIONS[op].needs))
            if op in self.declared and names and (words or not needed):
                declared = self.declared[op].split()
                words = {w for w in declared if step.named(w) or w not in OPERATIONS[op].tensors}
                if "elements" in words and not self.dataflow.tensors[step.results[0]].size:
                    words = set()
                if "asked" in words:
                    words -= set(OPERATIONS[op].tensors).difference(names)
                words -= {"asked", "elements"}
            if step.statement.options.get("times") == 1 and op not in self.declared:
                words.discard("mask")  # a loop that runs once has no results but its last one
            if "numbers" in self.regions and op in SCALING and names and len(step.reads) == 1:
                words.add("number")
            self._residuals[step] = frozenset(words)
        return self._residuals[step]

    def _needed(self, op: str, name: str) -> frozenset[str]:
        """The words for what the gradient with respect to an argument of an operation reads."""
        needs = OPERATIONS[op].needs[name]
        return needs[min(self.alternatives.get(op, 0), len(needs) - 1)]

    def read(self, step: Step) -> list[int]:
        """The numbers of the tensors that the gradients of a step read."""
        return [number for word in self.residuals(step) for number in step.named(word)]

    def runs_plainly(self, call: Call) -> bool:
        """Whether the variant does not recompute a call: it is the last segment of a sequence."""
        segment = call.region.segment
        return "last" in self.regions and segment is not None and segment.last


def _has_mask(step: Step) -> bool:
    """Whether a gradient of a step may read a mask."""
    needs = OPERATIONS[step.statement.op].needs.values()
    return any("mask" in words for ways in needs for words in ways)


def assumptions(
    case: Case, dataflow: Dataflow, declared: Mapping[str, str], *, alternatives: bool
) -> Iterator[Assumption]:
    """Every consistent way to compute the gradients of a case.

    Without `alternatives`, only the first choice that `OPERATIONS` lists is used. Each comes in up to
    three forms: gradients are computed for all tensors that require one; only for those in `Case.wrt`
    and, in training, for parameters; or only for the latter, but with residuals kept as for the former.
    """
    used = sorted({step.statement.op for step in dataflow.steps})
    ways: dict[str, range] = {}
    for op in used if alternatives else ():
        count = max((len(sets) for sets in OPERATIONS[op].needs.values()), default=1)
        if count > 1 and op not in declared:
            ways[op] = range(count)
    asking = [array.name for array in case.arrays if array.gradient]
    trained = case.parameters if case.procedure.kind == "train" else ()
    asked = {*case.wrt, *(array.name for array in trained if array.gradient)}
    pairs = {(frozenset(asking), frozenset(asked))}
    pairs |= {(frozenset(names), frozenset(names)) for names in (asking, asked)}
    masked = any(step.mask_reads != step.reads for step in dataflow.steps if _has_mask(step))
    masks = (True, False) if alternatives and masked else (True,)
    merged = any(region.merge_adjacent for region in case.regions())
    ends = () if dataflow.loss is None else (dataflow.loss,)
    for kept, wanted in sorted(pairs, key=lambda p: (sorted(p[0]), sorted(p[1]))):
        active = dataflow.active(kept)
        differentiated = dataflow.differentiated(dataflow.active(wanted), ends)
        for indices, alone, to_end in itertools.product(
            itertools.product(*ways.values()), masks, (True, False) if merged else (False,)
        ):
            chosen = dict(zip(ways, indices, strict=True))
            words = (active, differentiated, alone, to_end)
            made = Assumption(dataflow, chosen, declared, *words, wanted=wanted)
            yield made
            if "cheap" in made.regions:
                yield replace(made, through=True)
            if any(step.kept and "mask" in made.residuals(step) for step in dataflow.steps):
                yield replace(made, mask_kept=False)
