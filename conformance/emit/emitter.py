"""Writes a case as a program of a framework, with the parts that an adapter gives.

A program has the same few functions in every framework:

- `inputs()` returns a dict of what the program starts from, by name;
- `plain(...)` and `recomputed(...)` are the forward pass without and with recompute of its regions;
- `run(forward)` does the case's procedure and returns a dict with `outputs`, `losses` (a list),
  `gradients`, and where the procedure has them `again`, `parameters` and `state` (dicts by name);
- run as a script, it does both and prints what they computed.

An adapter's `emitter.py` has a function `emitter(case, variant)`, which gives an `Emitter` its parts.
While lines are written, marks (comments) refer to their sites; `finish` formats the programs with ruff,
removes the marks and returns the source map.
"""

from __future__ import annotations

import builtins
import re
import symtable
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from conformance.drivers.adapter import Variant
from conformance.emit import lists
from conformance.emit.asked import REQUIRED, missing
from conformance.emit.code import Code
from conformance.emit.expressions import function, in_docstring
from conformance.emit.forward import Body, Forward
from conformance.emit.layers import Layers
from conformance.emit.lists import Item
from conformance.emit.part import (
    OWN_NAMES,
    PROCEDURES,
    RAISE_IF,
    Call,
    Words,
    Writer,
    imported,
)
from conformance.emit.recompute import Calling, Recompute
from conformance.emit.running import Run
from conformance.emit.tensors import Tensors
from conformance.emit.values import Values
from conformance.errors import AdapterError, NotOfferedError
from conformance.language.operations import OF_CALLABLES
from conformance.model.case import Again, Case, Region, flat, node_makes, walk

#: What adapters import from here.
__all__ = ["RAISE_IF", "Body", "Call", "Calling", "Emitter", "Forward", "Layers", "Parts"]
__all__ += ["PROCEDURES", "Recompute", "Run", "Tensors", "Values", "Words", "Writer"]


@dataclass(frozen=True)
class Parts:
    """What a variant's programs are written with: the framework's words, and for each part of a program
    what makes the object that writes it."""

    words: Words
    #: `inputs`: how tensors are made.
    tensors: Callable[[Emitter], Tensors]
    #: How a region is recomputed: a transform of its function, or a call that is given the function.
    recompute: Callable[[Emitter], Recompute]
    #: `run`: gradients, training, inference.
    run: Callable[[Emitter], Run]
    #: Statements, and the expressions that read names.
    body: Callable[[Emitter], Body] = Body
    #: Statements that the framework's own layers do.
    layers: Callable[[Emitter], Layers] = Layers
    #: `plain` and `recomputed`: the functions, modules and calls of regions.
    forward: Callable[[Emitter], Forward] = Forward
    #: What `run` reads out of `values`.
    values: Callable[[Emitter], Values] = Values

    def but(self, *imports: str, **changes: Any) -> Parts:
        """The parts of another variant: with other parts, with other words (`lists="all"`), and with
        more lines of `imports`."""
        words = {name: changes.pop(name) for name in [*changes] if hasattr(self.words, name)}
        words.setdefault("imports", tuple(dict.fromkeys((*self.words.imports, *imports))))
        return replace(self, words=replace(self.words, **words), **changes)


