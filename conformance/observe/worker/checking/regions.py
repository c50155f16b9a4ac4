"""The regions of a user's program: each call of the framework's recompute function.

A framework names its recompute functions (`Recompute`). They are replaced before the program is
imported, so that each call can be noted, and let through: the region then runs plainly, and nothing of
it runs again. That tells what recomputation does to a program from what switching it on changes
besides, and which regions a deviation needs.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal, NamedTuple

from conformance.model.checked import RegionSeen
from conformance.observe.worker.checking.calls import RUNS


class Recompute(NamedTuple):
    """A recompute function: its module and its name there (`Class.method` of a class). With the style
    `call` it is given the region and its arguments, with `transform` it returns a function, and with
    `mark` it changes the layer that it is a method of."""

    module: str
    name: str
    style: Literal["call", "transform", "mark"]
    #: Keywords of the function's own, which the region is not given.
    keywords: frozenset[str] = frozenset()


class Regions:
    """Notes regions, and lets through those that `plainly` tells, by their names."""

    def __init__(
        self,
        file: str,
        features: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], set[str]],
        variants: Callable[[Mapping[str, Any]], tuple[str, ...]],
    ) -> None:
        self._file, self._features, self._variants = file, features, variants
        #: The layers of the model that is trained now, by `id`, and their names in it.
        self.layers: Mapping[int, str] = {}
        self.plainly: Callable[[str], bool] = lambda name: False
        self.noting: Callable[[], bool] = lambda: False
        #: Told the name of each region that is called.
        self.tell: Callable[[str], object] = lambda name: None
        #: Layers that were marked in the model that is made now, in that order.
        self.marked: list[Any] = []
        #: What recompute functions are given now: one may hand it to another one.
        self._given: list[Any] = []
        self._calls: Counter[str] = Counter()
        self._where: dict[str, str] = {}
        self._seen: dict[str, set[str]] = {}
        self._of: dict[str, tuple[str, ...]] = {}

    def replace(self, recomputes: Iterable[Recompute]) -> None:
        """Replace the functions for the rest of the process."""
        for one in recomputes:
            owner: Any = importlib.import_module(one.module)
            *path, name = one.name.split(".")
            for part in path:
                owner = getattr(owner, part)
            original = getattr(owner, name)
            make = {"call": self._call, "transform": self._transform, "mark": self._mark}[one.style]
            replaced = functools.wraps(original)(make(original, one.keywords))
            for module in list(
                sys.modules.values()
            ):  # it may have been imported by its name already
                holder = getattr(module, "__dict__", {})
                for key in [k for k, value in holder.items() if value is original]:
                    holder[key] = replaced
            setattr(owner, name, replaced)

    def taken(self) -> tuple[RegionSeen, ...]:
        """The regions noted since the last call, in the order of their first calls."""
        marked = tuple(
            RegionSeen(str(number), self.layers.get(id(layer), ""))
            for number, layer in enumerate(self.marked)
        )
        found = marked + tuple(
            RegionSeen(
                name, self._where[name], number, tuple(sorted(self._seen[name])), self._of[name]
            )
            for name, number in self._calls.items()
        )
        self._calls.clear()
        self._where.clear()
        self._seen.clear()
        self._of.clear()
        return found

    def _call(self, original: Callable[..., Any], keywords: frozenset[str]) -> Callable[..., Any]:
        def recompute(function: Any, *args: Any, **kwargs: Any) -> Any:
            if self._given and self._given[-1] is function:
                return original(function, *args, **kwargs)
            given = {key: value for key, value in kwargs.items() if key not in keywords}
            if self._met(function, args, given, kwargs):
                return function(*args, **given)
            with self._giving(function):
                return original(function, *args, **kwargs)

        return recompute

    def _transform(
        self, original: Callable[..., Any], keywords: frozenset[str]
    ) -> Callable[..., Any]:
        def recompute(function: Any = None, *options: Any, **kwargs: Any) -> Any:
            if function is None:  # a decorator with options
                return lambda given: recompute(given, *options, **kwargs)
            if self._given:  # one of the framework's calls another one
                return original(function, *options, **kwargs)
            with self._giving(function):
                recomputed = original(function, *options, **kwargs)

            # A function in C++ may have no name.
            named = isinstance(getattr(recomputed, "__qualname__", None), str)

            @functools.wraps(recomputed if named else function)
            def region(*args: Any, **named: Any) -> Any:
                met = self._met(function, args, named, kwargs)
                chosen = function if met else recomputed
                return chosen(*args, **named)

            return region

        return recompute

    def _mark(self, original: Callable[..., Any], keywords: frozenset[str]) -> Callable[..., Any]:
        def recompute(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._marking(layer):
                return original(layer, *args, **kwargs)
            return None

        return recompute

    @contextmanager
    def _giving(self, function: Any) -> Iterator[None]:
        self._given.append(function)
        try:
            yield
        finally:
            self._given.pop()

    def _met(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> bool:
        """Note a region that is called; whether it is to be let through."""
        frame = sys._getframe(2)
        name = self._name(function, frame)
        self.tell(name)
        if self.noting():
            self._calls[name] += 1
            self._where.setdefault(name, self._line(frame))
            self._seen.setdefault(name, set()).update(self._features(function, args, kwargs))
            if options.get("preserve_rng_state") is False:
                self._seen[name].add("preserve-rng-off")
            self._of.setdefault(name, self._variants(options))
        return self.plainly(name)

    def _marking(self, layer: Any) -> bool:
        """Note a layer that is marked before it has a name; whether it is to be recomputed."""
        number = str(len(self.marked))
        self.marked.append(layer)
        return not self.plainly(number)

    def _name(self, function: Any, frame: FrameType | None) -> str:
        """The name of a region: the layer that it runs or is called in, else its function's name."""
        while isinstance(function, functools.partial):
            function = function.func
        owner = function if id(function) in self.layers else getattr(function, "__self__", None)
        if owner is not None and id(owner) in self.layers:
            name = self.layers[id(owner)] or type(owner).__name__
            method = (
                getattr(function, "__name__", "forward") if owner is not function else "forward"
            )
            return name if method in RUNS else f"{name}.{method}"
        named = str(getattr(function, "__qualname__", type(function).__name__))
        named = named.replace("<locals>.", "").replace("<lambda>", "lambda")
        around = frame
        while around is not None:
            owner = around.f_locals.get("self")
            if owner is not None and self.layers.get(id(owner)):
                return f"{self.layers[id(owner)]} ({named})"
            if around.f_code.co_filename == self._file:
                break
            around = around.f_back
        return named

    def _line(self, frame: FrameType | None) -> str:
        """The innermost line of the program's file that is running."""
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return f"line {frame.f_lineno}"
            frame = frame.f_back
        return ""
