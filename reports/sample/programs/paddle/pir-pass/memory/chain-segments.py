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


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((2048, 64)), dtype="float32")
    w1 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w2 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w3 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w4 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w5 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w6 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w7 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w8 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v1 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v2 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v3 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v4 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v5 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v6 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v7 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v8 = np.array(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    return {
        "x": x,
        "w1": w1,
        "w2": w2,
        "w3": w3,
        "w4": w4,
        "w5": w5,
        "w6": w6,
        "w7": w7,
        "w8": w8,
        "v1": v1,
        "v2": v2,
        "v3": v3,
        "v4": v4,
        "v5": v5,
        "v6": v6,
        "v7": v7,
        "v8": v8,
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = paddle.sin(p1)
        t1 = paddle.sin(s1)
        u1 = paddle.sin(t1)
        q1 = u1 @ v1
        r1 = paddle.sin(q1)
        m1 = paddle.sin(r1)
        h = paddle.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = paddle.sin(p2)
        t2 = paddle.sin(s2)
        u2 = paddle.sin(t2)
        q2 = u2 @ v2
        r2 = paddle.sin(q2)
        m2 = paddle.sin(r2)
        h = paddle.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = paddle.sin(p3)
        t3 = paddle.sin(s3)
        u3 = paddle.sin(t3)
        q3 = u3 @ v3
        r3 = paddle.sin(q3)
        m3 = paddle.sin(r3)
        h = paddle.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = paddle.sin(p4)
        t4 = paddle.sin(s4)
        u4 = paddle.sin(t4)
        q4 = u4 @ v4
        r4 = paddle.sin(q4)
        m4 = paddle.sin(r4)
        h = paddle.sin(m4)
        return h

    h = segment4(h)
    z = h.sum()
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = paddle.sin(p1)
        t1 = paddle.sin(s1)
        u1 = paddle.sin(t1)
        q1 = u1 @ v1
        r1 = paddle.sin(q1)
        m1 = paddle.sin(r1)
        h = paddle.sin(m1)
        return h

    h = recompute(segment1, h)

    def segment2(h):
        p2 = h @ w2
        s2 = paddle.sin(p2)
        t2 = paddle.sin(s2)
        u2 = paddle.sin(t2)
        q2 = u2 @ v2
        r2 = paddle.sin(q2)
        m2 = paddle.sin(r2)
        h = paddle.sin(m2)
        return h

    h = recompute(segment2, h)

    def segment3(h):
        p3 = h @ w3
        s3 = paddle.sin(p3)
        t3 = paddle.sin(s3)
        u3 = paddle.sin(t3)
        q3 = u3 @ v3
        r3 = paddle.sin(q3)
        m3 = paddle.sin(r3)
        h = paddle.sin(m3)
        return h

    h = recompute(segment3, h)

    def segment4(h):
        p4 = h @ w4
        s4 = paddle.sin(p4)
        t4 = paddle.sin(s4)
        u4 = paddle.sin(t4)
        q4 = u4 @ v4
        r4 = paddle.sin(q4)
        m4 = paddle.sin(r4)
        h = paddle.sin(m4)
        return h

    h = recompute(segment4, h)
    z = h.sum()
    return z


def run(forward):
    values = inputs()
    fed = [
        "x",
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
    ]
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        placed = dict(values)
        for name in fed:
            array = values[name]
            placed[name] = paddle.static.data(name, array.shape, str(array.dtype))
        for name in [
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
        ]:
            placed[name].stop_gradient = False
        wanted = ["w1", "w4", "v4"]
        sources = [placed[name] for name in wanted]
        outputs = forward(**placed)
        loss = outputs
        backward_from = len(main.global_block().ops)
        gradients = paddle.static.gradients(loss, sources)
    if forward is recomputed:
        apply_recompute(main, startup, backward_from)
    executor = paddle.static.Executor(paddle.CPUPlace())
    results = {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(wanted, gradients)),
    }
    feed = {name: values[name] for name in fed}
    found = fetch(executor, main, feed, results)
    return found


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
