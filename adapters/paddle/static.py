"""How PaddlePaddle writes a case as a static graph that an `Executor` runs.

In a static graph `recompute` has an effect only through a pass that Paddle's distributed engine applies.
The program applies that pass itself, after marking operations as forward or backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Body as Base
from conformance.emit.emitter import Run, Tensors, Writer
from conformance.emit.expressions import elements, listed
from conformance.emit.values import FEW
from conformance.model.case import Array

IMPORTS = (
    "import random",
    "import numpy as np",
    "import paddle",
    "import paddle.nn.functional as F",
    "from paddle.base import core",
    "from paddle.distributed.fleet.utils import recompute",
    "from paddle.distributed.passes import PassContext, new_pass",
)
CUSTOM_SIN = """
    def custom_sin(x, reads):
        def forward(x):
            return paddle.sin(x)

        def backward(g):
            for _ in range(reads):
                saved = x
            return 2 * paddle.cos(saved) * g

        return paddle.static.nn.static_pylayer(forward, [x], backward)
    """
#: A loop frees its initial value even if others read it, so it is given a copy.
LOOP_SIN = """
    def loop_sin(x, times):
        def goes_on(number, x):
            return number < times

        def step(number, x):
            return number + 1, paddle.sin(x)

        start = paddle.full([], 0, "int64")
        return paddle.static.nn.while_loop(goes_on, step, [start, paddle.assign(x)])[1]
    """
#: In a graph `add_` returns a new tensor and does not change its argument.
ACCUMULATE_SIN = """
    def accumulate_sin(x, total):
        with paddle.no_grad():
            paddle.assign(total + x.sum(0), total)
        return paddle.sin(x)
    """
#: What is emitted in another way for a graph than for dynamic mode, and the functions that it calls.
OPERATIONS: Mapping[str, Writer] = {
    "branch_sin": "paddle.static.nn.cond("
    "{x}.sum() > 0, lambda: paddle.sin({x}), lambda: paddle.cos({x}))",
    "custom_sin": "custom_sin({x}, {reads})",
    "loop_sin": "loop_sin({x}, {times})",
}
HELPERS: Mapping[str, str] = {
    "accumulate_sin": ACCUMULATE_SIN,
    "custom_sin": CUSTOM_SIN,
    "loop_sin": LOOP_SIN,
}
APPLY = '''
    def apply_recompute(main, startup, backward_from):
        """Run again in backward what `recompute` has marked: the pass asks for operations' roles."""
        role = core.op_proto_and_checker_maker.OpRole
        for number, op in enumerate(main.global_block().ops):
            op.op_role = int(role.Forward if number < backward_from else role.Backward)
        recompute_pass = new_pass("auto_parallel_recompute_pir", {"refined_ops_patterns": []})
        recompute_pass.apply([main], [startup], PassContext())
    '''
FETCH = '''
    def fetch(executor, main, feed, results):
        """Run a program, and put the numbers that it computed in the place of its values."""
        values = [v for v in paddle.utils.flatten(results) if isinstance(v, paddle.pir.Value)]
        numbers = iter(executor.run(main, feed=feed, fetch_list=values))

        def number(value):
            return next(numbers) if isinstance(value, paddle.pir.Value) else value

        return paddle.utils.map_structure(number, results)
    '''


class Fed(Tensors):
    """What is fed are NumPy arrays."""

    def tensor(self, array: Array, source: str) -> str:
        if array.fill.kind == "full":
            source = elements(array, source)
        if array.fill.kind in ("full", "values"):
            return f'{source.removesuffix(")")}, dtype="{array.dtype}")'
        return f'np.array({source}, dtype="{array.dtype}")'


class Body(Base):
    """Statements of a static graph."""

    def write_helpers(self) -> None:
        self.code("paddle.enable_static()\n\n")
        super().write_helpers()


class Graphs(Run):
    """Writes `run` as the making of a static graph, and its runs."""

    def write_main(self) -> None:
        """The functions that `run` calls, and the program as a script."""
        helpers = (FETCH,) if self.case.procedure.kind == "inference" else (APPLY, FETCH)
        for text in helpers:
            self.code(text)
        super().write_main()

    def write_inference(self) -> None:
        """The forward pass alone, with no gradient asked for."""
        code = self.code
        with self._building(), code.indent("with paddle.no_grad():"):
            code("outputs = forward(**placed)", FORWARD)
        self._write_executor()
        kept = f", {self._state()}" if self._state() else ""
        code(f'results = {{"outputs": outputs{kept}}}')
        self._write_fetching()

    def write_gradients(self) -> None:
        """Forward and gradients, of first or second order, as one graph that is run once."""
        self._write_graph(list(self.case.wrt))
        self._write_fetching()

    def write_training(self) -> None:
        """The graph is made once and run at every step; the parameters are fed."""
        code, case = self.code, self.case
        trained = [p.name for p in case.parameters if p.gradient]
        wanted = list(dict.fromkeys([*case.wrt, *trained]))
        self._write_graph(wanted)
        code("losses = []")
        with code.indent(f"for _ in range({case.procedure.steps}):"):
            code(f"found = {self._fetched()}")
            with code.indent(f"for name in {listed(trained)}:"):
                rate = case.procedure.learning_rate
                fed = self._feed()
                code(f'{fed}[name] = {fed}[name] - {rate} * found["gradients"][name]')
            code('losses += found["losses"]')
        chosen = ""
        if wanted != list(case.wrt):
            entries = ", ".join(f'"{n}": found["gradients"]["{n}"]' for n in case.wrt)
            chosen = f', "gradients": {{{entries}}}'
        parameters = self.values.entries((p.name for p in case.parameters), self._feed())
        changed = f'"losses": losses{chosen}, "parameters": {parameters}'
        state = "" if self._state() else ', "state": {}'
        code(f"return {{**found, {changed}{state}{self.generators_entry()}}}")

    @contextmanager
    def _building(self) -> Iterator[None]:
        """Write the head of the graph and what is fed into it; the graph follows inside the `with`."""
        code, case = self.code, self.case
        fed = [array.name for array in case.arrays if array not in case.state]
        if self._feed() == "feed":
            few = self.values.entries(fed) if len(fed) <= FEW else ""
            code(f"feed = {few or f'{{name: values[name] for name in {listed(fed)}}}'}")
        code("main, startup = paddle.static.Program(), paddle.static.Program()")
        with code.indent("with paddle.static.program_guard(main, startup):"):
            placed = "paddle.static.data(name, array.shape, str(array.dtype))"
            if self._feed() == "values":
                code(f"placed = {{name: {placed} for name, array in values.items()}}")
            else:
                code("placed = dict(values)")
                with code.indent("for name, array in feed.items():"):
                    code(f"placed[name] = {placed}")
            if asking := [array.name for array in case.arrays if array.gradient]:
                if len(asking) <= FEW:
                    for name in asking:
                        code(f'placed["{name}"].stop_gradient = False')
                else:
                    with code.indent(f"for name in {listed(asking)}:"):
                        code("placed[name].stop_gradient = False")
            if case.state:
                with code.indent(f"for name in {listed(array.name for array in case.state)}:"):
                    code(
                        """
                        placed[name] = paddle.create_parameter(
                            values[name].shape,
                            str(values[name].dtype),
                            default_initializer=paddle.nn.initializer.Assign(values[name]),
                        )
                        placed[name].stop_gradient = True
                        """
                    )
            yield

    def _write_graph(self, wanted: list[str]) -> None:
        """Forward, backward and the pass; leaves `main`, `executor` and `results` in the program."""
        code, case = self.code, self.case
        loss = self.loss()
        functional = case.procedure.kind == "functional"
        results = [
            '"outputs": outputs',
            '"losses": [loss]',
            '"gradients": dict(zip(wanted, gradients))',
        ]
        order = case.procedure.kind == "second_order"
        with self._building():
            code(f"wanted = {listed(wanted)}")
            if functional or order:
                code("sources = [placed[name] for name in wanted]")
            sources = "sources" if functional or order else "[placed[name] for name in wanted]"
            if functional:
                code("seen = []")
                with code.indent("def loss_of(*sources):"):
                    code("outputs = forward(**{**placed, **dict(zip(wanted, sources))})", FORWARD)
                    code(f"loss = {loss}")
                    code("seen.extend((outputs, len(main.global_block().ops)))")
                    code("return loss")
                code("loss, gradients = paddle.incubate.autograd.vjp(loss_of, sources)", BACKWARD)
                code("outputs, backward_from = seen")
            else:
                code("outputs = forward(**placed)", FORWARD)
                code(f"loss = {loss}")
                code("backward_from = len(main.global_block().ops)")
                code(f"gradients = paddle.static.gradients(loss, {sources})", BACKWARD)
            if order:
                code("total = sum(gradient.sum() for gradient in gradients)")
                code("second = paddle.static.gradients(total, sources)")
                results.append('"again": dict(zip(wanted, second))')
        with code.indent("if forward is recomputed:"):
            code("apply_recompute(main, startup, backward_from)")
        self._write_executor()
        if self._state():
            results.append(self._state())
        code(f"results = {{{', '.join(results)}}}")

    def _write_executor(self) -> None:
        self.code("executor = paddle.static.Executor(paddle.CPUPlace())")
        if self.case.state:
            self.code("executor.run(startup)")

    def _feed(self) -> str:
        """The dict of what is fed: all of `values` that is an array and no state."""
        fed = [array.name for array in self.case.arrays if array not in self.case.state]
        return "values" if fed == list(self.case.names()) else "feed"

    def _fetched(self) -> str:
        return f"fetch(executor, main, {self._feed()}, results)"

    def _write_fetching(self) -> None:
        """Run the graph, and return what it computes."""
        fetched = self._fetched()
        generators = self.generators_entry()
        self.code(f"return {{**{fetched}{generators}}}" if generators else f"return {fetched}")

    def _state(self) -> str:
        """The entry of state in `results`; empty where there is none."""
        entries = ", ".join(self.state_entries()).replace('values["', 'placed["')
        return f'"state": {{{entries}}}' if entries else ""
