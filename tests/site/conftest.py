"""The built pages, opened in a Chromium that reaches only this machine.

A page is opened once at each width for all tests, so its fixtures have the scope of the session,
and all its tests go to the same process. pytest-playwright would open a page
for each test, with one choice of browsers for all.
"""

import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from xdist.scheduler import LoadScopeScheduling

import browser as browsers
import paper

SITE = Path(__file__).resolve().parents[2] / "_build/html"
SET = "() => Promise.all([window.MathJax && MathJax.startup.promise, document.fonts.ready])"
ELSEWHERE = re.compile(r"^(?!file:|data:|blob:|(?:http|ws)://127\.0\.0\.1[:/])")
PHONE, DESKTOP = 390, 1280
PATIENCE = 90_000  # milliseconds: on a busy machine, a page with many formulas loads for 30 seconds


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(), "html.parser")


class Visit:
    """A page of the site in the browser, and what went wrong while it was open."""

    def __init__(self, page: Page, name: str):
        self.page, self.name, self.trouble, self.sliders = page, name, [], None
        page.on("console", self.heard)
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self.trouble.append(f"failed: {request.url}"))

    def heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"console: {message.text}")

    def unfold(self) -> None:
        """Open every folded cell and solution."""
        self.page.evaluate("""() => {
            document.querySelectorAll("details").forEach(folded => folded.open = true);
            document.querySelectorAll("button.toggle-button-hidden")
                .forEach(button => button.click());
            document.querySelectorAll(".toggle-hidden")
                .forEach(folded => folded.classList.remove("toggle-hidden"));
        }""")


# ---------------------------------------------------------------- pages of the book

class ByPage(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        page = re.search(r"\[\S*?((?:book|notebooks)/\w+)", nodeid)
        return page[1] if page else nodeid


def pytest_xdist_make_scheduler(config, log):
    return ByPage(config, log)


def pytest_generate_tests(metafunc):
    names = [name for name, _ in paper.contents()]
    if "visit" in metafunc.fixturenames:
        widths = [PHONE] if "phone" in metafunc.fixturenames else [PHONE, DESKTOP]
        metafunc.parametrize("visit", [
            pytest.param((name, width), id=f"{name}-{width}") for name in names
            for width in widths], indirect=True, scope="session")
    elif "name" in metafunc.fixturenames:
        metafunc.parametrize("name", names, scope="session")


@pytest.fixture(scope="session", autouse=True)
def site() -> Path:
    assert (SITE / "index.html").exists(), "there is no built site; run `make book`"
    return SITE


@pytest.fixture
def html(name) -> BeautifulSoup:
    """The page's HTML as it was built."""
    return soup(SITE / f"{name}.html")


@pytest.fixture(scope="session")
def visit(browser, request):
    """Every page at both widths, with its mathematics set."""
    name, width = request.param
    with closed_off(browser, width, has_touch=width == PHONE) as context:
        visit = Visit(context.new_page(), name)
        visit.page.goto((SITE / f"{name}.html").as_uri())
        visit.page.evaluate(SET)  # else a picture moves by a part of a pixel
        yield visit


@pytest.fixture(scope="session")
def phone(visit):
    return visit


# ---------------------------------------------------------------- browsers

@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = browsers.find()
    assert path, "there is no Chrome or Chromium to check the pages with; run `make browser`"
    return path


@pytest.fixture(scope="session")
def playwright(chromium_path):  # the path comes first, because `find` may start its own Playwright
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def browser(playwright, chromium_path):
    browser = playwright.chromium.launch(
        executable_path=chromium_path,
        args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"])
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(playwright):
    """The system's Firefox, over WebDriver BiDi: Playwright's own would be a download."""
    path = browsers.find_firefox()
    if not path:
        pytest.skip("there is no Firefox here: apt-get install firefox-esr")
    browser = playwright.firefox.launch(channel="moz-firefox", executable_path=path)
    yield browser
    browser.close()


@contextmanager
def closed_off(browser: Browser, width: int, **options):
    """A browser window that reaches only files and 127.0.0.1, and scrolls at once."""
    context = browser.new_context(viewport={"width": width, "height": 844},
                                  reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE)
    context.route(ELSEWHERE, lambda route: route.abort())
    yield context
    context.close()


@pytest.fixture(scope="session")
def window(browser):
    with closed_off(browser, DESKTOP) as context:
        yield context.new_page()


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def in_both(request, address):
    """The page at the address of a module's fixture, in each browser."""
    if request.param == "chromium":
        page = request.getfixturevalue("window")
    else:
        page = request.getfixturevalue("firefox").new_page()
    page.goto(address)
    return page


@pytest.fixture
def open_phone(browser):
    """Opens a file in a window as wide as a phone's. What a page raises fails the test."""
    pages, trouble = [], []

    def open_file(path: Path, raises: bool = False, **options) -> Page:
        page = browser.new_page(viewport={"width": PHONE, "height": 844}, **options)
        pages.append(page)
        page.set_default_timeout(PATIENCE)
        if not raises:
            page.on("pageerror", lambda error: trouble.append(error))
        page.goto(path.as_uri())
        return page

    yield open_file
    for page in pages:
        page.close()
    assert not trouble


@pytest.fixture(scope="module")
def static():
    """Figures and panels are made for a page, and not for a live notebook."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEOLAB_EXPLORE", "static")
        yield
