"""A launcher whose machine has terminals and input devices of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launcher.harness import Machine
from tests.launcher.owner.desk import Desk
from tests.launcher.owner.used import UsedLab


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "dev")
    yield desk
    desk.close()


@pytest.fixture
def used(new_freezing_machine: Machine) -> Iterator[UsedLab]:
    """A launcher that freezes tasks in one of all ways."""
    yield from _used(new_freezing_machine)


@pytest.fixture
def plain_used(plain_machine: Machine) -> Iterator[UsedLab]:
    """One that does it in the usual way."""
    yield from _used(plain_machine)


def _used(machine: Machine) -> Iterator[UsedLab]:
    machine.devices = machine.directory / "dev"
    desk = Desk(machine.devices, -1 if machine.variant.is_privileged else machine.uid)
    desk.add_device()
    try:
        yield UsedLab(machine.start(), desk)
    finally:
        machine.close()
        desk.close()
