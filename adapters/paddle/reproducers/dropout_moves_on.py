"""With the recompute pass, later runs of a graph with a dropout draw other numbers."""

import os

# Operations run in the order of the program: else either dropout may draw first.
os.environ["FLAGS_new_executor_sequential_run"] = "1"
os.environ["FLAGS_new_executor_serial_run"] = "1"

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass


def run(forward, recomputed):
    """Gradient and results of a static graph in two runs, with the recompute pass or without."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [64], "float32")
        x.stop_gradient = False
        results = forward(x)
        loss = results[0].sum()
        operations = len(main.global_block().ops)
        gradients = paddle.static.gradients(loss, [x])
    if recomputed:
        # The pass asks for roles: 0 is forward, 1 backward.
        for number, operation in enumerate(main.global_block().ops):
            operation.op_role = int(number >= operations)
        options = {"refined_ops_patterns": []}
        new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": np.ones(64, "float32")}
    return [executor.run(main, feed=feed, fetch_list=[*gradients, *results]) for _ in range(2)]


def region(x):
    return paddle.nn.functional.dropout(paddle.sin(x), 0.5) * x


paddle.enable_static()
try:
    found = []
    for recomputed in (False, True):
        paddle.seed(0)
        found.append([y == 0 for _, y in run(lambda x: [recompute(region, x)], recomputed)])
finally:
    paddle.disable_static()
plain, copied = found
assert not np.array_equal(plain[1], copied[1])
