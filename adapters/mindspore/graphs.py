"""Reads the graphs that MindSpore's compiler writes, and finds the node of each statement.

The compiler writes the graph after each of its passes; the last one of the frontend (`validate`)
has every operation with what it reads. An operation that is recomputed has an attribute
`recompute_id`, and so has its copy in backward, which is marked `duplicated`. (Program lines are
there too, but operations that are called through the same function of MindSpore share them, and a
copy has none. So statements are found by what they read.)
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms

from conformance.model.observation import Execution, Phase

from .nodes import CALL, Node, Ref, read_nodes

#: Of all passes, the compiler writes the graph after this one alone. It asks when it first writes one.
os.environ["MS_DEV_DUMP_IR_PASSES"] = "validate"

Key = tuple[str, str, Phase]

#: Arguments of a gradient function, or of `nn.TrainOneStepCell`: both take any number of them.
_ARGUMENT = re.compile(r"(%para\d+_)(?:args|inputs)(\d+)")
#: The nodes that an operation of a case is compiled to, in each possible form, the longest first.
FORMS: Mapping[str, tuple[Counter[str], ...]] = {
    op: tuple(Counter(form.split()) for form in forms)
    for op, forms in {
        "add": ["Add"],
        "subtract": ["Sub"],
        "multiply": ["Mul", "Muls"],
        "divide": ["Div", "Reciprocal Muls", "Reciprocal"],
        "negative": ["Neg"],
        "matmul": ["ExpandDims BroadcastTo BatchMatMul", "MatMulExt", "MatMul", "BatchMatMul"],
        "linear": ["MatMul BiasAdd", "Dense"],
        "conv2d": ["Conv2D"],
        "max_pool2d": ["MaxPool"],
        "avg_pool2d": ["ExpandDims AvgPool3D Squeeze", "AvgPool"],
        "batch_norm": ["BatchNorm"],
        "layer_norm": ["LayerNorm"],
        "embedding": ["Gather"],
        "relu": ["ReLU"],
        "gelu": ["Div Erf Add Mul Mul"],
        "tanh": ["Tanh"],
        "sigmoid": ["Sigmoid"],
        "sin": ["Sin"],
        "cos": ["Cos"],
        "exp": ["Exp"],
        "log": ["Log"],
        "softmax": ["Softmax"],
        "dropout": ["Dropout"],
        "sum": ["SumExt", "ReduceSum"],
        "mean": ["ReduceMean", "MeanExt"],
        "reshape": ["Reshape"],
        "permute_dims": ["Transpose"],
        "concat": ["Concat"],
        "split": ["Split"],
        "where": ["Select"],
        "broadcast_to": ["BroadcastTo"],
        "slice": ["StridedSlice"],
        "astype": ["Cast"],
        "to_complex": ["Complex"],
        "real": ["Real"],
        "imag": ["Imag"],
        "square": ["Square"],
        "sqrt": ["Sqrt"],
        "abs": ["Abs"],
        "maximum": ["Maximum"],
        "max": ["AMax", "ReduceMax"],
        "cumulative_sum": ["CumSum"],
        "rrelu": ["Sign ClampScalar ClampScalar UniformReal Mul Add Mul Muls Add Mul"],
        "sin_or_cos": ["Sin", "Cos"],
        "branch_sin": [f"SumExt Greater Partial Partial Switch {CALL}"],
        "loop_sin": [f"Sin {CALL}"],  # the compiler takes the first step out of the loop
        "solve": ["MatrixSolve"],
        "custom_sin": ["Sin"],
        "noted_sin": ["Sin"],
        "slope_of_sin": ["Cos Mul", "Cos"],
        "accumulate_sin": ["Sin"],
        "add_in_place": ["InplaceAddExt", "InplaceAddsExt"],
        "all_reduce": ["AllReduce"],
        "uniform": ["UniformReal Mul Add", "UniformReal Add", "UniformReal"],
    }.items()
}
#: Operations whose result depends on their first argument alone.
READING_FIRST = frozenset({"accumulate_sin"})
#: Operations that write their result into their first argument: later readers may read either tensor.
WRITING = frozenset({"add_in_place"})
#: Operations that hand their argument on, and those that do where they change nothing.
HANDING_ON = frozenset({"stop_gradient", "raise_if"})
INERT = frozenset({"astype", "reshape"})
#: Operations that are not compiled where they change nothing: `h + 0.0`.
NEUTRAL = frozenset({"add", "subtract", "multiply", "divide"})
HANDED_ON = "handed on"


def executions(
    graphs: Iterable[str], dataflow: Any, inputs: Sequence[str], calls: int, *, casts: bool = False
) -> tuple[Execution, ...]:
    """Executions of regions and statements in `graphs`, which were called `calls` times together.

    `dataflow` (see dataflow.py) says what each statement reads; `inputs` are the names of the program's
    inputs in order. A statement runs as often as the node that computes its value, a region as often as
    the statement in it that runs most. A statement that only passes its argument on has no node:
    `stop_gradient` and `raise_if` get no count, others (a reshape to the same shape) count once per
    call in forward and are not rerun. Arithmetic with a number (`h + 0.0`) runs as its argument does.

    With `casts`, the compiler has added casts of its own (`amp.auto_mixed_precision`), which nothing in
    the graph tells from those of the program: all are passed over, and `astype` passes its argument on.
    """
    counts: Counter[Key] = Counter()
    texts = list(graphs)
    for text in texts:
        text = _ARGUMENT.sub(lambda m: m[1] + inputs[int(m[2])], text)
        nodes = read_nodes(text, handing_on={"Cast"} if casts else ())
        for key, count in _counted(nodes, dataflow).items():
            counts[key] += count * calls // len(texts)
    return tuple(Execution(*key, count) for key, count in counts.items())


def _counted(nodes: dict[int, Node], dataflow: Any) -> Counter[Key]:
    """Counts of one graph that runs once."""
    copies = Counter(node.recompute_id for node in nodes.values() if node.copy)
    known = {node.recompute_id for node in nodes.values() if not node.copy} - {""}
    if not copies.keys() <= known:
        raise RuntimeError("the graph has copies of operations that are not in it")
    counts: Counter[Key] = Counter()
    busiest: dict[tuple[str, int], list[int]] = {}
    for step, value in matched(nodes, dataflow):
        forward, again = int(value is not None), 0
        if isinstance(value, int) and nodes[value].recompute_id:
            again = copies[nodes[value].recompute_id]
        if step.site.op not in HANDING_ON:
            counts[step.site.region, step.site.label, "forward"] += forward
            counts[step.site.region, step.site.label, "rerun"] += again
        for call in step.regions:
            most = busiest.setdefault(call, [0, 0])
            most[:] = max(most[0], forward), max(most[1], again)
    for (name, _), (forward, again) in busiest.items():
        counts[name, "", "forward"] += forward
        counts[name, "", "rerun"] += again
    own: dict[str, int] = {}
    for (region, label, phase), count in counts.items():
        if label and phase == "rerun":
            own[region] = max(own.get(region, 0), count)
    for name in {name for name, _ in busiest} & own.keys():
        counts[name, "", "rerun"] = own[name]
    return counts


def matched(nodes: dict[int, Node], dataflow: Any) -> list[tuple[Any, int | str | None]]:
    """Each step with the number of the node that computes its value, `HANDED_ON` where it only passes
    its argument on, or `None` where it is not in the graph.

    Raises `RuntimeError` where a step is missing although an unmatched node may be its node.
    """
    forward = {n: node for n, node in nodes.items() if not node.copy and not node.gradient}
    readers: dict[int | str, list[int]] = defaultdict(list)
    for number, node in forward.items():
        for ref in node.reads:
            readers[ref[0]].append(number)
    values: dict[int, Ref] = dict(dataflow.starts)
    known_values: set[Ref] = set(values.values())
    written: dict[int, int] = {}  # what is written over, and the tensor that stands for it then
    # All nodes of a statement by the one that gives its value.
    cones: dict[int, frozenset[int]] = {}
    steps_with_nodes: list[tuple[Any, int | str | None]] = []
    missing: set[str] = set()
    for step in dataflow.steps:
        read = step.reads[:1] if step.site.op in READING_FIRST else step.reads
        known = all(number in values for number in read)
        sources = frozenset(values[number] for number in read if number in values)
        value: int | str | None = None
        if known and step.site.op in HANDING_ON:
            value = HANDED_ON
            values |= dict.fromkeys(step.gives, values[step.reads[0]])
        elif known:
            value = _find(forward, readers, step.site.op, sources, known_values, cones)
            if value is None and not written.keys().isdisjoint(read):
                sources = frozenset(values[written.get(number, number)] for number in read)
                value = _find(forward, readers, step.site.op, sources, known_values, cones)
            if isinstance(value, int):
                given: dict[int, Ref] = {number: (value, i) for i, number in enumerate(step.gives)}
                values |= given
                known_values.update(given.values())
                if step.site.op in WRITING:
                    written[step.reads[0]] = step.gives[0]
            else:
                missing.add(step.site.op)
                neutral = step.site.op in NEUTRAL and len(read) == 1
                if neutral or step.site.op in INERT:
                    source = values[step.reads[0]]
                    value = source[0] if neutral else HANDED_ON
                    values |= dict.fromkeys(step.gives, source)
        else:
            missing.add(step.site.op)
        steps_with_nodes.append((step, value))
    used = {number for cone in cones.values() for number in cone}
    missing -= HANDING_ON
    might = {name for op in missing for form in FORMS[op] for name in form}
    left = {node.operation for number, node in forward.items() if number not in used}
    if might & left:
        raise RuntimeError(f"no node found for {sorted(missing)}, but {sorted(might & left)} left")
    return steps_with_nodes


def _find(
    nodes: Mapping[int, Node],
    readers: Mapping[int | str, list[int]],
    op: str,
    sources: frozenset[Ref],
    known: set[Ref],
    cones: dict[int, frozenset[int]],
) -> int | None:
    """The number of the node that computes an operation from its sources. The nodes that it needs in
    between are noted in `cones`."""
    longest = max(form.total() for form in FORMS[op])
    # What reads all sources is found from the one that is read least.
    start = min(sources, key=lambda ref: len(readers.get(ref[0], ())), default=None)
    near = sorted(nodes) if start is None else _near(readers, start, longest)
    for form in FORMS[op]:
        for number in near:
            if nodes[number].operation not in form or number in cones:
                continue
            cone = _cone(nodes, number, known, form.total())
            if cone is None or cone[1] != sources:
                continue
            if Counter(nodes[n].operation for n in cone[0]) == form:
                cones[number] = frozenset(cone[0])
                return number
    for number in near:  # the same operation on the same values is computed once
        if number not in cones:
            continue
        same = _cone(nodes, number, known, longest)
        if same is None or same[1] != sources:
            continue
        if Counter(nodes[n].operation for n in cones[number]) in FORMS[op]:
            return number
    return None


def _near(readers: Mapping[int | str, list[int]], source: Ref, steps: int) -> list[int]:
    """The numbers of the nodes that a value reaches in at most `steps` steps, sorted."""
    near: set[int] = set()
    edge: Set[int | str] = {source[0]}
    for _ in range(steps):
        reached = {number for name in edge for number in readers.get(name, ())} - near
        near |= reached
        edge = reached
    return sorted(near)


def _cone(
    nodes: Mapping[int, Node], number: int, known: Set[Ref], most: int
) -> tuple[set[int], set[Ref]] | None:
    """The nodes between a node and the known values that it is computed from, and those values; `None`
    where that takes more than `most` nodes."""
    cone: set[int] = {number}
    read: set[Ref] = set()
    todo = list(nodes[number].reads)
    while todo and len(cone) <= most:
        ref = todo.pop()
        if ref in known or ref[0] not in nodes:
            read.add(ref)
        elif ref[0] not in cone:
            assert isinstance(ref[0], int)
            cone.add(ref[0])
            todo += nodes[ref[0]].reads
    return (cone, read) if len(cone) <= most else None


@contextmanager
def written() -> Iterator[list[str]]:
    """A list that holds, when the `with` has ended, the graphs that were compiled inside."""
    texts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="graphs-") as folder:
        ms.set_context(save_graphs=1, save_graphs_path=folder)
        try:
            yield texts
        finally:
            ms.set_context(save_graphs=0)
        paths = sorted(Path(folder).rglob("*_validate_*.ir"))
        texts += [path.read_text("utf-8") for path in paths]
