"""With `use_reentrant=True`, DistributedDataParallel averages the gradient of the first rerun alone."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(1.0))

    def block(self, x):
        return self.weight * x

    def forward(self, x):
        y = checkpoint(self.block, x, use_reentrant=True)
        return checkpoint(self.block, y, use_reentrant=True)


def on_rank(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    network = DistributedDataParallel(Network())
    x = torch.tensor(1.0 + 2 * rank, requires_grad=True)
    network(x).backward()
    # Of weight * weight * x it is 2 * x: 2 and 6, and 4 on average.
    found = network.module.weight.grad.item()
    assert found != 4, found
    assert found == 2 + x.item(), found
    dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start = torch.multiprocessing.start_processes
        start(on_rank, (f"file://{folder}/store",), nprocs=2, start_method="fork")
