"""The rules on the composition of cores can fail."""

from __future__ import annotations

import pytest

from tests.architecture.rules_composition import (
    COMPOSED,
    HANDLED,
    handlers_of_the_simulator,
    scattered_construction,
)
from tests.architecture.source import module_from_text


@pytest.mark.parametrize("core", COMPOSED)
@pytest.mark.parametrize("text", ["made = {}(1)", "made = cores.{}(1)", "made = partial({}, 1)"])
def test_a_core_that_is_constructed_elsewhere_is_found(core: str, text: str):
    source = text.format(core)
    assert scattered_construction([module_from_text("iriai.sim.world.machine_model", source)])
    assert scattered_construction([module_from_text("iriai.daemon.service", source)])
    assert scattered_construction([module_from_text(COMPOSED[core], source)]) == []


@pytest.mark.parametrize("name", sorted(HANDLED))
def test_a_handler_of_the_simulator_is_found(name: str):
    source = f"from iriai.protocol.messages.effects import {name}\n"
    assert handlers_of_the_simulator([module_from_text("iriai.sim.world.peer_world", source)])
    assert handlers_of_the_simulator([module_from_text("iriai.cluster.member", source)]) == []
