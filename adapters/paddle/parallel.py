"""How programs of several ranks are written: gloo, a process for each rank, and data parallelism."""

from collections.abc import Mapping

from conformance.emit.emitter import Writer

IMPORTS = ("import paddle.distributed as dist", "from paddle import nn")
OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": "AllReduce.apply({x})",
    "all_gather": "AllGather.apply({x})",
    "reduce_scatter": "ReduceScatter.apply({x})",
}
#: Paddle's own collectives have no gradient.
HELPERS: Mapping[str, str] = {
    "all_reduce": """
        class AllReduce(paddle.autograd.PyLayer):
            @staticmethod
            def forward(ctx, x):
                total = x.clone()
                dist.all_reduce(total)
                return total

            @staticmethod
            def backward(ctx, g):
                total = g.clone()
                dist.all_reduce(total)
                return total
        """,
    "all_gather": """
        class AllGather(paddle.autograd.PyLayer):
            @staticmethod
            def forward(ctx, x):
                parts = []
                dist.all_gather(parts, x)
                return paddle.concat(parts)

            @staticmethod
            def backward(ctx, g):
                total = g.clone()
                dist.all_reduce(total)
                return total.chunk(dist.get_world_size())[dist.get_rank()]
        """,
    "reduce_scatter": """
        class ReduceScatter(paddle.autograd.PyLayer):
            @staticmethod
            def forward(ctx, x):
                total = x.clone()
                dist.all_reduce(total)
                return total.chunk(dist.get_world_size())[dist.get_rank()]

            @staticmethod
            def backward(ctx, g):
                parts = []
                dist.all_gather(parts, g)
                return paddle.concat(parts)
        """,
}
#: What ends a program: a process for each rank.
START = """
    def on_rank():
        dist.init_parallel_env()
        for forward in (plain, recomputed):
            print(dist.get_rank(), forward.__name__, run(forward))


    if __name__ == "__main__":
        dist.spawn(on_rank, nprocs={ranks}, backend="gloo")
    """
#: A function of inputs and parameters as a layer, which data parallelism wraps.
LAYER = """
    class Network(nn.Layer):
        def __init__(self, function, **parameters):
            super().__init__()
            self.function = function
            for name, parameter in parameters.items():
                self.add_parameter(name, parameter)

        def forward(self, **inputs):
            return self.function(**inputs, **dict(self.named_parameters()))
    """
