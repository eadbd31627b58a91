"""A browser is found, or installed if this user may, or else one line says how to mend it."""

import sys

import pytest

import browser


@pytest.fixture
def bare(monkeypatch):
    """A machine with apt-get and sudo, but without a browser.

    Its commands are noted, and succeed where `outcomes` says so.
    """
    ran, outcomes, there = [], {}, set()

    def run(*command):
        ran.append(" ".join(command))
        outcome = outcomes.get(next((part for part in outcomes if part in ran[-1]), ""), False)
        if outcome and "install" in ran[-1]:
            there.add("chromium")
        return outcome

    monkeypatch.setattr(browser, "_ran", run)
    monkeypatch.setattr(browser, "_playwrights_own", lambda: None)
    monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)
    known = {"apt-get", "sudo"}
    monkeypatch.setattr(browser.shutil, "which",
                        lambda name: f"/bin/{name}" if name in there | known else None)
    monkeypatch.setattr(sys, "argv", ["browser.py", "--install"])
    return ran, outcomes


def test_playwrights_download_comes_first(bare):
    ran, outcomes = bare
    outcomes["playwright install"] = True
    assert browser.main() == 0 and len(ran) == 1


def test_the_package_manager_comes_next_where_no_password_is_asked(bare, capsys):
    ran, outcomes = bare
    outcomes |= {"sudo -n true": True, "apt-get install": True}
    assert browser.main() == 0
    assert ran[-1] == "sudo -n apt-get install -y chromium"
    assert "browser for the checks: /bin/chromium" in capsys.readouterr().out


def test_else_it_ends_with_the_line_that_mends_it(bare, capsys):
    ran, _ = bare
    assert browser.main() == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "To mend it: sudo apt-get install -y chromium"
    assert not [command for command in ran if "apt-get install" in command]
