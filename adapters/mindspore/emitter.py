"""How MindSpore writes a case: cells for regions and for the network, in PyNative or graph mode.

A region is a cell. `mindspore.recompute` is given it at the call, `Cell.recompute` configures it
once, `Primitive.recompute` does without a cell and configures the operation itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Lists
from conformance.model.case import Again, Case, Region

from . import cells, layers, training
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


class Emitter(cells.Cells):
    """Writes one case for a variant in PyNative mode or in graph mode."""

    imports = (
        "import random",
        "import mindspore as ms",
        "import numpy as np",
        "from mindspore import Parameter, ParameterTuple, Tensor, amp, nn, ops",
    )
    operations = OPERATIONS
    helpers: Mapping[str, str] = {**cells.Cells.helpers, **HELPERS}
    lists: Lists = "uncaptured"  # cells hold what they capture
    list_of_parameters = "ParameterTuple({})"
    seeding = "ms.set_seed({seed})"
    drawing = "ops.rand(3)"
    reduction = "ops.{kind}({x})"
    hook = 'values["{name}"].register_hook(lambda gradient: fired.append("{name}") or gradient)'
    halving = """
        for name in {names}:
            ops.assign(values[name], values[name] * 0.5)
        """

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(OTHERS.get(variant.name, cls))

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        if not self.graph:
            self.operations = {**OPERATIONS, **pynative_operations(case)}
            self.helpers = {**self.helpers, **pynative_helpers(case)}
        # One of the two keywords that `Cell.recompute` holds to be bools.
        other = variant.name == "graph-cell-communication"
        self.wrong_option = f'{"parallel_optimizer" if other else "mp"}_comm_recompute="wrong"'

    def configured(self, region: Region) -> bool:
        return self.variant.name in CONFIGURED or region.granularity == "module"

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        callee, arguments = self.recompute(region), self.call_arguments(node)
        if self.path == "plain" or self.configured(region):
            return f"{callee}({arguments})"
        if self.own is not None:
            return self.own_call(callee, arguments, region)
        return f"ms.recompute({', '.join(filter(None, [callee, arguments, self.options(region)]))})"

    def options(self, region: Region) -> str:
        options: list[str] = []
        if not self.is_primitive(region):
            options += self.option(region, "merge_adjacent", "output_recompute")
        if self.variant.name == "graph-cell-communication":
            wrong = region.option == "wrong"
            options += ["mp_comm_recompute=False"]
            options += [] if wrong else ["parallel_optimizer_comm_recompute=True"]
        outer, inner = REENTRANT.get(self.variant.name, (None, None))
        reentrant = inner if self.within else outer
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


class Layers(layers.Layers, Emitter):
    """Writes one case for `pynative-layers` and `graph-layers`."""


class Trained(training.Trains, Layers):
    """Writes one case for `model-train` and `model-train-graph`."""


OTHERS: Mapping[str, type[Emitter]] = {
    "graph-layers": Layers,
    "model-train": Trained,
    "model-train-graph": Trained,
    "pynative-layers": Layers,
}
