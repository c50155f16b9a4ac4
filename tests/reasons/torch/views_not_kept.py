"""What is compiled keeps no view for a policy, and runs again what it is a view of."""

from functools import partial

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

REASON = "In a compiled graph a policy keeps no result that is a view"


def differs(changed: bool) -> bool:
    """Whether the product runs again; with the change, what reads it gives a tensor of its own."""
    again = []

    def noted(graph, inputs):
        again.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph

    def region(x, w):
        kept = torch.exp(x @ w) if changed else torch.chunk(x @ w, 2)[0]
        return torch.sin(kept)

    aten = torch.ops.aten
    kept = [aten.exp.default if changed else aten.split.Tensor]
    contexts = partial(create_selective_checkpoint_contexts, kept)

    def forward(x, w):
        return checkpoint(region, x, w, use_reentrant=False, context_fn=contexts)

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=lambda graph, inputs: graph,
        bw_compiler=noted,
        partition_fn=min_cut_rematerialization_partition,
    )
    x, w = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
    torch.compile(forward, backend=backend)(x, w).sum().backward()
    return again.count(aten.mm.default) > 2  # two are of the gradient
