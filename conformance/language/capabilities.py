"""What a variant may not offer: one word each, and what it means.

A case needs those that its text shows (`required_by`) and those that it names itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.case import (
    Again,
    Case,
    Generator,
    Literal,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    chains,
    leaves,
    walk,
)

CAPABILITIES: Mapping[str, str] = {
    "accumulate": "a tensor that is no parameter is added to while a region runs",
    "accumulated-gradients": "gradients are added to those that tensors have already",
    "another-thread": "backward is started by another thread than forward ran in",
    "autocast": "a block of the program runs in low precision, operations chosen by the framework",
    "batch-norm": "batch normalisation in training, with running statistics as state",
    "between": "something happens between forward and backward",
    "bfloat16": "tensors of dtype bfloat16",
    "captured-intermediate": "a region reads, by closure, a tensor that the program has computed",
    "captured-parameter": "a region reads a parameter by closure",
    "forward-rule": "a function is given a rule for its tangents",
    "function": "any function of tensors can be recomputed",
    "functional": "gradients are asked of a transform of a function",
    "generator": "random operations draw from an explicit generator or key of the framework",
    "gradient-flag": "a tensor tells whether a gradient can reach it",
    "hooks": "a parameter calls a function of the program whenever its gradient is there",
    "in-place": "operations that write their result over an argument",
    "inference": "a forward pass with gradients switched off",
    "invalid-block": "something that is not a block can be handed over to be recomputed",
    "kwargs": "a region takes tensors by name",
    "merge-adjacent": "adjacent regions can be merged on request",
    "module": "a module can be configured once to be recomputed on every call",
    "nested-inputs": "a region takes tensors inside tuples or dicts",
    "nested-outputs": "a region returns tensors inside nested tuples or dicts",
    "nested-regions": "a region contains regions",
    "no-tensor-gradient": "a region none of whose arguments asks for a gradient",
    "non-tensor-inputs": "a region takes numbers, strings, bools or None",
    "non-tensor-outputs": "a region returns numbers, strings, bools or None",
    "notices-change": "a rerun that does something else than the forward is noticed, and an error",
    "numpy-generator": "a region draws from a generator of NumPy's, made by default_rng",
    "numpy-random": "a region draws from NumPy's global generator",
    "operation": "a single operation can be configured to be recomputed",
    "per-output": "gradients of one output after the other over one retained graph",
    "policy": "a region keeps the results of operations or names that are listed",
    "preserve-rng-off": "preservation of random state can be switched off",
    "python-random": "a region draws from Python's own `random`",
    "raise": "a Python exception raised while the region runs",
    "random": "random operations inside a region",
    "repeated-call": "one recomputed callable is called several times",
    "rrelu": "the randomised leaky ReLU",
    "second-backward": "gradients taken twice over one retained graph",
    "second-order": "gradients of gradients",
    "seeded-random": "a random operation is given a seed of its own",
    "segment": "one segment of a sequence of layers can be recomputed",
    "sequential": "a sequence of layers is divided into segments by the framework itself",
    "several-operations": "a region is more than one operation and what it gives",
    "single-call": "a region is called by itself, not round after round on what its last call gave",
    "solve": "systems of linear equations",
    "third-order": "gradients of gradients of gradients",
    "train": "several training steps",
    "unseeded": "random operations draw without the program having seeded them",
    "unsteady": "a function of Python's that does something else when it is called again",
    "update-between": "parameters are changed in place between forward and backward",
    "variadic": "a region whose function takes `*args` and `**kwargs`, or arguments by name alone",
    "vmap": "a recomputed function is mapped over an axis",
    "wrapped": "the recomputed callable gives the original back as `__wrapped__`",
}

#: What happens between forward and backward that is not the generators' matter.
_BETWEEN = {"update": "update-between", "thread": "another-thread"}


def required_by(case: Case) -> frozenset[str]:
    """The capabilities that the text of a case shows it to need, with those that it names."""
    found: set[str] = set(case.needs)
    kind = case.procedure.kind
    if kind not in ("backward", "part"):
        found.add(kind.replace("_", "-"))
    if case.autocast:
        found.add("autocast")
    if not case.seeded:
        found.add("unseeded")
    if case.hooks:
        found.add("hooks")
    if case.procedure.between:
        found.add(_BETWEEN.get(case.procedure.between, "between"))
    if case.procedure.after == "backward":
        found.add("accumulated-gradients")
    if case.procedure.after == "inference":
        found.add("inference")
    if any(array.dtype == "bfloat16" for array in case.arrays):
        found.add("bfloat16")
    parameters = {array.name for array in case.parameters}
    given = parameters | {array.name for array in case.state}
    given |= {value.name for value in case.inputs}
    values = {value.name for value in case.inputs if isinstance(value, Value)}
    asking = {array.name for array in case.arrays if array.gradient}
    computed = {n for node in walk(case.program) for n in _made(node)}
    bodies = [case.program, *(region.body for region in case.regions())]
    alone = [chain[0] for body in bodies for chain in chains(body) if len(chain) == 1]
    if any(_calls(node) and not _round(node) for node in alone):
        found.add("single-call")
    for node in walk(case.program):
        if isinstance(node, Again):
            found.add("repeated-call")
        if not isinstance(node, Region):
            continue
        found.add(node.granularity)
        if not _single(node):
            found.add("several-operations")
        if any(_calls(inner) for inner in walk(node.body)):
            found.add("nested-regions")
        if node.save:
            found.add("policy")
        if node.kwargs:
            found.add("kwargs")
        if node.signature in ("variadic", "keyword-only"):
            found.add("variadic")
        if node.mapped:
            found.add("vmap")
        if node.merge_adjacent:
            found.add("merge-adjacent")
        if node.block == "invalid":
            found.add("invalid-block")
        if any(not isinstance(tree, Ref | Literal) for tree in node.takes):
            found.add("nested-inputs")
        taken = leaves(node.takes) + leaves(node.kwargs)
        if values & set(taken):
            found.add("non-tensor-inputs")
        if node.called and not any(name in asking or name in computed for name in taken):
            found.add("no-tensor-gradient")
        if _nested(node.gives):
            found.add("nested-outputs")
        if _has_literal(node.gives):
            found.add("non-tensor-outputs")
        for name in node.captured():
            if name in parameters:
                found.add("captured-parameter")
            elif name not in given:
                found.add("captured-intermediate")
    for region, statement in case.statements():
        operation = OPERATIONS[statement.op]
        if operation.capability:
            found.add(operation.capability)
        if statement.options.get("rule") == "forward":
            found.add("forward-rule")
        if statement.options.get("seed") is not None:
            found.add("seeded-random")
        if statement.op == "uniform_from":
            (name,) = statement.names()
            own = next(i for i in case.inputs if isinstance(i, Generator) and i.name == name)
            found.add("generator" if own.library == "framework" else "numpy-generator")
        if region and statement.op in RANDOM:
            found.add("random")
            if not next(r for r in case.regions() if r.name == region).preserve_rng:
                found.add("preserve-rng-off")
    return frozenset(found)


def _single(region: Region) -> bool:
    """Whether a region is one operation on what it takes and captures, and gives its one result."""
    from conformance.model.case import Statement

    first, *rest = region.body
    if rest or not isinstance(first, Statement):
        return False
    return len(first.targets) == 1 and region.gives == Ref(first.targets[0])


def _calls(node: Node) -> bool:
    return isinstance(node, Again) or (isinstance(node, Region) and node.called)


def _round(node: Node) -> bool:
    return isinstance(node, Region) and node.round


def _made(node: Node) -> tuple[str, ...]:
    return node.targets if isinstance(node, Statement) else ()


def _nested(tree: Tree) -> bool:
    if isinstance(tree, tuple):
        return any(not isinstance(part, Ref | Literal) for part in tree)
    return not isinstance(tree, Ref | Literal)


def _has_literal(tree: Tree) -> bool:
    if isinstance(tree, Literal):
        return True
    if isinstance(tree, Ref):
        return False
    return any(_has_literal(part) for part in (tree if isinstance(tree, tuple) else tree.values()))
