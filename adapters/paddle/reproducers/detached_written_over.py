"""With the recompute pass, a detached output is overwritten, and the gradient is wrong."""

import os

# Operations run in program order; otherwise a read may come before the write.
os.environ["FLAGS_new_executor_sequential_run"] = "1"
os.environ["FLAGS_new_executor_serial_run"] = "1"

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
    def region(x):
        y = paddle.exp(paddle.sin(x))
        return y, y.detach()

    y, detached = recompute(region, x)
    return [y * detached, detached]


paddle.enable_static()
try:
    gradient, _, detached = run(forward)
finally:
    paddle.disable_static()
e = np.exp(np.sin(1))
assert not np.allclose(detached, e)
assert not np.allclose(gradient, e * e * np.cos(1))
