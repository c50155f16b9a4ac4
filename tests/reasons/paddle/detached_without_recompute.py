"""A detached tensor of a static graph is written over, without recompute too."""

import numpy as np
import paddle

REASON = "The pass that runs operations in place"
# In the order of the program: else who reads the memory may come before who writes it.
ENVIRONMENT = {"FLAGS_new_executor_sequential_run": "1", "FLAGS_new_executor_serial_run": "1"}


def differs(changed: bool) -> bool:
    """Whether the detached tensor is wrong; with the change, nothing runs in place."""
    flag = "FLAGS_pir_apply_inplace_pass"
    before = paddle.get_flags(flag)
    paddle.enable_static()
    try:
        if changed:
            paddle.set_flags({flag: False})
        main = paddle.static.Program()
        with paddle.static.program_guard(main):
            y = paddle.exp(paddle.static.data("x", [2], "float32"))
            detached = y.detach()
            results = [y * detached, detached]
        executor = paddle.static.Executor(paddle.CPUPlace())
        _, found = executor.run(main, feed={"x": np.ones(2, "float32")}, fetch_list=results)
    finally:
        paddle.set_flags(before)
        paddle.disable_static()
    return not np.allclose(found, np.e)
