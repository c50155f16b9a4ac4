"""How PaddlePaddle writes a case as a static graph that an `Executor` runs.

In a static graph `recompute` has an effect only through a pass that Paddle's distributed engine applies.
The program applies that pass itself, after marking operations as forward or backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import FEW, Writer
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import elements, listed
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


def write_helpers(emitter: Base) -> None:
    """The functions that `run` calls, at the end of the program."""
    helpers = (FETCH,) if emitter.case.procedure.kind == "inference" else (APPLY, FETCH)
    for text in helpers:
        emitter.code(text)
        emitter.code("\n")


def tensor(array: Array, source: str) -> str:
    """What is fed is a NumPy array."""
    if array.fill.kind == "full":
        source = elements(array, source)
    if array.fill.kind in ("full", "values"):
        return f'{source.removesuffix(")")}, dtype="{array.dtype}")'
    return f'np.array({source}, dtype="{array.dtype}")'


def write_inference(emitter: Base) -> None:
    """The forward pass alone, with no gradient asked for."""
    code = emitter.code
    with _building(emitter), code.indent("with paddle.no_grad():"):
        code("outputs = forward(**placed)", FORWARD)
    _write_executor(emitter)
    kept = f", {_state(emitter)}" if _state(emitter) else ""
    code(f'results = {{"outputs": outputs{kept}}}')
    _write_fetching(emitter)


def write_gradients(emitter: Base) -> None:
    """Forward and gradients, of first or second order, as one graph that is run once."""
    _write_graph(emitter, list(emitter.case.wrt))
    _write_fetching(emitter)


def write_training(emitter: Base) -> None:
    """The graph is made once and run at every step; the parameters are fed."""
    code, case = emitter.code, emitter.case
    trained = [p.name for p in case.parameters if p.gradient]
    wanted = list(dict.fromkeys([*case.wrt, *trained]))
    _write_graph(emitter, wanted)
    code("losses = []")
    with code.indent(f"for _ in range({case.procedure.steps}):"):
        code(f"found = {_fetched(emitter)}")
        with code.indent(f"for name in {listed(trained)}:"):
            rate = case.procedure.learning_rate
            fed = _feed(emitter)
            code(f'{fed}[name] = {fed}[name] - {rate} * found["gradients"][name]')
        code('losses += found["losses"]')
    chosen = ""
    if wanted != list(case.wrt):
        entries = ", ".join(f'"{n}": found["gradients"]["{n}"]' for n in case.wrt)
        chosen = f', "gradients": {{{entries}}}'
    parameters = emitter.entries((p.name for p in case.parameters), _feed(emitter))
    changed = f'"losses": losses{chosen}, "parameters": {parameters}'
    state = "" if _state(emitter) else ', "state": {}'
    code(f"return {{**found, {changed}{state}{emitter.generators_entry()}}}")


@contextmanager
def _building(emitter: Base) -> Iterator[None]:
    """Write the head of the graph and what is fed into it; the graph follows inside the `with`."""
    code, case = emitter.code, emitter.case
    fed = [array.name for array in case.arrays if array not in case.state]
    if _feed(emitter) == "feed":
        few = emitter.entries(fed) if len(fed) <= FEW else ""
        code(f"feed = {few or f'{{name: values[name] for name in {listed(fed)}}}'}")
    code("main, startup = paddle.static.Program(), paddle.static.Program()")
    with code.indent("with paddle.static.program_guard(main, startup):"):
        placed = "paddle.static.data(name, array.shape, str(array.dtype))"
        if _feed(emitter) == "values":
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


def _write_graph(emitter: Base, wanted: list[str]) -> None:
    """Forward, backward and the pass; leaves `main`, `executor` and `results` in the program."""
    code, case = emitter.code, emitter.case
    loss = emitter.loss()
    functional = case.procedure.kind == "functional"
    results = [
        '"outputs": outputs',
        '"losses": [loss]',
        '"gradients": dict(zip(wanted, gradients))',
    ]
    order = case.procedure.kind == "second_order"
    with _building(emitter):
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
    _write_executor(emitter)
    if _state(emitter):
        results.append(_state(emitter))
    code(f"results = {{{', '.join(results)}}}")


def _write_executor(emitter: Base) -> None:
    emitter.code("executor = paddle.static.Executor(paddle.CPUPlace())")
    if emitter.case.state:
        emitter.code("executor.run(startup)")


def _feed(emitter: Base) -> str:
    """The dict of what is fed: all of `values` that is an array and no state."""
    fed = [array.name for array in emitter.case.arrays if array not in emitter.case.state]
    return "values" if fed == list(emitter.case.names()) else "feed"


def _fetched(emitter: Base) -> str:
    return f"fetch(executor, main, {_feed(emitter)}, results)"


def _write_fetching(emitter: Base) -> None:
    """Run the graph, and return what it computes."""
    found = _fetched(emitter)
    generators = emitter.generators_entry()
    emitter.code(f"return {{**{found}{generators}}}" if generators else f"return {found}")


def _state(emitter: Base) -> str:
    """The entry of state in `results`; empty where there is none."""
    entries = ", ".join(emitter.state_entries()).replace('values["', 'placed["')
    return f'"state": {{{entries}}}' if entries else ""
