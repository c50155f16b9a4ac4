"""In a compiled region, a policy cannot save a view. The operation before it is recomputed."""

from functools import partial

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

again = []


def noted(graph, inputs):
    again.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
    return graph


def region(x, w):
    kept = torch.chunk(x @ w, 2)[0]
    return torch.sin(kept)


kept = [torch.ops.aten.split.Tensor]
contexts = partial(create_selective_checkpoint_contexts, kept)


def forward(x, w):
    return checkpoint(region, x, w, use_reentrant=False, context_fn=contexts)


backend = aot_autograd(
    fw_compiler=lambda graph, inputs: graph,
    bw_compiler=noted,
    partition_fn=min_cut_rematerialization_partition,
)
x, w = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
torch.compile(forward, backend=backend)(x, w).sum().backward()
assert again.count(torch.ops.aten.mm.default) > 2
