"""A browser is found, or installed if this user may, or else one line says how to mend it."""

import sys

import pytest

import browser


@pytest.mark.parametrize("outcomes, installed", [
    ({"playwright install"}, "-m playwright install chromium"),
    ({"sudo -n true", "apt-get install"}, "sudo -n apt-get install -y chromium"),
    (set(), "")])
def test_playwrights_download_comes_first_then_the_package_manager_then_a_line_that_mends(
        monkeypatch, capsys, outcomes, installed):
    """On a machine with apt-get and sudo, where the commands in `outcomes` succeed."""
    ran, there = [], {"apt-get", "sudo"}

    def run(*command):
        ran.append(" ".join(command))
        succeeds = any(part in ran[-1] for part in outcomes)
        if succeeds and "install" in ran[-1]:
            there.add("chromium")
        return succeeds

    monkeypatch.setattr(browser, "_ran", run)
    monkeypatch.setattr(browser, "_playwrights_own", lambda: None)
    monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(browser.shutil, "which",
                        lambda name: f"/bin/{name}" if name in there else None)
    monkeypatch.setattr(sys, "argv", ["browser.py", "--install"])
    assert browser.main() == int(not installed)
    said = capsys.readouterr().out
    if installed:
        assert ran[-1].endswith(installed) and "browser for the checks: /bin/chromium" in said
        assert len(ran) == 1 or "playwright" in ran[0]
    else:
        assert not [command for command in ran if "apt-get install" in command]
        assert said.splitlines()[-1] == "To mend it: sudo apt-get install -y chromium"
