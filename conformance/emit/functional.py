"""Programs of frameworks that differentiate a function of a dict of tensors.

`run` has all tensors in `values`. The function takes those that gradients are taken of: `wanted`, or
`values` itself where that is all of them. `conformance.emit.lazy` and `conformance.emit.pullback` write
all procedures for two kinds of such frameworks.
"""

from __future__ import annotations

from conformance.emit.expressions import listed
from conformance.emit.part import PROCEDURES, Words
from conformance.emit.running import Run

#: By procedure, the function that is differentiated last, where that is made of gradients itself.
HIGHER = {"second_order": "total_of", "third_order": "second_total_of"}


#: What `Words` of such frameworks begin with.
WORDS = Words(
    halving="for name in {names}:\n    values[name] *= 0.5",
    halving_one='values["{name}"] *= 0.5',
    procedures_written=PROCEDURES,
)


class Functional(Run):
    """What `run` has in common in such frameworks: the dict, and a step of SGD."""

    #: The function that maps a function over trees of tensors; empty where there is none.
    tree_map = ""
    #: The two dicts in one, as keyword arguments.
    merged = "**values | wanted"

    def trained(self) -> list[str]:
        """The parameters that training updates."""
        return [p.name for p in self.case.parameters if p.gradient]

    def wanted(self) -> list[str]:
        """The keys of the dict that gradients are taken of: what is asked for, and what is trained."""
        trained = self.trained() if self.case.procedure.kind == "train" else []
        names = {*self.case.wrt, *trained}
        return self.values.given(name for name in self.case.names() if name in names)

    @property
    def of(self) -> str:
        """The name of the dict that gradients are taken of."""
        procedure = self.case.procedure
        kept = procedure.kind == "train" or procedure.between
        return "wanted" if kept or self.wanted() != self.values.value_names() else "values"

    def write_wanted(self) -> None:
        """The dict that gradients are taken of, where it is not `values`."""
        if self.of == "wanted":
            self.code(f"wanted = {self.values.entries(self.wanted())}")

    def arguments_of_forward(self) -> str:
        """The arguments of `forward` where the function calls it."""
        if self.of == "values" or self.wanted() == self.values.value_names():
            return f"**{self.of}"
        return self.merged

    def write_chosen(self, made: str) -> None:
        """Of the gradients in the dict of that name those that the case asks for, often all of them."""
        if set(self.wanted()) != set(self.case.wrt):
            self.code(f"{made} = {self.values.entries(self.case.wrt, made)}")

    def write_losses(self) -> None:
        """What is differentiated: the loss as a function of a dict, and for higher orders the sum of
        all gradients as another one."""
        raise NotImplementedError

    def write_step(self) -> None:
        """A forward and a backward pass of training, with what happens in between."""
        raise NotImplementedError

    def write_training(self) -> None:
        code = self.code
        self.write_wanted()
        self.write_losses()
        code("losses = []")
        with code.indent(f"for _ in range({self.case.procedure.steps}):"):
            self.write_step()
            self.write_update()
            code("losses.append(loss)")
        self.write_returned()

    def write_update(self) -> None:
        """One step of SGD."""
        rate = self.case.procedure.learning_rate
        if not self.tree_map:
            with self.code.indent(f"for name in {listed(self.trained())}:"):
                self.code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
            return
        step = f"lambda weight, gradient: weight - {rate} * gradient"
        if self.values.given(self.trained()) == self.wanted():
            self.code(f"wanted = {self.tree_map}({step}, wanted, gradients)")
            return
        for name in self.values.given(self.trained()):
            of = f'wanted["{name}"], gradients["{name}"]'
            self.code(f'wanted["{name}"] = {self.tree_map}({step}, {of})')

    def write_returned(self, *, again: bool = False) -> None:
        """What `run` returns."""
        training = self.case.procedure.kind == "train"
        results = [
            f'"outputs": {self.result}',
            f'"losses": {"losses" if training else "[loss]"}',
            '"gradients": gradients',
            *(['"again": again'] if again else []),
        ]
        for made in ("gradients", "again") if again else ("gradients",):
            self.write_chosen(made)
        if training:
            parameters = [p.name for p in self.case.parameters]
            inside = set(self.values.given(parameters)) <= set(self.wanted())
            source = "wanted" if inside else "(values | wanted)"
            whole = self.wanted() == parameters
            results.append(
                f'"parameters": {source if whole else self.values.entries(parameters, source)}'
            )
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")
