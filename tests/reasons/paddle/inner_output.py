"""A region reads the copy of what another gives and itself reads on, which comes later."""

import os
import sys

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass

REASON = "The pass copies all that it recomputes through one map, so the copy of a step"


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


def differs(changed: bool) -> bool:
    """Whether the process ends; with the change, the first region does not read what it gives."""
    from tests.reasons.ending import died

    return died(__file__, changed=changed)


def step(x):
    cell = paddle.exp(x)
    # What none in the region reads is not copied, but for its first operation.
    return paddle.tanh(cell), paddle.exp(x) if sys.argv[1:] else cell


def forward(x):
    hidden, cell = recompute(step, x)
    return [recompute(lambda hidden, cell: paddle.tanh(hidden * cell) * hidden, hidden, cell)]


if __name__ == "__main__":
    paddle.enable_static()
    try:
        run(forward)
    except ValueError as error:
        # What ends the process comes later, when the program is freed.
        if "Not found key in IRMapping" not in str(error):
            os._exit(1)
