"""Writes a case as a program of a framework: the part that all frameworks share.

`Emitter` walks a case and writes a program with the same few functions in every framework:

- `inputs()` returns a dict of what the program starts from, by name;
- `plain(...)` and `recomputed(...)` are the forward pass without and with recompute of its regions;
- `run(forward)` does the case's procedure and returns a dict with `outputs`, `losses` (a list),
  `gradients`, and where the procedure has them `again`, `parameters` and `state` (dicts by name);
- run as a script, it does both and prints what they computed.

An adapter's `emitter.py` subclasses it, says how operations are written and overrides what its
framework writes differently. While lines are written, marks (comments) refer to their sites; `finish`
formats the programs with ruff, removes the marks and returns the source map.
"""

from __future__ import annotations

import re
import symtable
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext

from conformance.drivers import contract
from conformance.emit import lists, loops
from conformance.emit.asked import REQUIRED, missing
from conformance.emit.base import OWN_NAMES, RAISE_IF, Call, Lists, Writer, imported
from conformance.emit.code import Code
from conformance.emit.expressions import function, in_docstring, numpy_fill
from conformance.emit.forward import Forward
from conformance.emit.helpers import HELPERS
from conformance.emit.running import Running
from conformance.emit.values import FEW
from conformance.errors import AdapterError, NotOfferedError
from conformance.model.case import (
    Again,
    Array,
    Generator,
    Region,
    Statement,
    Value,
    flat,
    node_makes,
    walk,
)

#: What adapters import from here.
__all__ = ["FEW", "RAISE_IF", "Call", "Emitter", "Lists", "Writer"]
_DRAWS = ("normal", "uniform", "integers")


