"""The recompute pass crashes the process if a region follows a region of a single operation."""

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


def forward(x):
    y = recompute(lambda x: x * x, x)
    return [recompute(lambda y: paddle.exp(y) * x, y)]


if "child" in sys.argv:
    paddle.enable_static()
    # The process crashes when the program is freed, after the error.
    run(forward)
else:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=False)
    assert child.returncode < 0
