"""Whole programs: cases as YAML data."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from conformance.errors import CaseError
from conformance.fuzz import words as vocabulary
from conformance.fuzz.choices import Choices
from conformance.fuzz.nodes import NESTED, Nodes
from conformance.fuzz.scope import FROM_ZERO, POSITIVE, SIGNED, Declared, Scope
from conformance.fuzz.stable import is_stable
from conformance.fuzz.statements import Statements
from conformance.fuzz.words import Word
from conformance.language.build import TOLERANCES
from conformance.language.features import required_by
from conformance.language.flow import Flow, Tensor
from conformance.language.load import load_text
from conformance.language.operations import DRAWS, OPERATIONS, REPEATING, Operation
from conformance.language.reach import active, steps, wanted
from conformance.model.case import Case, Value
from conformance.oracle import tape
from conformance.oracle.interpreter import check_shapes

Raw = Mapping[str, Any]
_TOLD = {"title": "Generated program", "source": "conformance fuzz", "why": "A random program."}
_SHAPES = (*[(3, 4)] * 9, *[(4, 4)] * 3, (4,), (2, 3, 4), (1, 4), (), (0, 4), (2, 3, 4, 4))
_DTYPES = (*["float32"] * 16, "float64", "float64", "bfloat16")
#: What happens between forward and backward that no implementation promises to see.
_UNPROMISED = ("update", "switch")
#: How many more of the programs train than have any other procedure: there are many ways to train.
_TRAINING = 2
_HALF = {"rtol": 0.04, "atol": 0.04}


@dataclass(frozen=True)
class Generated:
    """A program: what is written, the case that it is, and the name of its text."""

    name: str
    raw: Raw
    case: Case


@dataclass(frozen=True)
class Vocabulary:
    """What programs with no other features than these are made of."""

    allowed: frozenset[str]

    @cached_property
    def regions(self) -> tuple[Word, ...]:
        """The words of regions."""
        return tuple(word for word, adds in vocabulary.of_regions() if adds <= self.allowed)

    @cached_property
    def containers(self) -> tuple[str, ...]:
        """The kinds of containers."""
        kinds = vocabulary.of_containers()
        return tuple(kind for kind, adds in kinds if adds <= self.allowed)

    @cached_property
    def cases(self) -> tuple[Word, ...]:
        """The words of cases."""
        return tuple(word for word, adds in vocabulary.of_cases() if adds <= self.allowed)

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The operations."""
        known = (o for o in OPERATIONS.values() if not o.shared)
        return tuple(o for o in known if o.capability in ("", *self.allowed))


def written(known: Vocabulary, seed: int, number: int, attempt: int = 0) -> Raw:
    """The program of that number among those of a seed, as YAML data. Nearly all can be loaded."""
    return _Program(Choices(seed, number, attempt), known).case()


def loaded(raw: Raw, allowed: frozenset[str]) -> Generated:
    """A program that is loaded as a file would be. Raises `CaseError` where it is no program, needs
    another feature, or computes numbers that mean nothing."""
    text = vocabulary.as_text("p", raw)
    name = f"p{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    (case,) = load_text(vocabulary.as_text(name, raw), "a generated program")
    check_shapes([case])
    missing = required_by(case) - allowed
    if missing:
        raise CaseError(f"it needs {', '.join(sorted(missing))}")
    flow = Flow(case)
    if case.error is not None and not _can_raise(flow):
        raise CaseError("nothing in it raises the error")
    if case.procedure.kind == "functional" and _takes_of_constants(flow):
        raise CaseError("it takes a gradient with respect to what requires none in a transform")
    if _inverts_zeros(flow):
        raise CaseError("a matrix may have no inverse")
    if not is_stable(case):
        raise CaseError("its numbers depend on how they are rounded")
    return Generated(name, raw, case)


def _can_raise(flow: Flow) -> bool:
    """Whether something raises an error: a call of a region, or a statement whose flag is true."""
    flags = {v.name for v in flow.case.inputs if isinstance(v, Value) and v.value is True}
    raising = [s.statement for s in steps(flow.items) if OPERATIONS[s.statement.op].raises]
    return any(not flags.isdisjoint(statement.names()) for statement in raising) or any(
        r.option or r.block == "invalid" or (r.signature == "undeclared" and r.kwargs)
        for r in (call.region for call in flow.calls)
    )


