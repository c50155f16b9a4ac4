"""How programs of several ranks are written: processes that `msrun` starts, and sums over `mccl`."""

from collections.abc import Mapping

from conformance.emit.emitter import Writer

IMPORTS = ("from mindspore.communication import get_group_size, get_rank, init",)
OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": "ops.AllReduce()({x})",
    "all_gather": "all_gather({x})",
    "reduce_scatter": "reduce_scatter({x})",
}
#: The gradient of `AllGather` is a `ReduceScatter`, which has no kernel on the CPU.
HELPERS: Mapping[str, str] = {
    "all_gather": """
        def all_gather(x):
            # The gradient of ops.AllGather needs a kernel that the CPU has not.
            own, ranks = get_rank(), range(get_group_size())
            rows = [x if rank == own else ops.zeros_like(x) for rank in ranks]
            return ops.AllReduce()(ops.cat(rows))
        """,
    "reduce_scatter": """
        def reduce_scatter(x):
            total = ops.AllReduce()(x)
            return ops.tensor_split(total, get_group_size())[get_rank()]
        """,
}
#: What ends a program: `msrun` runs it once for each rank.
START = """
    if __name__ == "__main__":  # msrun --worker_num={ranks} --local_worker_num={ranks} --join=True FILE
        init("mccl")
        for forward in (plain, recomputed):
            print(get_rank(), forward.__name__, run(forward))
    """
