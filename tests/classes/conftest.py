"""The tools of the class kit, which import one another by their bare names."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
SESSIONS = sorted(path.stem for path in ROOT.glob("classes/*.yml"))


@pytest.fixture(params=SESSIONS)
def session(request):
    from class_notebooks import session as read

    return read(request.param)
