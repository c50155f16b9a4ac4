"""The recompute pass copies a region into backward although nothing reads its result."""

import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass


def block(x):
    return paddle.exp(paddle.sin(x @ x))


paddle.enable_static()
try:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [4, 4], "float32")
        x.stop_gradient = False
        y = recompute(block, x)
        recompute(block, y)
        loss = (y * y).sum()
        operations = len(main.global_block().ops)
        paddle.static.gradients(loss, [x])
    # The pass requires roles: 0 is forward, 1 is backward.
    for number, operation in enumerate(main.global_block().ops):
        operation.op_role = int(number >= operations)
    options = {"refined_ops_patterns": []}
    new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
    names = [operation.name() for operation in main.global_block().ops[operations:]]
finally:
    paddle.disable_static()
assert names.count("pd_op.matmul") == 2
