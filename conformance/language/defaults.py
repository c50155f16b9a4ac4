"""What a case means where it does not say so itself, in one place.

A region gives, and a case puts out, the last value that is made; the loss is the sum of the first
output.
"""

from __future__ import annotations

from collections.abc import Sequence

from conformance.model.case import Loss, Node, Ref, Tree, leaves, node_makes


def last_value(nodes: Sequence[Node]) -> Ref | None:
    """The value that the last of these nodes makes; none where that makes several, or none."""
    made = node_makes(nodes[-1]) if nodes else ()
    return Ref(made[0]) if len(made) == 1 else None


def usual_loss(outputs: Tree) -> Loss | None:
    """The sum of the first output; none where there is no output that has a name."""
    named = leaves(outputs)
    return Loss("sum", named[0]) if named else None
