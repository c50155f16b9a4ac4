"""How long three readers take on a report, in clicks and seconds, in the system's Chromium.

    pip install playwright && python benchmarks/readers.py reports

The maintainer of the first framework comes for what is wrong in it and how to see it again; who ports
code for what differs between its first and its last variant, both programs beside each other; who
decides for whether to rely on it. Also printed: the seconds to the first screen, bytes of the page and
of all of it, errors on the console, and how far the page is wider than the screen.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from playwright.sync_api import sync_playwright


class Reader:
    """Counts clicks and seconds; a choice in a list counts as a click."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.clicks, self.waited = page, 0, 0.0
        page.goto(address)
        page.wait_for_selector("#frameworks .framework")

    def step(self, act: Callable[[], object], then: str) -> None:
        """One click, and the seconds until what it leads to is there."""
        self.clicks += 1
        start = time.perf_counter()
        act()
        self.page.wait_for_selector(then)
        self.waited += time.perf_counter() - start


def maintainer(reader: Reader) -> str:
    """Framework, its worst deviation; there the program and the command."""
    page = reader.page
    name = page.get_attribute(".framework >> nth=0", "id")
    reader.step(lambda: page.click(".framework > summary >> nth=0"), f"[id='{name}'] .modes")
    reader.step(
        lambda: page.click(f"[id='{name}'] .modes td:last-child a[href*='@'] >> nth=0"),
        "details.variant[open] .again code",
    )
    return str(page.text_content("details.variant[open] .again code"))


def porter(reader: Reader) -> str:
    """Two variants, and both programs of the first difference."""
    page = reader.page
    listed = page.query_selector_all("#left optgroup >> nth=0 >> option")
    names = [option.get_attribute("value") for option in listed]
    reader.step(lambda: page.select_option("#left", names[0]), "#left")
    reader.step(lambda: page.select_option("#right", names[-1]), "#differences td")
    reader.step(
        lambda: page.click("#differences a >> text=both programs >> nth=0"),
        "details.case[open] .programs .line.changed",
    )
    return f"{names[0]}, {names[-1]}: {page.text_content('#differ')}"


def decider(reader: Reader) -> str:
    """The sentence before any click; framework for its advice, then its behaviours."""
    page = reader.page
    name = page.get_attribute(".framework >> nth=0", "id")
    reader.step(lambda: page.click(".framework > summary >> nth=0"), f"[id='{name}'] .advice")
    said = page.text_content(f"[id='{name}'] .advice")
    reader.step(
        lambda: page.click(f"[id='{name}'] a[href^='#behaviours/']"),
        "[id^='behaviours/'][open] table",
    )
    return str(said)


def measure(reports: Annotated[Path, typer.Argument(help="Folder of a report.")]) -> None:
    """Read it three times, on a desk and on a phone."""
    address = (reports.resolve() / "index.html").as_uri()
    size = (reports / "index.html").stat().st_size
    rest = sum(file.stat().st_size for file in (reports / "details").glob("*.js"))
    typer.echo(f"page {size:,} bytes, with all that opens {size + rest:,} bytes")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as found:
        browser = found.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for width in (1440, 390):
            for read in (maintainer, porter, decider):
                page = browser.new_page(viewport={"width": width, "height": 900})
                wrong: list[str] = []
                page.on("console", lambda said, to=wrong: to.append(said.text))
                page.on("pageerror", lambda error, to=wrong: to.append(str(error)))
                reader = Reader(page, address)
                first = page.evaluate(
                    "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
                )
                said = read(reader)
                wider = page.evaluate("document.documentElement.scrollWidth") - width
                typer.echo(
                    f"{width}: {read.__name__}: {reader.clicks} clicks, {reader.waited:.1f} s; first "
                    f"screen {first:.2f} s, {len(wrong)} errors, {max(0, wider)} too wide: {said}"
                )
                page.close()
        browser.close()


if __name__ == "__main__":
    typer.run(measure)
