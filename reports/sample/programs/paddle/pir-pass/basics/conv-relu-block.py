"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant paddle/pir-pass.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass

paddle.enable_static()


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(rng.standard_normal((2, 3, 6, 6)), dtype="float32")
    w1 = np.array(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype="float32")
    w2 = np.array(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = block(x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    def block(x):
        c = F.conv2d(x, w1, padding="same")
        r = F.relu(c)
        return F.conv2d(r, w2)

    y = recompute(block, x)
    p = F.max_pool2d(y, 2)
    return F.avg_pool2d(p, 2)


def run(forward):
    values = inputs()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        placed = {
            name: paddle.static.data(name, array.shape, str(array.dtype))
            for name, array in values.items()
        }
        placed["x"].stop_gradient = False
        placed["w1"].stop_gradient = False
        placed["w2"].stop_gradient = False
        wanted = ("x", "w1", "w2")
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
