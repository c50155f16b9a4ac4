"""Whole programs: a strategy of cases as YAML data."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from conformance.errors import CaseError
from conformance.fuzz import words as vocabulary
from conformance.fuzz.choices import Choices
from conformance.fuzz.nodes import Nodes
from conformance.fuzz.scope import Declared, Scope
from conformance.fuzz.stable import is_stable
from conformance.fuzz.statements import Statements, operations_for
from conformance.fuzz.words import Word
from conformance.language.build import TOLERANCES
from conformance.language.features import required_by
from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.oracle import tape
from conformance.oracle.interpreter import check_shapes

Raw = Mapping[str, Any]
_SHAPES = (*[(3, 4)] * 12, (4,), (2, 3, 4), (1, 4), (), (0, 4), (2, 3, 4, 4))
_DTYPES = (*["float32"] * 8, "float64", "bfloat16")
_UNPROMISED = ("update", "switch")
_HALF = {"rtol": 0.04, "atol": 0.04}


@dataclass(frozen=True)
class Generated:
    """A program: what is written, the case that it is, and the name of its text."""

    name: str
    raw: Raw
    case: Case


@dataclass(frozen=True)
class Vocabulary:
    """What programs for a variant are made of: the features that they may have."""

    allowed: frozenset[str]
    regions: tuple[Word, ...] = field(init=False)
    cases: tuple[Word, ...] = field(init=False)

    def __post_init__(self) -> None:
        for name, words in (("regions", vocabulary.of_regions()), ("cases", vocabulary.of_cases())):
            fitting = tuple(word for word, needed in words if needed <= self.allowed)
            object.__setattr__(self, name, fitting)

    @cached_property
    def operations(self) -> Sequence[Any]:
        """The operations."""
        return operations_for(self.allowed)


def written(known: Vocabulary, seed: int, number: int, attempt: int = 0) -> Raw:
    """The program of that number among those of a seed, as YAML data. Nearly all can be loaded."""
    return _Program(Choices(seed, number, attempt), known, known.operations).case()


def loaded(raw: Raw, allowed: frozenset[str]) -> Generated:
    """A program that is loaded as a file would be. Raises `CaseError` where it is no program for these
    features."""
    digest = hashlib.sha256(vocabulary.as_text("p", raw).encode()).hexdigest()[:10]
    name = f"p{digest}"
    (case,) = load_text(vocabulary.as_text(name, raw), "a generated program")
    check_shapes([case])
    if not is_stable(case):
        raise CaseError("its numbers depend on how they are rounded")
    missing = required_by(case) - allowed
    if missing:
        raise CaseError(f"it needs {', '.join(sorted(missing))}")
    return Generated(name, raw, case)


@dataclass
class _Program:
    """Makes one case."""

    choices: Choices
    known: Vocabulary
    operations: Sequence[Any]

    def case(self) -> Raw:
        """A case as YAML data."""
        choices, known = self.choices, self.known
        tape.seed(0)
        declared = Declared(
            choices, choices.one(_DTYPES if "bfloat16" in known.allowed else _DTYPES[:-1])
        )
        wanted = choices.some(self.operations, 0, 2)
        unsteady = choices.chance(5) or any(o.unlike for o in wanted)
        chosen = self._case_words(unsteady)
        wanted_words = [choices.one(known.regions)] if known.regions and choices.chance(50) else []
        statements = Statements(choices, declared, self.operations, known.allowed, wanted)
        statements.unsteady = unsteady
        statements.low = any(word.key == "autocast" for word in chosen)
        allowed = known.allowed - {"repeated-call"} if unsteady else known.allowed
        nodes = Nodes(choices, declared, statements, allowed, known.regions, wanted_words)
        scope = Scope({})
        statements.leaf(
            scope,
            choices.one(_SHAPES),
            {"normal": 0.5} if choices.chance(70) else {"uniform": [0.5, 1.5]},
        )
        program = nodes.top(scope)
        raw: dict[str, Any] = {
            "title": "Generated program",
            "source": "generated programs",
            "why": "A random program.",
        }
        raw |= {word.key: word.value for word in chosen}
        if raw.get("autocast"):
            program += nodes.cast_back(scope, [n for n in scope.made if n in scope.tensors()])
        outputs = self._outputs(scope, program, statements)
        self._prune(declared, program, statements)
        raw |= {section: dict(models) for section, models in declared.sections.items() if models}
        raw |= {"program": program, "outputs": outputs if len(outputs) > 1 else outputs[0]}
        self._gradients(raw, scope, outputs, declared)
        self._companions(raw, nodes, statements, declared)
        return raw

    def _case_words(self, unsteady: bool) -> list[Word]:
        choices = self.choices
        found: dict[str, Word] = {}
        procedures = [word for word in self.known.cases if word.key == "procedure"]
        if unsteady:
            procedures = [word for word in procedures if isinstance(word.value, str)]
        if choices.chance(55):
            found["procedure"] = choices.one(procedures)
        for word in self.known.cases:
            if word.key not in found and choices.chance(2):
                found[word.key] = word
        return list(found.values())

    def _outputs(self, scope: Scope, program: list[Any], statements: Statements) -> list[str]:
        """What the program puts out, first what is differentiated."""
        choices = self.choices
        made = [n for n in scope.made if n in scope.values]
        floats = [n for n in scope.tensors() if n in made]
        if not floats or choices.chance(85):
            last = [n for n in floats if n not in scope.read] or floats
            product = (
                statements.of(_product(statements.operations), last[0], scope) if last else None
            )
            made_last = product or statements.plain(scope)
            scope.values.update(made_last.results)
            program.append(made_last.text)
            scope.made += made_last.results
            floats = [n for n in (*made_last.results, *floats) if n in scope.tensors()]
        if not floats:
            made_last = statements.plain(scope)
            program.append(made_last.text)
            scope.values.update(made_last.results)
            floats = list(made_last.results)
        others = [n for n in made if n != floats[0] and n in scope.values]
        return [floats[0], *(choices.some(others, 0, 2) if choices.chance(40) else [])]

    def _prune(self, declared: Declared, program: list[Any], statements: Statements) -> None:
        """Leave out most of what is declared and never read."""
        read = set(re.findall(r"\w+", json.dumps(program)))
        for models in declared.sections.values():
            for name in [n for n in models if n not in read and not self.choices.chance(5)]:
                del models[name]

    def _gradients(
        self, raw: dict[str, Any], scope: Scope, outputs: list[str], declared: Declared
    ) -> None:
        choices = self.choices
        asking = [
            name
            for section in ("inputs", "parameters")
            for name, model in declared.sections[section].items()
            if isinstance(declared.values[name], tape.Tensor)
            and "float" in declared.values[name].dtype
            and model.get("gradient", True)
        ]
        gradients: dict[str, Any] = {}
        procedure = raw.get("procedure")
        if procedure == "inference":
            return
        if choices.chance(10) and scope.tensor(outputs[0]).data.size:
            gradients["of"] = f"mean({outputs[0]})"
        if procedure == "per_output":
            floats = [n for n in outputs if n in scope.tensors()]
            gradients["then"] = f"sum({choices.one(floats)})"
        if asking and (procedure == "part" or choices.chance(10)):
            gradients["wrt"] = choices.some(asking, 1, 2)
        parameters = [n for n in asking if n in declared.sections["parameters"]]
        if parameters and "hooks" in self.known.allowed and choices.chance(6):
            gradients["hooks"] = choices.some(parameters, 1, 2)
        if gradients:
            raw["gradients"] = gradients

    def _companions(
        self, raw: dict[str, Any], nodes: Nodes, statements: Statements, declared: Declared
    ) -> None:
        """What a case has to say because of words and operations in it."""
        errors = [word.raises for word in nodes.used if word.raises]
        flags = statements.raising
        if errors:
            raw["error"] = {"type": errors[0]}
        elif flags:
            raw["error"] = {"type": next(iter(flags.values())), "then": dict.fromkeys(flags, False)}
        backward = raw.get("procedure")
        between = (
            backward["backward"].get("between")
            if isinstance(backward, dict) and "backward" in backward
            else None
        )
        unlike = [o.unlike for o in statements.used if o.unlike]
        if any(o.over for o in statements.used) or between in _UNPROMISED:
            raw.setdefault("error", {"as": "plain"})
        if between in _UNPROMISED:
            unlike.append(
                "What is changed between forward and backward is not promised to be seen."
            )
        if any(o.over for o in statements.used):
            unlike.append("What is written over may be an argument of the region.")
        if unlike:
            raw["differs"] = unlike[0]
        lows = [w for w in nodes.used if w.key == "autocast"]
        if raw.get("autocast") or lows or between == "autocast":
            raw["tolerance"] = _HALF
        elif (lowest := _lowest(statements.dtypes)) > _lowest({declared.dtype}):
            raw["tolerance"] = {"rtol": lowest[0], "atol": lowest[1]}
        if self.choices.chance(3) and "error" not in raw and not statements.unsteady:
            raw["release"] = 4


def _lowest(dtypes: Collection[str]) -> tuple[float, float]:
    """The tolerance of the least precise of these dtypes, relative and absolute."""
    known = [TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES]
    return max([(t.rtol, t.atol) for t in known], default=(0.0, 0.0))


def _product(operations: Sequence[Any]) -> Any:
    """The operation that a program most often ends with: the gradient with respect to each of its
    arguments reads the other one."""
    return next(
        o
        for o in operations
        if o.broadcasts and dict(o.needs) == {"a": (frozenset("b"),), "b": (frozenset("a"),)}
    )


def magnitude(values: Any) -> float:
    """The largest element of an array."""
    return float(np.max(np.abs(values))) if np.size(values) else 0.0
