"""What a region leaves in a list (`left`), and does not return."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.model.case import Ref, Region, flat, leaves, node_makes


def unfit(region: Region) -> Iterator[str]:
    """The names in `left` that cannot stand there: each is a result by itself that the body makes. A
    region with such names returns something else, is not mapped and not `returned` as a whole."""
    gives, names = region.gives if isinstance(region.gives, tuple) else (), leaves(region.gives)
    made = {name for node in flat(region.body) for name in node_makes(node)}
    fit = {p.name for p in gives if isinstance(p, Ref) and names.count(p.name) == 1} & made
    if len(region.left) >= len(gives) or region.mapped or region.returned:
        fit = set()
    yield from (name for name in region.left if name not in fit)
