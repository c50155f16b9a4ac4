"""What `parallel: {tensor: …}` is written with: layers, which `parallelize_module` splits."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.model.case import Node, Statement

from . import method

IMPORTS = (
    "from torch.distributed.device_mesh import init_device_mesh",
    "from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module",
)
MESH = """
    def mesh():
        return init_device_mesh("cpu", (dist.get_world_size(),))


    """
#: What a layer does. What a rank has of a result knows what the whole is (`reshape`).
STYLES = {"columns": "ColwiseParallel(use_local_output=False)", "rows": "RowwiseParallel()"}


class Layers(method.Layers):
    """Layers of split weights."""

    def is_layer(self, statement: Statement) -> bool:
        split = not self.case.split.keys().isdisjoint(statement.names())
        return split and super().is_layer(statement)


def plan(layers: method.Layers, nodes: Sequence[Node]) -> str:
    """The dict of what the layers among these nodes do; empty where there are none."""
    styles = (
        f'"{layers.attribute_of[id(statement)]}": {STYLES[layers.case.split[weight]]}'
        for statement in layers.among(nodes)
        for weight in statement.names()
        if weight in layers.case.split
    )
    return f"{{{', '.join(styles)}}}" if layers.among(nodes) else ""
