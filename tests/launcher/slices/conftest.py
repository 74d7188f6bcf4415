"""A launcher whose tasks take turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.launcher.harness import Lab
from tests.launcher.slices.turning import end_all


@pytest.fixture
def turning_lab(freezing_lab: Lab) -> Iterator[Lab]:
    """One whose tasks are ended, and take no turns any more, when a test is over."""
    yield freezing_lab
    end_all(freezing_lab)
