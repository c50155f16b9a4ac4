"""How programs of several ranks are written: gloo, a process for each rank, and data parallelism."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit.emitter import Writer

IMPORTS = (
    "import tempfile",
    "import torch.distributed as dist",
    "from torch import nn",
    "from torch.distributed.nn import functional as collectives",
    "from torch.nn.parallel import DistributedDataParallel",
)
OPERATIONS: Mapping[str, Writer] = {
    "all_reduce": "collectives.all_reduce({x})",
    "all_gather": "torch.cat(collectives.all_gather({x}))",
    "reduce_scatter": "reduce_scatter({x})",
}
HELPERS = {
    "reduce_scatter": """
        def reduce_scatter(x):
            parts = x.chunk(dist.get_world_size())
            return collectives.reduce_scatter(torch.empty_like(parts[0]), list(parts))
        """
}
#: What ends a program: a process for each rank.
START = """
    def on_rank(rank, store):
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size={ranks})
        for forward in (plain, recomputed):
            print(rank, forward.__name__, run(forward))
        dist.destroy_process_group()


    if __name__ == "__main__":
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(on_rank, (f"file://{folder}/store",), nprocs={ranks})
    """
#: A function of inputs and parameters as a module, which data parallelism wraps.
MODULE = """
    class Network(nn.Module):
        def __init__(self, function, **parameters):
            super().__init__()
            self.function = function
            for name, parameter in parameters.items():
                self.register_parameter(name, parameter)

        def forward(self, **inputs):
            return self.function(**inputs, **dict(self.named_parameters()))
    """
