"""The inputs, parameters and state of a case: tensors, and values that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from conformance.language.source import KeyPath, Source, is_finite
from conformance.language.spec import (
    MAX_ELEMENTS,
    ArrayModel,
    CaseModel,
    ValueModel,
)
from conformance.language.spec_errors import described
from conformance.model.case import NUMBER, Array, Fill, Generator, Value


class TensorBuilder:
    """Builds what a case declares. All methods raise `CaseError`."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def inputs(self, model: CaseModel) -> Iterator[Array | Value | Generator]:
        """What the program is given beside its parameters and state."""
        for name, declared in model.inputs.items():
            if isinstance(declared, ArrayModel):
                yield from self.arrays({name: declared}, "inputs", True)
                continue
            self._source.identifier(name, "inputs", name, key=True)
            if isinstance(declared, ValueModel):
                listed = isinstance(declared.value, list)
                yield Value(name, tuple(declared.value) if listed else declared.value)  # type: ignore[arg-type]
            else:
                yield Generator(name, declared.generator, declared.seed)

    def arrays(
        self, models: Mapping[str, ArrayModel], section: str, differentiable: bool
    ) -> Iterator[Array]:
        """The tensors of a section (`inputs`, `parameters`, `state`); floating ones require a gradient
        where they are `differentiable`, unless they say otherwise."""
        for name, model in models.items():
            path = (section, name)
            for number in range(1, int(model.repeat or 1) + 1):
                chosen = name.replace(NUMBER, str(number)) if model.repeat else name
                self._source.identifier(chosen, *path, key=True)
                yield self._array(chosen, model, path, differentiable)

    def _array(self, name: str, model: ArrayModel, path: KeyPath, differentiable: bool) -> Array:
        error = self._source.error
        kinds = ("full", "values", "arange", "normal", "uniform", "integers")
        filled = [kind for kind in kinds if getattr(model, kind) is not None]
        if len(filled) != 1:
            message = f"tensor {name!r} is filled in {len(filled)} ways, expected exactly one"
            raise error(message, *path, hint=f"one of {', '.join(kinds)}")
        (kind,) = filled
        if kind == "values":
            values = self.numbers(model.values, (*path, "values"))
            shape = shape_of(values)
            if shape is None or (model.shape is not None and tuple(model.shape) != shape):
                wanted = model.shape or "lists of equal lengths"
                message = f"values of {name!r} are of shape {shape}, expected {wanted}"
                raise error(message, *path, "values")
            fill = Fill("values", values=values)
        elif model.shape is None:
            raise error(f"tensor {name!r} has no shape", *path)
        else:
            shape = tuple(int(n) for n in model.shape)
            filling = getattr(model, kind)
            fill = Fill(kind, tuple(filling) if isinstance(filling, list) else (filling,))  # type: ignore[arg-type]
        size = math.prod(shape)
        if size > MAX_ELEMENTS:
            message = f"tensor {name!r} has {size} elements, expected at most {MAX_ELEMENTS}"
            raise error(message, *path, "shape")
        dtype = model.dtype or ("int32" if kind == "integers" else "float32")
        floating = "float" in dtype
        gradient = model.gradient if model.gradient is not None else differentiable and floating
        if gradient and not floating:
            raise error(f"a tensor of dtype {dtype} has no gradient", *path)
        return Array(name, shape, dtype, fill, gradient)

    def numbers(self, values: object, path: KeyPath) -> object:
        """Nested lists of finite numbers as nested tuples."""
        if isinstance(values, list):
            return tuple(self.numbers(v, (*path, i)) for i, v in enumerate(values))
        if isinstance(values, bool | int | float) and is_finite(values):
            return values
        raise self._source.error(f"found {described(values)}, expected a finite number", *path)


def shape_of(values: object) -> tuple[int, ...] | None:
    """The shape of nested tuples of numbers; `None` where lengths differ."""
    if not isinstance(values, tuple):
        return ()
    inner = {shape_of(v) for v in values}
    if len(inner) > 1 or None in inner:
        return None
    rest = inner.pop() if inner else ()
    return (len(values), *(rest or ()))
