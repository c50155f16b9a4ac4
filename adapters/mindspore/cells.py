"""How MindSpore writes cells: a class for the network, and one for each region in it.

The network is a region like the others here: its arguments are the case's inputs, and it is given
what it holds when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace

from conformance.emit.emitter import Body, Emitter, Forward, Recompute, Tensors
from conformance.emit.expressions import class_name, function
from conformance.errors import AdapterError, NotEmittedError, NotOfferedError
from conformance.model.case import (
    Again,
    Array,
    Node,
    Ref,
    Region,
    Statement,
    flat,
    leaves,
    walk,
)
from conformance.model.program import Site

from . import procedures
from .notes import CAST
from .operations import PRIMITIVES

_ATTRIBUTE = re.compile(r"\bself\.(\w+)")


class Cellular(Tensors):
    """Tensors, and parameters of what a network holds."""

    def tensor(self, array: Array, source: str) -> str:
        held = procedures.Plan(self.case, self.variant).held
        tensor = f"Tensor({source}, ms.{array.dtype})"
        if array.name not in held:
            return tensor
        frozen = "" if array.gradient else ", requires_grad=False"
        return f'Parameter({tensor}, name="{array.name}"{frozen})'


class Statements(Body):
    """Statements as functions, or as operations that a cell holds."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.plan = procedures.Plan(self.case, self.variant)

    def operands(self, statement: Statement) -> list[str]:
        """What an operation that a cell holds is called on."""
        if id(statement) in self.layers.attribute_of:
            return [self.layers.called_on(statement)]
        call = self.call_of(statement)
        return [*call.arguments.values()] or [str(call.options["shape"])]

    def primitive(self, statement: Node) -> str:
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

    def drawing(self, statement: Statement) -> str:
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

    def is_kept(self, statement: Statement, region: Region) -> bool:
        """Whether the policy of its region keeps a statement's result: its operation is configured not
        to be recomputed, though the cell around it is."""
        return self.plan.graph and region.saves(statement)

    def expression(self, statement: Statement) -> str:
        within = self.emitter.within
        if not within or not self.is_kept(statement, self.emitter.regions[within]):
            return super().expression(statement)
        mask = "[0]" if statement.op == "dropout" else ""  # the primitive gives its mask, too
        return f"self.{_kept(statement)}({', '.join(self.operands(statement))}){mask}"


class Recomputed(Recompute):
    """`mindspore.recompute` at a call of a region's cell, or cells that are configured once."""

    prefix = ""

    def configured(self, region: Region) -> bool:
        """Whether a region's cell or primitive is configured once, not recomputed at the call."""
        raise NotImplementedError

    def options(self, region: Region) -> str:
        """The keywords of a region's recompute."""
        raise NotImplementedError

    def called(self, node: Region | Again, region: Region) -> str:
        callee, arguments = self.forward.place(region), self.forward.call_arguments(node)
        if self.path == "plain" or self.configured(region):
            return f"{callee}({arguments})"
        if self.own is not None:
            return self.own_call(callee, arguments, region)
        return f"ms.recompute({', '.join(filter(None, [callee, arguments, self.options(region)]))})"


