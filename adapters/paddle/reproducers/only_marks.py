"""In a graph of `to_static`, nothing is recomputed in backward."""

import paddle
from paddle.distributed.fleet.utils import recompute


def forward(x):
    return recompute(lambda x: paddle.exp(paddle.sin(x)) * 2, x)


paddle.enable_static()
try:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [2], "float32")
        x.stop_gradient = False
        loss = forward(x).sum()
        operations = len(main.global_block().ops)
        paddle.static.gradients(loss, [x])
    names = [operation.name() for operation in main.global_block().ops]
finally:
    paddle.disable_static()
assert names.count("pd_op.sin") == 1
