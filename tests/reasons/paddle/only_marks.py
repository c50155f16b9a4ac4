"""In a graph of to_static nothing runs again in backward."""

import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.distributed.passes import PassContext, new_pass

REASON = "In a static graph recompute only marks operations"


def differs(changed: bool) -> bool:
    """Whether no operation stands twice in the graph; with the change, the pass is applied to it."""

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
        if changed:
            # The pass asks for roles: 0 is forward, 1 backward.
            for number, operation in enumerate(main.global_block().ops):
                operation.op_role = int(number >= operations)
            options = {"refined_ops_patterns": []}
            new_pass("auto_parallel_recompute_pir", options).apply([main], [startup], PassContext())
        names = [operation.name() for operation in main.global_block().ops]
    finally:
        paddle.disable_static()
    return names.count("pd_op.sin") == 1
