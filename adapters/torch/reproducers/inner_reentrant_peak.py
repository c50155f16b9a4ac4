"""With `use_reentrant=True`, each level of nested regions adds an activation to the peak."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

# Sines in the chain, and how often it can be halved.
LENGTH, LEVELS = 16, 4


class Storages(TorchDispatchMode):
    """The largest number of storages, made by operations, that exist at one time."""

    def __init__(self):
        super().__init__()
        self.alive, self.most = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = StorageWeakRef(tensor.untyped_storage())
                self.alive[storage.cdata] = storage
        self.alive = {key: kept for key, kept in self.alive.items() if not kept.expired()}
        self.most = max(self.most, len(self.alive))
        return result


def chain(x, length):
    if length == 1:
        return torch.sin(x)
    half = length // 2
    x = checkpoint(chain, x, half, use_reentrant=True)
    return checkpoint(chain, x, length - half, use_reentrant=True)


x = torch.ones(4, requires_grad=True)
loss = chain(x, LENGTH).sum()
with Storages() as storages:
    loss.backward()
assert storages.most > LEVELS + 4
