"""Gives a result that is returned twice one gradient."""

import torch.utils.checkpoint

CAUGHT_BY = ("gradient", "arguments/result-twice")


def checkpoint(function, *args, **options):
    results = torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **options)
    if type(results) is not tuple:
        return results
    again = [any(part is one for one in results[:n]) for n, part in enumerate(results)]
    return tuple(p.detach() if twice else p for p, twice in zip(results, again, strict=True))
