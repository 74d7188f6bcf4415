"""`iriai top` and the matrix of gangs look as their golden files say, and fit their terminals."""

from __future__ import annotations

import pytest

from tests.golden.cli.golden_file import difference, left_over
from tests.golden.cli.screens import MATRICES, SCREENS, SIZES, screens


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    return screens()


NAMES = [
    *("top-once", "top-keys-80"),
    *(f"top{more}-{width}" for more in ("", "-without-gangs") for width, _ in SIZES),
    *(f"gangs-{name}-{width}" for name in MATRICES for width, _ in SIZES),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_screen_is_as_it_was(shown: dict[str, str], name: str):
    changed = difference(SCREENS / f"{name}.txt", shown[name], name)
    assert not changed, changed


def test_every_screen_is_of_something(shown: dict[str, str]):
    assert sorted(shown) == sorted(NAMES)
    assert left_over(SCREENS, shown) == []


def test_no_line_is_wider_than_its_terminal(shown: dict[str, str]):
    for name in (each for each in NAMES if each != "top-once"):  # that is for pipes
        width = int(name.rpartition("-")[2])
        assert max(map(len, shown[name].splitlines())) <= width, name