class Emitter(Forward, Running, contract.Emitter, contract.Writes, contract.MayWrite, ABC):
    """Writes one case for one variant. A subclass per adapter, named `Emitter`."""

    def write(self) -> Code:
        """The whole program."""
        code, case = self.code, self.case
        self.refuse_clashes()
        self.refuse_unoffered()
        code(f'"""{in_docstring(case.title)}.')
        code()
        code(f"Case {in_docstring(case.id)}, variant {self.variant.id}.\n")
        code(f'Source: {in_docstring(case.source)}\n"""\n')
        for line in self.import_lines():
            code(line)
        code("\n")
        self.write_helpers()
        self.write_inputs()
        self.write_shared()
        for path in ("plain", "recomputed"):
            begin = len(code.lines)
            self.write_forward(path)
            lines = lists.replaced(code.lines[begin:], self.in_lists, self.list_of_parameters)
            code.lines[begin:] = lines
        self.write_run()
        self.write_main()
        self.refuse_missing()
        return code

    def refuse_unoffered(self) -> None:
        """Raise `NotOfferedError` if the case has a procedure that the adapter does not say it writes.

        What needs a single line of the framework's (`hook`, `vmap`) is refused by `offered`, where that
        line would be written, and training by `write_training`.
        """
        kind = self.case.procedure.kind
        if kind not in REQUIRED and kind != "train" and kind not in self.procedures_written:
            raise NotOfferedError(self.variant.id, f"procedure {kind}")

    def refuse_missing(self) -> None:
        """Raise `AdapterError` if the case demands a part that is not written, though offered."""
        lacking = missing(self.case, self.code.parts, self.procedures_written, self.code.sites)
        if "autocast" in lacking:  # which a framework may also ask of its layers, elsewhere
            self.offered("autocast")
        if lacking:
            raise AdapterError(
                f"not written for {self.variant.id}: {', '.join(lacking)}",
                where=self.case.where,
                hint="each is a part of the case, see Emitter.procedures_written and Emitter.wrote",
            )

    def import_lines(self) -> list[str]:
        """The import lines of a program: `imports`, and the user's own recompute if there is one."""
        imports = [*self.imports]
        if self.case.procedure.between == "thread":
            imports.append("from concurrent.futures import ThreadPoolExecutor")
        if self.own is None:
            return imports
        module, _, name = self.own.function.partition(":")
        first, bound = name.partition(".")[0], self.callee.partition(".")[0]
        line = f"from {module} import {first}" + (f" as {bound}" if bound != first else "")
        hidden = re.compile(rf"from \S+ import {re.escape(bound)}")
        return [*(given for given in imports if not hidden.fullmatch(given)), line]

    def refuse_clashes(self) -> None:
        """Raise `AdapterError` where a name of the case would hide one that the program imports."""
        made = {name for node in walk(self.case.program) for name in node_makes(node)}
        clashes = imported(tuple(self.imports)) & (made | set(self.case.names()))
        if clashes:
            raise AdapterError(
                f"case {self.case.id} names a value {min(clashes)!r}, which is an import here",
                where=self.case.where,
                hint="give the value another name",
            )

    def write_helpers(self) -> None:
        """The functions of `helpers` that the case's operations call."""
        first: dict[str, Statement] = {}
        for _, statement in self.case.statements():
            first.setdefault(statement.op, statement)
        for op, text in self.helpers.items():
            if op in first and op in self.operations:
                self.code(text)
                self.code("\n")
        for op, helper in HELPERS.items():
            if op in first and op not in self.operations:
                self.code(helper(self.written, first[op]))
                self.code("\n")

    def write_inputs(self) -> None:
        """`inputs()`: every draw comes from one NumPy generator, in the order of the case."""
        with self.code.indent("def inputs():"):
            if any(array.fill.kind in _DRAWS for array in self.case.arrays):
                self.code(f"rng = np.random.default_rng({self.case.seed})")
            begin = len(self.code.lines)
            for value in (*self.case.inputs, *self.case.parameters, *self.case.state):
                if isinstance(value, Value):
                    listed = isinstance(value.value, tuple)
                    self.code(f"{value.name} = {list(value.value) if listed else value.value!r}")  # type: ignore[arg-type]
                elif isinstance(value, Generator):
                    self.code(f"{value.name} = {self.generator(value)}")
                else:
                    self.write_array(value)
            taken = {*self.case.names(), *imported(tuple(self.imports)), "rng"}
            lines, entry = loops.series(self.code.lines[begin:], taken)
            self.code.lines[begin:] = lines
            entry |= {name: f'"{item.name}": {item.name}' for name, item in self.in_lists.items()}
            entries = [entry.get(name, f"{name!r}: {name}") for name in self.case.names()]
            self.code(f"return {{{', '.join(dict.fromkeys(entries))}}}")
        self.code("\n")

    def write_array(self, array: Array) -> None:
        """Write the line(s) that make a tensor from `numpy_fill(array)`."""
        self.code(f"{array.name} = {self.tensor(array, numpy_fill(array))}")

    def generator(self, value: Generator) -> str:
        """The expression that makes an explicit generator; `framework_generator` for its own."""
        if value.library == "numpy":
            return f"np.random.default_rng({value.seed})"
        return self.framework_generator(value.seed)

    def framework_generator(self, seed: int) -> str:
        """The expression of the framework's explicit generator or key."""
        raise NotOfferedError(self.variant.id, "an explicit generator (`framework_generator`)")

    def write_shared(self) -> None:
        """Write the functions that `plain` and `recomputed` share; their sites have the path `both`."""
        if not self.shares:
            return
        self.path = "both"
        regions = [node for node in self.case.program if isinstance(node, Region)]
        for region in filter(self._serves_both, regions):
            begin = len(self.code.lines)
            self.write_function(region)
            local = self._case_names | {*map(function, self._regions)}
            if _globals(self.code.lines[begin:]) & local:  # what it captures is in one path
                del self.code.lines[begin:]
                continue
            self._shared |= {region.name}
            self.code()
        self.path = "plain"

    def _serves_both(self, region: Region) -> bool:
        """Whether both paths may share a region's function: it calls no other region (which might be
        recomputed), and no value of the case has its name."""
        names = self._case_names | OWN_NAMES | imported(tuple(self.imports))
        inner = any(isinstance(node, Region | Again) for node in flat(region.body))
        return not inner and not region.mapped and function(region.name) not in names

    def write_forward(self, path: str) -> None:
        """`plain` or `recomputed`."""
        self.path, self._temporary = path, 0
        with self.code.indent(f"def {path}({', '.join(self.case.names())}):"):
            head = self.autocast.format(dtype=self.case.autocast)
            if head:
                self.wrote("autocast")
            with self.code.indent(head) if head and self.case.autocast else nullcontext():
                self.write_nodes(self.case.program, "")
            self.write_return(self.case.outputs)
        self.code("\n")

    @abstractmethod
    def tensor(self, array: Array, source: str) -> str:
        """The expression that makes a tensor from a NumPy expression of the array's elements."""


def _globals(lines: Sequence[str]) -> set[str]:
    """The global names that the functions in some lines read."""
    names: set[str] = set()
    tables = symtable.symtable("\n".join(lines), "program", "exec").get_children()
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names
