"""The recompute pass copies a conditional without its branches, and the program does not run."""

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


def shows():
    def region(x):
        return paddle.exp(
            paddle.static.nn.cond(x.sum() > 0, lambda: paddle.sin(x), lambda: paddle.cos(x))
        )

    options = paddle.pir.CloneOptions
    paddle.enable_static()
    try:
        run(lambda x: [recompute(region, x)])
    except RuntimeError as error:
        return "at least one op yield op" in " ".join(str(error).split())
    finally:
        paddle.pir.CloneOptions = options
        paddle.disable_static()
    return False


assert shows()
