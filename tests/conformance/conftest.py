"""The places that all stories of a launcher are told of."""

from collections.abc import Iterator

import pytest

from tests.conformance.model_place import ModelPlace
from tests.conformance.place import Place
from tests.conformance.real_place import RealPlace
from tests.launcher.conftest import USER, VARIANTS
from tests.launcher.harness import Machine


@pytest.fixture(scope="module", params=["real", "model"])
def shared_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "model":
        yield ModelPlace()
        return
    real = RealPlace(Machine(VARIANTS[0], USER))
    yield real
    real.close()


@pytest.fixture
def place(shared_place: Place) -> Iterator[Place]:
    """A launcher that has nothing to do, and a daemon that is connected to it."""
    yield shared_place
    shared_place.clean()
