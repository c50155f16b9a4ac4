"""Policies: how a region says which of its results `jax.checkpoint` keeps.

Saved labels become names (`checkpoint_name`). Saved operations become a policy on primitives where each
operation of the body is one primitive, so that the policy saves no other's result; `matmul` also where
no other operation of the body contains a product. Elsewhere they become names too.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit.expressions import function
from conformance.language.operations import BOOLS
from conformance.model.case import Region, Statement, flat, walk

IMPORTS = ("from jax.ad_checkpoint import checkpoint_name",)
DOTS = "dot_general_p"
PRIMITIVES: Mapping[str, str] = {
    "matmul": DOTS,
    "conv2d": "conv_general_dilated_p",
    "add": "add_p",
    "subtract": "sub_p",
    "multiply": "mul_p",
    "divide": "div_p",
    "negative": "neg_p",
    "tanh": "tanh_p",
    "sigmoid": "logistic_p",
    "sin": "sin_p",
    "cos": "cos_p",
    "exp": "exp_p",
    "log": "log_p",
    "square": "square_p",
    "sqrt": "sqrt_p",
    "abs": "abs_p",
    "maximum": "max_p",
    "cumulative_sum": "cumsum_p",
}


def by_primitive(region: Region) -> tuple[str, ...]:
    """The primitives that the policy of a region keeps; none where names have to do."""
    body = {node.op for node in walk(region.body) if isinstance(node, Statement)}
    others = body - set(PRIMITIVES)
    if others and (region.save != ("matmul",) or not others.isdisjoint({"linear", "solve"})):
        return ()
    return tuple(dict.fromkeys(PRIMITIVES[op] for op in region.save if op in body))


def is_named(region: Region, statement: Statement) -> bool:
    """Whether a statement's result is given a name for the policy of the region around it."""
    if not region.saves(statement) or statement.op in BOOLS:
        return False
    return not (statement.op in region.save and by_primitive(region))


def helper(region: Region) -> str:
    """The function that a policy on primitives needs, as source text; empty where there is none."""
    primitives = by_primitive(region)
    if not primitives or primitives == (DOTS,):
        return ""
    listed = ", ".join(f"lax.{name}" for name in primitives)
    return f"""
        def keeps_{function(region.name)}(primitive, *_, **__):
            return primitive in ({listed}{"," if len(primitives) == 1 else ""})
        """


def expression(region: Region) -> str:
    """The policy as a Python expression; empty where the region has none."""
    policies: list[str] = []
    primitives = by_primitive(region)
    if primitives == (DOTS,):
        policies.append("jax.checkpoint_policies.dots_saveable")
    elif primitives:
        policies.append(f"keeps_{function(region.name)}")
    statements = [node for node in flat(region.body) if isinstance(node, Statement)]
    names = [s.label for s in statements if is_named(region, s)]
    if names:
        listed = ", ".join(f'"{name}"' for name in names)
        policies.append(f"jax.checkpoint_policies.save_only_these_names({listed})")
    if len(policies) == 2:
        return f"jax.checkpoint_policies.save_from_both_policies({', '.join(policies)})"
    return policies[0] if policies else ""
