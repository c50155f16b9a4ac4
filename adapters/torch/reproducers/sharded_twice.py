"""With `use_reentrant=True`, a sharded module called twice reduces only the first rerun's gradient."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.weight * x


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = fully_shard(Block())

    def forward(self, x):
        y = checkpoint(self.block, x, use_reentrant=True)
        return checkpoint(self.block, y, use_reentrant=True)


def on_rank(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    network = fully_shard(Network())
    weight = network.block.weight  # each rank holds one element, as an optimizer would
    x = torch.full((2,), 1.0 + 2 * rank, requires_grad=True)
    network(x).sum().backward()
    # Of weight * weight * x it is 2 * x: 2 and 6, and 4 on average.
    found = weight.grad.full_tensor().tolist()
    assert found != [4, 4], found
    assert found == [2, 2], found
    dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start = torch.multiprocessing.start_processes
        start(on_rank, (f"file://{folder}/store",), nprocs=2, start_method="fork")
