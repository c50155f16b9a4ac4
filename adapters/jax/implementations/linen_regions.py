"""A region as a Flax module that `flax.linen.remat` recomputes."""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn


class Region(nn.Module):
    """A module without parameters, which runs a region."""

    function: Callable[..., Any]

    @nn.compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def remat(
    function: Callable[..., Any], policy: Any = None, static_argnums: Sequence[int] = ()
) -> Callable[..., Any]:
    """The callable of a region; `flax.linen.remat` maps a module class to a module class."""
    # The first argument is the module itself. A nested region is not a submodule of the outer one.
    after = tuple(place + 1 for place in static_argnums)
    module = nn.remat(Region, policy=policy, static_argnums=after)(function, parent=None)
    return lambda *args, **kwargs: module.apply({}, *args, **kwargs)
