"""The process crashes if a recompute follows one that has a single operation."""

import os

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass


def run(forward):
    """Gradient and results of a static graph, with the pass applied."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [64], "float32")
        x.stop_gradient = False
        results = forward(x)
        loss = results[0].sum()
        operations = len(main.global_block().ops)
        gradients = paddle.static.gradients(loss, [x])
    # The pass asks for roles: 0 is forward, 1 backward.
    for number, operation in enumerate(main.global_block().ops):
        operation.op_role = int(number >= operations)
    options = {"refined_ops_patterns": []}
    new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
    executor = paddle.static.Executor(paddle.CPUPlace())
    feed = {"x": np.ones(64, "float32")}
    return executor.run(main, feed=feed, fetch_list=[*gradients, *results])


def forward(x):
    first = lambda x: x * x
    y = recompute(first, x)
    return [recompute(lambda y: paddle.exp(y) * x, y)]


paddle.enable_static()
try:
    run(forward)
except ValueError as error:
    # What ends the process comes later, when the program is freed.
    if "Not found key in IRMapping" not in str(error):
        os._exit(1)
