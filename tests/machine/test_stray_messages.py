"""(d): messages of a broker that are repeated, late or lost cost time, and nothing else."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iriai.machine.checks import check_attempts, check_stored
from iriai.machine.core import Machine
from iriai.protocol.messages.effects import Part, Send
from iriai.protocol.messages.scheduling import Decline, Match, Promise
from tests.machine.scenario import PATIENCE_S, Room, end_all_troubles, peaceful, play
from tests.support.virtual import VirtualMachine

LOSABLE = (Match, Decline, Promise)
"""What a broker does not depend on. Between machines there will be more."""


class Stray:
    """Repeats and loses messages to and from the broker; others are delivered as they are."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.is_on = True

    def passed_on(self, send: Send) -> list[Send]:
        """What arrives where `send` was sent."""
        concerns_broker = send.part is Part.BROKER or isinstance(send.message, LOSABLE)
        if not self.is_on or not concerns_broker:
            return [send]
        chance = self._rng.random()
        if chance < 0.2 and isinstance(send.message, LOSABLE):
            return []
        return [send] * (2 if chance > 0.7 else 1)


def with_stray_messages(monkeypatch, seed: int) -> Stray:
    """From now on every machine's messages go astray."""
    stray = Stray(seed)
    take = Machine._route

    def taken(self, effects):
        passed = []
        for effect in effects:
            passed += stray.passed_on(effect) if isinstance(effect, Send) else [effect]
        take(self, passed)

    monkeypatch.setattr(Machine, "_route", taken)
    return stray


def check(machine: VirtualMachine) -> None:
    """What must hold whatever a broker was told."""
    parts = machine.machine
    parts.node.check()
    parts.home.check()
    check_attempts(parts.node, parts.home)
    check_stored(parts.node, parts.home, machine.store.load())


@given(
    seed=st.integers(0, 999),
    cpus=st.sampled_from([1, 4]),
    story=st.lists(peaceful, min_size=3, max_size=30),
)
def test_every_feasible_job_still_ends(seed, cpus, story):
    with pytest.MonkeyPatch.context() as monkeypatch:
        stray = with_stray_messages(monkeypatch, seed)
        room = Room(VirtualMachine(cpus, seed=seed, is_checked=False), [])
        for action in story:
            play(room, [action])
            check(room.machine)
        end_all_troubles(room)
        stray.is_on = False
        home = room.machine.machine.home
        until_s = room.machine.now_s + PATIENCE_S
        while any(room.is_feasible(job) for job in home.jobs.values()):
            assert room.machine.now_s < until_s, f"{list(home.jobs)} never finish"
            room.machine.wait(50.0)
            check(room.machine)
    starts = room.machine.launcher.starts
    assert len(set(starts)) == len(starts)
