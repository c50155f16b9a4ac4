"""The `tf.function`s of a program, each traced once and used by all runs.

A program makes its `tf.function`s whenever it runs. Here each is kept when it is first made, and
later runs call it: executions and memory are read from the very graph that computed the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import tensorflow as tf


@dataclass
class Function:
    """A `tf.function` of the program, and how often it was called in the last run."""

    body: Callable[..., Any]
    compiled: Any
    calls: int = 0

    def graphs(self) -> list[Any]:
        """Its concrete functions: one for each signature of arguments."""
        functions: list[Any] = self.compiled._list_all_concrete_functions()
        return functions


class Functions:
    """Those of one forward pass (`plain` or `recomputed`) of a program, in the order of making."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.known: list[Function] = []

    @contextmanager
    def active(self, on_call: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Inside the `with`, `tf.function` in the program gives the functions that are kept here.
        `on_call` is called before each call of one."""
        made = 0
        original = tf.function
        if self._captured():
            self.known = []
        for one in self.known:
            one.calls = 0

        def function(*given: Any, **options: Any) -> Any:
            if given:
                return original(*given, **options)
            return lambda body: known(body, options)

        def known(body: Callable[..., Any], options: dict[str, Any]) -> Any:
            nonlocal made
            if body.__code__.co_filename != self._file:
                return original(**options)(body)
            if made == len(self.known):
                self.known.append(Function(body, original(**options)(body)))
            kept = self.known[made]
            assert kept.body.__code__ == body.__code__, "a program makes its functions in one order"
            made += 1

            def call(*arguments: Any) -> Any:
                on_call()
                kept.calls += 1
                return kept.compiled(*arguments)

            return call

        with mock.patch.object(tf, "function", function):
            yield

    def _captured(self) -> bool:
        """Whether a graph holds on to a tensor or a variable of the run in which it was traced."""
        graphs = [graph for one in self.known for graph in one.graphs()]
        return any(graph.captured_inputs for graph in graphs)
