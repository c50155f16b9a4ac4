"""A recomputed region returns the same containers, dtypes, `None` and other objects as a plain one."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.judge.checks.evidence import Check, Evidence
from conformance.model.containers import Fields
from conformance.model.observation import Leaf, Tree
from conformance.model.verdict import Status, Verdict


def shape_of(tree: Tree) -> str:
    """An output's structure in one line: `(float32(3, 4), {'gate': None, 'n': 7})`."""
    if isinstance(tree, Leaf):
        return f"{tree.dtype}{tuple(tree.array.shape)}"
    if isinstance(tree, tuple):
        return f"({', '.join(shape_of(t) for t in tree)}{',' if len(tree) == 1 else ''})"
    if isinstance(tree, list):
        return f"[{', '.join(shape_of(t) for t in tree)}]"
    if isinstance(tree, Fields):
        return f"{tree.kind}({', '.join(f'{k}={shape_of(t)}' for k, t in tree.items())})"
    if isinstance(tree, Mapping):
        return "{" + ", ".join(f"{k!r}: {shape_of(t)}" for k, t in tree.items()) + "}"
    return repr(tree)


def _judge(evidence: Evidence) -> Verdict:
    plain, recomputed = shape_of(evidence.plain.outputs), shape_of(evidence.recomputed.outputs)
    if plain == recomputed:
        return CHECK.verdict(Status.PASS, f"outputs are {recomputed}")
    message = f"outputs are {recomputed}, but should be {plain}"
    return CHECK.verdict(Status.FAIL, message, plain, recomputed)


CHECK = Check("structure", _judge)
