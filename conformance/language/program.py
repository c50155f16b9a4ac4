"""The program of a case: statements, regions and what they read and give.

Nodes are read as they are written, `$i` in the names of what is repeated. `conformance.language.names`
then checks the names, repetitions unrolled.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.errors import CaseError
from conformance.language import spec
from conformance.language.left import unfit
from conformance.language.names import Names
from conformance.language.operations import OPERATIONS
from conformance.language.source import OWN, RESERVED, KeyPath, Source, described
from conformance.language.statements import RegionCall, divided, parse, parse_head
from conformance.language.trees import TreeSource, same_containers
from conformance.model.case import (
    Again,
    Literal,
    Node,
    Position,
    Ref,
    Region,
    Repeat,
    Segment,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    node_reads,
    numbered,
    walk,
)
from conformance.words import counted

Arguments = tuple[tuple[Tree, ...], Mapping[str, Tree]]
RegionModel = spec.RegionModel | spec.DefineModel


class ProgramBuilder(TreeSource):
    """Builds the nodes of one case's program. All methods raise `CaseError`.

    `generators` are the names of explicit generators, `values` those of inputs with a value; `may_raise`
    says that the case expects an error, so that what cannot be divided into segments may be written;
    `default_dtype` is what the framework makes tensors of in forward.
    """

    def __init__(
        self,
        source: Source,
        generators: set[str],
        values: set[str],
        *,
        may_raise: bool,
        default_dtype: str,
    ) -> None:
        super().__init__(source.marked, source.path)
        self._values = values
        self._may_raise, self._default_dtype = may_raise, default_dtype
        self.regions: dict[str, Region] = {}
        self.names = Names(generators)
        #: Whether a region's body is being read.
        self._inside = False
        #: Regions that may be called, a set for each open list of nodes.
        self._scopes: list[set[str]] = [set()]
        #: The statements and regions that repetitions stand for.
        self._copies = 0

    def nodes(self, models: Iterable[Any], path: KeyPath) -> tuple[Node, ...]:
        """The nodes of a list, in which regions are visible that it defines."""
        self._scopes.append(set())
        nodes = self._listed(models, path)
        self._scopes.pop()
        return nodes

    def _listed(self, models: Iterable[Any], path: KeyPath) -> tuple[Node, ...]:
        return tuple(
            node for i, model in enumerate(models) for node in self._node(model, (*path, i))
        )

    def _node(self, model: Any, path: KeyPath) -> Iterable[Node]:
        match model:
            case spec.RepeatModel():
                return self._repeated(model, path)
            case spec.RegionModel() | spec.DefineModel():
                return [self._region(model, path)]
            case spec.SequenceModel():
                return self._sequence(model, path)
            case spec.CallModel():
                return [self._call(model, path)]
        return self._statements(model, path)

    def _repeated(self, model: spec.RepeatModel, path: KeyPath) -> tuple[Node, ...]:
        """A `Repeat`; the nodes of all iterations one after the other where these define regions, or
        where there is only one."""
        before = self._copies
        body = self._listed(model.body, (*path, "body"))
        numbers = model.repeat
        if not isinstance(numbers, list):
            numbers = list(range(1, self._number(numbers, *path, "repeat") + 1))
        self._copies = before
        self._count(len(numbers) * _size(body), *path, "repeat")
        repeat = Repeat(body, tuple(numbers))
        regions = [node for node in walk(body) if isinstance(node, Region)]
        if len(numbers) > 1 and not regions:
            return (repeat,)
        for region in regions:
            self.regions.pop(region.name, None)
            self._scopes[-1].discard(region.name)
        unrolled = tuple(flat((repeat,)))
        self.regions |= {node.name: node for node in walk(unrolled) if isinstance(node, Region)}
        self._scopes[-1] |= {node.name for node in unrolled if isinstance(node, Region)}
        return unrolled

    def _number(self, written: int | str, *path: object) -> int:
        if isinstance(written, int):
            return written
        raise self.error(f"found {written!r}, expected a number", *path)

    def _count(self, copies: int, *path: object) -> None:
        """Refuse more repeated statements and regions than any case needs."""
        self._copies += copies
        if self._copies > spec.MAX_COPIES:
            message = f"the program has more than {spec.MAX_COPIES} statements and regions here"
            raise self.error(message, *path)

    def _statements(self, text: str, path: KeyPath) -> Iterator[Statement | Again]:
        """The statements of a text; a further call of a region reads as one."""
        visible = {name.replace("-", "_"): name for name in set().union(*self._scopes)}
        for part, where in divided(text, self.at(*path)):
            parsed = self._parse(part, where, visible)
            if isinstance(parsed, Statement):
                yield parsed
                continue
            named = tuple(Ref(target, parsed.where) for target in parsed.targets)
            gives = named if len(named) > 1 else named[0]
            name, arguments = visible[parsed.region], _call_arguments(parsed)
            yield self._with_all_arguments(Again(name, *arguments, gives, parsed.where))

    def _region(self, model: RegionModel, path: KeyPath) -> Region:
        called = isinstance(model, spec.RegionModel)
        key = "recompute" if called else "define"
        text, where = getattr(model, key), self.at(*path, key)
        name = text.partition("(")[0]
        self.identifier(name.replace("-", "_"), *path, key)
        head = parse_head(text, where)
        takes, kwargs = (
            self._head_arguments(model, head, path) if head else self._takes(model, path)
        )
        outside, self._inside = self._inside, True
        body = self.nodes(model.body, (*path, "body"))
        self._inside = outside
        gives = self.gives(model, "gives", body, path)
        switches = ("preserve_rng", "merge_adjacent")
        copied = (*switches, "granularity", "block", "signature", "mapped", "contexts")
        region = Region(
            *(name, takes, kwargs, gives, body),
            where=self.at(*path),
            save=self._policy(model, body, path),
            called=called,
            autocast=model.autocast or "",
            returned=self._returned(model, gives, path),
            written=frozenset({*switches} & model.model_fields_set),
            round=isinstance(model, spec.RegionModel) and model.round,
            option=model.option or "",
            left=(model.left,) if isinstance(model.left, str) else tuple(model.left),
            **{word: getattr(model, word) for word in copied},
        )
        self._refuse_unfit(region, path)
        self.names.named_at[region.where] = where
        return self._defined(region)

    def _refuse_unfit(self, region: Region, path: KeyPath) -> None:
        nodes, error = tuple(flat(region.body)), self.error
        ops = {node.op for node in nodes if isinstance(node, Statement)}
        if "doubled_sin" in ops and not region.contexts:
            message = "doubled_sin needs a region with contexts"
            raise error(message, *path, hint="write `contexts: true`")
        if name := next(unfit(region), ""):
            message = f"{name!r} is not one of several results that the body makes"
            hint = f"`gives: [a, {name}]`; without `mapped` and `returned`"
            raise error(message, *path, "left", hint=hint)
        read = {name for node in nodes for name in node_reads(node)}
        if region.signature == "undeclared" and set(leaves(region.kwargs)) & read:
            message = "the body reads an argument that the function does not declare"
            raise error(message, *path, "signature")
        takes, kwargs = region.takes, region.kwargs
        if region.mapped and (kwargs or not all(isinstance(tree, Ref) for tree in takes)):
            message = "the arguments of a mapped region are tensors, each by its name"
            raise error(message, *path, "mapped")
        rows = set(leaves(takes))
        for node in nodes:
            rows |= set(node_makes(node)) if rows.intersection(node_reads(node)) else set()
        if region.mapped and not rows.issuperset(leaves(region.gives)):
            message = "the results of a mapped region come from its arguments"
            raise error(message, *path, "mapped")
        one = len(takes) == 1 and isinstance(takes[0], Ref) and isinstance(region.gives, Ref)
        if region.round and (kwargs or not one):
            message = "a region with `round` has one tensor as argument and one as result"
            raise error(message, *path, "round")

    def gives(
        self,
        model: spec.BlockModel | spec.CaseModel,
        key: str,
        nodes: Sequence[Node],
        path: KeyPath,
    ) -> Tree:
        """What a region gives (`gives`) or a program puts out (`outputs`)."""
        if key in model.model_fields_set:
            given = getattr(model, key)
            if given in ([], {}):
                hint = f"leave `{key}` out for the last value that is made"
                raise self.error(
                    f"found {described(given)}, expected a name", *path, key, hint=hint
                )
            return self.tree(given, (*path, key))
        *_, last = flat(nodes)
        made = node_makes(last)
        if len(made) != 1:
            message = (
                f"the last entry of the program or body makes {len(made)} values, expected one"
            )
            hint = f"name the results: `{key}: [a, b]`"
            raise CaseError(message, where=last.where, hint=hint)
        return Ref(made[0], last.where)

    def _returned(self, model: spec.BlockModel | spec.CallModel, gives: Tree, path: KeyPath) -> str:
        """The name for a call's return value as a whole; empty if there is none."""
        name = model.returned if isinstance(model, spec.RegionModel | spec.CallModel) else ""
        here = (*path, "returned")
        if not name:
            return ""
        self.identifier(name, *here)
        if self._inside:
            hint = "remove it; it is for regions of the program itself"
            raise self.error("found `returned` in a region inside another one", *here, hint=hint)
        if isinstance(gives, Ref | Literal):
            hint = "write `gives: [a]` for a tuple, or `gives: {key: a}` for a dict"
            message = f"the region returns one value, and {name!r} must be a tuple or a dict"
            raise self.error(message, *here, hint=hint)
        self.names.returned_at[self.at(*path)] = self.at(*here)
        return name

    def _defined(self, region: Region) -> Region:
        """The region, which what follows may call by its name."""
        self.regions[region.name] = region
        self._scopes[-1].add(region.name)
        return region

    def _policy(
        self, model: spec.BlockModel, body: Sequence[Node], path: KeyPath
    ) -> tuple[str, ...]:
        """The policy: operations, or names that statements of the body make."""
        statements = [node for node in flat(body) if isinstance(node, Statement)]
        made = {name for statement in statements for name in statement.targets}
        used = {statement.op for statement in statements}
        for i, word in enumerate(model.save):
            if word in made and word in OPERATIONS:
                message = f"{word!r} is an operation and a name of the body"
                raise self.error(message, *path, "save", i)
            message = f"{word!r} is neither an operation of the body nor a name that it makes"
            self.refuse_other(word, made | used, message, *path, "save", i)
        return tuple(model.save)

    def _sequence(self, model: spec.SequenceModel, path: KeyPath) -> Iterator[Region]:
        where = self.at(*path)
        handed = Ref(model.takes, self.at(*path, "takes"))
        layers = tuple(self._layers(model, (*path, "layers")))
        count = self._number(model.segments, *path, "segments")
        if count > len(layers) and not self._may_raise:
            message = f"{len(layers)} layer(s) cannot make {count} segments"
            hint = "a case that expects this error names it under `error`"
            raise self.error(message, *path, "segments", hint=hint)
        self.names.named_at[where] = self.at(*path, "sequence")
        size = max(1, len(layers) // count)
        for number in range(1, min(count, len(layers)) + 1):
            part = layers[(number - 1) * size : None if number == count else number * size]
            name = f"{model.sequence}{number}"
            self.identifier(name.replace("-", "_"), *path, "sequence")
            yield self._defined(
                Region(
                    name,
                    (handed,),
                    {},
                    handed,
                    tuple(statement for layer in part for statement in layer),
                    "segment",
                    model.preserve_rng,
                    where=where,
                    segment=Segment(model.sequence, number, count, part),
                )
            )

    def _layers(self, model: spec.SequenceModel, path: KeyPath) -> Iterator[tuple[Statement, ...]]:
        for i, written in enumerate(model.layers):
            if isinstance(written, list):
                yield self._layer(written, (*path, i))
                continue
            layer = self._layer(written.layer, (*path, i, "layer"))
            copies = self._number(written.repeat, *path, i, "repeat")
            self._count(copies * len(layer), *path, i, "repeat")
            yield from (numbered(layer, number) for number in range(1, copies + 1))

    def _parse(
        self, text: str, where: Position, regions: Collection[str] = ()
    ) -> Statement | RegionCall:
        parsed = parse(text, where, regions)
        if isinstance(parsed, Statement) and parsed.op == "to_default":
            return replace(parsed, options={"dtype": self._default_dtype})
        return parsed

    def _layer(self, texts: Sequence[str], path: KeyPath) -> tuple[Statement, ...]:
        return tuple(
            parsed
            for i, text in enumerate(texts)
            for part, where in divided(text, self.at(*path, i))
            if isinstance(parsed := self._parse(part, where), Statement)
        )

    def _call(self, model: spec.CallModel, path: KeyPath) -> Again:
        visible = set().union(*self._scopes)
        message = f"no region {model.call!r} before this call"
        self.refuse_other(model.call, visible, message, *path, "call")
        takes, kwargs = self._takes(model, path)
        gives = self.tree(model.gives, (*path, "gives"))
        where = self.at(*path)
        returned = self._returned(model, gives, path)
        return self._with_all_arguments(Again(model.call, takes, kwargs, gives, where, returned))

    def _head_arguments(self, model: RegionModel, head: RegionCall, path: KeyPath) -> Arguments:
        """The arguments of a region whose head is a call, `block(x)`."""
        for key in ("takes", "kwargs"):
            if key in model.model_fields_set:
                again = f"are given in brackets and again under {key!r}"
                message, hint = f"arguments of {head.region!r} {again}", "write them in one place"
                raise self.error(message, *path, key, hint=hint, key=True)
        for word in head.kwargs:
            self.identifier(word, *path)
        return _call_arguments(head)

    def _with_all_arguments(self, call: Again) -> Again:
        """The call; refused if its arguments differ in number or keywords from those of the region."""
        first = self.regions[call.region]
        call = self._with_defaults(call, first)
        if len(call.takes) != len(first.takes) or set(call.kwargs) != set(first.kwargs):
            number, names = len(first.takes), sorted(first.kwargs)
            wanted = (
                f"{counted(number, 'positional argument')} and {', '.join(names) or 'none'} by name"
            )
            raise CaseError(f"region {call.region!r} takes {wanted}", where=call.where)
        for verb, its, firsts in (
            ("takes", (call.takes, call.kwargs), (first.takes, first.kwargs)),
            ("gives", call.gives, first.gives),
        ):
            if not same_containers(its, firsts):
                message = f"this call {verb} other lists and mappings than region {call.region!r}"
                hint = f"write them as the region does under `{verb}`"
                raise CaseError(message, where=call.where, hint=hint)
        return call

    def _with_defaults(self, call: Again, first: Region) -> Again:
        """The call with the arguments by name that it leaves out: inputs with a value, under their own
        name, which the region's function has by default."""
        missing = [key for key in first.kwargs if key not in call.kwargs]
        if not missing or first.signature not in ("plain", "keyword-only"):
            return call
        for key in missing:
            tree = first.kwargs[key]
            if not (isinstance(tree, Ref) and tree.name in self._values):
                message = (
                    f"this call of region {first.name!r} leaves out {key!r}, which has no default"
                )
                hint = "only an input with a value is a default: `scale: {value: 2}`"
                raise CaseError(message, where=call.where, hint=hint)
        kwargs = {**call.kwargs, **{key: first.kwargs[key] for key in missing}}
        return replace(call, kwargs=kwargs, left_out=tuple(missing))

    def _takes(self, model: spec.BlockModel | spec.CallModel, path: KeyPath) -> Arguments:
        def argument(raw: object, *here: object) -> Tree:
            self.refuse_nameless(raw, here)
            return self.tree(raw, here)

        if isinstance(model.takes, list):
            takes = tuple(argument(raw, *path, "takes", i) for i, raw in enumerate(model.takes))
        else:
            if not model.takes:
                message = f"found {described(model.takes)}, expected a name"
                hint = "write `takes: []` for no arguments, `takes: [{}]` for an empty dict"
                raise self.error(message, *path, "takes", hint=hint)
            takes = (argument(model.takes, *path, "takes"),)
        for key in model.kwargs:
            self.identifier(key, *path, "kwargs", key, key=True)
        given = model.kwargs.items()
        return takes, {key: argument(raw, *path, "kwargs", key) for key, raw in given}


def _size(nodes: Iterable[Node]) -> int:
    """The number of statements and regions in nodes, repetitions unrolled."""
    return sum(
        len(node.numbers) * _size(node.body)
        if isinstance(node, Repeat)
        else 1 + (_size(node.body) if isinstance(node, Region) else 0)
        for node in nodes
    )


def _call_arguments(call: RegionCall) -> Arguments:
    for ref in (*call.takes, *call.kwargs.values()):
        if RESERVED.fullmatch(ref.name):
            raise CaseError(f"the name {ref.name!r} is taken already", where=ref.where, hint=OWN)
    return call.takes, call.kwargs
