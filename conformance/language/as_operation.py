"""Features of regions: which a gradient reaches if each region is one operation of the graph, as where
an implementation enters a region into the graph as a whole. Its arguments by keyword may or may not be
among those of the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.language.place import Place
from conformance.language.reach import Reach, Reached, around


def _opaque(reach: Reach, keywords: bool) -> tuple[Reached, ...]:
    return reach.keyword_passes if keywords else reach.opaque_passes


def _reached(place: Place, keywords: bool) -> bool:
    return any(c in one.calls for one in _opaque(place.reach, keywords) for c in place.calls)


def _missed(place: Place) -> bool:
    """Whether a call of the region is reached, and another one is not."""
    calls = {call for one in place.reach.keyword_passes for call in one.calls}
    return 0 < len(calls.intersection(place.calls)) < len(place.calls)


def _more_often(place: Place, keywords: bool) -> int:
    """How many reruns of calls there are more where each region is one operation: 0 where gradients with
    respect to all tensors that require one need as many, or those that are asked for."""
    every = (_opaque(place.reach, keywords), place.reach.asking_passes, place.reach.passes)
    opaque, asking, needed = (
        sum(c in one.calls for one in passes for call in place.calls for c in around(call))
        for passes in every
    )
    return 0 if opaque == needed else opaque - asking


def _recorded(place: Place) -> bool:
    """Whether a call of the region runs with a graph: by itself, or since one around it runs again."""
    passes = _opaque(place.reach, keywords=True)
    return any(
        call.around is None or any(call.around in one.calls for one in passes)
        for call in place.calls
    )


#: Features of a region: what they mean, and the condition.
REGION: Mapping[str, tuple[str, Callable[[Place], bool]]] = {
    "reached-as-operation": (
        "a gradient reaches a region, were each region one operation of its positional arguments and of "
        "the parameters that it reads by closure, all of whose results depend on all of these",
        lambda p: _reached(p, keywords=False),
    ),
    "reached-with-keywords": (
        "the same as `reached-as-operation`, with arguments by keyword among those of the operation, "
        "without what is in an object among its results, and with those gradients alone that are asked "
        "for where the procedure is `part` or `functional`",
        lambda p: _reached(p, keywords=True),
    ),
    "call-missed": (
        "a gradient reaches a call of a region, and none another one, as `reached-with-keywords` says",
        _missed,
    ),
    "around-reached": (
        "no region is around one, or a gradient reaches that as `reached-with-keywords` says",
        _recorded,
    ),
    "reached-only-as-operation": (
        "no gradient passes through a region, or through one around it, but one reaches it as "
        "`reached-as-operation` says",
        lambda p: _more_often(p, keywords=False) > 0,
    ),
    "reached-only-with-keywords": (
        "no gradient passes through a region, or through one around it, but one reaches it as "
        "`reached-with-keywords` says",
        lambda p: _more_often(p, keywords=True) > 0,
    ),
    "not-reached-as-operation": (
        "a gradient passes through a region, but none reaches it as `reached-as-operation` says, or "
        "none reaches one around it",
        lambda p: _more_often(p, keywords=False) < 0,
    ),
    "not-reached-with-keywords": (
        "a gradient passes through a region, but none reaches it as `reached-with-keywords` says, or "
        "none reaches one around it",
        lambda p: _more_often(p, keywords=True) < 0,
    ),
}
