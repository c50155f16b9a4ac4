"""Numbers of things in words, and texts cut to a length."""

from __future__ import annotations


def counted(number: int, word: str) -> str:
    """A number of things: "1 case", "2 cases", "no cases"."""
    return f"{number} {word}" if number == 1 else f"{number or 'no'} {word}s"


def line(text: str, longest: int = 240) -> str:
    """A text on one line of bounded length."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest - 1]}…"
