"""A region inside a Haiku transform, which `haiku.remat` asks for."""

import haiku as hk


def remat(function, policy=None):
    """The callable of a region: it has no parameters of Haiku's, and draws from keys of its own."""

    def transformed(*args, **kwargs):
        return hk.remat(function, policy=policy)(*args, **kwargs)

    region = hk.transform(transformed)
    return lambda *args, **kwargs: region.apply({}, None, *args, **kwargs)
