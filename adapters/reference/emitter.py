"""How the reference writes a case: functions of `tape`, regions through `tape.recompute`."""

from __future__ import annotations

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Call, Emitter, Parts, Recompute, Run, Tensors, Words
from conformance.emit.transforms import Transforms
from conformance.emit.usual import LISTS
from conformance.language.operations import OPERATIONS
from conformance.model.case import Array, Case, Generator, Region
from conformance.model.steps import ever_asking, stepped


def _written(call: Call) -> str:
    """`tape.op(arguments, options)`, with the options that the case gives."""
    words = [*call.arguments.values()]
    for name, spec in OPERATIONS[call.op].options.items():
        value = call.options[name]
        if spec.required or value != spec.default:
            words.append(f"{name}={value!r}")
    return f"tape.{call.op}({', '.join(words)})"


WORDS = Words(
    procedures_written=(
        *("backward", "part", "per_output", "second_backward", "second_order"),
        *("third_order", "jvp", "jvp_of_gradient", "gradient_of_jvp", "jacobian"),
        *("inference", "train"),
    ),
    imports=("import random", "import numpy as np", "import tape"),
    helpers={},  # the tape has every operation
    operations=dict.fromkeys(set(OPERATIONS) - set(LISTS), _written),
    wrong_option='preserve_rng="wrong"',
    seeding="tape.seed({seed})",
    drawing="tape.uniform((3,))",
    without_gradients="with tape.no_gradient():",
    default_dtype='tape.set_default_dtype("{dtype}")',
    rank="tape.rank()",
    start="""
        def on_rank():
            for forward in (plain, recomputed):
                print(tape.rank(), forward.__name__, run(forward))


        if __name__ == "__main__":
            tape.spawn(on_rank, {ranks})
        """,
    shares=True,
    lists="all",
    reduction="tape.{kind}({x})",
    holds="tensors",
    changes={
        "freeze": "{place} = tape.tensor({place}.data, {place}.dtype)",
        "unfreeze": "{place} = tape.tensor({place}.data, {place}.dtype, gradient=True)",
        "assign": "{place}.data *= 0.5",
        "replace": "{place} = tape.tensor(0.5 * {place}.data, {place}.dtype{asks})",
        "rows": "{place} = tape.tensor({place}.data[:{rows}], {place}.dtype{asks})",
        "asks": ", gradient=True",
    },
    halving="for name in {names}:\n    values[name].data *= 0.5",
)


class TapeTensors(Tensors):
    """Tensors of the tape."""

    def tensor(self, array: Array, source: str) -> str:
        dtype = "" if array.dtype == "float32" else f', dtype="{array.dtype}"'
        gradient = ", gradient=True" if array.gradient else ""
        return f"tape.tensor({source}{dtype}{gradient})"

    def generator(self, value: Generator) -> str:
        return f"tape.generator({value.seed})"


class TapeRecompute(Recompute):
    """`tape.recompute` of each region's function."""

    prefix = "recomputed_"

    def made_once(self, region: Region) -> bool:
        return True

    def checkpoint(self, region: Region) -> str:
        options = self.option(region, "preserve_rng", "preserve_rng")
        options += self.option(region, "merge_adjacent", "merge_adjacent")
        options += self.contexts_option(region, "contexts")
        options += self.misuse(region)
        return f"tape.recompute({', '.join([self.block(region), *options])})"


