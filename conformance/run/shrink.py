"""A smaller case that still fails: statements, tensors, outputs and sizes are taken away one by one.

A pure search over frozen cases. Whether a case still fails is for the caller to say; a candidate that
makes no sense any more simply does not fail in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from conformance.model.case import (
    Again,
    Array,
    Case,
    Fill,
    FlatNode,
    Node,
    Procedure,
    Ref,
    Region,
    Repeat,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    node_reads,
)

#: Candidates that are tried, and seconds that they may take, where nobody says otherwise.
TRIES, SECONDS = 120, 60.0
#: What a size is made.
_SMALL = 2
_N = TypeVar("_N", bound=Node)


def shrink(
    case: Case,
    fails: Callable[[Case], bool],
    *,
    tries: int = TRIES,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Case:
    """The smallest case found that `fails`; the one given where none is, or none was in time.

    Greedy: the first candidate that fails is taken, and candidates are made anew from it.
    """
    end = clock() + seconds
    seen = [case]  # cases hold dicts, and have no hash
    smallest = case
    while True:
        for candidate in candidates(smallest):
            if candidate in seen:
                continue
            if not tries or clock() > end:
                return smallest
            seen.append(candidate)
            tries -= 1
            if fails(candidate):
                smallest = candidate
                break
        else:
            return smallest


def candidates(case: Case) -> Iterator[Case]:
    """Cases with one thing less each, those first that save most. Each has all names that it reads."""
    for changed in _candidates(case):
        tidy = _tidied(changed)
        if _is_whole(tidy):
            yield tidy


def _candidates(case: Case) -> Iterator[Case]:
    for program in _without_one(case.program):
        yield replace(case, program=program)
    if not isinstance(case.outputs, Ref) and case.loss is not None:
        yield replace(case, outputs=Ref(case.loss.name))
    for name in case.wrt:
        if len(case.wrt) > 1:
            yield replace(case, wrt=(name,))
    plainer = Procedure(case.procedure.kind, case.procedure.steps, case.procedure.learning_rate)
    yield replace(case, procedure=plainer)
    yield replace(case, procedure=replace(case.procedure, steps=1))
    yield replace(case, law=None, printed_gradients={}, printed_executions={}, hooks=())
    sizes = {size for array in case.arrays for size in array.shape if size > _SMALL}
    if sizes:
        yield _resized(case, dict.fromkeys(sizes, _SMALL))
    for size in sorted(sizes, reverse=True):
        yield _resized(case, {size: _SMALL})
    yield _each_array(case, lambda a: replace(a, fill=Fill("full", (1.0,))) if _is_drawn(a) else a)


def _without_one(nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Lists of nodes with one less, with a region's body in its place, or with an iteration less."""
    for number in reversed(range(len(nodes))):
        node, before, after = nodes[number], nodes[:number], nodes[number + 1 :]
        if isinstance(node, Repeat):
            for fewer in (*_without_an_iteration(node), *_without_one(tuple(flat((node,))))):
                yield (*before, *fewer, *after)
            continue
        yield (*before, *_bypassed(node, after))
        yield (*_made_before(node, before), *after)
        yield (*before, *after)
        if isinstance(node, Region):
            if node.called:
                yield (*before, *node.body, *after)
            for body in _without_one(node.body):
                yield (*before, replace(node, body=body), *after)


def _without_an_iteration(node: Repeat) -> Iterator[tuple[Node, ...]]:
    """The nodes of a repetition without one of its iterations, the last one first."""
    for place in reversed(range(len(node.numbers))):
        left = Repeat(node.body, node.numbers[:place] + node.numbers[place + 1 :])
        yield (left,) if len(left.numbers) > 1 else left.iterations[0]


