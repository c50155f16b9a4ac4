"""What goes otherwise in a program whose regions are each one node of the graph (`graph`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from conformance.language.backward import TOLD, backward, overwritten
from conformance.language.flow import Flow
from conformance.language.graph import NodeError, Run
from conformance.language.reach import reach, told
from conformance.model.case import Loss


class Nodes:
    """What goes otherwise where regions are nodes of the graph, and what is `raised`, in a word. With
    `called`, they are called directly, and what they leave in a list has no graph there. With `by_all`,
    they are nodes of all that goes into them (`Run.entered_by_all`)."""

    def __init__(self, flow: Flow, *, called: bool = False, by_all: bool = False) -> None:
        case = flow.case
        self.case = case
        #: Whether the program raises without recompute, where that is left open.
        self.raises = case.as_plain and any(
            overwritten(backward(flow), step) for step in backward(flow).steps
        )
        self.lost: set[str] = set()
        self.zeros: set[str] = set()
        self.swapped: set[str] = set()
        #: Whether a loss depends on a tensor whose gradient the program returns.
        self.asked = not told(flow).isdisjoint(reach(flow).needed.tensors)
        self.hooks = self.otherwise = self.detaches = self.holds = self.moves = self.renews = False
        self.values = self.answers = self.operations = self.draws = self.nothing = self.keeps = (
            False
        )
        self.raised = ""
        #: Whether a loss requires no gradient.
        self.of_loss = False
        try:
            direct = Run(case, opaque=False, entered_by_all=by_all)
            opaque = Run(case, opaque=not called, lasting=not called, entered_by_all=by_all)
        except NodeError as error:
            self.raised = str(error)
            return
        pairs = list(zip(direct.outputs(), opaque.outputs(), strict=True))
        self.values = any(one != other for one, other in pairs)
        self.answers = any(one != other for one, other in pairs if isinstance(one, bool))
        self.detaches = opaque.detaches
        self.moves = opaque.moves()
        self.holds = not opaque.behind() <= direct.behind()
        if case.loss is None or case.procedure.kind == "jvp":
            return
        losses = [case.loss]
        if case.procedure.kind in ("second_backward", "per_output"):
            losses.append(case.then or case.loss)
        # The program differentiates no loss that depends on nothing that requires a gradient.
        losses = [loss for loss in losses if direct.asks(loss) or (by_all and opaque.asks(loss))]
        try:
            plain = list(_steps(direct, losses))
            fewest = plain
            fewer = {name for name, given in flow.given.items() if given in reach(flow).wanted}
            if fewer != set(direct.asking):
                least = Run(case, opaque=False, entered_by_all=by_all)
                fewest = list(_steps(least, losses, fewer)) if fewer else []
            self.wanted = [one.entered for one in fewest] or [{}] * len(plain)
        except NodeError:
            return
        try:
            seen = list(_steps(opaque, losses))
            self.draws, self.detaches = opaque.draws, opaque.detaches
        except NodeError as error:
            self.raised = str(error)
            self.of_loss = self.raised == "detached"
            return
        finally:
            self.nothing = opaque.nothing
        self.renews, self.keeps = opaque.renews, not opaque.behind() <= set(+opaque.entered)
        self.operations, self.moves = opaque.otherwise, opaque.moves()
        for steps in zip(plain, seen, self.wanted, strict=True):
            self._compare(*steps)
        if by_all and any(r.granularity == "module" for r in case.regions()):
            self._swap(losses, seen)

    def _swap(self, losses: Sequence[Loss], seen: Sequence[_Seen]) -> None:
        """Look for gradients that are others where modules run again with arguments of other calls."""
        popping = Run(self.case, opaque=True, entered_by_all=True, pops=True)
        try:
            others = list(_steps(popping, losses))
        except NodeError:
            return
        for before, after in zip(seen, others, strict=True):
            found = ((n, g, after.gradients[n][0]) for n, (g, _) in before.gradients.items())
            self.swapped |= {name for name, one, other in found if (one or 0) != (other or 0)}

    def _compare(self, plain: _Seen, opaque: _Seen, least: Mapping[str, int]) -> None:
        for name, (number, passes) in plain.gradients.items():
            found, in_passes = opaque.gradients[name]
            if found == number or (self.raises and not found and not number):
                pass  # a program that raises does not say whether a gradient is zeros or `None`
            elif number is None and not found:
                self.zeros.add(name)
            else:
                self.lost.add(name)
            self.hooks |= name in self.case.hooks and passes != in_passes
        # Whether a region runs again for gradients that nobody asks for is left open.
        self.otherwise |= any(
            opaque.entered.get(name, 0) not in (plain.entered.get(name, 0), least.get(name, 0))
            for name in {*plain.entered, *opaque.entered}
        )


@dataclass
class _Seen:
    """Gradients by name, with the number of passes that they are from, and how often each region has run
    in backward until then."""

    gradients: dict[str, tuple[int | None, int]]
    entered: dict[str, int]


def _steps(run: Run, losses: Sequence[Loss], wanted: Collection[str] = ()) -> Iterator[_Seen]:
    """What a procedure sees, one backward pass of each loss after the other, for all gradients or for
    those that are wanted alone. Raises `NodeError`."""
    case, kind = run.case, run.case.procedure.kind
    told: Collection[str] = TOLD
    if run.entered_by_all:  # direct, all gradients are compared, and those alone that are asked for
        told = (*TOLD, "functional") if run.opaque else ()
    for number, loss in enumerate(losses, 1):
        for tensor in run.asking.values():
            tensor.gradient, tensor.passes = None, 0
        only = case.wrt if kind in told else wanted
        if kind != "jacobian" or run.asks(loss):  # that of a constant is zeros
            run.backward(loss, only, retain=number < len(losses))
        entered: Counter[str] = Counter()
        for moment, count in run.entered.items():
            entered[run.calls[moment]] += count
        yield _Seen({n: (t.gradient, t.passes) for n, t in run.asking.items()}, dict(+entered))


@lru_cache(maxsize=4)
def of(flow: Flow) -> Nodes:
    """What goes otherwise in a program whose regions are nodes of the graph."""
    return Nodes(flow)


@lru_cache(maxsize=4)
def of_left(flow: Flow) -> Nodes | None:
    """What goes otherwise where what regions leave in a list has no graph; `None` where none does."""
    return Nodes(flow, called=True) if any(r.left for r in flow.case.regions()) else None


@lru_cache(maxsize=4)
def of_all(flow: Flow) -> Nodes:
    """What goes otherwise in a program whose regions are nodes of all that goes into them."""
    return Nodes(flow, by_all=True)


#: The beginning of what the features mean.
_IF = "if each region is one node of the graph, between its tensor arguments and results,"
_OF_NODES: Mapping[str, tuple[str, Callable[[Nodes], bool]]] = {
    "node-detaches-loss": (
        f"{_IF} the loss requires no gradient, or what the program takes a gradient of",
        lambda n: n.raised == "detached",
    ),
    "node-without-result": (
        f"{_IF} one runs again and no result requires a gradient",
        lambda n: n.raised == "no-result",
    ),
    "node-runs-endlessly": (
        f"{_IF} one runs again that returns a tensor which it reads by closure, as it is: that has its "
        "graph changed in place, and leads into the region again",
        lambda n: n.raised == "endless",
    ),
    "node-moves-leaf": (
        f"{_IF} one returns a tensor that the program starts from and that it reads by closure, as it "
        "is; a gradient comes to the tensor on another way",
        lambda n: n.raised == "moved",
    ),
    "node-moves-captured": (
        f"{_IF} a tensor that the program starts from has a graph at the end of a step",
        lambda n: n.moves,
    ),
    "node-detaches-captured": (
        f"{_IF} one detaches in place a tensor that it reads by closure, and returns as it is",
        lambda n: n.detaches,
    ),
    "node-detaches-saved": (
        f"{_IF} one detaches in place a tensor that it reads by closure, and returns as it is, and that "
        "backward reads elsewhere",
        lambda n: n.raised == "detached-saved",
    ),
    "node-frees-graph": (
        f"{_IF} a part of the graph is gone through twice, from inside of a node and from outside",
        lambda n: n.raised == "freed",
    ),
    "node-hooks-nothing": (
        f"{_IF} a hook is on a result of one that runs again, and no gradient comes to that result",
        lambda n: n.raised == "hook",
    ),
    "node-loses-gradient": (
        f"{_IF} a gradient lacks a part, or all of it",
        lambda n: not n.lost.isdisjoint(n.case.wrt),
    ),
    "node-gives-zeros": (
        f"{_IF} a tensor that the loss does not depend on has a gradient of zeros",
        lambda n: not n.zeros.isdisjoint(n.case.wrt),
    ),
    "node-gives-other-values": (
        f"{_IF} an output has another value: a tensor says otherwise whether it requires a gradient",
        lambda n: n.values,
    ),
    "node-gives-other-answers": (
        f"{_IF} an output says otherwise whether a tensor requires a gradient",
        lambda n: n.answers,
    ),
    "node-runs-other-operations": (
        f"{_IF} a tensor says otherwise whether it requires a gradient when a region runs again",
        lambda n: n.operations,
    ),
    "node-draws-again": (
        f"{_IF} one runs again that draws from another generator than the framework's global one",
        lambda n: n.draws,
    ),
    "node-passes-nothing": (
        f"{_IF} one that runs again gives no gradient to an argument that a statement has made",
        lambda n: n.nothing,
    ),
    "node-trains-otherwise": (
        f"{_IF} a parameter has another gradient, and training changes it in another way",
        lambda n: (
            n.case.procedure.kind == "train" and any(p.name in n.lost for p in n.case.parameters)
        ),
    ),
    "node-runs-otherwise": (
        f"{_IF} a region does not run that backward has to run again, or runs that it need not run",
        lambda n: n.otherwise,
    ),
    "node-repeats-hook": (
        f"{_IF} a hook is called by more backward passes, one inside of the other, or for no gradient",
        lambda n: n.hooks,
    ),
    "node-behind-output": (
        f"{_IF} an output leads to one that no gradient of the output passes through",
        lambda n: n.holds,
    ),
}
_LEFT = "if what regions make and leave in a list has no gradient there,"
_OF_LISTS: Mapping[str, tuple[str, Callable[[Nodes], bool]]] = {
    "left-loses-gradient": (
        f"{_LEFT} a gradient lacks a part, or all of it",
        lambda n: not n.lost.isdisjoint(n.case.wrt),
    ),
    "left-detaches-loss": (
        f"{_LEFT} the loss requires no gradient, which depends on a tensor whose gradient is returned",
        lambda n: n.of_loss and n.asked,
    ),
    "left-runs-otherwise": (
        f"{_LEFT} a region does not run that backward has to run again",
        lambda n: n.otherwise,
    ),
}


_OF_ALL: Mapping[str, tuple[str, Callable[[Nodes], bool]]] = {
    "whole-hooks-nothing": (
        "as `node-hooks-nothing`, if arguments by name and parameters that a region reads by closure go "
        "into the node, too",
        lambda n: n.raised == "hook",
    ),
    "whole-loses-gradient": (
        "as `node-loses-gradient` for these nodes",
        lambda n: not n.lost.isdisjoint(n.case.wrt),
    ),
    "whole-frees-graph": (
        "as `node-frees-graph` for these nodes; in higher orders, one itself is gone through twice",
        lambda n: n.raised == "freed",
    ),
    "whole-returns-parameter": (
        "if regions are such nodes, one returns a parameter as it is, and not as an argument at the top "
        "level of its results; or one that runs again in another one does so with another input of the "
        "program",
        lambda n: n.raised == "parameter",
    ),
    "whole-returns-input": (
        "if regions are such nodes, one does so with another tensor that the program starts from",
        lambda n: n.renews,
    ),
    "whole-behind-output": (
        "if regions are such nodes, an output leads to one that does not run again",
        lambda n: n.keeps,
    ),
    "whole-runs-endlessly": (
        "as `node-runs-endlessly` for these nodes, but not of a parameter that is frozen",
        lambda n: n.raised == "endless",
    ),
    "whole-takes-others": (
        "if regions are such nodes, and a module runs again with the arguments of its last call that "
        "has not run again, a gradient is another one",
        lambda n: not n.swapped.isdisjoint(n.case.wrt),
    ),
    "whole-runs-otherwise": ("as `node-runs-otherwise` for these nodes", lambda n: n.otherwise),
}


def _of_all(shows: Callable[[Nodes], bool], flow: Flow) -> bool:
    return shows(of_all(flow))


def _of_nodes(shows: Callable[[Nodes], bool], flow: Flow) -> bool:
    return shows(of(flow))


def _of_left(shows: Callable[[Nodes], bool], flow: Flow) -> bool:
    found = of_left(flow)
    return found is not None and shows(found)


#: Features of a case.
FEATURES: Mapping[str, tuple[str, Callable[[Flow], bool]]] = {
    **{word: (means, partial(_of_nodes, shows)) for word, (means, shows) in _OF_NODES.items()},
    **{word: (means, partial(_of_all, shows)) for word, (means, shows) in _OF_ALL.items()},
    **{word: (means, partial(_of_left, shows)) for word, (means, shows) in _OF_LISTS.items()},
}
