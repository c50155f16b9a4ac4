"""What the emitter and the observer of a program agree on: its notes, and the mode of its variant."""

#: The gradient function returns tensors and tuples only, whatever containers the case's outputs have.
STOPPED = "outputs are tensors and tuples alone"
#: The compiler adds casts of its own to the graph, before and after what it casts.
CAST = "products are cast"


def compiles(variant: str) -> bool:
    """Whether forward and backward of a variant's programs are one compiled graph."""
    return variant == "model-train-graph" or variant.startswith(("graph-", "jit"))
