"""A region inside a Haiku transform, which `haiku.remat` requires."""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk


def remat(
    function: Callable[..., Any], policy: Any = None, static_argnums: Sequence[int] = ()
) -> Callable[..., Any]:
    """The callable of a region: it has no Haiku parameters and draws from its own keys."""

    def transformed(*args: Any, **kwargs: Any) -> Any:
        recomputed = hk.remat(function, policy=policy, static_argnums=static_argnums)
        return recomputed(*args, **kwargs)

    region = hk.transform(transformed)
    return lambda *args, **kwargs: region.apply({}, None, *args, **kwargs)
