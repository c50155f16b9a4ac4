"""With `use_reentrant=True`, DistributedDataParallel raises where it looks for unused parameters."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.unused = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return checkpoint(lambda x: self.weight * x, x, use_reentrant=True)


def on_rank(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    network = DistributedDataParallel(Network(), find_unused_parameters=True)
    message = ""
    try:
        network(torch.tensor(1.0, requires_grad=True)).backward()
    except RuntimeError as error:
        message = str(error)
    assert "Expected to mark a variable ready only once" in message
    dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start = torch.multiprocessing.start_processes
        start(on_rank, (f"file://{folder}/store",), nprocs=2, start_method="fork")
