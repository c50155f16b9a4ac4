"""The bytes of tensors that are kept between forward and backward: those of the plain run, where no
region is recomputed, and those of the recomputed one."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.observation import ExpectedMemory
from conformance.oracle.assumptions import (
    COSTLY,
    Assumption,
    assumptions,
    kept_by_policy,
    runs_plainly,
)
from conformance.oracle.dataflow import Call, Dataflow, Step
from conformance.oracle.ledger import VIEWS, Kept, Ledger
from conformance.oracle.minimal import Unit, minimal_units
from conformance.oracle.peaks import peaks


def expected_memory(case: Case, dataflow: Dataflow, declared: Mapping[str, str]) -> ExpectedMemory:
    """Bytes beyond inputs, parameters, state, outputs and loss, at the tensors' own dtypes.

    The least and the most over every assumption, over reshaped tensors that are views or copies, and
    over narrow and wide masks. `declared` is what the variant declares of residuals, see `expect`.
    """
    plain: list[int] = []
    recomputed: list[int] = []
    drops: list[int] = []
    pairs: list[tuple[int, int]] = []
    for assumed in assumptions(case, dataflow, declared, alternatives=True):
        alive = _differentiable(dataflow, assumed)
        units = minimal_units(dataflow, assumed)
        factors = "factors" in assumed.regions
        for views, wide in _layouts(dataflow, assumed):
            ledger = Ledger(dataflow, views=views, wide=wide, factors=factors)
            before = _plain(dataflow, assumed, ledger, alive)
            least, most = (
                sum(k.values()) for k in _recomputed(dataflow, assumed, ledger, alive, units)
            )
            spared = before
            if "cheap" in assumed.regions:
                spared = _spared(dataflow, assumed, ledger, alive)
            plain += [before, spared]
            recomputed += [least, most]
            drops.append(min(before, spared) - most)
            if not (views or wide):
                pairs.append(peaks(dataflow, assumed, ledger, alive))
    sizes = [t.nbytes for t in dataflow.tensors if t.producer is not None and t.floating]
    return ExpectedMemory(
        plain=(min(plain), max(plain)),
        recomputed=(min(recomputed), max(recomputed)),
        drop=max(0, min(drops)),
        unit=max(sizes, default=0),
        peaks=min(pairs, key=lambda pair: pair[0] - pair[1], default=(0, 0)),
        states=sum(map(_random_states, dataflow.calls())),
    )


def _layouts(dataflow: Dataflow, assumed: Assumption) -> Iterable[tuple[bool, bool]]:
    """The ways to lay out what is kept, as (views, wide) of a `Ledger`, those left out that differ in
    nothing: without a reshaped tensor, or without a mask."""
    views = any(step.statement.op in VIEWS for step in dataflow.steps)
    masks = any("mask" in assumed.residuals(dataflow, step) for step in dataflow.steps)
    return itertools.product((True, False) if views else (False,), (False, True)[: 1 + masks])


def keepers(
    case: Case, dataflow: Dataflow, declared: Mapping[str, str]
) -> tuple[frozenset[Step], frozenset[Step]]:
    """The steps whose results or masks the recomputed run keeps between forward and backward: (under
    every assumption, under at least one)."""
    always: set[Step] | None = None
    ever: set[Step] = set()
    for assumed in assumptions(case, dataflow, declared, alternatives=True):
        ledger = Ledger(dataflow, views=False, wide=False)
        alive = _differentiable(dataflow, assumed)
        units = minimal_units(dataflow, assumed)
        least, most = (
            {_keeper(dataflow, key) for key in kept}
            for kept in _recomputed(dataflow, assumed, ledger, alive, units)
        )
        ever |= {step for step in most if step is not None}
        kept_steps = {step for step in least if step is not None}
        always = kept_steps if always is None else always & kept_steps
    return frozenset(always or ()), frozenset(ever)


def _keeper(dataflow: Dataflow, key: int | Step | tuple[Step, str]) -> Step | None:
    """The step that made an entry of `Kept`; `None` for a tensor that the program starts from."""
    if isinstance(key, int):
        return dataflow.tensors[key].producer
    return key if isinstance(key, Step) else key[0]


def _random_states(call: Call) -> int:
    """Copies of the random state that a call of a region may keep: one, or one for each statement that
    draws, since a compiler may keep it by operation. An inner region keeps none, since it reads the
    state again when the outer one is rerun."""
    if call.parent is not None or not call.region.preserve_rng:
        return 0
    return max(1, sum(step.statement.op in RANDOM for step in call.steps))


def _differentiable(dataflow: Dataflow, assumed: Assumption) -> frozenset[Step]:
    """The steps whose gradients could be taken from what the program returns."""
    ends = (*dataflow.outputs, *(() if dataflow.loss is None else (dataflow.loss,)))
    return dataflow.differentiated(assumed.active, ends)


def _plain(dataflow: Dataflow, assumed: Assumption, ledger: Ledger, alive: Iterable[Step]) -> int:
    """Bytes of all residuals: what the plain run keeps."""
    kept: Kept = {}
    for step in alive:
        ledger.add_residuals(kept, step, assumed.residuals(dataflow, step))
    return sum(kept.values())


def _spared(dataflow: Dataflow, assumed: Assumption, ledger: Ledger, alive: Iterable[Step]) -> int:
    """Bytes that the plain run keeps if a compiler runs all cheap operations again: masks, and the
    results of costly operations that residuals are computed from."""
    kept: Kept = {}
    producers = {n: step for step in dataflow.steps for n in step.results}
    wanted: list[int] = []
    for step in alive:
        for word in assumed.residuals(dataflow, step):
            if word == "mask" and step.statement.op == "loop_sin":
                wanted += step.reads
            elif word == "mask":
                kept[step] = ledger.mask(step)
            else:
                wanted += step.results if word == "out" else step.arguments.get(word, ())
    seen: set[int] = set()
    while wanted:
        number = wanted.pop()
        if number in seen:
            continue
        seen.add(number)
        producer = producers.get(number)
        if producer is None or producer.statement.op in COSTLY:
            ledger.add(kept, [number])
        else:
            wanted += producer.reads
    return sum(kept.values())


def _recomputed(
    dataflow: Dataflow,
    assumed: Assumption,
    ledger: Ledger,
    alive: frozenset[Step],
    units: Iterable[Unit],
) -> tuple[Kept, Kept]:
    """What the recomputed run keeps, (least, most): a region keeps only the outside tensors that its
    gradients need, or all its arguments, results and captured tensors."""
    least: Kept = {}
    for step in alive:
        if "program" in assumed.regions:
            continue
        if step.call is None or runs_plainly(step.call, assumed):
            ledger.add_residuals(least, step, assumed.residuals(dataflow, step))
    most = dict(least)
    for unit in units:
        if unit.calls[0].parent is not None or runs_plainly(unit.calls[0], assumed):
            continue
        if not alive.isdisjoint(unit.steps):
            taken = {n for call in unit.calls for n in (*call.taken, *call.gives)}
            ledger.add(most, (unit.read | taken).difference(unit.producers))
            ledger.add(least, unit.reads)
            for kept in (least, most):
                ledger.add(kept, unit.kept_results)
            for call in unit.calls:
                ledger.add(most, kept_by_policy(call))
    return least, most
