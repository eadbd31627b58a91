"""Which browser the checks of the built pages use: a Chrome or Chromium that is there, else Playwright's own."""

import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The path of a browser on this machine, or None."""
    system = next((path for path in map(shutil.which, NAMES) if path), None)
    return system or _playwrights_own()


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


if __name__ == "__main__":
    if find() is None and "--install" in sys.argv:
        subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"], check=True)
    print("browser for the checks:", find() or "none; install Chromium, or run: playwright install chromium")
