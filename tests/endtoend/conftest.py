"""Installations for the tests, and the judge that every crash loop is decided by."""

import os
import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.endtoend.installation import IS_ROOT, Installation
from tests.support.people import TestPerson


@pytest.fixture(scope="session")
def person(request: pytest.FixtureRequest) -> TestPerson | None:
    """Who hands jobs in: as root another user, else nobody but oneself."""
    return request.getfixturevalue("people").ann if IS_ROOT else None


@pytest.fixture
def iriai(person: TestPerson | None) -> Iterator[Installation]:
    """An installation that was not started yet; ended after the test, with nothing left over."""
    installation = Installation(person)
    yield installation
    installation.stop()


@pytest.fixture
def seed(record_property: Callable[[str, object], None]) -> int:
    """Of the moments at which something is hurt; IRIAI_SEED repeats those of an earlier run."""
    number = int(os.environ.get("IRIAI_SEED") or secrets.randbits(32))
    record_property("seed", number)
    return number
