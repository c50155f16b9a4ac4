"""Helpers for text: counts in words, shortened lines, and safe showing of untrusted text."""

import re

#: Characters that move a terminal's cursor, or hide or reorder its text, and code points that are no
#: characters. Line ends and tabs are allowed.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

#: What means something wherever it stands, an underscore that is at a word's edge, and what does so at
#: the beginning of a line.
_SPECIAL = re.compile(r"([\\`*{}\[\]<>|~&@$]|(?<![^\W_])_|_(?![^\W_])|^[#+-])|^(\d+)(?=[.)])")


def counted(number: int, word: str) -> str:
    """A number of things: "1 case", "2 cases", "no cases"."""
    return f"{number} {word}" if number == 1 else f"{number or 'no'} {word}s"


def line(text: str, longest: int = 240) -> str:
    """A text on one line of bounded length."""
    joined = " ".join(text.split())
    return joined if len(joined) <= longest else f"{joined[: longest - 1]}…"


def printable(text: str) -> str:
    """Untrusted text made safe to print: control characters are replaced by their Python escapes."""
    if text.isprintable() or _CONTROLS.search(text) is None:
        return text
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))


def control_character(text: str) -> str:
    """The first control character of a text, as a Python escape; empty if there is none."""
    match = _CONTROLS.search(text.replace("\r\n", "\n"))
    return ascii(match[0])[1:-1] if match else ""


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, also inside a table."""
    joined = " ".join(text.split())
    # A backslash comes before what is special, and after a number.
    return _SPECIAL.sub(lambda match: f"\\{match[1]}" if match[1] else f"{match[2]}\\", joined)
