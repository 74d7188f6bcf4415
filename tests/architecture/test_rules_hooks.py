"""The rule against hooks that are set late finds them."""

import pytest

from tests.architecture.rules_hooks import late_hooks
from tests.architecture.source import module_from_text


def found(text, name="iriai.daemon.service"):
    return [each.line for each in late_hooks([module_from_text(name, text)])]


@pytest.mark.parametrize(
    "statement",
    [
        "engine.on_changed = jobs",
        "self._engine.on_changed = jobs",
        "launcher.home = lambda: name",
        "link.hold = partial(self._hold, link)",
        "inquirer.send = self.send",
        "self._jobs.outputs.copies = network.copies",
    ],
)
def test_a_hook_that_is_set_on_another_object_is_found(statement):
    assert found(f"def wire(self, engine, jobs):\n    {statement}\n") == [2]


@pytest.mark.parametrize(
    "statement",
    [
        "self._on_changed = on_changed",
        "self.restart = settings.restart",
        "peer.problem = 'it does not answer'",
        "peer.since_s = now()",
        "asked.is_changing = True",
    ],
)
def test_what_an_object_keeps_itself_and_plain_values_are_not(statement):
    assert found(f"def keep(self, peer, asked):\n    {statement}\n") == []


def test_other_packages_are_not_looked_at():
    assert found("world.on_send = note", name="iriai.sim.world") == []
