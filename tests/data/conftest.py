import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty folder of datasets."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("COTEACH_DATA", str(folder))
    return folder
