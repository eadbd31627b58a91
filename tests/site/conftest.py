"""The built pages, opened in a Chromium that reaches only this machine.

A page is opened once for all tests of a module, so these fixtures have the scope of a module.
"""

import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

import browser as browsers

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build/html"
SET = "() => Promise.all([window.MathJax && MathJax.startup.promise, document.fonts.ready])"
ELSEWHERE = re.compile(r"^(?!file:|data:|blob:|(?:http|ws)://127\.0\.0\.1[:/])")
PHONE, DESKTOP = 390, 1280


def toc() -> list[str]:
    """The book's pages in order, as _toc.yml names them."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text())
    chapters = [chapter["file"] for part in contents["parts"] for chapter in part["chapters"]]
    return [contents["root"], *chapters]


def with_sliders() -> list[str]:
    """The pages that have sliders."""
    pages = {name: SITE / f"{name}.html" for name in toc()}
    return [name for name, page in pages.items()
            if page.exists() and "geolab-explore" in page.read_text()]


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(), "html.parser")


class Visit:
    """A page of the site in the browser, and what went wrong while it was open."""

    def __init__(self, page: Page, name: str):
        self.page, self.name, self.trouble = page, name, []
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


@pytest.fixture(scope="session", autouse=True)
def site() -> Path:
    assert (SITE / "index.html").exists(), "there is no built site; run `make book`"
    return SITE


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


@contextmanager
def closed_off(browser: Browser, width: int, **options):
    """A browser window that reaches only files and 127.0.0.1."""
    context = browser.new_context(viewport={"width": width, "height": 844}, **options)
    context.route(ELSEWHERE, lambda route: route.abort())
    yield context
    context.close()


@contextmanager
def visiting(browser: Browser, name: str, width: int, **options):
    with closed_off(browser, width, **options) as context:
        visit = Visit(context.new_page(), name)
        visit.page.goto((SITE / f"{name}.html").as_uri())
        yield visit


def pytest_generate_tests(metafunc):
    names = toc()
    if "firefox_path" in metafunc.fixturenames:  # where there is a Firefox, it moves sliders too
        names, path = with_sliders(), browsers.find_firefox()
        paths = {"firefox": path} if path else {}
        metafunc.parametrize("firefox_path", [*paths.values()], ids=[*paths], scope="session")
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", names, scope="module")
    if "width" in metafunc.fixturenames:
        metafunc.parametrize("width", [PHONE, DESKTOP], scope="module")


@pytest.fixture(scope="module")
def visit(browser, name, width):
    """Every page at both widths, with its mathematics set."""
    with visiting(browser, name, width) as visit:
        visit.page.evaluate(SET)
        yield visit


@pytest.fixture(scope="module")
def phone(browser, name):
    with visiting(browser, name, PHONE, has_touch=True) as visit:
        visit.page.evaluate(SET)  # else a picture moves by a part of a pixel
        visit.unfold()
        yield visit


@pytest.fixture(scope="module")
def without_javascript(browser, name):
    with visiting(browser, name, PHONE, java_script_enabled=False) as visit:
        visit.unfold()  # a reader opens a folded output with a click, which needs no script
        yield visit


@pytest.fixture(scope="session")
def window(browser):
    with closed_off(browser, DESKTOP) as context:
        yield context.new_page()


@pytest.fixture(scope="session")
def firefox(playwright, firefox_path):
    """The system's Firefox, over WebDriver BiDi: Playwright's own would be a download."""
    browser = playwright.firefox.launch(channel="moz-firefox", executable_path=firefox_path)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def in_firefox(firefox, name):
    context = firefox.new_context(viewport={"width": PHONE, "height": 844})
    visit = Visit(context.new_page(), name)
    visit.page.goto((SITE / f"{name}.html").as_uri())
    visit.unfold()
    yield visit
    context.close()


@pytest.fixture
def html(name) -> BeautifulSoup:
    """The page's HTML as it was built."""
    return soup(SITE / f"{name}.html")
