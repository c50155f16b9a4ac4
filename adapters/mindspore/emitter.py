"""How MindSpore writes a case: cells for regions and for the network, in PyNative or graph mode.

A region is a cell. `mindspore.recompute` is given it at the call, `Cell.recompute` configures it
once, `Primitive.recompute` does without a cell and configures the operation itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import RAISE_IF, Emitter, Parts, Words
from conformance.errors import NotOfferedError
from conformance.language.features import features_of
from conformance.language.flow import Flow
from conformance.language.reach import steps
from conformance.model.case import Case, Region, node_reads, walk

from . import cells, layers, parallel, procedures, training
from .notes import compiles
from .operations import HELPERS, OPERATIONS, pynative_helpers, pynative_operations

#: Whether outermost regions are reentrant, and whether regions inside others are, in variants that say
#: so. Graph mode ignores it.
REENTRANT: Mapping[str, tuple[bool, bool]] = {
    "pynative-reentrant": (True, True),
    "pynative-non-reentrant": (False, False),
    "pynative-output-recompute": (False, False),
    "pynative-output-recompute-reentrant": (False, False),
    "pynative-reentrant-around-non-reentrant": (True, False),
    "pynative-non-reentrant-around-reentrant": (False, True),
    "graph-function-reentrant": (True, True),
    "graph-function-non-reentrant": (False, False),
}
#: What these variants write of `use_reentrant` where they write `output_recompute=True`, which means
#: as much as `use_reentrant=False`, whatever stands beside it.
BESIDE_OUTPUT: Mapping[str, Sequence[str]] = {
    "pynative-output-recompute": [],
    "pynative-output-recompute-reentrant": ["use_reentrant=True"],
}
#: Variants in which every region is configured once.
CONFIGURED = (
    *("graph-cell", "graph-cell-communication", "graph-layers", "graph-primitive"),
    *("jit-primitive", "model-train", "model-train-graph"),
)


WORDS = Words(
    imports=(
        "import random",
        "import mindspore as ms",
        "import numpy as np",
        "from mindspore import Parameter, ParameterTuple, Tensor, amp, nn, ops",
    ),
    operations={**OPERATIONS, **parallel.OPERATIONS},
    helpers={"raise_if": RAISE_IF, **HELPERS, **parallel.HELPERS},
    rank="get_rank()",
    start=parallel.START,
    procedures_written=(
        *("backward", "part", "functional", "second_order", "third_order"),
        *("inference", "train", "jvp", "jacobian"),
    ),
    reverse_only=("custom_sin", "hooked"),
    lists="uncaptured",  # cells hold what they capture
    list_of_parameters="ParameterTuple({})",
    seeding="ms.set_seed({seed})",
    drawing="ops.rand(3)",
    reduction="ops.{kind}({x})",
    hook='values["{name}"].register_hook(lambda gradient: fired.append("{name}") or gradient)',
    halving="""
        for name in {names}:
            ops.assign(values[name], values[name] * 0.5)
        """,
    changes={
        "freeze": "{place}.requires_grad = False",
        "unfreeze": "{place}.requires_grad = True",
        "assign": "ops.assign({place}, {place} * 0.5)",
        "rows": "{place} = {place}[:{rows}]",
    },
)


class Recomputed(cells.Recomputed):
    """The options of a variant."""

    forward: cells.Cells

    def configured(self, region: Region) -> bool:
        return self.variant.name in CONFIGURED or region.granularity == "module"

    def options(self, region: Region) -> str:
        options: list[str] = []
        if not self.forward.is_primitive(region):
            options += self.option(region, "merge_adjacent", "output_recompute")
        if self.variant.name == "graph-cell-communication":
            wrong = region.option == "wrong"
            options += ["mp_comm_recompute=False"]
            options += [] if wrong else ["parallel_optimizer_comm_recompute=True"]
        outer, inner = REENTRANT.get(self.variant.name, (None, None))
        reentrant = inner if self.emitter.within else outer
        if reentrant:
            options.append("use_reentrant=True")
        elif reentrant is False:
            merged = BESIDE_OUTPUT.get(self.variant.name) if region.merge_adjacent else None
            options += ["use_reentrant=False"] if merged is None else merged
            # For orders above the first the documentation asks for it.
            if inner != outer or self.case.procedure.order > 1:
                options.append("early_stop=False")
        options += [*self.contexts_option(region, "context_fn"), *self.misuse(region)]
        return ", ".join(options)


PARTS = Parts(
    WORDS,
    cells.Cellular,
    Recomputed,
    procedures.Procedures,
    body=cells.Statements,
    forward=cells.Cells,
    transforms=procedures.OfInputs,
)
LAYERS = PARTS.but(layers=layers.Layers, forward=layers.CellsOfLayers)
TRAINED = LAYERS.but(procedures_written=("train",), run=training.Trains)
VARIANTS: Mapping[str, Parts] = {
    "graph-layers": LAYERS,
    "model-train": TRAINED,
    "model-train-graph": TRAINED,
    "pynative-layers": LAYERS,
}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant in PyNative mode or in graph mode. Raises `NotOfferedError` where
    parameters change that backward reads, or what a mapped function has saved is written over, or in
    PyNative mode what a tangent needs: it reads them as they are then, without recompute too. So it does
    where gradients of gradients of a batch normalisation are taken: the kernel reads memory that is not
    its own, gives NaN and ends the process; in PyNative mode where the result of an average pool is
    written over, whose gradient is then zero; and in graph mode where a graph asks which rank it is."""
    changing = case.procedure.between == "update" or any(r.mapped for r in case.regions())
    back = case
    if case.procedure.kind == "jvp" and not compiles(variant.name):  # two backward passes
        back, changing = replace(case, procedure=replace(case.procedure, kind="backward")), True
    if changing and "saved-overwritten" in features_of(back).case:
        raise NotOfferedError(variant.id, "what backward reads, changed before")
    if case.procedure.order > 1 and case.uses(frozenset({"batch_norm"})):
        raise NotOfferedError(variant.id, "gradients of gradients of a batch normalisation")
    wide = any(len(array.shape) > 2 for array in case.arrays)
    if wide and case.procedure.order > 1 and case.uses(frozenset({"matmul", "linear"})):
        raise NotOfferedError(variant.id, "gradients of gradients of products of three axes")
    # One of the two keywords that `Cell.recompute` holds to be bools.
    other = variant.name == "graph-cell-communication"
    wrong = f'{"parallel_optimizer" if other else "mp"}_comm_recompute="wrong"'
    parts = VARIANTS.get(variant.name, PARTS).but(wrong_option=wrong)
    read = {name for node in walk(case.program) for name in node_reads(node)}
    if not compiles(variant.name):
        double = any(array.dtype == "float64" for array in case.arrays)
        if double and case.uses(frozenset({"avg_pool2d"})):
            raise NotOfferedError(
                variant.id, "an average pool in float64, which it computes in float32"
            )
        if (what := _written_over(case)) is not None:
            raise NotOfferedError(variant.id, f"what {what}, written over")
        operations = {**parts.words.operations, **pynative_operations(case)}
        helpers = {**parts.words.helpers, **pynative_helpers(case)}
        parts = parts.but(operations=operations, helpers=helpers)
    elif case.uses(frozenset({"all_gather", "reduce_scatter"})):
        raise NotOfferedError(variant.id, "a graph that asks for the number of its rank")
    elif not read.issuperset(array.name for array in case.parameters):
        # a list would make parameters of a graph that reads them nowhere
        parts = parts.but(lists="nothing")
    if case.ranks > 1:
        parts = parts.but(*parallel.IMPORTS)
    return Emitter(case, variant, parts)


def _written_over(case: Case) -> str | None:
    """What a statement writes over and has a wrong gradient then without recompute, too, in words."""
    flow = Flow(case)
    every = list(steps(flow.items))
    over = {
        tensor.itself
        for step in every
        if step.statement.op == "add_in_place"
        for tensor in step.reads["a"]
    }
    pooled = {made for step in every if step.statement.op == "avg_pool2d" for made in step.makes}
    mapped = {tensor.itself for call in flow.calls if call.region.mapped for tensor in call.given}
    if over & pooled:
        return "an average pool returns"
    return "a mapped function takes" if over & mapped else None