def _bypassed(node: FlatNode, after: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes after a node, reading its first input in place of its results."""
    read = node_reads(node)
    if not read:
        return after
    words = dict.fromkeys(node_makes(node), read[0])
    return tuple(_renamed(part, words) for part in after)


def _made_before(node: FlatNode, before: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes before a node, with the statement that made its input producing its result
    directly.
    """
    reads, results = node_reads(node), node_makes(node)
    if not reads or len(results) != 1:
        return before
    return tuple(
        replace(part, targets=results)
        if isinstance(part, Statement) and part.targets == (reads[0],)
        else part
        for part in before
    )


def _renamed(node: Node, words: Mapping[str, str]) -> Node:
    """A node that reads other names."""
    if isinstance(node, Statement):
        arguments = tuple(
            tuple(Ref(words.get(p.name, p.name)) for p in a)
            if isinstance(a, tuple)
            else Ref(words.get(a.name, a.name))
            if isinstance(a, Ref)
            else a
            for a in node.arguments
        )
        return replace(node, arguments=arguments)
    if isinstance(node, Again):
        return replace(node, takes=tuple(_tree(t, words) for t in node.takes))
    if isinstance(node, Repeat):
        return replace(node, body=tuple(_renamed(part, words) for part in node.body))
    body = tuple(_renamed(part, words) for part in node.body)
    return replace(node, takes=tuple(_tree(t, words) for t in node.takes), body=body)


def _tree(tree: Tree, words: Mapping[str, str]) -> Tree:
    if isinstance(tree, Ref):
        return Ref(words.get(tree.name, tree.name))
    if isinstance(tree, tuple):
        return tuple(_tree(part, words) for part in tree)
    if isinstance(tree, Mapping):
        return {key: _tree(part, words) for key, part in tree.items()}
    return tree


def _resized(case: Case, sizes: Mapping[int, int]) -> Case:
    return _each_array(
        case,
        lambda a: (
            replace(a, shape=tuple(sizes.get(size, size) for size in a.shape))
            if a.fill.kind != "values"
            else a
        ),
    )


def _each_array(case: Case, change: Callable[[Array], Array]) -> Case:
    inputs = tuple(change(i) if isinstance(i, Array) else i for i in case.inputs)
    parameters, state = (tuple(map(change, group)) for group in (case.parameters, case.state))
    return replace(case, inputs=inputs, parameters=parameters, state=state)


def _is_drawn(array: Array) -> bool:
    return array.fill.kind in ("normal", "uniform")


def _tidied(case: Case) -> Case:
    """A case without tensors that nothing reads, and whose loss and outputs are still made."""
    nodes = tuple(flat(case.program))
    defined = {name for node in nodes for name in node_makes(node)} | set(case.names())
    outputs, loss = case.outputs, case.loss
    if loss is not None and loss.name not in defined and nodes:
        last = node_makes(nodes[-1])
        loss = replace(loss, name=last[0]) if last else loss
        outputs = Ref(loss.name)
    read = {name for node in nodes for name in node_reads(node)} | set(leaves(outputs))

    def used(values: tuple[_V, ...]) -> tuple[_V, ...]:
        return tuple(value for value in values if value.name in read)  # type: ignore[attr-defined]

    inputs, parameters, state = used(case.inputs), used(case.parameters), used(case.state)
    left = {value.name for value in (*inputs, *parameters, *state)}
    wrt = tuple(name for name in case.wrt if name in left)
    return replace(
        case,
        inputs=inputs,
        parameters=parameters,
        state=state,
        wrt=wrt,
        outputs=outputs,
        loss=loss,
        totals={name: total for name, total in case.totals.items() if name in left},
        hooks=tuple(name for name in case.hooks if name in left),
    )


_V = TypeVar("_V")


def _is_whole(case: Case) -> bool:
    """Whether every name is defined before it is read, a loss is differentiated, and a region is
    left.
    """
    known = set(case.names())
    regions: set[str] = set()
    for node in flat(case.program):
        if not _knows(node, known, regions):
            return False
    differentiated = bool(case.wrt) or case.loss is None
    return bool(case.regions()) and differentiated and known.issuperset(leaves(case.outputs))


def _knows(node: FlatNode, known: set[str], regions: set[str]) -> bool:
    """Whether all names that a node reads are defined; adds those that it defines."""
    if not known.issuperset(node_reads(node)):
        return False
    if isinstance(node, Again) and node.region not in regions:
        return False
    if isinstance(node, Region):
        inner = known | set(leaves(node.takes)) | set(leaves(node.kwargs))
        if not node.body or not all(_knows(part, inner, regions) for part in flat(node.body)):
            return False
        if not inner.issuperset(leaves(node.gives)):
            return False
        regions.add(node.name)
    known |= set(node_makes(node))
    return True
