"""The tools of the class kit, which import one another by their bare names."""

from pathlib import Path

import pytest

from class_questions import session as read

ROOT = Path(__file__).resolve().parents[2]
SESSIONS = sorted(path.stem for path in ROOT.glob("classes/*.yml"))


@pytest.fixture(params=SESSIONS)
def session(request):
    return read(request.param)
