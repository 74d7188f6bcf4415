"""Root's daemon, and ordinary users who mean it no good."""

from collections.abc import Iterator

import pytest

from tests.endtoend.installation import Installation, installed
from tests.security.attacker import Attacker, attacking
from tests.support.people import People


@pytest.fixture(scope="module")
def served(people: People) -> Iterator[Installation]:
    """A daemon of root's, for users of the machine; one for all tests of a file."""
    with installed(people.ann, '[machine]\ncpus = 2\nmemory = "1G"\n') as installation:
        yield installation


@pytest.fixture
def undisturbed(served: Installation) -> Iterator[Installation]:
    """The same; afterwards it is still the same daemon, and runs a job of an honest user."""
    before = served.pid("daemon")
    yield served
    with served.client() as client:
        [outcome] = client.wait([client.submit(served.draft("true")).id])
    assert outcome.cause == "completed"
    assert served.pid("daemon") == before


@pytest.fixture(scope="module")
def attacked(people: People) -> Iterator[Installation]:
    """Root's daemon with room for several tasks; one for all attacks of a file."""
    with installed(
        people.ann, '[machine]\ncpus = 4\nmemory = "1G"\n\n[jobs]\nkill_grace_s = 0.5\n'
    ) as installation:
        yield installation


@pytest.fixture
def eve(
    attacked: Installation, people: People, request: pytest.FixtureRequest
) -> Iterator[Attacker]:
    """Who attacks; afterwards nobody was harmed, and she has no right that she had not."""
    with attacking(attacked, people.eve, request.node.name.replace("/", "-")) as attacker:
        yield attacker
