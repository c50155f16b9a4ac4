"""Writes `inputs`: what a program starts from."""

from __future__ import annotations

from conformance.emit import loops
from conformance.emit.expressions import numpy_fill
from conformance.emit.part import Part, imported
from conformance.errors import NotOfferedError
from conformance.model.case import Array, Generator, Value

_DRAWS = ("normal", "uniform", "integers")


class Tensors(Part):
    """Writes the making of tensors and explicit generators. An adapter says how a tensor is made."""

    def tensor(self, array: Array, source: str) -> str:
        """The expression that makes a tensor in `array.dtype` from `source`, a NumPy expression of the
        array's elements (float64 or int64, of `array.shape`)."""
        raise NotImplementedError

    def framework_generator(self, seed: int) -> str:
        """The expression of the framework's explicit generator or key."""
        raise NotOfferedError(self.variant.id, "an explicit generator (`framework_generator`)")

    def generator(self, value: Generator) -> str:
        """The expression that makes an explicit generator; `framework_generator` for its own."""
        if value.library == "numpy":
            return f"np.random.default_rng({value.seed})"
        return self.framework_generator(value.seed)

    def write_inputs(self) -> None:
        """`inputs()`: every draw comes from one NumPy generator, in the order of the case."""
        case, code, held = self.case, self.code, self.emitter.in_lists
        with code.indent("def inputs():"):
            if any(array.fill.kind in _DRAWS for array in case.arrays):
                code(f"rng = np.random.default_rng({case.seed})")
            begin = len(code.lines)
            for value in (*case.inputs, *case.parameters, *case.state):
                if isinstance(value, Value):
                    listed = isinstance(value.value, tuple)
                    code(f"{value.name} = {list(value.value) if listed else value.value!r}")  # type: ignore[arg-type]
                elif isinstance(value, Generator):
                    code(f"{value.name} = {self.generator(value)}")
                else:
                    code(f"{value.name} = {self.tensor(value, numpy_fill(value))}")
            taken = {*case.names(), *imported(tuple(self.words.imports)), "rng"}
            lines, entry = loops.series(code.lines[begin:], taken)
            code.lines[begin:] = lines
            entry |= {name: f'"{item.name}": {item.name}' for name, item in held.items()}
            entries = [entry.get(name, f"{name!r}: {name}") for name in case.names()]
            code(f"return {{{', '.join(dict.fromkeys(entries))}}}")
        code("\n")
