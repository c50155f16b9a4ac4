"""How PaddlePaddle writes a case as a static graph that an `Executor` runs.

The pass that makes `recompute` do something in a static graph is one that Paddle's distributed engine
applies; the program says which operations are forward and which backward, and applies it by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.case import Array
from conformance.emit import BACKWARD, FORWARD
from conformance.emit import Spelling as Base

IMPORTS = (
    "import random",
    "import numpy as np",
    "import paddle",
    "import paddle.nn.functional as F",
    "from paddle.base import core",
    "from paddle.distributed.fleet.utils import recompute",
    "from paddle.distributed.passes import PassContext, new_pass",
)
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


def write_helpers(spelling: Base) -> None:
    """The mode, and the functions that `run` calls."""
    spelling.code("paddle.enable_static()\n\n")
    helpers = (FETCH,) if spelling.case.procedure.kind == "inference" else (APPLY, FETCH)
    for text in helpers:
        spelling.code(text)
        spelling.code("\n")


def tensor(array: Array, source: str) -> str:
    """What is fed is a NumPy array."""
    return f'np.array({source}, dtype="{array.dtype}")'


def write_inference(spelling: Base) -> None:
    """The forward pass alone, with no gradient asked for."""
    code = spelling.code
    with _building(spelling), code.indent("with paddle.no_grad():"):
        code("outputs = forward(**placed)", FORWARD)
    _write_executor(spelling)
    state = _placed(array.name for array in spelling.case.state)
    kept = f', "state": {state}' if spelling.case.state else ""
    code(f'results = {{"outputs": outputs{kept}}}')
    _write_fetching(spelling)
    code(f"return {_returned(spelling)}")


def write_gradients(spelling: Base) -> None:
    """Forward and gradients, of first or second order, as one graph that is run once."""
    _write_graph(spelling, list(spelling.case.wrt))
    _write_fetching(spelling)
    spelling.code(f"return {_returned(spelling)}")


def write_training(spelling: Base) -> None:
    """The graph is made once and run at every step; the parameters are fed."""
    code, case = spelling.code, spelling.case
    trained = [p.name for p in case.parameters if p.gradient]
    _write_graph(spelling, list(dict.fromkeys([*case.wrt, *trained])))
    code("losses = []")
    with code.indent(f"for _ in range({case.procedure.steps}):"):
        _write_fetching(spelling)
        with code.indent(f"for name in ({', '.join(map(repr, trained))},):"):
            rate = case.procedure.learning_rate
            code(f'values[name] = values[name] - {rate} * found["gradients"][name]')
        code('losses += found["losses"]')
    chosen = ", ".join(f'"{n}": found["gradients"]["{n}"]' for n in case.wrt)
    parameters = spelling.chosen(case.parameters)
    changed = f'"losses": losses, "gradients": {{{chosen}}}, "parameters": {parameters}'
    state = "" if case.state else ', "state": {}'
    code(f"return {{**found, {changed}{state}{spelling.generators_entry()}}}")


@contextmanager
def _building(spelling: Base) -> Iterator[None]:
    """Write the head of the graph and what is fed into it; the graph follows inside the `with`."""
    code, case = spelling.code, spelling.case
    code(f"fed = {[array.name for array in case.arrays if array not in case.state]}")
    code("main, startup = paddle.static.Program(), paddle.static.Program()")
    with code.indent("with paddle.static.program_guard(main, startup):"):
        code("placed = dict(values)")
        with code.indent("for name in fed:"):
            code("array = values[name]")
            code("placed[name] = paddle.static.data(name, array.shape, str(array.dtype))")
        if asking := [array.name for array in case.arrays if array.gradient]:
            with code.indent(f"for name in {asking}:"):
                code("placed[name].stop_gradient = False")
        if case.state:
            with code.indent(f"for name in {[array.name for array in case.state]}:"):
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


def _write_graph(spelling: Base, wanted: list[str]) -> None:
    """Forward, backward and the pass; leaves `main`, `executor` and `results` in the program."""
    code, case = spelling.code, spelling.case
    loss, place = case.loss, spelling.loss_place()
    assert loss is not None
    results = [
        '"outputs": outputs',
        '"losses": [loss]',
        '"gradients": dict(zip(wanted, gradients))',
    ]
    with _building(spelling):
        code("outputs = forward(**placed)", FORWARD)
        code(f"loss = {place}" + ("" if loss.reduction == "none" else f".{loss.reduction}()"))
        code("backward_from = len(main.global_block().ops)")
        code(f"wanted = {wanted}")
        code("sources = [placed[name] for name in wanted]")
        code("gradients = paddle.static.gradients(loss, sources)", BACKWARD)
        if case.procedure.kind == "second_order":
            code("total = sum(gradient.sum() for gradient in gradients)")
            code("second = paddle.static.gradients(total, sources)")
            results.append('"again": dict(zip(wanted, second))')
    with code.indent("if forward is recomputed:"):
        code("apply_recompute(main, startup, backward_from)")
    _write_executor(spelling)
    if case.state:
        results.append(f'"state": {_placed(array.name for array in case.state)}')
    code(f"results = {{{', '.join(results)}}}")


def _write_executor(spelling: Base) -> None:
    spelling.code("executor = paddle.static.Executor(paddle.CPUPlace())")
    if spelling.case.state:
        spelling.code("executor.run(startup)")


def _write_fetching(spelling: Base) -> None:
    spelling.code("feed = {name: values[name] for name in fed}")
    spelling.code("found = fetch(executor, main, feed, results)")


def _returned(spelling: Base) -> str:
    generators = spelling.generators_entry()
    return f"{{**found{generators}}}" if generators else "found"


def _placed(names: Iterator[str]) -> str:
    return "{" + ", ".join(f'"{name}": placed["{name}"]' for name in names) + "}"
