"""Writes `run` in forward mode, and of whole Jacobians."""

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.expressions import listed
from conformance.emit.part import Part
from conformance.errors import NotOfferedError


class Transforms(Part):
    """Writes what the procedures in `FURTHER` have in common; a framework adds the lines of each."""

    def write_gradients(self) -> None:
        """What `run` does after its beginning."""
        self._refuse()
        self.write()
        self._write_returned()

    def write(self) -> None:
        """The lines that give `outputs`, and what the procedure asks for: `gradients` or `tangent`, and
        `again`. Raises `NotOfferedError` unless they are written."""
        raise NotOfferedError(self.variant.id, f"procedure {self.case.procedure.kind}")

    @property
    def place(self) -> str:
        """The expression of the output that is differentiated."""
        place: str = self.run.loss_place()
        return place

    def _refuse(self) -> None:
        """Raise `NotOfferedError` where nothing is differentiated, or an operation has no tangent."""
        kind = self.case.procedure.kind
        if not self.run.depends(self.case.loss):
            raise NotOfferedError(self.variant.id, f"procedure {kind} of a constant")
        if self.case.hooks:
            raise NotOfferedError(self.variant.id, f"hooks where the procedure is {kind}")
        self.run.refuse_orders(self.case.procedure.order)
        if kind == "jacobian":
            return
        for _, statement in self.case.statements():
            ruled = statement.options.get("rule") == "forward"
            if statement.op in self.words.reverse_only and not ruled:
                raise NotOfferedError(self.variant.id, f"tangents of {statement.op}")

    def reduced(self, x: str) -> str:
        """The scalar that a tangent is made, as the loss is of its output."""
        assert self.case.loss is not None
        kind = self.case.loss.reduction
        return x if kind == "none" else self.words.reduction.format(x=x, kind=kind)

    def write_function(self, name: str, result: str) -> None:
        """A function of the tensors of `wrt`, which returns a result, and leaves the outputs in a
        list."""
        with self.code.indent(f"def {name}(*wanted):"):
            given = f"dict(zip({listed(self.case.wrt)}, wanted))"
            self.code(f"outputs = forward(**values | {given})", FORWARD)
            self.code("seen.append(outputs)")
            self.code(f"return {result}", BACKWARD)

    def _write_returned(self) -> None:
        name, kind = self.case.differentiated[0], self.case.procedure.kind
        taken = f'{{"{name}": tangent}}' if kind in ("jvp", "gradient_of_jvp") else "gradients"
        more = ', "again": again' if self.case.procedure.order > 1 else ""
        self.code(
            f'return {{"outputs": outputs, "losses": [{self.run.loss()}], "gradients": {taken}{more}'
            f"{self.run.state_entry()}}}"
        )
