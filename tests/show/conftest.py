"""Figures and panels, as a notebook has them and as a page of the book has them."""

import pytest


@pytest.fixture
def live(monkeypatch):
    monkeypatch.delenv("GEOLAB_EXPLORE", raising=False)


@pytest.fixture
def static(monkeypatch):
    monkeypatch.setenv("GEOLAB_EXPLORE", "static")
