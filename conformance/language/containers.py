"""The features of the containers that go into regions and come out of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from conformance.language.flow import Call, Step, Tensor, parts
from conformance.language.operations import BOOLS
from conformance.language.place import Place, given_by, inside_of, is_bool, top
from conformance.language.reach import steps
from conformance.model.case import Literal, Ref, Region, Tree, leaves
from conformance.model.containers import Listed, Named, Object


def _contained(tree: Tree) -> Iterator[Tree]:
    """The containers in a tree, the tree itself first."""
    if not isinstance(tree, Ref | Literal):
        yield tree
        for part in parts(tree):
            yield from _contained(part)


def _given(region: Region) -> Iterator[Tree]:
    for tree in (*region.takes, *region.kwargs.values()):
        yield from _contained(tree)


def has_container(region: Region, kind: type) -> bool:
    """Whether an argument or a result of a region is or contains a container of this kind."""
    return any(type(tree) is kind for tree in (*_given(region), *_contained(region.returns)))


def _takes(kind: type) -> Callable[[Place], bool]:
    return lambda place: any(type(tree) is kind for tree in _given(place.region))


def _returns(kind: type) -> Callable[[Place], bool]:
    return lambda place: any(type(tree) is kind for tree in _contained(place.region.returns))


def _passes(given: Callable[[Call], Iterable[Tensor]]) -> Callable[[Place], bool]:
    return lambda place: any(
        t in place.reach.asked and t in s.differentiable() and s in place.reach.needed.steps
        for c in place.calls
        for t in given(c)
        for s in steps(c.items)
    )


CONTAINERS: Mapping[str, tuple[str, Callable[[Place], bool]]] = {
    "no-top-level-result": (
        "all tensors that a region returns are inside nested tuples or dicts",
        lambda p: not top(p.region.returns),
    ),
    "no-tensor-result": (
        "a region returns no tensor, but numbers, strings, bools or None",
        lambda p: (
            not any(
                t.of != "value" and not is_bool(t) and name not in p.region.left
                for call in p.calls
                for name, t in zip(leaves(p.region.gives), call.results, strict=False)
            )
        ),
    ),
    "returns-bool": (
        "a region returns a bool that a statement of its own makes",
        lambda p: any(
            s.statement.op in BOOLS
            and not {*leaves(p.region.returns)}.isdisjoint(s.statement.targets)
            for c in p.calls
            for s in c.items
            if isinstance(s, Step)
        ),
    ),
    "dict-result": ("a region returns a dict", _returns(dict)),
    "dict-argument": ("a region takes a dict", _takes(dict)),
    "tuple-argument": ("a region takes a tuple", _takes(tuple)),
    "list-result": ("a region returns a list", _returns(Listed)),
    "list-of-tensors": (
        "a region takes a list of tensors",
        lambda p: any(inside_of(c, Listed) for c in p.calls),
    ),
    "named-result": ("a region returns a named tuple", _returns(Named)),
    "named-argument": ("a region takes a named tuple", _takes(Named)),
    "result-is-named": (
        "what a region returns as a whole is a named tuple",
        lambda p: type(p.region.returns) is Named,
    ),
    "object-result": ("a region returns an instance of a dataclass", _returns(Object)),
    "object-argument": ("a region takes an instance of a dataclass", _takes(Object)),
    "gradient-in-dict": (
        "a gradient passes through a tensor that a region takes in a dict or a named tuple",
        _passes(lambda c: inside_of(c, Mapping)),
    ),
    "gradient-in-object": (
        "a gradient passes through a tensor that a region takes in an instance of a dataclass",
        _passes(lambda c: given_by(c, (t for t in _given(c.region) if type(t) is Object))),
    ),
    "empty-result": (
        "a region returns an empty tuple",
        lambda p: any(tree == () for tree in _contained(p.region.returns)),
    ),
    "empty-argument": (
        "a region takes an empty tuple",
        lambda p: any(tree == () for tree in _given(p.region)),
    ),
    "empty-dict": (
        "a region takes an empty dict",
        lambda p: any(tree == {} for tree in _given(p.region)),
    ),
}
