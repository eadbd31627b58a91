"""The browsers that check the built pages: a Chrome or Chromium, and a Firefox where there is one.

A Chrome or Chromium on this machine comes first, then Playwright's own. Where there is none,
`--install` downloads Playwright's, or else installs the system's package if this user may.
pytest-playwright takes a path that it is given, and looks for none.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FIREFOX = ("firefox", "firefox-esr")
PACKAGES = {"apt-get": "apt-get install -y chromium", "dnf": "dnf install -y chromium",
            "pacman": "pacman -S --noconfirm chromium", "apk": "apk add chromium",
            "brew": "brew install --cask chromium"}


def find() -> str | None:
    """The path of a Chrome or Chromium on this machine, or None."""
    return _first(CHROMIUM) or _playwrights_own()


def find_firefox() -> str | None:
    """The path of a Firefox on this machine, or None."""
    return _first(FIREFOX)


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for path in map(shutil.which, names) if path), None)


def _playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install() -> str | None:
    """Install a Chromium and return its path, or None where that fails.

    Playwright's own download comes first, then the system's package, if no password is needed.
    """
    if _ran(sys.executable, "-m", "playwright", "install", "chromium") and (path := find()):
        return path
    command = package_command()
    if command and (command.startswith("brew") or _may_be_root()):
        needs_sudo = os.geteuid() != 0 and not command.startswith("brew")
        before = ["sudo", "-n"] if needs_sudo else []
        if command.startswith("apt-get"):
            _ran(*before, "apt-get", "update", "-qq")
        _ran(*before, *command.split())
    return find()


def package_command() -> str | None:
    """The command that installs Chromium with this system's package manager, if we know one."""
    return next((command for manager, command in PACKAGES.items() if shutil.which(manager)), None)


def _may_be_root() -> bool:
    return os.geteuid() == 0 or bool(shutil.which("sudo")) and _ran("sudo", "-n", "true")


def _ran(*command: str) -> bool:
    print("browser:", *command, flush=True)
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    path = find() or (install() if "--install" in sys.argv else None)
    print("browser for the checks:", path or "none")
    if path is None:
        command = package_command() or ""
        sudo = "sudo " if command and not command.startswith("brew") else ""
        print(f"To mend it: {sudo}{command or 'install Chromium or Chrome'}")
    return int(path is None)


if __name__ == "__main__":
    sys.exit(main())
