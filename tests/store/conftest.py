"""A store of its own for each test."""

from __future__ import annotations

import shutil

import pytest

from iriai.store import Store
from iriai.store.store import fill_new_database
from tests.support.disk import Disk


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A database that was just made, to be copied."""
    path = tmp_path_factory.mktemp("empty") / "iriai.db"
    path.touch(mode=0o600)
    fill_new_database(path)
    return path


@pytest.fixture
def path(tmp_path, empty_database):
    path = tmp_path / "iriai.db"
    path.touch(mode=0o600)
    shutil.copyfile(empty_database, path)
    return path


@pytest.fixture
def store(path):
    store = Store.open(path)
    yield store
    store.close()


@pytest.fixture
def reopened(store, path):
    """What a daemon finds that starts after this one was killed: call it when all is written."""
    others = []

    def reopen():
        others.append(Store.open(path))
        return others[-1]

    yield reopen
    for other in others:
        other.close()


@pytest.fixture
def disk(tmp_path):
    directory = tmp_path / "disk"
    directory.mkdir()
    made = Disk(directory)
    made.mount()
    yield made
    made.unmount()
