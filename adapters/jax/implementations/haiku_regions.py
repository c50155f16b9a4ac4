"""A region inside a Haiku transform, which `haiku.remat` asks for."""

import haiku as hk


def remat(function, policy=None, static=()):
    """The callable of a region: it has no parameters of Haiku's, and draws from keys of its own."""

    def transformed(*args, **kwargs):
        recomputed = hk.remat(function, policy=policy, static_argnums=static)
        return recomputed(*args, **kwargs)

    region = hk.transform(transformed)
    return lambda *args, **kwargs: region.apply({}, None, *args, **kwargs)
