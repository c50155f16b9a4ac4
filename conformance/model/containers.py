"""Containers beside Python's tuple and dict, in the trees of cases and in what programs return."""

import dataclasses
from typing import Any, ClassVar, TypeVar

_T = TypeVar("_T")


class Listed(tuple[_T, ...]):
    """A list, whose items do not change."""

    __slots__ = ()
    kind: ClassVar[str] = "list"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


class Fields(dict[str, _T]):
    """What has its parts under names, as attributes: a `Named` tuple or an `Object`."""

    kind: ClassVar[str] = "fields"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and dict.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.kind, *self.items()))


class Named(Fields[_T]):
    """A named tuple."""

    kind: ClassVar[str] = "named"


class Object(Fields[_T]):
    """An instance of a dataclass."""

    kind: ClassVar[str] = "object"


#: By the words that cases have for them.
KINDS = {"list": Listed, "named": Named, "object": Object}


def alike(container: Any, parts: Any) -> Any:
    """A container of the same kind with other parts."""
    if type(container) in KINDS.values():
        return type(container)(parts)
    return dict(parts) if isinstance(container, dict) else tuple(parts)


def fields_of(value: object) -> Fields[Any] | None:
    """The parts of a named tuple or of a dataclass's instance; `None` for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Named(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return Object((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    return None
