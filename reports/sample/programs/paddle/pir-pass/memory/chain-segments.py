"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant paddle/pir-pass.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass

paddle.enable_static()


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((2048, 64)), dtype="float32")
    ws = [
        np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    vs = [
        np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = paddle.sin(p)
        t = paddle.sin(s)
        u = paddle.sin(t)
        q = u @ v
        r = paddle.sin(q)
        m = paddle.sin(r)
        return paddle.sin(m)

    h = segment(h, w1, v1)
    h = segment(h, w2, v2)
    h = segment(h, w3, v3)
    h = segment(h, w4, v4)
    return h.sum()


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = paddle.sin(p)
        t = paddle.sin(s)
        u = paddle.sin(t)
        q = u @ v
        r = paddle.sin(q)
        m = paddle.sin(r)
        return paddle.sin(m)

    h = recompute(segment, h, w1, v1)
    h = recompute(segment, h, w2, v2)
    h = recompute(segment, h, w3, v3)
    h = recompute(segment, h, w4, v4)
    return h.sum()


def run(forward):
    values = inputs()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        placed = {
            name: paddle.static.data(name, array.shape, str(array.dtype))
            for name, array in values.items()
        }
        for name in (
            "w1",
            "w2",
            "w3",
            "w4",
            "w5",
            "w6",
            "w7",
            "w8",
            "v1",
            "v2",
            "v3",
            "v4",
            "v5",
            "v6",
            "v7",
            "v8",
        ):
            placed[name].stop_gradient = False
        wanted = ("w1", "w4", "v4")
        outputs = forward(**placed)
        loss = outputs
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
