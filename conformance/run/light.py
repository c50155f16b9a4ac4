"""Test items and reports that take little memory: a run has tens of thousands, and pytest keeps
all.

Attributes that pytest sets on each item (dictionaries and lists that mostly stay empty) are created
on first access and dropped after the item has run. Reports of passed items are counted but not
kept, unless an option needs them.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any

import pytest

#: The attributes that pytest sets on each item, and what makes them. Names with an underscore are
#: pytest's own: one that it no longer has is never asked for, and one that is new takes its memory as
#: before.
_FACTORIES: Mapping[str, Callable[[Any], Any]] = {
    "keywords": lambda item: ChainMap({item.name: True}, item.parent.keywords),
    "own_markers": lambda _: [],
    "extra_keyword_matches": lambda _: set(),
    "stash": lambda _: pytest.Stash(),
    "_store": lambda item: item.stash,  # what older versions call it
    "_report_sections": lambda _: [],
    "user_properties": lambda _: [],
}
#: What pytest computes of an item when that is first asked for, and then keeps.
_COMPUTED = ("location",)
#: By category of reports, the letters of `-r` and the settings that ask to see them.
_LISTED_BY: Mapping[str, str] = {"": "", "passed": "pPA", "skipped": "sa", "xfailed": "xa"}


class LightItem(pytest.Item):
    """An item whose pytest attributes are created on first access."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(**rest)
        self.lighten()

    def __getattr__(self, name: str) -> Any:
        make = _FACTORIES.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        setattr(self, name, value)
        return value

    def lighten(self) -> None:
        """Drop the attributes that can be created again; marks are kept."""
        kept = ("own_markers", "keywords") if self.__dict__.get("own_markers") else ()
        for name in (*_FACTORIES, *_COMPUTED):
            if name not in kept:
                self.__dict__.pop(name, None)
        with contextlib.suppress(AttributeError):
            del self._store


class _Counted:
    """A placeholder for a report that only has to be counted."""

    count_towards_summary = True


_COUNTED: Any = _Counted()


def forget(config: pytest.Config, report: pytest.TestReport) -> None:
    """Replace the report that the terminal reporter has just received by a placeholder, unless an
    option asks to list such reports at the end.
    """
    reporter: pytest.TerminalReporter | None = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.getoption("durations", None) is not None:
        return
    for category, letters in _LISTED_BY.items():
        listed = reporter.stats.get(category)
        if not listed or listed[-1] is not report or any(map(reporter.hasopt, letters)):
            continue
        if category:
            listed[-1] = _COUNTED
        else:
            listed.pop()
