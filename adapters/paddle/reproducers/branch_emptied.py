"""The recompute pass copies a conditional without its branches, and the program does not run."""

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
    # The pass asks for roles: 0 is forward, 1 backward.
    for number, operation in enumerate(main.global_block().ops):
        operation.op_role = int(number >= count)
    options = {"refined_ops_patterns": []}
    new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
    feed = {"x": np.ones(64, "float32")}
    executor = paddle.static.Executor(paddle.CPUPlace())
    return executor.run(main, feed=feed, fetch_list=[*gradients, *results])


def region(x):
    chosen = paddle.static.nn.cond(x.sum() > 0, lambda: paddle.sin(x), lambda: paddle.cos(x))
    return paddle.exp(chosen)


paddle.enable_static()
try:
    run(lambda x: [recompute(region, x)])
except RuntimeError as error:
    assert "at least one op yield op" in " ".join(str(error).split())
else:
    raise AssertionError("no error is raised")
finally:
    paddle.disable_static()
