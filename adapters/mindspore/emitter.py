"""How MindSpore writes a case: cells for regions and for the network, in PyNative or graph mode.

A region is a cell. `mindspore.recompute` is given it at the call, `Cell.recompute` configures it
once, `Primitive.recompute` does without a cell and configures the operation itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeGuard

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import function
from conformance.errors import AdapterError, NotEmittedError
from conformance.model.case import (
    Again,
    Array,
    Case,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    node_reads,
    walk,
)
from conformance.model.program import Site

from . import layers, procedures
from .notes import CAST


def _reduced(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    words = {"sum": ("dim", "keepdim"), "mean": ("axis", "keep_dims")}[call.op]
    along = "" if axis is None else f", {words[0]}={axis}"
    keep = f", {words[1]}=True" if keepdims else ""
    return f"ops.{call.op}({call.arguments['x']}{along}{keep})"


def _divide(call: Call) -> str:
    a, b = call.arguments["a"], call.arguments["b"]
    # The operator would take the reciprocal of b first, and multiply.
    return f"{a} / {b}" if isinstance(call.statement.arguments[0], Ref) else f"ops.div({a}, {b})"


def _conv2d(call: Call) -> str:
    stride = "" if call.options["stride"] == 1 else f", stride={call.options['stride']}"
    padding = f', pad_mode="{call.options["padding"]}"'
    return f"ops.conv2d({call.arguments['x']}, {call.arguments['w']}{stride}{padding})"


def _split(call: Call) -> str:
    x, sections, axis = call.arguments["x"], call.options["sections"], call.options["axis"]
    return f"ops.tensor_split({x}, {sections}, axis={axis})"


def _seed(call: Call) -> str:
    seed = call.options["seed"]
    return "" if seed is None else f", seed={seed}"


def _uniform(call: Call) -> str:
    low, high, shape = (call.options[name] for name in ("low", "high", "shape"))
    bounds = ", ".join(f"Tensor({bound}, ms.float32)" for bound in (low, high))
    return f"ops.uniform({shape}, {bounds}{_seed(call)})"


#: The constructor of an operation's primitive, where one primitive does all of it.
PRIMITIVES: Mapping[str, str] = {
    "add": "Add()",
    "subtract": "Sub()",
    "multiply": "Mul()",
    "divide": "Div()",
    "negative": "Neg()",
    "matmul": "MatMul()",
    "linear": "Dense()",
    "conv2d": 'Conv2D({channels}, {kernel}, pad_mode="{padding}", stride={stride})',
    "max_pool2d": "MaxPool({size}, {size})",
    "avg_pool2d": "AvgPool({size}, {size})",
    "relu": "ReLU()",
    "tanh": "Tanh()",
    "sigmoid": "Sigmoid()",
    "sin": "Sin()",
    "cos": "Cos()",
    "exp": "Exp()",
    "log": "Log()",
    "square": "Square()",
    "sqrt": "Sqrt()",
    "abs": "Abs()",
    "maximum": "Maximum()",
    "softmax": "Softmax({axis})",
    "split": "Split({axis}, {sections})",
}
#: In PyNative mode: whether outermost regions are reentrant, and whether regions inside others are.
REENTRANT = {
    "pynative-reentrant": (True, True),
    "pynative-non-reentrant": (False, False),
    "pynative-output-recompute": (False, False),
    "pynative-output-recompute-reentrant": (False, False),
    "pynative-reentrant-around-non-reentrant": (True, False),
    "pynative-non-reentrant-around-reentrant": (False, True),
}
#: What these variants write of `use_reentrant` where they write `output_recompute=True`.
BESIDE_OUTPUT: Mapping[str, list[str]] = {
    "pynative-output-recompute": [],
    "pynative-output-recompute-reentrant": ["use_reentrant=True"],
}
#: Variants in which every region is configured once.
CONFIGURED = (
    *("graph-cell", "graph-cell-communication", "graph-layers", "graph-primitive"),
    *("jit-primitive", "model-train", "model-train-graph"),
)
#: The value of `use_reentrant` in graph-mode variants that pass it; graph mode ignores it.
WITHOUT_MEANING = {"graph-function-reentrant": True, "graph-function-non-reentrant": False}
#: A rule written by hand, as a cell's `bprop` or, where it reads what it has saved, as a function's.
CUSTOM_SIN = """
    class CustomSin(nn.Cell):
        def construct(self, x):
            return ops.sin(x)

        def bprop(self, x, out, dout):
            return (2 * ops.cos(x) * dout,)


    custom_sin = CustomSin()
    """
CUSTOM_SIN_FUNCTION = """
    class CustomSin(ms._Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return ops.sin(x)

        @staticmethod
        def backward(ctx, dout):
            for _ in range({reads}):
                (x,) = ctx.saved_tensors
            return 2 * ops.cos(x) * dout


    custom_sin = CustomSin.apply
    """
LOOP_SIN = """
    def sin_once(_, x):
        return ops.sin(x)


    def loop_sin(x, times):
        return ops.ForiLoop()(0, times, sin_once, x, False)
    """
SLOPE_OF_SIN = """
    def slope_of_sin(x):
        return ms.grad(lambda x: ops.sin(x).sum())(x)
    """
ACCUMULATE_SIN = """
    def accumulate_sin(x, total):
        ops.assign_add(total, ops.stop_gradient(x).sum(0))
        return ops.sin(x)
    """


class Emitter(procedures.Procedures):
    """Writes one case for a variant in PyNative mode or in graph mode."""

    procedures_written: Collection[str] = (
        *("backward", "part", "functional", "second_order", "third_order"),
        *("inference", "train"),
    )
    imports = (
        "import random",
        "import mindspore as ms",
        "import numpy as np",
        "from mindspore import Parameter, ParameterTuple, Tensor, amp, nn, ops",
    )
    lists: Lists = "uncaptured"  # cells hold what they capture
    list_of_parameters = "ParameterTuple({})"
    seeding = "ms.set_seed({seed})"
    drawing = "ops.rand(3)"
    hook = 'values["{name}"].register_hook(lambda gradient: fired.append("{name}") or gradient)'
    halving = """
        for name in {names}:
            ops.assign(values[name], values[name] * 0.5)
        """
    helpers: Mapping[str, str] = {
        **procedures.Procedures.helpers,
        "loop_sin": LOOP_SIN,
        "custom_sin": CUSTOM_SIN,
        "slope_of_sin": SLOPE_OF_SIN,
        "accumulate_sin": ACCUMULATE_SIN,
    }
    operations: Mapping[str, Writer] = {
        **usual.OPERATORS,
        **usual.functions("ops"),
        "divide": _divide,
        "matmul": "ops.matmul({a}, {b})",
        "linear": "ops.dense({x}, {w}, {b})",
        "conv2d": _conv2d,
        "max_pool2d": "ops.MaxPool({size}, {size})({x})",
        "avg_pool2d": "ops.avg_pool2d({x}, {size}, {size})",
        "batch_norm": "ops.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, "
        "training=True, momentum={momentum}, eps={eps})",
        # The functional form has no kernel on the CPU; nn.LayerNorm uses this primitive too.
        "layer_norm": "ops.LayerNorm(-1, -1, {eps})({x}, {gamma}, {beta})[0]",
        "embedding": "ops.gather({table}, {indices}, 0)",
        "relu": "ops.relu({x})",
        "gelu": "ops.gelu({x})",
        "sigmoid": "ops.sigmoid({x})",
        "softmax": "ops.softmax({x}, axis={axis})",
        "dropout": lambda call: (
            f"ops.dropout({call.arguments['x']}, p={call.options['p']}{_seed(call)})"
        ),
        "sum": _reduced,
        "mean": _reduced,
        "reshape": "{x}.reshape({shape})",
        "permute_dims": "ops.permute({x}, {axes})",
        "concat": "ops.cat({arrays}, axis={axis})",
        "split": _split,
        "astype": "{x}.astype(ms.{dtype})",
        "to_complex": "ops.Complex()({a}, {b})",
        "real": "ops.real({x})",
        "imag": "ops.imag({x})",
        "stop_gradient": "ops.stop_gradient({x})",
        "uniform": _uniform,
        "uniform_from": "Tensor({generator}.uniform({low}, {high}, {shape}), ms.float32)",
        "numpy_uniform": "Tensor(np.random.uniform({low}, {high}, {shape}), ms.float32)",
        "python_uniform": "Tensor(random.uniform({low}, {high}), ms.float32)",
        "max": "ops.amax({x}, axis={axis}, keepdims={keepdims})",
        "solve": "ops.MatrixSolve()({a}, {b})",
        "rrelu": "ops.rrelu({x}, {low}, {high})",
        "loop_sin": "loop_sin({x}, {times})",
        "custom_sin": "custom_sin({x})",
        "slope_of_sin": "slope_of_sin({x})",
        "accumulate_sin": "accumulate_sin({x}, {total})",
        "add_in_place": "{a}.add_({b})",
    }

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(OTHERS.get(variant.name, cls))

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self.primitive = variant.name in ("graph-primitive", "jit-primitive")
        # One of the two keywords that `Cell.recompute` holds to be bools.
        other = variant.name == "graph-cell-communication"
        self.wrong_option = f'{"parallel_optimizer" if other else "mp"}_comm_recompute="wrong"'
        rules = [s.options for _, s in case.statements() if s.op == "custom_sin"]
        reads = [int(str(options.get("reads", 1))) for options in rules]
        if reads and max(reads) > 1 and not self.graph:
            function = CUSTOM_SIN_FUNCTION.format(reads=max(reads))
            self.helpers = {**self.helpers, "custom_sin": function}
        self._attributes: frozenset[str] = frozenset()
        self._renamed: Mapping[str, str] = {}
        self._defined: set[str] = set()  # classes and functions of regions
        self._net_made: list[str] = []  # the lines of `Net.__init__`

    # -- inputs --------------------------------------------------------------------------------

    def tensor(self, array: Array, source: str) -> str:
        tensor = f"Tensor({source}, ms.{array.dtype})"
        if array.name not in self._held:
            return tensor
        frozen = "" if array.gradient else ", requires_grad=False"
        return f'Parameter({tensor}, name="{array.name}"{frozen})'

    # -- cells ---------------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        """The network's cell and the function that makes it.

        Where regions are configured, one class serves both: `recomputed` configures its cells.
        """
        self.path = path
        if self.plain_functions:
            self._write_cells()
            super().write_forward(path)
            return
        at_the_call = [r for r in self.case.regions() if not self.configured(r)]
        held = [name for name in self.case.names() if name in self._held]
        if path == "plain" or at_the_call:
            self._write_cell(self._net(), held, self.case.program, self.case.outputs, None)
        with self.code.indent(f"def {path}({', '.join(held)}):"):
            call = f"{self._net()}({', '.join(held)})"
            wanted = [r for r in self.case.regions() if self.configured(r)]
            # Outer ones first: a cell is configured once, and what an inner one gives would be kept.
            wanted.sort(key=lambda region: -len(self._inside(region)))
            if path == "plain" or not wanted:
                self.code(f"return {self._cast_as_case(call)}")
            else:
                self.code(f"network = {call}")
                for region in wanted:
                    self.code(f"{self._place(region)}.recompute({self._options(region)})")
                self.code(f"return {self._cast_as_case('network')}")
        self.code("\n")

    def _cast_as_case(self, network: str) -> str:
        """The network, cast where the case asks for autocast."""
        if not self.case.autocast:
            return network
        self.wrote("autocast")
        return self._cast(network, self.case.autocast)

    def _cast(self, cell: str, dtype: str) -> str:
        """A cell whose products are cast to `dtype`; the operations that need float32 are cast back."""
        self.code.notes.add(CAST)
        return f'amp.auto_mixed_precision({cell}, "auto", ms.{dtype})'

    def _write_cells(self) -> None:
        """The classes and cells of regions, where no other cell holds them."""
        regions = [node for node in self.case.program if isinstance(node, Region)]
        before = set(self._defined)
        for region in regions:
            self._write_block(region)
        for region in regions:
            if self._class(region) in self._defined - before and region.block != "invalid":
                cells = {function(r.name): self._cell(r) for r in self.case.regions()}
                given = ", ".join(cells.get(name, name) for name in self._given(region))
                self.code(f"{self._cell(region)} = {self._class(region)}({given})")
        self.code("\n")

    def _cell(self, region: Region) -> str:
        """The name of a region's cell that no other cell holds. Both paths use it, unless it recomputes
        others inside."""
        name = function(region.name)
        return f"recomputed_{name}" if self._class(region).startswith("Recomputed") else name

    def configured(self, region: Region) -> bool:
        """Whether a region's cell or primitive is configured once, not recomputed at the call."""
        return self.variant.name in CONFIGURED or region.granularity == "module"

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is configured as an operation, and not as a cell."""
        return self.primitive

    def _inside(self, region: Region) -> set[str]:
        """The names of the regions that a region contains or calls, at whatever depth."""
        found: set[str] = set()
        for node in walk(region.body):
            if isinstance(node, Region):
                found.add(node.name)
            elif isinstance(node, Again):
                found |= {node.region} | self._inside(self.region_named(node.region))
        return found

    def _net(self) -> str:
        at_the_call = any(not self.configured(r) for r in self.case.regions())
        return "RecomputedNet" if self.path == "recomputed" and at_the_call else "Net"

    def _options(self, region: Region) -> str:
        """The keywords of a region's `recompute`; `use_reentrant` matters in PyNative mode only."""
        options: list[str] = []
        if not self.primitive and not self.is_primitive(region):
            options += self.option(region, "merge_adjacent", "output_recompute")
        if self.variant.name == "graph-cell-communication":
            wrong = region.option == "wrong"
            options += ["mp_comm_recompute=False"]
            options += [] if wrong else ["parallel_optimizer_comm_recompute=True"]
        if self.variant.name in WITHOUT_MEANING:
            options.append(f"use_reentrant={WITHOUT_MEANING[self.variant.name]}")
        outer, inner = REENTRANT.get(self.variant.name, (None, None))
        reentrant = inner if self.within else outer
        if reentrant:
            options.append("use_reentrant=True")
        elif reentrant is False:
            # `output_recompute=True` means as much, whatever stands beside it.
            implied = BESIDE_OUTPUT.get(self.variant.name) if region.merge_adjacent else None
            options += ["use_reentrant=False"] if implied is None else implied
            # For orders above the first the documentation asks for it.
            if inner != outer or self.case.procedure.kind in ("second_order", "third_order"):
                options.append("early_stop=False")
        options += [*self.contexts_option(region, "context_fn"), *self.misuse(region)]
        return ", ".join(filter(None, options))

    def _place(self, region: Region) -> str:
        """The path of a region's cell from the network."""
        around = [r for r in self.case.regions() if any(n is region for n in walk(r.body))]
        return ".".join(["network", *(function(r.name) for r in (*around, region))])

    def _write_cell(
        self,
        name: str,
        given: Sequence[str],
        nodes: Iterable[Node],
        gives: Tree,
        region: Region | None,
    ) -> None:
        """A cell's class, after the classes of the regions in it. `given` are the arguments of
        `__init__`: parameters, and what else the body reads from outside."""
        code, nodes = self.code, tuple(nodes)
        own = {node.name for node in nodes if isinstance(node, Region)}
        inner = [node for node in nodes if isinstance(node, Region)]
        for node in inner:
            self._write_block(node)
        held = [n for n in given if n in self._reads(nodes, gives, region)]
        with code.indent(f"class {name}(nn.Cell):"):
            top = len(code.lines)
            with code.indent(f"def __init__({', '.join(['self', *given])}):"):
                code("super().__init__()")
                begin = len(code.lines)
                for attribute in held:
                    code(f"self.{attribute} = {attribute}")
                for part in flat(nodes):
                    if isinstance(part, Region):
                        self._write_attribute(part, own)
                    else:
                        self.write_own((part,), region)
            if len(code.lines) == begin and not given:
                del code.lines[-2:]  # a cell that has nothing of its own needs no `__init__`
            elif region is None and code.lines[top:] == self._net_made:
                del code.lines[top:]
                code.lines[-1] = f"class {name}(Net):"
            else:
                self._net_made = code.lines[top:] if region is None else self._net_made
                code()
            site = None if region is None else Site("region", self.path, region.name, region.name)
            formals = self.case_inputs() if region is None else self.parameters(region)
            head = f"def construct({', '.join(filter(None, ['self', formals]))}):"
            with code.indent(head, site), self._reading(frozenset(held)):
                if region is not None:
                    self.write_unpacking(region)
                self.write_nodes(nodes, "" if region is None else region.name)
                self.write_return(gives)
        code("\n")

    def write_own(self, nodes: Sequence[Node], region: Region | None) -> None:
        """The attributes of a cell that are none of its regions and parameters."""
        for node in flat(nodes):
            if self._kept(node, region):
                random = node.op in ("dropout", "uniform")
                primitive = self._drawing(node) if random else self._primitive(node)
                self.code(f"self.{_attribute(node)} = ops.{primitive}.recompute(False)")

    def _kept(self, node: Node, region: Region | None) -> TypeGuard[Statement]:
        """Whether a node is an operation whose result the policy of its region keeps: it is
        configured not to be recomputed, though the cell around it is."""
        return self.graph and isinstance(node, Statement) and bool(region and region.saves(node))

    def write_statement(self, statement: Statement, region: str) -> None:
        if not region or not self._kept(statement, self.region_named(region)):
            super().write_statement(statement, region)
            return
        site = Site("statement", self.path, region, statement.label, statement.op)
        call = self.call_of(statement)
        given = [*call.arguments.values()] or [str(call.options["shape"])]
        mask = "[0]" if statement.op == "dropout" else ""  # the primitive gives its mask, too
        targets = ", ".join(statement.targets)
        called = f"self.{_attribute(statement)}({', '.join(given)}){mask}"
        self.code(f"{targets} = {called}", site)

    def _reads(self, nodes: Iterable[Node], gives: Tree, region: Region | None) -> set[str]:
        """The names that a cell's own lines read from outside the cell."""
        known = set() if region is None else set(leaves(region.takes) + leaves(region.kwargs))
        found: set[str] = set()
        for node in flat(nodes):
            if isinstance(node, Region) and (self.primitive or self._made_at_call(node)):
                read = set(node_reads(node)) | set(self._cells(node))
            elif isinstance(node, Region) and not node.called:
                read = set()
            elif isinstance(node, Again) and not self._made_at_call(self.region_named(node.region)):
                read = set(leaves(node.takes) + leaves(node.kwargs))
                read.add(function(node.region))
            elif isinstance(node, Statement):
                read = set(node.names())
            else:
                read = set(leaves(node.takes) + leaves(node.kwargs))
            found |= read - known
            known |= set(node_makes(node))
            if isinstance(node, Region):
                known.add(function(node.name))
        return found | (set(leaves(gives)) - known)

    def case_inputs(self) -> str:
        """The network's arguments."""
        return ", ".join(value.name for value in self._inputs)

    @contextmanager
    def _reading(self, attributes: frozenset[str]) -> Iterator[None]:
        outer, self._attributes = self._attributes, attributes
        yield
        self._attributes = outer

    def _write_block(self, region: Region) -> None:
        """Write a region's cell at module level; nothing where a primitive is configured instead."""
        if self.primitive:
            return
        name = self._class(region)
        if name in self._defined:
            return
        self._defined.add(name)
        if region.block == "invalid":  # a function is no cell
            site = Site("region", self.path, region.name, region.name)
            with self.code.indent(f"def {name}({self.parameters(region)}):", site):
                self.write_unpacking(region)
                self.write_nodes(region.body, region.name)
                self.write_return(region.gives)
            self.code("\n")
            return
        self._write_cell(name, self._given(region), region.body, region.gives, region)

    def _given(self, region: Region) -> list[str]:
        """The arguments of the constructor of a region's cell: tensors, and cells that it calls."""
        return [*region.captured(), *self._cells(region)]

    def _cells(self, region: Region) -> list[str]:
        """The cells of regions that are defined around a region and called in it."""
        inside = {n.name for n in walk(region.body) if isinstance(n, Region)}
        called = [n.region for n in walk(region.body) if isinstance(n, Again)]
        return [function(name) for name in dict.fromkeys(called) if name not in inside]

    def _class(self, region: Region) -> str:
        """The name of a region's class; a cell that recomputes others inside has one of its own."""
        name = function(region.name)
        if region.block == "invalid":
            return name
        name = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
        inner = [n for n in walk(region.body) if isinstance(n, Region)]
        inner += [self.region_named(n.region) for n in walk(region.body) if isinstance(n, Again)]
        inside = any(not self.configured(n) for n in inner)
        return f"Recomputed{name}" if self.path == "recomputed" and inside else name

    def _made_at_call(self, region: Region) -> bool:
        """Whether a region's cell captures a computed tensor, so that it is constructed at each call."""
        return any(name not in self._held for name in region.captured())

    def _write_attribute(self, region: Region, siblings: Set[str]) -> None:
        name = function(region.name)
        if self.primitive:
            self.code(f"self.{name} = ops.{self._primitive(region.body[0])}")
        elif region.block != "invalid" and not self._made_at_call(region):
            near = {function(sibling) for sibling in siblings}
            given = [f"self.{n}" if n in near else n for n in self._given(region)]
            cell = f"{self._class(region)}({', '.join(given)})"
            if region.autocast:
                self.wrote("autocast inside")
                cell = self._cast(cell, region.autocast)
            self.code(f"self.{name} = {cell}")

    def name(self, name: str) -> str:
        name = self._renamed.get(name, name)
        return f"self.{name}" if name in self._attributes else name

    # -- regions -------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        """Regions are classes, written before; a cell that holds a computed tensor is made here."""
        if self.primitive or region.block == "invalid" or not self._made_at_call(region):
            return
        given = ", ".join(self.name(n) for n in self._given(region))
        self.code(f"{function(region.name)} = {self._class(region)}({given})")

    def recompute(self, region: Region) -> str:
        name = function(region.name)
        if region.block == "invalid" or self._made_at_call(region):
            return name
        if self.plain_functions and not self.within:
            return self._cell(region)
        return f"self.{name}"

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        callee = self.recompute(region)
        if self.path == "plain" or self.configured(region):
            return f"{callee}({self.call_arguments(node)})"
        if self.own is not None:
            return str(self.own_call(callee, self.call_arguments(node), region))
        options = self._options(region)
        words = [callee, self.call_arguments(node), options]
        return f"ms.recompute({', '.join(filter(None, words))})"

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        if region.mapped and not self.primitive:
            self._write_mapped(node, region)
            return
        if not self.primitive:
            super().write_call(node, call, region)
            return
        statement = region.body[0]
        assert isinstance(statement, Statement)
        names = zip(leaves(region.takes), leaves(node.takes), strict=True)
        self._renamed = dict(names)
        arguments = ", ".join(self.call_of(statement).arguments.values())
        self._renamed = {}
        site = Site("statement", self.path, region.name, statement.label, statement.op)
        self.code(f"{leaves(node.gives)[0]} = self.{function(region.name)}({arguments})", site)

    def _write_mapped(self, node: Region | Again, region: Region) -> None:
        """A region's cell through `vmap`, or a function of its own that recomputes the cell."""
        self.wrote("mapped")
        mapped = self.recompute(region)
        if self.path == "recomputed" and not self.configured(region):
            mapped = f"mapped_{function(region.name)}"
            with self.code.indent(f"def {mapped}({', '.join(self.formals(region))}):"):
                self.code(f"return {self.called(replace(node, takes=region.takes), '', region)}")
        given = ", ".join(self.tree(tree) for tree in node.takes)
        self.write_results(node, f"ms.vmap({mapped})({given})", region)

    def expression(self, statement: Statement) -> str:
        if statement.op == "add_in_place" and not self.graph:
            # `add_` writes nothing on the CPU in PyNative mode: it gives a new tensor. `copy_` writes,
            # its gradient is right, and backward raises where what it wrote over was saved.
            a, b = self.call_of(statement).arguments.values()
            return f"{a}.copy_({a} + {b})"
        if statement.op == "matmul" and self.case.procedure.order > 1 and not self.graph:
            # `ops.matmul` itself has a gradient whose gradient lacks a part in PyNative mode.
            arguments = self.call_of(statement).arguments
            return f"ops.MatMul()({arguments['a']}, {arguments['b']})"
        return super().expression(statement)

    def _primitive(self, statement: Node) -> str:
        """The constructor of the primitive that does a statement."""
        assert isinstance(statement, Statement)
        if statement.op not in PRIMITIVES:
            raise NotEmittedError(self.variant.id, statement.op)
        deep = any(len(array.shape) > 2 for array in self.case.arrays)
        if statement.op == "matmul" and deep and not any(r.mapped for r in self.case.regions()):
            return "auto_generate.MatMulExt()"  # MatMul takes matrices alone
        options: dict[str, object] = dict(self.call_of(statement).options)
        if statement.op == "conv2d":
            weight = statement.arguments[1]
            assert isinstance(weight, Ref)
            shape = next(a.shape for a in self.case.arrays if a.name == weight.name)
            options |= {"channels": shape[0], "kernel": shape[2:]}
        return PRIMITIVES[statement.op].format(**options)

    def _drawing(self, statement: Statement) -> str:
        """The constructor of the primitive that draws for a statement, with two seeds of its own: the
        case's, and another for each statement. A primitive with none draws other numbers in each run."""
        options = self.call_of(statement).options
        number = 1 + [other for _, other in self.case.statements()].index(statement)
        seeds = f"{options['seed'] or 0}, {number}"
        if statement.op == "dropout":
            rate = options["p"]
            assert isinstance(rate, float | int)
            return f"Dropout({1 - rate}, {seeds})"
        if (options["low"], options["high"]) != (0, 1):
            raise AdapterError("UniformReal draws numbers from 0 to 1")
        return f"UniformReal({seeds})"


def _attribute(statement: Statement) -> str:
    """The attribute of a cell that holds the primitive of a statement."""
    return f"{statement.op}_{statement.label}"


class Layers(layers.Layers, Emitter):
    """Writes one case for `pynative-layers` and `graph-layers`."""


class Trained(layers.Trains, Layers):
    """Writes one case for `model-train` and `model-train-graph`."""


OTHERS: Mapping[str, type[Emitter]] = {
    "graph-layers": Layers,
    "model-train": Trained,
    "model-train-graph": Trained,
    "pynative-layers": Layers,
}
