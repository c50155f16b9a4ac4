"""The report in a real browser: what opens is loaded from disk, on a desk and on a phone.

Needs Playwright and a Chromium of the system: `pip install playwright`, `apt-get install chromium`.
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


def opened(page: Any, folder: Path, rest: str = "") -> None:
    page.goto(f"{(folder / 'index.html').as_uri()}{rest}")


def test_from_the_worst_finding_to_its_program_in_one_click(page: Any, tmp_path: Path) -> None:
    folder, _ = written(tmp_path, *realistic(tmp_path))
    opened(page, folder)
    page.click("#worst li a >> nth=0")
    page.wait_for_selector("details.case[open] details.variant[open]")
    assert "def plain(x):" in page.inner_text("details.case[open]")


def test_an_address_opens_what_it_names(page: Any, tmp_path: Path) -> None:
    folder, _ = written(tmp_path, *realistic(tmp_path))
    opened(page, folder, "#sample/block@b/one")
    page.wait_for_selector("[id='sample/block@b/one'][open]")
    opened(page, folder, "?outcome=raises#cases")
    page.wait_for_selector("#shown")
    assert page.inner_text("#shown") == "1 of 2 cases"


def test_two_variants_beside_each_other(page: Any, tmp_path: Path) -> None:
    folder, _ = written(tmp_path, *realistic(tmp_path))
    opened(page, folder)
    page.select_option("#left", "a/one")
    page.select_option("#right", "a/two")
    page.wait_for_selector("#differences td")
    assert page.inner_text("#differ") == "1 of 1 cases come out differently"
    assert "silently wrong" in page.inner_text("#differences")


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
