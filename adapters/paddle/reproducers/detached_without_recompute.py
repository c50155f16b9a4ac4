"""In a static graph, a detached tensor is overwritten, with or without recompute."""

import os

# Operations run in the order of the program: else a reader may come before the writer.
os.environ["FLAGS_new_executor_sequential_run"] = "1"
os.environ["FLAGS_new_executor_serial_run"] = "1"

import numpy as np
import paddle

paddle.enable_static()
try:
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        y = paddle.exp(paddle.static.data("x", [2], "float32"))
        detached = y.detach()
        results = [y * detached, detached]
    executor = paddle.static.Executor(paddle.CPUPlace())
    _, found = executor.run(main, feed={"x": np.ones(2, "float32")}, fetch_list=results)
finally:
    paddle.disable_static()
assert not np.allclose(found, np.e)