class Emitter:
    """Writes one case for one variant."""

    def __init__(self, case: Case, variant: Variant, parts: Parts) -> None:
        self.case, self.variant, self.words = case, variant, parts.words
        self.code = Code()
        self.path = "plain"  # which of `plain` and `recomputed` is being written
        self.within = ""  # the innermost region whose body is being written
        #: The regions whose functions both paths share.
        self.shared: frozenset[str] = frozenset()
        self._regions = {region.name: region for region in case.regions()}
        #: The regions that are called again, or that an operation inspects.
        self.named_often = {n.region for n in walk(case.program) if isinstance(n, Again)} | {
            s.names()[0] for _, s in case.statements() if s.op in OF_CALLABLES
        }
        self._made = {name for node in walk(case.program) for name in node_makes(node)}
        self.case_names = self._made | {*case.names()}
        self._functions = {*map(function, self._regions)}
        #: Names that a program may not use for anything else.
        self.taken_names = self.case_names | self._functions | OWN_NAMES
        self.taken_names |= self._imported | set(dir(builtins))
        #: The parameters that are in lists, and where.
        self.in_lists: Mapping[str, Item] = {}
        if self.words.lists != "nothing":
            captured = self.words.lists == "all"
            self.in_lists = lists.items(case, self.taken_names, captured=captured)
        self.taken_names |= {item.name for item in self.in_lists.values()}
        self.tensors = parts.tensors(self)
        self.body = parts.body(self)
        self.layers = parts.layers(self)
        self.recompute = parts.recompute(self)
        self.forward = parts.forward(self)
        self.values = parts.values(self)
        self.run = parts.run(self)

    @property
    def _imported(self) -> frozenset[str]:
        return imported(tuple(self.words.imports))

    def region_named(self, name: str) -> Region:
        """The region of that name."""
        return self._regions[name]

    def write(self) -> Code:
        """The whole program."""
        code, case = self.code, self.case
        self._refuse_clashes()
        self._refuse_unoffered()
        code(f'"""{in_docstring(case.title)}.')
        code()
        code(f"Case {in_docstring(case.id)}, variant {self.variant.id}.\n")
        code(f'Source: {in_docstring(case.source)}\n"""\n')
        for line in self._import_lines():
            code(line)
        code("\n")
        self.body.write_helpers()
        self.recompute.write_helpers()
        self.tensors.write_inputs()
        self._write_shared()
        for path in ("plain", "recomputed"):
            begin = len(code.lines)
            self.path = path
            self.forward.write_forward(path)
            container = self.words.list_of_parameters
            lines = lists.replaced(code.lines[begin:], self.in_lists, container)
            code.lines[begin:] = lines
        self.run.write_run()
        self.run.write_main()
        self._refuse_missing()
        return code

    def _refuse_unoffered(self) -> None:
        """Raise `NotOfferedError` if the case has a procedure that the adapter does not say it writes.

        What needs a single line of the framework's (`hook`, `vmap`) is refused by `offered`, where that
        line would be written, and training by `write_training`.
        """
        kind = self.case.procedure.kind
        if kind not in REQUIRED and kind != "train" and kind not in self.words.procedures_written:
            raise NotOfferedError(self.variant.id, f"procedure {kind}")

    def _refuse_missing(self) -> None:
        """Raise `AdapterError` if the case demands a part that is not written, though offered."""
        code, kinds = self.code, self.words.procedures_written
        lacking = missing(self.case, code.parts, kinds, code.sites)
        if "autocast" in lacking:  # which a framework may also ask of its layers, elsewhere
            self.run.offered("autocast")
        if lacking:
            raise AdapterError(
                f"not written for {self.variant.id}: {', '.join(lacking)}",
                where=self.case.where,
                hint="each is a part of the case, see Words.procedures_written and Code.wrote",
            )

    def _import_lines(self) -> list[str]:
        """The import lines of a program: `imports`, and the user's own recompute if there is one."""
        imports, own = [*self.words.imports], self.recompute.own
        if self.case.procedure.between == "thread":
            imports.append("from concurrent.futures import ThreadPoolExecutor")
        if own is None:
            return imports
        module, _, name = own.function.partition(":")
        first = name.partition(".")[0]
        bound = self.recompute.own_callee.partition(".")[0]
        line = f"from {module} import {first}" + (f" as {bound}" if bound != first else "")
        hidden = re.compile(rf"from \S+ import {re.escape(bound)}")
        return [*(given for given in imports if not hidden.fullmatch(given)), line]

    def _refuse_clashes(self) -> None:
        """Raise `AdapterError` where a name of the case would hide one that the program imports."""
        clashes = self._imported & self.case_names
        if clashes:
            raise AdapterError(
                f"case {self.case.id} names a value {min(clashes)!r}, which is an import here",
                where=self.case.where,
                hint="give the value another name",
            )

    def _write_shared(self) -> None:
        """Write the functions that `plain` and `recomputed` share; their sites have the path `both`."""
        if not self.words.shares:
            return
        self.path = "both"
        outermost = [node for node in self.case.program if isinstance(node, Region)]
        regions = self.case.regions() if self.words.shares_nested else outermost
        for region in regions:
            if not self._serves_both(region) or not self.forward.serves_both(region):
                continue
            begin = len(self.code.lines)
            self.forward.write_function(region)
            # What a function captures is in one path.
            if _globals(self.code.lines[begin:]) & (self.case_names | self._functions):
                del self.code.lines[begin:]
                continue
            self.shared |= {region.name}
            self.code()

    def _serves_both(self, region: Region) -> bool:
        """Whether both paths may share a region's function: it calls no other region (which might be
        recomputed), and no value of the case has its name."""
        names = self.case_names | OWN_NAMES | self._imported
        inner = any(isinstance(node, Region | Again) for node in flat(region.body))
        return not inner and not region.mapped and function(region.name) not in names


def _globals(lines: Sequence[str]) -> set[str]:
    """The global names that the functions in some lines read."""
    names: set[str] = set()
    tables = symtable.symtable("\n".join(lines), "program", "exec").get_children()
    while tables:
        table = tables.pop()
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return names
