"""The report in a real browser: what opens is loaded from disk, on a desk and on a phone.

Needs Playwright and a Chromium of the system: `pip install playwright`, `apt-get install chromium`; and
axe for what is asked of pages that everybody can read: `pip install axe-playwright-python`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_report import HOSTILE, hostile, realistic, written

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed here")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium here", allow_module_level=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as found:
        browser = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[1440, 390])
def page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """A page on which nothing may go wrong, on a desk and on a phone."""
    found = browser.new_page(viewport={"width": request.param, "height": 900})
    wrong: list[str] = []
    found.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    found.on("pageerror", lambda error: wrong.append(str(error)))
    found.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield found
    assert not wrong
    assert found.evaluate("document.documentElement.scrollWidth") <= request.param
    found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on realistic results."""
    here = tmp_path_factory.mktemp("realistic")
    return written(here, *realistic(here))[0]


def opened(page: Any, folder: Path, rest: str = "") -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}{rest}")


def test_from_the_worst_finding_to_its_program_in_one_click(page: Any, folder: Path) -> None:
    opened(page, folder)
    page.click("#wrong li a >> nth=0")
    page.wait_for_selector("details.case[open] details.variant[open]")
    assert "def plain(x):" in page.inner_text("details.case[open]")


def test_an_address_opens_what_it_names(page: Any, folder: Path) -> None:
    opened(page, folder, "#sample/block@b/one")
    page.wait_for_selector("[id='sample/block@b/one'][open]")
    page.wait_for_timeout(400)
    top = page.evaluate("document.getElementById('sample/block@b/one').getBoundingClientRect().top")
    assert 0 <= top < 900
    for query in ("outcome=raises", "variant=a/two", "variant=a/one&outcome=right&text=dropout"):
        opened(page, folder, f"?{query}#cases")
        page.wait_for_function("document.getElementById('shown').textContent === '1 of 2 cases'")


# -- three readers, each at most three clicks from what they came for ------------------------------


