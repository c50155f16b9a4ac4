"""Writes `run`: the case's procedure around the forward pass, and what it returns."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.containers import part_of
from conformance.emit.expressions import listed
from conformance.emit.part import FURTHER, Part
from conformance.emit.usual import LEFT, LISTS
from conformance.errors import NotOfferedError
from conformance.language.operations import NOTED, RANDOM
from conformance.model.case import Array, Case, Change, Generator, Literal, Loss, Ref, Tree
from conformance.model.program import SET, Site
from conformance.model.steps import changed, stepped
from conformance.oracle.reached import missing, reached


class Run(Part):
    """Writes what all frameworks' procedures have in common; an adapter adds gradients and training."""

    @property
    def inferring(self) -> str:
        """The line that runs the forward pass with gradients off, and discards the result."""
        return self.passed

    @property
    def passed(self) -> str:
        """The call that runs the forward pass."""
        if not self.modelled:
            return "forward(**values)"
        if self.words.holds == "values":
            return "model(**values)"
        return f"model({', '.join(self.values.value(name) for name in self.forward.given())})"

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
            elif self.case.procedure.kind in FURTHER:
                self.transforms.write_gradients()
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
        if self.modelled:
            self.write_model()
        else:
            self.code(f"values = {self.inputs_call()}")
        self.write_hooks()

    def write_model(self) -> None:
        """Make the object that holds the regions."""
        self.code.wrote("made")
        if self.words.holds == "tensors":
            self.code(f"model = forward({self.inputs_call()})")
            self.code("values = vars(model)")
        else:
            self.code(f"values = {self.inputs_call()}")
            popped = (f'"{name}": values.pop("{name}")' for name in self.held_once)
            self.code(f"model = forward({{{', '.join(popped)}}})")

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
        """Seed the framework's implicit generator, on each rank otherwise unless all do the same."""
        own = self.case.ranks > 1 and not self.case.split
        of_rank = f" + {self.words.rank}" if own else ""
        self.code(self.offered("seeding").format(seed=f"{seed}{of_rank}"))

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

    @property
    def turn(self) -> str:
        """The name of a step's number; `_` where nothing reads it."""
        return "number" if self.case.procedure.changes else "_"

    def write_changes(self) -> None:
        """What is done between steps, at the beginning of each but the first."""
        self.code.wrote("changes")
        steps = stepped(self.case)
        for number, changes in enumerate(self.case.procedure.changes, start=1):
            if not changes:
                continue
            with self.code.indent(f"if number == {number}:"):
                latest = steps[number - 1]
                for change in changes:
                    self.write_change(latest, change)
                    latest = changed(latest, change)

    def write_change(self, case: Case, change: Change) -> None:
        """One change of a case as it was before."""
        name = change.name
        if change.kind == "set":
            self.code.notes.add(SET)
            self.code(f"{self.place_of_value(name)} = {change.value!r}")
        elif change.kind == "copy":
            self.write_copy()
        elif change.kind == "run":
            with self._indented(self.words.without_gradients):
                self.code(self.inferring, FORWARD)
        elif change.kind == "fail":
            place = self.place_of_value(name)
            self.code(f"{place} = True")
            with self.code.indent("try:"):
                self.code(self.inferring, FORWARD)
            self.code(f"except ValueError:\n    {place} = False")
        else:
            if change.kind == "rows" and self.case.uses(RANDOM):
                self.code.notes.add(SET)
            wanted = [a for a in case.inputs if change.kind == "rows" and isinstance(a, Array)]
            for array in wanted or [a for a in case.arrays if a.name == name]:
                self.write_changed(array, change)

    def write_changed(self, array: Array, change: Change) -> None:
        """A change of a tensor, which is still as `array` says."""
        line = self.words.changes.get(change.kind, "")
        if change.kind == "replace" and self.forward.makes_network:
            line = ""  # a network has it somewhere
        if not line:
            raise NotOfferedError(self.variant.id, f"`{change.kind}` between steps")
        place = self.place_of(array)
        asks = self.words.changes.get("asks", "").format(place=place) if array.gradient else ""
        words = {"name": array.name, "rows": change.value, "asks": asks}
        self.code(line.format(place=place, apart=self.place_apart(array), **words))

    def place_of(self, array: Array) -> str:
        """The expression of a tensor between two steps."""
        return self.values.value(array.name)

    def place_apart(self, array: Array) -> str:
        """The expression of a tensor between two steps, where no gradient is taken of it."""
        return self.place_of(array)

    def place_of_value(self, name: str) -> str:
        """The expression of an input that is no tensor, between two steps."""
        if self.modelled and self.words.holds == "values":
            return f"model.{name}"
        return f'values["{name}"]'

    @property
    def copies(self) -> bool:
        """Whether a step begins with a copy."""
        changes = self.case.procedure.changes
        return any(change.kind == "copy" for each in changes for change in each)

    def write_copy(self) -> None:
        """Go on with a deep copy of the object that holds the regions, and change the original."""
        if self.forward.makes_network:
            self.code("original = values")
            self.code("network, values = copy.deepcopy((network, values))")
        elif self.words.holds == "values":
            self.code("model = copy.deepcopy(model)")
            return
        else:
            self.code("original = values")
            self.code("model = copy.deepcopy(model)")
            self.code("values = vars(model)")
        names = [p.name for p in self.case.parameters]
        one = self.words.halving_one if len(names) == 1 else ""
        halving = one or self.words.halving
        if halving and names:
            text = halving.format(name="".join(names), names=listed(names))
            self.code(text.replace("values[", "original["))

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
            self.code(f"outputs = {self.passed}", FORWARD)
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

    def write_loss(self, forward: str = "", site: Site | None = FORWARD) -> None:
        """The line that runs the forward pass, and where the loss is something else, the line of it."""
        self.code(f"{self.result} = {forward or self.passed}", site)
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
        if self.case.ranks > 1 and self.words.start:
            self.code(self.words.start.replace("{ranks}", str(self.case.ranks)))
            return
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
