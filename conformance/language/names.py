"""Whether a program reads only names that it knows, and makes none that is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.errors import CaseError, nearest
from conformance.language.operations import OPERATIONS
from conformance.language.source import OWN, RESERVED
from conformance.model.case import (
    Again,
    Node,
    Position,
    Ref,
    Region,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    refs,
)


class Names:
    """The names of a program as it runs: what is read is known, and what is made has a name of its own.

    All methods raise `CaseError`.
    """

    def __init__(self, generators: set[str]) -> None:
        self._generators = generators
        #: By the place of a region or call: where its name stands, and where its `returned`.
        self.named_at: dict[Position, Position] = {}
        self.returned_at: dict[Position, Position] = {}
        #: Names of calls' return values as a whole, and where the case names them.
        self.returned: dict[str, Position] = {}
        #: Regions so far, by the name of their function, those included that are being followed.
        self._functions: set[str] = set()
        self._regions: set[str] = set()

    def follow(self, nodes: Iterable[Node], known: set[str]) -> None:
        """Check the nodes of a list; names that they make are added to `known`."""
        captured: dict[str, str] = {}
        for node in flat(nodes):
            if isinstance(node, Statement):
                self._statement(node, known)
            elif isinstance(node, Region):
                self._region(node, known)
            else:
                self.check((*node.takes, *node.kwargs.values()), known)
                self._call(node, known)
            for name in node_makes(node):
                if name in captured:  # a rerun would read the new value
                    message = (
                        f"{name!r} is assigned again, and region {captured[name]!r} captures it"
                    )
                    hint = "give the new value another name"
                    raise CaseError(message, where=node.where, hint=hint)
            if isinstance(node, Region):
                captured |= dict.fromkeys(node.captured(), node.name)

    def _statement(self, statement: Statement, known: set[str]) -> None:
        tensors = OPERATIONS[statement.op].tensors
        for kind, argument in zip(tensors, statement.arguments, strict=True):
            ref = argument if isinstance(argument, Ref) else Ref("")
            where = ref.where or statement.where
            if kind == "region?" and ref.name not in self._regions:
                hint = nearest(ref.name, self._regions)
                raise CaseError(f"no region {ref.name!r} before this", where=where, hint=hint)
            if kind == "generator?" and ref.name not in self._generators:
                message = f"{ref.name or 'a number'!r} is not a generator"
                hint = "declare it among the inputs: `g: {generator: framework}`"
                raise CaseError(message, where=where, hint=hint)
            if kind not in ("region?", "generator?"):
                self.check(argument, known)
        self._add([Ref(target, statement.where) for target in statement.targets], known)

    def _region(self, region: Region, known: set[str]) -> None:
        function = region.name.replace("-", "_")
        if function in self._functions | known | set(self.returned):
            where, hint = self.named_at[region.where], "in a `repeat`, number the name: `block$i`"
            raise CaseError(f"the name {region.name!r} is taken already", where=where, hint=hint)
        arguments = (*region.takes, *region.kwargs.values())
        if region.called:
            self.check(arguments, known)
        inside = known | set(leaves(arguments))
        self._functions.add(function)
        for layer in region.segment.layers if region.segment else ():
            (name,) = leaves(region.takes)
            if name not in layer[-1].targets:
                message = f"a layer's last statement must make {name!r}, the next layer's argument"
                raise CaseError(message, where=layer[-1].where)
        self.follow(region.body, inside)
        self.check(region.gives, inside)
        made = {name for node in flat(region.body) for name in node_makes(node)}
        both = made & set(region.captured())
        if both and region.segment is None:
            message = f"region {region.name!r} both captures and assigns {min(both)!r}"
            hint = "make it an argument, or give the new value another name"
            raise CaseError(message, where=region.where, hint=hint)
        if region.called:
            self._call(region, known)
        self._regions.add(region.name)

    def _call(self, node: Region | Again, known: set[str]) -> None:
        """Note the names of what a call returns: as a whole, and its parts."""
        if node.returned:
            name, where = node.returned, self.returned_at[node.where]
            taken = known | set(self.returned) | self._functions | self._generators
            if name in taken | set(leaves(node.gives)):
                raise CaseError(f"the name {name!r} is taken already", where=where)
            self.returned[name] = where
        self._add(list(refs(node.gives)), known)

    def _add(self, made: Sequence[Ref], known: set[str]) -> None:
        """Add names to the known ones; a region's name cannot be assigned again."""
        names = [ref.name for ref in made]
        for ref in made:
            hint = OWN if RESERVED.fullmatch(ref.name) else ""
            if ref.name in self._functions:
                hint = "a region has it"
            elif ref.name in self.returned:
                hint = "the return value of a region has it"
            if hint:
                message = f"the name {ref.name!r} is taken already"
                raise CaseError(message, where=ref.where, hint=hint)
            if names.count(ref.name) > 1:
                raise CaseError(f"the name {ref.name!r} is given twice", where=ref.where)
        known |= set(names)

    def check(self, tree: Tree, known: set[str]) -> None:
        """Refuse a name in a tree that is not known."""
        for ref in refs(tree):
            if ref.name not in known:
                raise self.unknown(ref.name, known, ref.where)

    def unknown(self, name: str, known: set[str], where: Position | None) -> CaseError:
        """The error of a name that cannot be read here."""
        if name in self.returned:
            message = f"{name!r} is the whole return value of a region: only `outputs` may name it"
            return CaseError(message, where=where, hint="`gives` names its parts")
        return CaseError(f"unknown name {name!r}", where=where, hint=nearest(name, known))
