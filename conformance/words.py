"""Numbers of things, in words."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """A number of things: "1 case", "2 cases", "no cases"."""
    return f"{number} {word}" if number == 1 else f"{number or 'no'} {word}s"