class Cells(Forward):
    """Writes `plain` and `recomputed` as functions that make a network, given what it holds.

    Where regions are configured, one class of the network serves both: `recomputed` configures its
    cells.
    """

    body: Statements
    recompute: Recomputed
    makes_network = True

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.plan, case = self.body.plan, self.case
        #: Whether regions are operations, which are configured as primitives.
        self.primitives = self.variant.name in ("graph-primitive", "jit-primitive")
        #: The network, a region without a name.
        self._net = Region(
            name="",
            takes=tuple(map(Ref, self.plan.inputs)),
            kwargs={},
            gives=case.outputs,
            body=case.program,
            granularity="module",
            preserve_rng=True,
            merge_adjacent=False,
            block="callable",
            where=case.where,
        )
        self._net_made: Sequence[str] = ()  # the lines of `Net.__init__`
        self._defined: set[str] = set()  # classes and functions of regions

    # -- the network ---------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        if self.plan.plain_functions:
            self._write_cells()
            super().write_forward(path)
            return
        self._write_class(self._net)
        held = ", ".join(self.plan.held)
        made = f"{self._class(self._net)}({held})"
        # Outer ones first: a cell is configured once, and what an inner one gives would be kept.
        regions = sorted(self.case.regions(), key=lambda region: -len(self._inside(region)))
        configured = [r for r in regions if self._configured(r, path) and not self._made_at_call(r)]
        with self.code.indent(f"def {path}({held}):"):
            if configured:
                self.code(f"network = {made}")
                made = "network"
            for region in configured:
                self.code(f"{self._path(region)}.recompute({self.recompute.options(region)})")
            self.code(f"return {self._cast(made, self.case.autocast, 'autocast')}")

    def _cast(self, cell: str, dtype: str, part: str) -> str:
        """A cell whose products are cast to `dtype`, if there is one; the operations that need float32
        are cast back."""
        if not dtype:
            return cell
        self.code.wrote(part)
        self.code.notes.add(CAST)
        return f'amp.auto_mixed_precision({cell}, "auto", ms.{dtype})'

    def _inside(self, region: Region) -> list[Region]:
        """The regions that a region contains or calls, at whatever depth."""
        inner: list[Region] = []
        for node in walk(region.body):
            if isinstance(node, Region):
                inner.append(node)
            elif isinstance(node, Again):
                called = self.emitter.regions[node.region]
                inner += [called, *self._inside(called)]
        return inner

    def _path(self, region: Region) -> str:
        """The path of a region's cell from the network."""
        return ".".join(["network", *(function(r.name) for r in (*self._around(region), region))])

    def _around(self, region: Region) -> list[Region]:
        """The regions in whose bodies a region is defined, the outermost first."""
        return [r for r in self.case.regions() if any(n is region for n in walk(r.body))]

    def _configured(self, region: Region, path: str) -> bool:
        return path == "recomputed" and self.recompute.configured(region)

    def _made_at_call(self, region: Region) -> bool:
        """Whether a region's cell, or one around it, is made where it is called."""
        return not all(map(self._is_attribute, (*self._around(region), region)))

    def _write_cells(self) -> None:
        """The classes and cells of regions, where no other cell holds them, and where not yet there."""
        regions = [node for node in self.case.program if isinstance(node, Region)]
        new = [region for region in regions if self._class(region) not in self._defined]
        for region in new:
            self._write_class(region)
        cells = {function(region.name): self._cell(region) for region in self.case.regions()}
        for region in new:
            if region.block != "invalid":
                given = ", ".join(cells[name] for name in self._given(region))
                self._write_cell(self._cell(region), f"{self._class(region)}({given})", region)

    def _cell(self, region: Region) -> str:
        """The name of a region's cell that no other cell holds. Both paths use it, unless it recomputes
        others inside."""
        name = function(region.name)
        return f"recomputed_{name}" if self._class(region).startswith("Recomputed") else name

    # -- classes -------------------------------------------------------------------------------

    def _class(self, region: Region) -> str:
        """The name of a region's class; a cell that recomputes others inside has one of its own."""
        if region.block == "invalid":
            return function(region.name)
        name = class_name(region.name or "net")
        inside = any(
            not self.recompute.configured(inner) or self._made_at_call(inner)
            for inner in self._inside(region)
        )
        return f"Recomputed{name}" if self.path == "recomputed" and inside else name

    def _given(self, region: Region) -> list[str]:
        """The arguments of the constructor of a region's cell: tensors, and cells that it calls which
        are defined around it."""
        if region is self._net:
            return self.plan.held
        return [*region.captured(), *(function(called.name) for called in self._called(region))]

    def _called(self, region: Region) -> list[Region]:
        """The regions that a region calls and that are defined around it."""
        own = {n.name for n in walk(region.body) if isinstance(n, Region)}
        called = [n.region for n in walk(region.body) if isinstance(n, Again)]
        return [self.emitter.regions[name] for name in dict.fromkeys(called) if name not in own]

    def _write_class(self, region: Region) -> None:
        """Write a region's class, after those of the regions in it, where that is not done yet. A block
        other than a cell is a function."""
        code, name = self.code, self._class(region)
        if name in self._defined:
            return
        self._defined.add(name)
        if region.block == "invalid":
            if self._inside(region):
                raise NotOfferedError(self.variant.id, "regions in a block that is not a cell")
            self.write_function(region)
            return
        for node in region.body:
            if isinstance(node, Region) and self.alone(node) is None:
                self._write_class(node)
        with code.indent(f"class {name}(nn.Cell):"):
            top = len(code.lines)
            self._write_construct(region)
            construct = code.lines[top:]
            del code.lines[top:]
            self._write_init(region, set(_ATTRIBUTE.findall("\n".join(construct))))
            code.lines += construct

    def _write_construct(self, region: Region) -> None:
        site = Site("region", self.path, region.name, region.name) if region.name else None
        formals = ", ".join(filter(None, ["self", self.parameters(region)]))
        with (
            self.code.indent(f"def construct({formals}):", site),
            self.body.spelling({name: f"self.{name}" for name in self._given(region)}),
        ):
            self.write_unpacking(region)
            self.body.write_nodes(region.body, region.name)
            self.write_given(region)

    def _write_init(self, region: Region, read: Set[str]) -> None:
        """`__init__`, of a cell that has anything of its own: what it is given and reads, and what its
        nodes need."""
        code, given = self.code, self._given(region)
        top = len(code.lines)
        with code.indent(f"def __init__({', '.join(['self', *given])}):"):
            code("super().__init__()")
            begin = len(code.lines)
            for name in given:
                if name in read:
                    code(f"self.{name} = {name}")
            for node in flat(region.body):
                self.write_attribute(node, region)
        made = code.lines[top:]
        if not given and len(code.lines) == begin:
            del code.lines[top:]
        elif region is self._net and made == self._net_made:
            del code.lines[top:]
            code.lines[-1] = f"class {self._class(region)}(Net):"
        else:
            self._net_made = made if region is self._net else self._net_made

    def write_attribute(self, node: Node, around: Region) -> None:
        """Write what a cell holds for a node in it: the cell or the operation of a region, and the
        operation of a statement that a policy keeps."""
        if isinstance(node, Statement) and self.body.is_kept(node, around):
            random = node.op in ("dropout", "uniform")
            primitive = self.body.drawing(node) if random else self.body.primitive(node)
            self.code(f"self.{_kept(node)} = ops.{primitive}.recompute(False)")
        elif not isinstance(node, Region):
            return
        elif self.is_primitive(node):
            self.code(f"self.{function(node.name)} = ops.{self.body.primitive(node.body[0])}")
        elif self._is_attribute(node):
            near = {function(other.name) for other in around.body if isinstance(other, Region)}
            given = [f"self.{name}" if name in near else name for name in self._given(node)]
            cell = f"{self._class(node)}({', '.join(given)})"
            self._write_cell(f"self.{function(node.name)}", cell, node)

    def _write_cell(self, name: str, cell: str, region: Region) -> None:
        """Make a region's cell, and configure it if its path is not known."""
        self.code(f"{name} = {self._cast(cell, region.autocast, 'autocast inside')}")
        if self._configured(region, self.path) and self._made_at_call(region):
            self.code(f"{name}.recompute({self.recompute.options(region)})")

    def _is_attribute(self, region: Region) -> bool:
        """Whether a region is an attribute of the cell around it: no function, and no cell that holds
        a computed tensor, or another such cell, which is made at each call."""
        around = (self._around(region) or [self._net])[-1]
        given = self.plan.held if around is self._net else around.captured()
        held = set(given) & set(self.plan.held)
        own = [n for n in around.body if isinstance(n, Region)]
        return (
            region.block != "invalid"
            and held.issuperset(region.captured())
            and all(self._is_attribute(r) for r in self._called(region) if r in own)
        )

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is configured as an operation, and not as a cell."""
        return self.primitives

    def alone(self, region: Region) -> Statement | None:
        """The statement that is all of a region, where what does it is configured, and no cell around
        it."""
        if not self.primitives:
            return None
        statement = region.body[0]
        assert isinstance(statement, Statement)
        return statement

    def write_region(self, region: Region) -> None:
        """Regions are classes, written before; a cell that holds a computed tensor is made here."""
        if region.block != "invalid" and not self._is_attribute(region):
            given = [
                *map(self.body.name, region.captured()),
                *map(self.place, self._called(region)),
            ]
            cell = f"{self._class(region)}({', '.join(given)})"
            self._write_cell(function(region.name), cell, region)

    def place(self, region: Region) -> str:
        """The expression of a region's cell, or function."""
        within = self.emitter.within and self.emitter.regions[self.emitter.within]
        here = not within or any(node is region for node in flat(within.body))
        if here and not self._is_attribute(region):
            return function(region.name)
        if self.plan.plain_functions and not self.emitter.within:
            return self._cell(region)
        return f"self.{function(region.name)}"

    def write_call(self, node: Region | Again, region: Region) -> None:
        statement = self.alone(region) if self.plan.graph else None
        if statement is None and region.mapped:
            self._write_mapped(node, region)
        elif statement is None:
            super().write_call(node, region)
        else:
            names = zip(leaves(region.takes), leaves(node.takes), strict=True)
            given = {formal: self.body.name(name) for formal, name in names}
            with self.body.spelling({**self.body.spelled, **given}):
                operands = ", ".join(self.body.operands(statement))
            site = Site("statement", self.path, region.name, statement.label, statement.op)
            self.code(f"{leaves(node.gives)[0]} = {self.place(region)}({operands})", site)

    def _write_mapped(self, node: Region | Again, region: Region) -> None:
        """A region's cell through `vmap`, or a function of its own that recomputes the cell."""
        self.code.wrote("mapped")
        mapped = self.place(region)
        if self.path == "recomputed" and not self.recompute.configured(region):
            mapped = f"mapped_{function(region.name)}"
            head = f"def {mapped}({', '.join(self.formals(region))}):"
            with self.code.indent(head), self.hiding(region):
                called = self.recompute.called(replace(node, takes=region.takes), region)
                self.code(f"return {called}")
        given = ", ".join(map(self.body.tree, node.takes))
        self.write_results(node, f"ms.vmap({mapped})({given})", region)


def _kept(statement: Statement) -> str:
    """The attribute of a cell that holds the operation of a statement that a policy keeps."""
    return f"{statement.op}_{statement.label}"
