"""With `use_reentrant=True`, the rerun of a split block leaves its sum over the ranks behind."""

import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint


class Sums(TorchDispatchMode):
    """Weak references to the storages of all sums over the ranks."""

    def __init__(self):
        super().__init__()
        self.storages = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops._c10d_functional.all_reduce.default:
            self.storages.append(StorageWeakRef(result.untyped_storage()))
        return result


def left(options):
    """How many of the sums of three steps are still there after them."""
    block = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
    mesh = init_device_mesh("cpu", (2,))
    block = parallelize_module(block, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.ones(4, 6, requires_grad=True)
    with Sums() as sums:
        for _ in range(3):
            y = block(x) if options is None else checkpoint(block, x, **options)
            (y * y).sum().backward()
            del y
            x.grad = None
    time.sleep(0.5)  # gloo's thread lets go of what it has summed a moment after the wait
    return sum(not storage.expired() for storage in sums.storages)


def on_rank(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    assert left(None) == 0
    assert left({"use_reentrant": False}) == 0
    found = left({"use_reentrant": True})
    assert found != 0, found
    assert found == 3, found
    assert left({"use_reentrant": False, "early_stop": False}) == 3
    dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        start = torch.multiprocessing.start_processes
        start(on_rank, (f"file://{folder}/store",), nprocs=2, start_method="fork")
