"""Writes `run`: the case's procedure around the forward pass, and what it returns."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.containers import part_of
from conformance.emit.expressions import listed
from conformance.emit.part import Part
from conformance.emit.usual import LEFT, LISTS
from conformance.errors import NotOfferedError
from conformance.language.operations import NOTED
from conformance.model.case import Generator, Literal, Loss, Ref, Tree
from conformance.model.program import Site
from conformance.oracle.reached import missing, reached


class Run(Part):
    """Writes what all frameworks' procedures have in common; an adapter adds gradients and training."""

    #: The line that runs the forward pass with gradients off, and discards the result.
    inferring = "forward(**values)"

    def write_run(self) -> None:
        """`run(forward)`, for the case's procedure. `FORWARD` marks the line that runs the forward pass,
        `BACKWARD` the one that starts the backward pass."""
        changes = ", **changes" if self._changed else ""
        with self.code.indent(f"def run(forward{changes}):"):
            self.write_beginning()
            if self.case.procedure.kind == "inference":
                self.write_inference()
            elif self.case.procedure.kind == "train":
                self.write_training()
            else:
                self.write_gradients()

    def write_beginning(self) -> None:
        """Write what `run` does first, whatever its procedure: seed, and make the inputs."""
        self.write_seeding(self.case.seed)
        used = {statement.op for _, statement in self.case.statements()}
        for op in (op for op in LISTS if op in used):
            self.code(f"{LISTS[op]}.clear()")
        if any(region.left for region in self.case.regions()):
            self.code(f"{LEFT}.clear()")
        self.code(f"values = {self.inputs_call()}")
        self.write_hooks()

    @property
    def _changed(self) -> bool:
        """Whether `run` takes changes of the inputs: a good run follows an expected error."""
        return self.case.error is not None and bool(self.case.error.then)

    def inputs_call(self) -> str:
        """The expression for the inputs inside `run`."""
        self.code.wrote("then")
        return "inputs() | changes" if self._changed else "inputs()"

    def write_hooks(self) -> None:
        """Register a gradient hook on each tensor in the case's `hooks`."""
        if self.case.hooks:
            self.code.wrote("hooks")
            self.code("fired = []")
        for name in self.case.hooks:
            self.code(self.offered("hook").format(name=name))

    def write_seeding(self, seed: int) -> None:
        """Seed the implicit generators that the case draws from, unless it is not `seeded`."""
        if not self.case.seeded:
            return
        self.code.wrote("seeding")
        drawn = self.case.sources()
        if "implicit" in drawn:
            self.write_own_seeding(seed)
        if "numpy" in drawn:
            self.code(f"np.random.seed({seed})")
        if "python" in drawn:
            self.code(f"random.seed({seed})")

    def write_own_seeding(self, seed: int) -> None:
        """Seed the framework's implicit generator."""
        self.code(self.offered("seeding").format(seed=seed))

    def write_after(self) -> None:
        """Write what the procedure does first (`after`); called before the forward pass."""
        if self.case.procedure.after == "backward":
            self.write_backward_before()
        elif self.case.procedure.after == "inference":
            self.write_inference_before()
        self.code.wrote("after")

    def write_inference_before(self) -> None:
        """A forward pass with gradients off, whose result is dropped."""
        with self._indented(self.words.without_gradients):
            self.code(self.inferring)

    def _indented(self, head: str) -> AbstractContextManager[None]:
        return self.code.indent(head) if head else nullcontext()

    def write_backward_before(self) -> None:
        """A forward and a backward pass, to whose gradients those that follow are added. Raises
        `NotOfferedError` unless it is written, where tensors accumulate gradients."""
        part = "gradients that are added to (`write_backward_before`)"
        raise NotOfferedError(self.variant.id, part)

    def write_between(self) -> None:
        """Write what happens between forward and backward; called before the backward pass."""
        self.code.wrote("between")
        between, drawn = self.case.procedure.between, self.case.sources()
        if between == "reseed":
            self.write_seeding(self.case.seed + 1)
        elif between == "update":
            names = [p.name for p in self.case.parameters]
            one = self.words.halving_one if len(names) == 1 else ""
            halving = one or self.offered("halving")
            self.code(halving.format(name="".join(names), names=listed(names)))
        elif between == "draw":
            if "implicit" in drawn:
                self.code(self.offered("drawing"))
            if "numpy" in drawn:
                self.code("np.random.uniform()")
            if "python" in drawn:
                self.code("random.random()")
        elif between == "switch":
            self.code(f'{LISTS["switched_sin"]}.append("on")')

    def write_backward(
        self, function: str, *arguments: str, into: str = "", site: Site | None = BACKWARD
    ) -> None:
        """Write the call that starts the backward pass: in another thread, under autocast or where
        gradients are switched off, if the case says so.

        The result is assigned to `into`, unless that is empty. The thread is started only for this call,
        so that it inherits no thread-local state.
        """
        self.code.wrote("start")
        between, head = self.case.procedure.between, ""
        call = f"{function}({', '.join(arguments)})"
        if between == "thread":
            head = "with ThreadPoolExecutor(max_workers=1) as executor:"
            call = f"executor.submit({', '.join([function, *arguments])}).result()"
        elif between == "autocast":
            head = self.offered("autocast").format(dtype="bfloat16")
        elif between == "no-gradients":
            head = self.offered("without_gradients")
        with self._indented(head):
            self.code(f"{into} = {call}" if into else call, site)

    def generators_entry(self) -> str:
        """The entry of explicit generators in what `run` returns; empty where the case has none."""
        self.code.wrote("generators")
        made = [value.name for value in self.case.inputs if isinstance(value, Generator)]
        entries = ", ".join(f'"{name}": values["{name}"]' for name in made)
        return f', "generators": {{{entries}}}' if made else ""

    def write_inference(self) -> None:
        """The forward pass with gradients off, and what `run` returns."""
        with self._indented(self.words.without_gradients):
            self.code("outputs = forward(**values)", FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_gradients(self) -> None:
        """Forward, backward (once, twice, or of the second order), and what `run` returns."""
        raise NotImplementedError

    def write_training(self) -> None:
        """Steps of SGD, and what `run` returns. Raises `NotOfferedError` unless it is written."""
        raise NotOfferedError(self.variant.id, "procedure train")

    def state_entry(self) -> str:
        """The entries of state and generators in what `run` returns; empty where there are none."""
        entries = self.state_entries()
        state = f', "state": {{{", ".join(entries)}}}' if entries else ""
        return state + self.generators_entry()

    def state_entries(self) -> list[str]:
        """The entries of the dict of state: buffers, numbers of notes (side effects), calls of hooks."""
        self.code.wrote("state")
        entries = self.values.state()
        if self.case.uses(NOTED):
            entries.append('"noted": len(noted)')
        return entries + [f'"hook of {n}": fired.count("{n}")' for n in self.case.hooks]

    def loss_place(self, outputs: str = "outputs", loss: Loss | None = None) -> str:
        """The expression of the output that a loss (the case's own) is made of: `outputs`,
        `outputs[1]["a"]`, …"""
        chosen = loss or self.case.loss
        assert chosen is not None
        places = _places(self.case.outputs, outputs)
        return next(place for name, place in places if name == chosen.name)

    def refuse_orders(self, order: int) -> None:
        """Raise `NotOfferedError` if an operation's gradient cannot be taken so often."""
        for op in sorted({statement.op for _, statement in self.case.statements()}):
            if self.words.orders.get(op, order) < order:
                which = ("", "", "second", "third")[order]
                raise NotOfferedError(self.variant.id, f"{which}-order gradients of {op}")

    def refuse_twice(self) -> None:
        """Raise `NotOfferedError` if a second backward pass cannot go through an operation."""
        for op in sorted({statement.op for _, statement in self.case.statements()}):
            if op in self.words.once:
                raise NotOfferedError(self.variant.id, f"a second backward through {op}")

    def depends(self, loss: Loss | None) -> bool:
        """Whether a loss depends on a tensor that requires a gradient."""
        return loss is not None and bool(reached(self.case, loss))

    @cached_property
    def _missing(self) -> tuple[frozenset[str], ...]:
        return missing(self.case)

    def given(self, order: int) -> str:
        """The end of a comprehension over the gradients of an order: it leaves out those that are
        `None`, where some are."""
        return " if gradient is not None" if self._missing[order - 1] else ""

    def constant(self, order: int) -> bool:
        """Whether there is no gradient of an order: what is differentiated for it is constant."""
        return len(self._missing[order - 1]) == len(self.case.wrt)

    @property
    def result(self) -> str:
        """The name of what the forward pass gives: `loss` where that is the loss itself."""
        loss = self.case.loss
        whole = loss is not None and loss.reduction == "none" and self.loss_place("") == ""
        return "loss" if whole and self.case.procedure.kind in _NAMED else "outputs"

    def write_loss(self, forward: str = "forward(**values)", site: Site | None = FORWARD) -> None:
        """The line that runs the forward pass, and where the loss is something else, the line of it."""
        self.code(f"{self.result} = {forward}", site)
        if self.result != "loss":
            self.code(f"loss = {self.loss()}")

    def loss(self, other: Loss | None = None) -> str:
        """The expression of a loss (the case's own): an output, or its sum or mean."""
        chosen = other or self.case.loss
        place = self.loss_place(loss=chosen)
        assert chosen is not None
        if chosen.reduction == "none":
            return place
        return self.words.reduction.format(x=place, kind=chosen.reduction)

    def write_main(self) -> None:
        """Write what the program does as a script: run both paths and print their results."""
        each = self.code.indent("for forward in (plain, recomputed):")
        with self.code.indent('if __name__ == "__main__":'), each:
            self.code("print(forward.__name__, run(forward))")


#: Procedures whose `run` does nothing with the outputs but take the loss of them.
_NAMED = ("backward", "part", "second_backward", "train")


def _places(tree: Tree, place: str) -> Iterator[tuple[str, str]]:
    """Each name in a tree, with the expression of what it stands for in the tree at `place`."""
    if isinstance(tree, Ref):
        yield tree.name, place
    elif not isinstance(tree, Literal):
        for key, part in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _places(part, part_of(tree, place, key))
