"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant paddle/pir-pass.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass

paddle.enable_static()


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((3, 4)), dtype="float32")
    w1 = np.array(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    w2 = np.array(0.5 * rng.standard_normal((4, 2)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = paddle.sin(h)
        return paddle.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = paddle.sin(h)
        return paddle.exp(s)

    a = recompute(block, x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        placed = {
            name: paddle.static.data(name, array.shape, str(array.dtype))
            for name, array in values.items()
        }
        placed["w1"].stop_gradient = False
        placed["w2"].stop_gradient = False
        wanted = ("w1", "w2")
        outputs = forward(**placed)
        loss = outputs.sum()
        backward_from = len(main.global_block().ops)
        gradients = paddle.static.gradients(loss, [placed[name] for name in wanted])
    if forward is recomputed:
        apply_recompute(main, startup, backward_from)
    executor = paddle.static.Executor(paddle.CPUPlace())
    results = {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(wanted, gradients)),
    }
    return fetch(executor, main, values, results)


def apply_recompute(main, startup, backward_from):
    """Run again in backward what `recompute` has marked: the pass asks for operations' roles."""
    role = core.op_proto_and_checker_maker.OpRole
    for number, op in enumerate(main.global_block().ops):
        op.op_role = int(role.Forward if number < backward_from else role.Backward)
    recompute_pass = new_pass(
        "auto_parallel_recompute_pir", {"refined_ops_patterns": []}
    )
    recompute_pass.apply([main], [startup], PassContext())


def fetch(executor, main, feed, results):
    """Run a program, and put the numbers that it computed in the place of its values."""
    values = [
        v for v in paddle.utils.flatten(results) if isinstance(v, paddle.pir.Value)
    ]
    numbers = iter(executor.run(main, feed=feed, fetch_list=values))

    def number(value):
        return next(numbers) if isinstance(value, paddle.pir.Value) else value

    return paddle.utils.map_structure(number, results)


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
