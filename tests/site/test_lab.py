"""In JupyterLab, a key moves a slider of the book, and the kernel draws its figure again."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
STARTS_WITHIN = 60  # seconds, even on a busy machine


def with_a_slider() -> dict:
    """The front page, down to its first slider."""
    notebook = json.loads((ROOT / "book/intro.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    first = next(k for k, cell in enumerate(code)
                 if re.search(r"^explore\(", "".join(cell["source"]), re.M))
    return {**notebook, "cells": code[:first + 1]}


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The notebook's address in a JupyterLab on a free port, with settings and data of its own."""
    home = tmp_path_factory.mktemp("lab")
    (home / "root").mkdir()
    (home / "root/chapter.ipynb").write_text(json.dumps(with_a_slider()))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
               "JUPYTERLAB_WORKSPACES_DIR", "JUPYTERLAB_SETTINGS_DIR")
    environment = {name: value for name, value in os.environ.items() if name != "GEOLAB_EXPLORE"}
    environment |= {name: str(home / name) for name in folders} | {"PYTHONPATH": str(ROOT)}
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
               f"--ServerApp.root_dir={home / 'root'}", "--ServerApp.port_retries=0",
               "--IdentityProvider.token=", "--ServerApp.password=",
               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
               "--LabApp.extension_manager=readonly"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options],
                                  env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + STARTS_WITHIN
        while not answers(f"http://127.0.0.1:{port}/api"):
            assert server.poll() is None and time.monotonic() < end, (home / "log").read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/lab/tree/chapter.ipynb"
    finally:
        server.terminate()  # it takes its kernels along
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


PICTURE = ".jp-OutputArea [role=img]:has(svg)"


def picture(page) -> tuple[str, str]:
    """The SVG of the figure, and the readout of the slider."""
    return (page.locator(PICTURE).first.inner_html(),
            page.locator(".jp-OutputArea .widget-readout").first.inner_text())


def test_a_slider_redraws_in_jupyterlab(lab, window):
    window.goto(lab)
    # before the kernel is idle, JupyterLab would ask which kernel to start
    window.get_by_text("| Idle").wait_for(timeout=60_000)
    window.get_by_role("menuitem", name="Run", exact=True).click()
    window.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    failed = window.locator(".jupyter-widgets-error-widget")
    window.locator(PICTURE).or_(failed).first.wait_for(timeout=90_000)
    assert failed.count() == 0, "JupyterLab cannot show a widget of explore"
    assert window.locator(PICTURE).first.get_attribute("aria-label").strip()
    seen = [picture(window)]

    def moved():
        changed = f"old => document.querySelector({json.dumps(PICTURE)}).innerHTML !== old"
        window.wait_for_function(changed, arg=seen[-1][0])
        seen.append(picture(window))

    window.locator(".jp-OutputArea .noUi-handle").first.focus()
    for key in ("ArrowRight", "ArrowLeft"):
        window.keyboard.press(key)
        moved()
    (drawn, value), (other, other_value), back = seen
    assert other != drawn and other_value != value
    assert back == (drawn, value)
    # the list of values has a name that a screen reader says, and moves the slider too
    listed = window.locator(".jp-OutputArea").get_by_role("combobox", name=re.compile(r"\w")).first
    listed.select_option(index=0)
    moved()
    assert seen[-1][1] != value
