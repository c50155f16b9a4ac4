"""Texts of all views: shortened, and with safe addresses."""

import re
from urllib.parse import quote, urlsplit

from markupsafe import Markup, escape

from conformance.words import line

_LONGEST = 4000
#: Characters over the limit that are not worth a cut.
_SLACK = 80
#: What may stand in a URL without ending a link or a table's cell.
_IN_URL = ":/?#@!$&'()*+,;=%~-._"


def web_address(url: str) -> str:
    """The URL if it leads to the web, else "": a link must not run anything."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.netloc else ""


def link(url: str) -> str:
    """An address as a link in Markdown after a sentence; empty if it does not lead to the web."""
    address = web_address(url)
    return f" <{quote(address, safe=_IN_URL)}>" if address else ""


def prose(text: str) -> Markup:
    """A text as HTML, with what stands in backticks as code."""
    parts = text.split("`")
    whole = parts if len(parts) % 2 else [text]
    html = (f"<code>{escape(p)}</code>" if n % 2 else str(escape(p)) for n, p in enumerate(whole))
    return Markup("".join(html))


def format_bytes(number: int) -> str:
    """A number of bytes with its digits in groups of three: `1 234 567`."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text of about `longest` characters: of a longer one, the beginning and the end."""
    if len(text) <= longest + _SLACK:
        return text
    left = longest * 2 // 3
    return f"{text[:left]}\n… {len(text) - longest} characters left out …\n{text[left - longest :]}"


def sentence(text: str, longest: int = 260) -> str:
    """The first sentence of a text, on one line of bounded length."""
    first = re.match(r"\s*(.{25,}?[.!?])(?=\s+[A-Z])", " ".join(text.split()))
    return line(first[1] if first else text, longest)
