"""A region runs again in forward, once for each argument that is differentiated."""

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.extend import defvjp_argnum, primitive

REASON = "checkpoint calls make_vjp of the function where a gradient's rule is to be made"


def calls(arguments: int, how) -> tuple[int, int]:
    """How often the function runs in forward and in backward."""
    made = []

    def region(*values):
        made.append(values)
        return np.sin(sum(values))

    vjp, _ = make_vjp(lambda values: how(region)(*values))([1.0] * arguments)
    before = len(made)
    vjp(1.0)
    return before, len(made) - before


def late(region):
    """A region that makes the same rules where backward asks for them."""

    def rule(argnum, _answer, arguments, named):
        return lambda g: make_vjp(region, argnum)(*arguments, **named)[0](g)

    wrapped = primitive(region)
    defvjp_argnum(wrapped, rule)
    return wrapped


def differs(changed: bool) -> bool:
    """Whether backward runs nothing; with the change, rules call make_vjp where they are used."""
    found = [calls(n, late if changed else checkpoint) for n in (1, 3)]
    return found == [(2, 0), (4, 0)]