class TapeRun(Run):
    """`tape.gradient`, which returns gradients in a list."""

    def names(self, names: tuple[str, ...]) -> str:
        return "[" + ", ".join(f'"{name}"' for name in names) + "]"

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self.write_after()
        self.write_loss()
        code(f"names = {self.names(self.case.wrt)}")
        code(f"wrt = {self.values.items(self.case.wrt)}")
        self.write_between()
        again = ""
        if kind in ("second_order", "third_order"):
            code("first = tape.gradient(loss, wrt, create_graph=True)", BACKWARD)
            code("total = tape.total(first)")
            if kind == "third_order":
                code("total = tape.total(tape.gradient(total, wrt, create_graph=True))")
            code("second = tape.gradient(total, wrt)")
        else:
            self.write_backward("tape.gradient", "loss", "wrt", into="first")
        if self.case.parallel:
            shared = self.names(tuple(p.name for p in self.case.parameters))
            each = "tape.averaged(g) if g and n in " + shared + " else g"
            code(f"first = [{each} for n, g in zip(names, first, strict=True)]")
        if kind == "second_backward":
            code("second = tape.gradient(loss, wrt)")
        if kind == "per_output":
            code(f"second = tape.gradient({self.loss(self.case.then)}, wrt)")
        if kind not in ("backward", "part", "functional"):
            again = ', "again": dict(zip(names, second, strict=True))'
        code(
            f'return {{"outputs": {self.result}, "losses": [loss], '
            f'"gradients": dict(zip(names, first, strict=True)){again}{self.state_entry()}}}'
        )

    def write_training(self) -> None:
        code, case = self.code, self.case
        trained = tuple(p.name for p in case.parameters if p.name in ever_asking(case))
        told = (*case.wrt, *(name for step in stepped(case) for name in step.wrt))
        wrt = tuple(dict.fromkeys((*told, *trained)))
        code(f"names = {self.names(wrt)}")
        if wrt != trained:
            code(f"trained = {self.names(trained)}")
        code("losses = []")
        changes = case.procedure.changes
        with code.indent(f"for {self.turn} in range({case.procedure.steps}):"):
            if changes:
                self.write_changes()
            self.write_loss()
            code("slopes = tape.gradient(loss, [values[name] for name in names])", BACKWARD)
            if self.case.parallel:
                code("slopes = [slope and tape.averaged(slope) for slope in slopes]")
            code("gradients = dict(zip(names, slopes, strict=True))")
            with code.indent(f"for name in {'names' if wrt == trained else 'trained'}:"):
                rate = case.procedure.learning_rate
                if changes:
                    code("if gradients[name] is None:\n    continue")
                code(f"values[name] = tape.descend(values[name], gradients[name], {rate})")
            code("losses.append(loss)")
        chosen = "gradients"
        if wrt != case.wrt:
            chosen = f"{{name: gradients[name] for name in {self.names(case.wrt)}}}"
        code(
            f'return {{"outputs": {self.result}, "losses": losses, "gradients": {chosen}, '
            f'"parameters": {self.values.chosen(case.parameters)}{self.state_entry()}}}'
        )


class Transformed(Transforms):
    """`tape.jvp`, and `tape.jacobian`; gradients of tangents and tangents of gradients are one."""

    def write(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        if kind in ("jvp", "jacobian"):
            code(f"{self.run.result} = {self.run.passed}", FORWARD)
        else:
            self.run.write_loss()
        if kind != "jvp":
            code(f"names = {self.run.names(self.case.wrt)}")
        if kind != "jacobian":
            code(f"wrt = {self.values.items(self.case.wrt)}")
        if kind == "jacobian":
            code(
                f"gradients = {{n: tape.jacobian({self.place}, values[n]) for n in names}}",
                BACKWARD,
            )
        elif kind != "jvp_of_gradient":
            code(f"tangent = tape.jvp({self.place}, wrt)", BACKWARD)
        if self.case.procedure.order > 1:
            code("first = tape.gradient(loss, wrt, create_graph=True)", BACKWARD)
            code("second = tape.gradient(tape.total(first, wrt), wrt)")
            code("again = dict(zip(names, second, strict=True))")
        if kind == "jvp_of_gradient":
            code("gradients = dict(zip(names, first, strict=True))")


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for `float64`."""
    parts = Parts(WORDS, TapeTensors, TapeRecompute, TapeRun, transforms=Transformed)
    if case.procedure.kind == "train":
        parts = parts.but(lists="nothing")  # what is trained is put back by its name
    return Emitter(case, variant, parts)
