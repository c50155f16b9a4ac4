"""What programs in forward mode, and of whole Jacobians, have in common: the function of a dict of
tensors that a framework's transform is given."""

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.expressions import listed
from conformance.emit.part import FURTHER
from conformance.emit.running import Run
from conformance.errors import NotOfferedError


class Transforms(Run):
    """`run` of the procedures in `FURTHER`; a framework adds the lines of each."""

    @property
    def transforms(self) -> bool:
        """Whether the procedure is one of these."""
        return self.case.procedure.kind in FURTHER

    @property
    def place(self) -> str:
        """The expression of the output that is differentiated."""
        return self.loss_place()

    def refuse_transform(self) -> None:
        """Raise `NotOfferedError` where nothing is differentiated, or an operation has no tangent."""
        kind = self.case.procedure.kind
        if not self.depends(self.case.loss):
            raise NotOfferedError(self.variant.id, f"procedure {kind} of a constant")
        if self.case.hooks:
            raise NotOfferedError(self.variant.id, f"hooks where the procedure is {kind}")
        self.refuse_orders(self.case.procedure.order)
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

    def write_transformed(self) -> None:
        """What `run` returns; `gradients`, or for tangents `tangent`, is there."""
        name, kind = self.case.differentiated[0], self.case.procedure.kind
        taken = f'{{"{name}": tangent}}' if kind in ("jvp", "gradient_of_jvp") else "gradients"
        more = ', "again": again' if self.case.procedure.order > 1 else ""
        self.code(
            f'return {{"outputs": outputs, "losses": [{self.loss()}], "gradients": {taken}{more}'
            f"{self.state_entry()}}}"
        )