def _takes_of_constants(flow: Flow) -> bool:
    """Whether a statement takes a gradient with respect to what is a constant in a transform."""
    of = active(flow, wanted(flow))
    taking = [s for s in steps(flow.items) if OPERATIONS[s.statement.op].takes_gradient]
    return any(of.isdisjoint(step.differentiable()) for step in taking)


def _inverts_zeros(flow: Flow) -> bool:
    """Whether a statement inverts what depends on a draw that sets elements to zero, or repeats rows."""
    dropped: set[Tensor] = set()
    for step in steps(flow.items):
        operation = OPERATIONS[step.statement.op]
        if not dropped.isdisjoint(step.reads.get(operation.inverts, ())):
            return True
        if (
            operation.name in REPEATING
            or (operation.random and operation.needs)
            or not dropped.isdisjoint(step.read())
        ):
            dropped.update(step.makes)
    return False


class _Program:
    """Makes one case."""

    def __init__(self, choices: Choices, known: Vocabulary) -> None:
        self.choices, self.known = choices, known
        for library in (tape, np.random, random):  # operations are tried, and draw
            library.seed(0)
        wanted = choices.some(known.operations, 0, 3)
        unsteady = choices.chance(9) or any(o.unlike for o in wanted)
        self.words = self._words(unsteady)
        self.between = vocabulary.between(self.words)
        wanted += vocabulary.changed_by(self.words)
        tape.set_default_dtype("float64" if "around" in self.words else "float32")
        lasting = "once" in str(self.words.get("procedure"))
        if lasting and choices.chance(50):  # a flag can be set between two steps
            wanted += [
                o for o in known.operations if "flag?" in o.tensors and not (o.raises or o.unlike)
            ]
        off = self.words.get("procedure") in ("inference", {"backward": {"after": "inference"}})
        # With gradients off, none is taken, and frameworks differ on what requires one.
        apart = ("gradient-inside", "gradient-flag") if off else ()
        unfit = DRAWS if "around" in self.words else frozenset()
        operations = [
            o for o in known.operations if o.capability not in apart and o.name not in unfit
        ]
        steep = choices.chance(4) and "train" not in str(self.words.get("procedure"))
        dtypes = _DTYPES if "bfloat16" in known.allowed else _DTYPES[:-1]
        fill = FROM_ZERO if steep else SIGNED
        self.declared = Declared(choices.one(dtypes), lasting=lasting, fill=fill)
        # What is unsteady is so from its second call on, which the forward pass is to have none of.
        allowed = known.allowed - ({"repeated-call"} if unsteady else set())
        self.statements = Statements(
            choices,
            self.declared,
            operations,
            allowed,
            [o for o in wanted if o in operations],
            unsteady=unsteady,
            low="autocast" in self.words,
        )
        if "autocast" in self.words or self.between == "autocast":
            self.statements.want_lowered()
        of_region = [choices.one(known.regions)] if known.regions and choices.chance(50) else []
        self.nodes = Nodes(
            choices,
            self.declared,
            self.statements,
            allowed,
            known.regions,
            of_region,
            known.containers,
        )
        self.nodes.nested = choices.one(NESTED)
        self.nodes.steep = [o for o in operations if o.name in _steep()] if steep else []
        self.scope = Scope({})
        #: The parameter that the output is a multiple of, in a program that is not seeded.
        self.factor = ""

    def _words(self, unsteady: bool) -> dict[str, Any]:
        """The words of the case."""
        choices, chosen = self.choices, {}
        procedures = [w.value for w in self.known.cases if w.key == "procedure"]
        procedures += [value for value in procedures if "train" in value] * _TRAINING
        if unsteady:
            procedures = [value for value in procedures if isinstance(value, str)]
        if choices.chance(62):
            chosen["procedure"] = choices.one(procedures)
        for word in self.known.cases:
            if word.key != "procedure" and choices.chance(3):
                chosen[word.key] = word.value
        return chosen

    def case(self) -> Raw:
        """The case as YAML data."""
        nodes, scope, declared = self.nodes, self.scope, self.declared
        positive = declared.fill is SIGNED and self.choices.chance(30)
        fill = POSITIVE if positive else declared.fill
        section = "parameters" if self.between == "update" else "inputs"
        first = declared.tensor(section, self.choices.one(_SHAPES), fill)
        scope.values[first] = declared.values[first]
        program = nodes.top(scope)
        if "autocast" in self.words:
            program += nodes.cast_back(scope, [n for n in scope.made if n in scope.tensors()])
        outputs = self._outputs(program)
        raw: dict[str, Any] = {**_TOLD, **self.words}
        self._prune(program, outputs)
        told = self._told(outputs)
        raw |= {section: models for section, models in declared.sections.items() if models}
        raw |= {"program": program, "outputs": outputs if len(outputs) > 1 else outputs[0]}
        raw |= told
        changed = vocabulary.changed_by(self.words)
        if changed and not any(o in self.statements.used for o in changed):
            raw.pop("procedure", None)
            raw.pop("around", None)
        return next(filter(self._fits, self._trained(raw)), raw)

    def _trained(self, raw: Raw) -> Iterator[Raw]:
        """The case with changes between its steps; then without these, with regions made in each
        step, or without training."""
        procedure = raw.get("procedure")
        train = procedure.get("train") if isinstance(procedure, Mapping) else None
        if train is None:
            return
        choices, changes = self.choices, self._changes()
        rare = [kind for kind in ("set", "unfreeze") if kind in changes]  # few programs have any
        kinds = choices.some([*sorted(changes), *rare * 4], 1, 2) if choices.chance(75) else []
        between = (
            {"between": [{kind: choices.one(changes[kind]) for kind in kinds}]} if kinds else {}
        )
        each = {key: value for key, value in train.items() if key != "made"}
        for words in (train | between, each | between, train, each):
            yield {**raw, "procedure": {"train": words}}
        yield {key: value for key, value in raw.items() if key != "procedure"}

    def _changes(self) -> Mapping[str, Sequence[Any]]:
        """What can be changed between two steps, by kind."""
        inputs, parameters = (self.declared.sections[name] for name in ("inputs", "parameters"))
        raising = any(operation.raises for operation in self.statements.used)
        changes: dict[str, list[Any]] = defaultdict(list, run=["inference"], copy=["model"])
        changes["assign"], changes["replace"] = [*parameters], [*parameters]
        for name, told in {**inputs, **parameters}.items():
            value = told.get("value")
            if isinstance(value, bool) and not raising:
                changes["set"].append({name: not value})
            elif isinstance(value, float):
                changes["set"].append({name: value + 0.5})
            elif "shape" in told and "integers" not in told:
                changes["freeze" if told.get("gradient", True) else "unfreeze"].append(name)
        there = {kind: found for kind, found in changes.items() if found}
        return {k: v for k, v in there.items() if f"step-{k}" in self.known.allowed}

    def _fits(self, raw: Raw) -> bool:
        """Whether a case loads, with the features that there are."""
        try:
            return vocabulary.required(raw) <= self.known.allowed
        except CaseError:
            return False

    def _outputs(self, program: list[Any]) -> list[str]:
        """What the program puts out, first what is differentiated."""
        choices, scope, statements = self.choices, self.scope, self.statements
        made = [n for n in scope.made if n in scope.values]
        floats = [n for n in scope.tensors() if n in made]
        if not floats or choices.chance(85):
            unread = [n for n in floats if n not in scope.read] or floats
            unread = [n for n in floats if n == self.nodes.risen] or unread
            last = statements.plain(scope)
            if unread:
                last = statements.of(_product(self.known.operations), scope, unread[0])
            program += self.nodes.add(last, scope)
            floats = [n for n in last.results if n in scope.tensors()] + floats
        if "unseeded" in self.known.allowed and choices.chance(5) and not self.words:
            dtype = scope.tensor(floats[0]).dtype
            self.factor = self.declared.tensor("parameters", (), {"full": 0.5}, dtype)
            last = statements.of(_product(self.known.operations), scope, floats[0], self.factor)
            program += self.nodes.add(last, scope)
            floats = [*last.results]
        others = [n for n in made if n != floats[0]]
        others = [n for n in others if n not in scope.read and choices.chance(70)] or others
        others = choices.some(others, 0, 2) if choices.chance(50) else []
        return [floats[0], *others, *self.nodes.returned]

    def _prune(self, program: list[Any], outputs: list[str]) -> None:
        """Leave out most of what is declared and never read."""
        read = set(re.findall(r"\w+", json.dumps([program, outputs])))
        for models in self.declared.sections.values():
            for name in [n for n in models if n not in read and not self.choices.chance(12)]:
                del models[name]

    def _told(self, outputs: list[str]) -> dict[str, Any]:
        """What a case says beside its program, because of what is in it."""
        used, flags = self.statements.used, self.statements.raising
        errors = [word.raises for word in self.nodes.used if word.raises]
        procedure, between = self.words.get("procedure"), self.between
        told: dict[str, Any] = {}
        unlike = [o.unlike for o in used if o.unlike]
        if errors:
            told["error"] = {"type": errors[0]}
            for flag in flags:  # there is one error, and nothing raises before it
                self.declared.sections["inputs"][flag]["value"] = False
        elif flags:
            told["error"] = {
                "type": next(iter(flags.values())),
                "then": dict.fromkeys(flags, False),
            }
        elif any(o.over for o in used) or between in _UNPROMISED:
            told["error"] = {"as": "plain"}
            unlike.append("What a program changes is not promised to be seen.")
        if unlike:
            told["differs"] = unlike[0]
        lows = [word for word in self.nodes.used if word.key == "autocast"]
        lowest = _tolerance(self.statements.dtypes)
        if lows or "autocast" in self.words or between == "autocast":
            told["tolerance"] = _HALF
        elif lowest > _tolerance({self.declared.dtype}):
            told["tolerance"] = {"rtol": lowest[0], "atol": lowest[1]}
        if not (self.statements.unsteady or "error" in told) and self.choices.chance(6):
            told["release"] = self.choices.one((4, {"steps": 4, "keep": "outputs"}))
        if self.factor:
            return told | {"seeded": False, "gradients": {"totals": {self.factor: 2.0}}}
        if procedure != "inference" and (gradients := self._gradients(procedure, outputs)):
            told["gradients"] = gradients
        return told

    def _gradients(self, procedure: Any, outputs: list[str]) -> dict[str, Any]:
        choices, declared = self.choices, self.declared
        parameters = declared.asking("parameters")
        asking = parameters + declared.asking("inputs")
        gradients: dict[str, Any] = {}
        if choices.chance(10) and self.scope.tensor(outputs[0]).data.size:
            gradients["of"] = f"mean({outputs[0]})"
        if procedure == "per_output":
            floats = [n for n in outputs if n in self.scope.tensors()]
            gradients["then"] = f"sum({choices.one(floats)})"
        if asking and (procedure == "part" or choices.chance(10)):
            gradients["wrt"] = choices.some(asking, 1, 2)
        if parameters and "hooks" in self.known.allowed and choices.chance(6):
            gradients["hooks"] = choices.some(parameters, 1, 2)
        return gradients


def _tolerance(dtypes: Collection[str]) -> tuple[float, float]:
    """The tolerance of the least precise of these dtypes, relative and absolute."""
    known = [TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES]
    return max([(t.rtol, t.atol) for t in known], default=(0.0, 0.0))


@cache
def _steep() -> frozenset[str]:
    """The operations of one tensor whose gradient at 0 is infinite, and their result is not."""
    x, names = tape.tensor(np.zeros(1), "float32", True), set()
    for operation in OPERATIONS.values():
        if operation.elementwise:
            with tape.quiet(), np.errstate(all="ignore"):
                y = getattr(tape, operation.name)(x)
                (slope,) = tape.gradient(y, [x])
            if slope is not None and np.isfinite(y.data) and not np.isfinite(slope.data):
                names.add(operation.name)
    return frozenset(names)


def _product(operations: Collection[Operation]) -> Operation:
    """The operation that a program most often ends with: the gradient with respect to each of its
    arguments reads the other one."""
    needs = {"a": (frozenset("b"),), "b": (frozenset("a"),)}
    return next(o for o in operations if o.broadcasts and dict(o.needs) == needs)
