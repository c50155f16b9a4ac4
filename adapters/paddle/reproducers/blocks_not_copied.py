"""The recompute pass copies loops and custom gradients without their bodies, and the process crashes."""

import subprocess
import sys

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass


def run(forward):
    """Run a static graph and its gradient, with the recompute pass applied."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [64], "float32")
        x.stop_gradient = False
        results = forward(x)
        count = len(main.global_block().ops)
        gradients = paddle.static.gradients(results[0].sum(), [x])
    # The pass requires roles: 0 is forward, 1 is backward.
    for number, operation in enumerate(main.global_block().ops):
        operation.op_role = int(number >= count)
    options = {"refined_ops_patterns": []}
    new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
    feed = {"x": np.ones(64, "float32")}
    executor = paddle.static.Executor(paddle.CPUPlace())
    return executor.run(main, feed=feed, fetch_list=[*gradients, *results])


def loop(x):
    def step(number, x):
        return number + 1, paddle.sin(x)

    start = [paddle.full([], 0, "int64"), paddle.assign(x)]
    return paddle.static.nn.while_loop(lambda number, x: number < 3, step, start)[1]


def custom(x):
    return paddle.static.nn.static_pylayer(paddle.sin, [x], lambda gradient: gradient * 2)


if sys.argv[1:] in (["loop"], ["custom"]):
    body = loop if sys.argv[1] == "loop" else custom
    paddle.enable_static()
    run(lambda x: [recompute(lambda x: paddle.exp(body(x) * 2), x)])
else:
    for name in ("loop", "custom"):
        child = subprocess.run([sys.executable, __file__, name], capture_output=True, check=False)
        assert child.returncode < 0
