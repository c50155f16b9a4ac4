"""Features: what a case's text shows of it, one word each, with its meaning.

`CAPABILITIES` are the features that a variant may lack or refuse; a case needs those that follow from
its text (`required_by`) and those that it lists under `needs`. Known deviations say with all features
(`features_of`) when they show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from conformance.language import case_properties, properties
from conformance.language.containers import has_container
from conformance.language.flow import Flow, parts
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
    flat,
    leaves,
    walk,
)
from conformance.model.chains import chains
from conformance.model.containers import Listed, Named, Object
from conformance.model.steps import stepped

CAPABILITIES: Mapping[str, str] = {
    "accumulate": "a region adds to a tensor that is not a parameter",
    "accumulated-gradients": "backward adds to gradients that already exist",
    "another-thread": "backward is called in another thread than forward",
    "autocast": "a part of the program runs under autocast",
    "autocast-bfloat16": "autocast is to bfloat16, and not to float16",
    "autocast-inside": "a region's function enters autocast itself",
    "batch-norm": "batch normalisation in training, with running statistics as state",
    "default-dtype": "the framework has a default dtype, which a program casts to",
    "backward-autocast": "backward is called under autocast, and forward was not",
    "backward-no-gradients": "backward is called where gradients are switched off",
    "between": "something happens between forward and backward",
    "bfloat16": "tensors of dtype bfloat16",
    "captured-intermediate": "a region reads an intermediate tensor by closure",
    "captured-parameter": "a region reads a parameter by closure",
    "captured-setting": "a region made once reads by closure an input that changes between two steps",
    "complex": "complex tensors, made of real ones",
    "data-parallel": "the framework averages the gradients of parameters over several ranks",
    "default": "a call leaves out an argument of a region that has a default",
    "contexts": "a region and its recomputation each run in their own context manager",
    "forward-rule": "a function has a custom forward-mode rule",
    "function": "any function of tensors can be recomputed",
    "functional": "a function transform computes the gradients",
    "generator": "random operations draw from an explicit generator or key of the framework",
    "gradient-of-jvp": "gradients of a tangent, which forward mode computes",
    "gradient-flag": "the program reads whether a tensor requires a gradient",
    "gradient-inside": "a region computes a gradient itself",
    "hook-on-value": "a hook on the gradient of a computed tensor changes it",
    "left": "a region leaves a result in a list, from which the program takes it",
    "hooks": "a hook on a parameter is called when its gradient is ready",
    "in-place": "in-place operations",
    "inference": "a forward pass with gradients switched off",
    "invalid-block": "something that is not callable is passed to recompute",
    "jacobian": "all derivatives of a tensor, by the framework's own function",
    "jvp": "tangents, by forward mode",
    "jvp-of-gradient": "tangents of gradients, by forward mode",
    "kwargs": "tensors as keyword arguments of a region",
    "made-once": "regions are made once, before training, and called in every step",
    "merge-adjacent": "adjacent regions can be merged with an option",
    "list": "a list of tensors is an argument or a result of a region",
    "list-changed": "a region changes a list argument",
    "module": "a module can be configured once, and is recomputed in every call",
    "named-tuple": "a named tuple is an argument or a result of a region",
    "nested-inputs": "tensors inside tuples or dicts as arguments of a region",
    "nested-kwargs": "tensors inside tuples or dicts as keyword arguments of a region",
    "nested-outputs": "a region returns tensors inside nested tuples or dicts",
    "nested-regions": "a region contains regions",
    "no-tensor-gradient": "no argument of a region requires a gradient",
    "non-tensor-inputs": "numbers, strings, bools or None as arguments of a region",
    "non-tensor-outputs": "a region returns numbers, strings, bools or None",
    "notices-change": "an error is raised if the recomputation differs from the forward pass",
    "numpy-generator": "a region draws from a generator made by `numpy.random.default_rng`",
    "numpy-random": "a region draws from NumPy's global generator",
    "object": "an instance of a dataclass is an argument or a result of a region",
    "operation": "a single operation can be configured to be recomputed",
    "part": "backward computes the gradients of some tensors only",
    "per-output": "the gradient of one output after the other, of one retained graph",
    "policy": "a policy keeps the results of listed operations or names",
    "preserve-rng-off": "an option switches off the preservation of the random state",
    "python-random": "a region draws from Python's module `random`",
    "raise": "a region raises a Python exception",
    "random": "random operations inside a region",
    "ranks": "the program runs on several ranks",
    "repeated-call": "one recomputed callable is called several times",
    "rrelu": "the randomised leaky ReLU",
    "second-backward": "backward twice over one retained graph",
    "second-order": "gradients of gradients",
    "seeded-random": "a random operation with its own seed",
    "segment": "one segment of a sequence of layers can be recomputed",
    "sequential": "the framework divides a sequence of layers into segments",
    "several-operations": "a region with more than one operation",
    "sharded-parallel": "each of several ranks holds a part of each parameter",
    "single-call": "a region is called once, and not several times on its own result",
    "solve": "systems of linear equations",
    "tensor-parallel": "the framework splits layers over several ranks",
    "third-order": "gradients of gradients of gradients",
    "step-assign": "a parameter is changed in place between two steps",
    "step-copy": "what holds the regions is copied between two steps",
    "step-fail": "a forward pass between two steps raises an error",
    "step-freeze": "a tensor is frozen between two steps",
    "step-replace": "another tensor takes the place of a parameter between two steps",
    "step-rows": "a later step has inputs of another shape",
    "step-run": "a forward pass between two steps has gradients switched off",
    "step-set": "an input that is not a tensor has another value in a later step",
    "step-unfreeze": "a tensor is unfrozen between two steps",
    "switch-between": "a setting that a region reads changes between forward and backward",
    "train": "several training steps",
    "unknown-option": "recompute gets an option that it does not have",
    "unseeded": "random operations in a program that sets no seed",
    "unsteady": "a Python function computes something else when it is called again",
    "update-between": "parameters are changed in place between forward and backward",
    "variadic": "a region with `*args` and `**kwargs`, or with keyword-only arguments",
    "vmap": "a recomputed function under vmap",
    "wrong-option": "recompute checks the type of its options",
    "wrapped": "the recomputed callable has the original as `__wrapped__`",
    "zero-size": "a tensor has no elements",
}

#: Capabilities that a variant lacks unless it says that it offers them, and why.
RARE: Mapping[str, str] = {
    "ranks": "its programs run on one rank",
    "data-parallel": "its programs run on one rank",
    "sharded-parallel": "its programs hold each parameter whole on each rank",
    "tensor-parallel": "its programs compute each layer whole on each rank",
}

#: The capabilities for values of `between` that do not concern random generators.
_BETWEEN = {
    "update": "update-between",
    "thread": "another-thread",
    "switch": "switch-between",
    "autocast": "backward-autocast",
    "no-gradients": "backward-no-gradients",
}


class _Names:
    """Names of a case; `asking` are tensors that require a gradient, and what is computed."""

    def __init__(self, case: Case) -> None:
        self.parameters = {array.name for array in case.parameters}
        self.given = set(case.names())
        self.values = {value.name for value in case.inputs if isinstance(value, Value)}
        changes = case.procedure.changes if case.procedure.made == "once" else ()
        self.set = {
            change.name for between in changes for change in between if change.kind == "set"
        }
        self.asking = {array.name for array in case.arrays if array.gradient}
        self.asking |= {name for _, node in case.statements() for name in node.targets}


def _autocast(case: Case) -> set[str]:
    """The dtypes that a case casts to by autocast."""
    dtypes = {case.autocast, *(region.autocast for region in case.regions())} - {""}
    return dtypes | ({"bfloat16"} if case.procedure.between == "autocast" else set())


#: Capabilities with the condition on a case under which it needs them.
_BY_CASE: Mapping[str, Callable[[Case], bool]] = {
    "autocast": lambda case: bool(_autocast(case)),
    "autocast-bfloat16": lambda case: "bfloat16" in _autocast(case),
    "default-dtype": lambda case: bool(case.around),
    "unseeded": lambda case: not case.seeded,
    "ranks": lambda case: case.ranks > 1,
    "data-parallel": lambda case: case.parallel == "data",
    "sharded-parallel": lambda case: case.parallel == "sharded",
    "tensor-parallel": lambda case: case.parallel == "tensor",
    "hooks": lambda case: bool(case.hooks),
    "accumulated-gradients": lambda case: case.procedure.after == "backward",
    "made-once": lambda case: case.procedure.made == "once",
    "inference": lambda case: case.procedure.after == "inference",
    "bfloat16": lambda case: (
        any(array.dtype == "bfloat16" for array in case.arrays)
        or any(s.options.get("dtype") == "bfloat16" for _, s in case.statements())
    ),
    "zero-size": lambda case: any(0 in array.shape for array in case.arrays),
    "single-call": lambda case: any(map(_alone, (case.program, *(r.body for r in case.regions())))),
    "default": lambda case: any(
        isinstance(node, Again) and node.left_out for node in walk(case.program)
    ),
    "repeated-call": lambda case: any(isinstance(node, Again) for node in walk(case.program)),
}

#: Capabilities with the condition on a region (and its case's names) under which it needs them.
_BY_REGION: Mapping[str, Callable[[Region, _Names], bool]] = {
    "several-operations": lambda region, _: not _single(region),
    "nested-regions": lambda region, _: any(_calls(inner) for inner in walk(region.body)),
    "policy": lambda region, _: bool(region.save),
    "kwargs": lambda region, _: bool(region.kwargs),
    "list": lambda region, _: has_container(region, Listed),
    "named-tuple": lambda region, _: has_container(region, Named),
    "object": lambda region, _: has_container(region, Object),
    "variadic": lambda region, _: region.signature in ("variadic", "keyword-only"),
    "vmap": lambda region, _: region.mapped,
    "autocast-inside": lambda region, _: bool(region.autocast),
    "merge-adjacent": lambda region, _: region.merge_adjacent,
    "preserve-rng-off": lambda region, _: not region.preserve_rng,
    "contexts": lambda region, _: region.contexts,
    "left": lambda region, _: bool(region.left),
    "unknown-option": lambda region, _: region.option == "unknown",
    "wrong-option": lambda region, _: region.option == "wrong",
    "invalid-block": lambda region, _: region.block == "invalid",
    "nested-inputs": lambda region, _: _nested(region.takes),
    "nested-kwargs": lambda region, _: any(
        leaves(tree) and not isinstance(tree, Ref) for tree in region.kwargs.values()
    ),
    "non-tensor-inputs": lambda region, names: not names.values.isdisjoint(_taken(region)),
    "no-tensor-gradient": lambda region, names: (
        region.called and names.asking.isdisjoint(_taken(region))
    ),
    "nested-outputs": lambda region, _: _nested(region.returns),
    "non-tensor-outputs": lambda region, _: _has_literal(region.returns),
    "captured-parameter": lambda region, names: not names.parameters.isdisjoint(region.captured()),
    "captured-setting": lambda region, names: not names.set.isdisjoint(region.captured()),
    "captured-intermediate": lambda region, names: not names.given.issuperset(region.captured()),
}


def required_by(case: Case) -> frozenset[str]:
    """The capabilities that a case needs: those that follow from its text, and those that it lists."""
    names = _Names(case)
    kind, between = case.procedure.kind, case.procedure.between
    needed = {*case.needs, *([_BETWEEN.get(between, "between")] if between else [])}
    needed |= {kind.replace("_", "-")} - {"backward"}
    needed |= {word for word, shows in _BY_CASE.items() if shows(case)}
    needed |= {f"step-{change.kind}" for changes in case.procedure.changes for change in changes}
    for region in case.regions():
        needed.add(region.granularity)
        needed |= {word for word, shows in _BY_REGION.items() if shows(region, names)}
    for owner, statement in case.statements():
        needed |= set(_by_statement(case, owner, statement))
    return frozenset(needed)


@dataclass(frozen=True)
class Features:
    """The features of a case: those of each of its regions, and those of the case as a whole, which has
    every feature that one of its regions has. Where steps of training differ, `regions` has those of
    each step, and `steps` are the features of each."""

    regions: tuple[frozenset[str], ...]
    whole: frozenset[str]
    steps: tuple[Features, ...] = ()

    @cached_property
    def case(self) -> frozenset[str]:
        """The features of the case."""
        return self.whole.union(*self.regions)


def features_of(case: Case) -> Features:
    """All features of a case; of one that changes something between steps, those of each step."""
    changes = case.procedure.changes
    if not changes:
        return _of_step(case)
    steps = [_of_step(replace(step, procedure=case.procedure)) for step in stepped(case)]
    whole = required_by(case).union(*(one.whole for one in steps))
    return Features(tuple(r for one in steps for r in one.regions), whole, tuple(steps))


def _of_step(case: Case) -> Features:
    flow, names = Flow(case), _Names(case)
    by_region: list[frozenset[str]] = []
    for place in properties.places(flow, case):
        region = place.region
        own = {region.granularity, *properties.of_region(place)}
        own |= {word for word, shows in _BY_REGION.items() if shows(region, names)}
        for statement in place.statements:
            own |= set(_by_statement(case, region.name, statement))
        by_region.append(frozenset(own))
    return Features(tuple(by_region), required_by(case) | frozenset(case_properties.of_case(flow)))


def feature_names() -> tuple[str, ...]:
    """The names of all features, families as `op:…`."""
    families = (f"{family}:…" for family in properties.FAMILIES)
    return (*CAPABILITIES, *properties.REGION, *case_properties.CASE, *families)


def is_feature(word: str) -> bool:
    """Whether there is a feature of this name."""
    family, colon, member = word.partition(":")
    if not colon:
        return word in CAPABILITIES or word in properties.REGION or word in case_properties.CASE
    return family in properties.FAMILIES and (family in properties.NAMED or member in OPERATIONS)


def meaning(word: str) -> str:
    """What a feature means, in a sentence."""
    if word in CAPABILITIES:
        return CAPABILITIES[word]
    tables = (properties.REGION, case_properties.CASE)
    return (
        next((table[word][0] for table in tables if word in table), "")
        or (properties.FAMILIES[word.partition(":")[0]])
    )


def _by_statement(case: Case, owner: str, statement: Statement) -> Iterator[str]:
    """The capabilities that a statement needs; `owner` is the region around it, empty for none."""
    operation = OPERATIONS[statement.op]
    if operation.capability:
        yield operation.capability
    for name, told in operation.options.items():
        if told.capability and statement.options.get(name, told.default) != told.default:
            yield told.capability
    if statement.op == "uniform_from":
        (name,) = statement.names()
        own = next(i for i in case.inputs if isinstance(i, Generator) and i.name == name)
        yield "generator" if own.library == "framework" else "numpy-generator"
    if owner and statement.op in RANDOM:
        yield "random"


def _alone(nodes: Iterable[Node]) -> bool:
    """Whether a call among these nodes is in no chain of calls (see `chains`)."""
    alone = [chain[0] for chain in chains(nodes) if len(chain) == 1]
    return any(_calls(n) and not (isinstance(n, Region) and n.round) for n in alone)


def _taken(region: Region) -> tuple[str, ...]:
    return leaves(region.takes) + leaves(region.kwargs)


def _single(region: Region) -> bool:
    """Whether a region consists of one operation and returns its one result."""
    first, *rest = flat(region.body)
    if rest or not isinstance(first, Statement):
        return False
    return len(first.targets) == 1 and region.gives == Ref(first.targets[0])


def _calls(node: Node) -> bool:
    return isinstance(node, Again) or (isinstance(node, Region) and node.called)


def _nested(tree: Tree) -> bool:
    top = parts(tree) if isinstance(tree, tuple | Named) else (tree,)
    return not all(isinstance(part, Ref | Literal) for part in top)


def _has_literal(tree: Tree) -> bool:
    if isinstance(tree, Ref | Literal):
        return isinstance(tree, Literal)
    return any(map(_has_literal, tree if isinstance(tree, tuple) else tree.values()))