class Reader:
    """Who clicks and chooses, and counts both; each step has to be done in five seconds, on a machine
    that does other things too."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.clicks = page, 0
        page.set_default_timeout(5000)
        opened(page, folder)

    def click(self, what: str, then: str) -> None:
        self.clicks += 1
        self.page.click(what)
        self.page.wait_for_selector(then)

    def choose(self, what: str, value: str) -> None:
        self.clicks += 1
        self.page.select_option(what, value)


def test_a_maintainer_sees_what_is_wrong_and_how_to_see_it_again(page: Any, folder: Path) -> None:
    reader = Reader(page, folder)
    reader.click("[id='framework=a'] > summary", "[id='framework=a'] table.modes")
    assert page.url.endswith("#framework=a")
    assert "the wrapper drops it" in page.inner_text("[id='framework=a']")
    variant = "[id='sample/block@a/two']"
    reader.click("[id='framework=a'] table a[href='#sample/block@a/two']", f"{variant}[open]")
    said = page.text_content(variant)
    assert "conformance run --adapter a --variant two -k sample/block" in said
    program = page.get_attribute(f"{variant} p a", "href")
    assert (folder / program).is_file()
    assert reader.clicks <= 3


def test_a_porter_sees_what_differs_between_two(page: Any, folder: Path) -> None:
    reader = Reader(page, folder)
    reader.choose("#left", "a/one")
    reader.choose("#right", "a/two")
    page.wait_for_selector("#differences td")
    assert page.inner_text("#differ") == "1 of 1 cases differ"
    assert "silently wrong" in page.inner_text("#differences")
    assert "A block" in page.inner_text("#differences")  # in words, before a click
    reader.click(
        "#differences a >> text=both programs", "[id='sample/block'][open] .programs .line"
    )
    shown = page.query_selector_all("[id='sample/block'] .programs select")
    assert [select.input_value() for select in shown] == ["a/one", "a/two"]
    left, right = (part.inner_text() for part in page.query_selector_all(".programs pre"))
    assert "a/one" in left
    assert "a/two" in right
    assert reader.clicks <= 3


def test_what_differs_between_two_programs_is_marked(page: Any, folder: Path) -> None:
    opened(page, folder, "#sample/block:programs")
    page.wait_for_selector(".programs .line.changed")
    sides = page.query_selector_all(".programs pre")
    changed = [[m.inner_text() for m in side.query_selector_all(".changed")] for side in sides]
    assert all(changed)
    assert not set(changed[0]) & set(changed[1])
    rows = [len(side.query_selector_all(".line")) for side in sides]
    assert rows[0] == rows[1]  # what both have stands beside each other
    page.select_option(".programs select >> nth=0", page.input_value(".programs select >> nth=1"))
    assert page.query_selector(".programs .line.changed") is None


def test_what_is_to_be_copied_is_copied(browser: Any, folder: Path) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    opened(page, folder, "#sample/block@a/two")
    page.wait_for_selector("[id='sample/block@a/two'][open]")
    for button, text in (
        ("[id='sample/block@a/two'] .copy >> nth=0", "conformance run --adapter a"),
        (".program .copy >> nth=0", "def plain(x):"),
        (".findings .copy >> nth=0", "assert x.grad is None"),
    ):
        page.evaluate(
            "document.querySelectorAll('.findings details').forEach(d => (d.open = true))"
        )
        page.click(button)
        page.wait_for_function("document.body.textContent.includes('Copied')")
        assert text in page.evaluate("navigator.clipboard.readText()")
        page.wait_for_timeout(1600)
    context.close()


def test_a_decider_sees_whether_to_rely_on_it(page: Any, folder: Path) -> None:
    reader = Reader(page, folder)
    first = page.inner_text(".framework:has([id='framework=a'])")
    assert "right in 2 of 2" in first  # before any click
    reader.click("[id='framework=a'] > summary", "[id='framework=a'] table.modes")
    reader.click("[id='framework=a'] a[href='#behaviours=a']", "[id='behaviours=a'][open] table")
    assert "Dropout keeps its mask" in page.inner_text("[id='behaviours=a']")
    assert reader.clicks <= 3


# -- for everybody ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_out_of_reach(browser: Any, folder: Path, scheme: str) -> None:
    """Contrast, names, headings, tables, what scrolls: by axe, with all of it open."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    )
    page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    opened(page, folder)
    for detail in page.query_selector_all("details"):
        detail.evaluate("part => { part.open = true; }")
    page.select_option("#left", "a/one")
    page.select_option("#right", "a/two")
    page.wait_for_selector("#differences td")
    page.wait_for_timeout(600)
    found = axe.Axe().run(page).response["violations"]
    page.close()
    assert [(v["id"], [n["html"][:120] for n in v["nodes"]]) for v in found] == []


def test_keys_reach_and_open_what_a_mouse_does(page: Any, folder: Path) -> None:
    opened(page, folder)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("[id='framework=a'] > summary")
    page.keyboard.press("Enter")
    page.wait_for_selector("[id='framework=a'] table.modes")


def test_on_paper_what_is_loaded_is_open(page: Any, folder: Path) -> None:
    opened(page, folder, "#sample/block")
    page.wait_for_selector("[id='sample/block'] details.variant:not([open])")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.query_selector("[id='sample/block'] details.variant:not([open])") is None
    assert not page.is_visible("#filters")
    assert not page.is_visible("nav")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.query_selector("[id='sample/block'] details.variant:not([open])")


def test_hostile_text_runs_nothing_when_it_is_opened(page: Any, tmp_path: Path) -> None:
    given, found = hostile(tmp_path)
    folder, _ = written(tmp_path, *found, given=given)
    opened(page, folder)
    for detail in page.query_selector_all("details"):
        detail.evaluate("part => { part.open = true; }")
    page.select_option("#left", "a/one")
    page.select_option("#right", "c/one")
    page.wait_for_timeout(600)
    assert HOSTILE[:40] in page.inner_text("main")
    assert page.query_selector("main img") is None
    assert page.query_selector("main script") is None
