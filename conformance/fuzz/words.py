"""The words of the language that have a few values each: options of a region, procedures of a case.

They are read from the models of `conformance.language.spec`, so that a new one is generated without
touching this package. What a word needs of a variant is found by trying it in a small case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin
from typing import Literal as OneOf

from conformance.errors import CaseError
from conformance.fuzz import trees
from conformance.language import spec
from conformance.language.features import required_by
from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS, Operation
from conformance.model.case import Untrained

#: The error that a program raises because of a word of a region.
_RAISING = {
    'block: "invalid"': "TypeError",
    'option: "unknown"': "Exception",
    'option: "wrong"': "Exception",
    'signature: "undeclared"': "Exception",
}
#: Keys that say nothing about the program.
_APART = ("smoke", "use")
_SMALL: Mapping[str, Any] = {
    "title": "Generated program",
    "source": "generated programs",
    "why": "A random program.",
    "inputs": {"x1": {"shape": [3, 4], "normal": 0.5}},
    "parameters": {"w1": {"shape": [3, 4], "normal": 0.5}},
    "outputs": ["t2", "t1"],
}


@dataclass(frozen=True)
class Word:
    """A key of a region or of a case, with one value that is not its default."""

    key: str
    value: Any

    @property
    def raises(self) -> str:
        """The error that a program raises because of it; empty for most."""
        return _RAISING.get(self.text, "")

    @property
    def text(self) -> str:
        """The word in a line."""
        return f"{self.key}: {json.dumps(self.value)}"


def values_of(annotation: Any) -> tuple[Any, ...]:
    """The words of an annotation, `None` and booleans among them; nothing for any other type."""
    if annotation is bool:
        return (False, True)
    if get_origin(annotation) is OneOf:
        return get_args(annotation)
    if get_origin(annotation) in (Union, UnionType):
        parts = [values_of(a) for a in get_args(annotation) if a is not type(None)]
        return tuple(value for part in parts for value in part) if all(parts) else ()
    return ()


def _of_model(model: type[spec.Model]) -> Iterator[Word]:
    for name, told in model.model_fields.items():
        for value in values_of(told.annotation) if name not in _APART else ():
            if value != told.default or value is True or name == "preserve_rng":
                yield Word(name, value)


def _procedures() -> Iterator[Word]:
    for word in get_args(Untrained):
        yield Word("procedure", word)
    train = {"steps": 2, "learning_rate": 0.05}
    yield Word("procedure", {"train": train})
    yield Word("procedure", {"train": {**train, "made": "once"}})
    for name, told in spec.BackwardModel.model_fields.items():
        for value in values_of(told.annotation):
            yield Word("procedure", {"backward": {name: value}})


@cache
def of_regions() -> tuple[tuple[Word, frozenset[str]], ...]:
    """The words of regions, with the features that each adds."""
    words = _of_model(spec.RegionModel)
    found = ((word, _features({word.key: word.value}, {})) for word in words)
    return tuple((word, features) for word, features in found if features is not None)


@cache
def of_containers() -> tuple[tuple[str, frozenset[str]], ...]:
    """The kinds of containers, with the features that each adds, other than that it is one."""
    found = (
        (kind, _features({"takes": [trees.written(kind, ["x1"])]}, {})) for kind in trees.CONTAINERS
    )
    return tuple(
        (kind, features - {"nested-inputs"}) for kind, features in found if features is not None
    )


@cache
def of_cases() -> tuple[tuple[Word, frozenset[str]], ...]:
    """The words of cases, procedures among them, with the features that each adds."""
    around = (Word("around", {w.key: w.value}) for w in _of_model(spec.AroundModel))
    words = [*_procedures(), *_of_model(spec.CaseModel), *around]
    found = ((word, _features({}, {word.key: word.value})) for word in words)
    return tuple((word, features) for word, features in found if features is not None)


def _features(of_region: Mapping[str, Any], of_case: Mapping[str, Any]) -> frozenset[str] | None:
    """The features that words add to a small case; `None` where they cannot stand alone."""
    region = {
        "recompute": "r1",
        "takes": ["x1"],
        "gives": "t1",
        "body": _body(of_region, of_case),
        **of_region,
    }
    case = {**_SMALL, "program": [region, "t2 = multiply(t1, w1)"], **of_case}
    if of_case.get("procedure") == "per_output":
        case["gradients"] = {"then": "sum(t1)"}
    plain = {**_SMALL, "program": [{**region, **dict.fromkeys(())}, "t2 = multiply(t1, w1)"]}
    plain["program"][0] = {k: v for k, v in region.items() if k not in of_region} | {
        "body": _body({}, {})
    }
    try:
        return required(case) - required(plain)
    except CaseError:
        return None


def _body(of_region: Mapping[str, Any], of_case: Mapping[str, Any]) -> list[str]:
    """A statement of the operation that goes by one of these words, or of the first one."""
    fitting = [o.name for o in OPERATIONS.values() if o.within and of_region.get(o.within)]
    fitting += [o.name for o in changed_by(of_case)]
    return [f"t1 = {next(iter(fitting), 'sin')}(x1)"]


def between(words: Mapping[str, Any]) -> str:
    """What happens between forward and backward in a case with these words; empty for nothing."""
    procedure = words.get("procedure")
    backward = procedure.get("backward", {}) if isinstance(procedure, Mapping) else {}
    return backward.get("between") or ""


def changed_by(words: Mapping[str, Any]) -> list[Operation]:
    """The operations that compute something else in the rerun of a case with these words."""
    settings = {between(words), *words.get("around", {}).values()}
    return [o for o in OPERATIONS.values() if o.between and o.between in settings]


def required(raw: Mapping[str, Any]) -> frozenset[str]:
    """The features of a case as it is written. Raises `CaseError`."""
    (case,) = load_text(as_text("small", raw), "a generated program")
    return required_by(case)


def as_text(name: str, raw: Mapping[str, Any], family: str = "generated") -> str:
    """A file with this case alone."""
    return json.dumps({"family": family, "cases": {name: raw}})
