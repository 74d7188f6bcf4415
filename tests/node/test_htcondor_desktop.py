"""A machine with the guide's translation of HTCondor's desktop policy does as HTCondor says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from iriai.config.reader import parse_configuration
from iriai.machine.owner_section import owner_policy
from iriai.model.ad import machine_ad
from iriai.model.state import EndCause
from iriai.protocol.messages.effects import LoadMeasured
from tests.node.htcondor_desktop import POLL_S, ExecutionPoint, State
from tests.node.lone_node import exited
from tests.node.test_giving_way import Desk, ends
from tests.support.told import attempt

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).parent / "recorded_day.txt"
DAY_S = 86_400
VACATE_S = 30
SLOTS = 16


def recorded_day() -> tuple[dict[int, None], list[float]]:
    """When keys were pressed, and the load of a slot at each poll."""
    lines = [line for line in RECORD.read_text().splitlines() if not line.startswith("#")]
    series = {name: rest.split() for name, _, rest in (line.partition(" ") for line in lines)}
    loads = [float(load) / SLOTS for load in series["loads"]]
    return dict.fromkeys(map(int, series["keys"])), loads


def translation() -> str:
    """The machine's file in the guide."""
    guide = (ROOT / "docs/guide/owners.md").read_text()
    (text,) = (block for block in guide.split("```") if "HTCondor's desktop policy" in block)
    return text.removeprefix("toml\n")


class Machine:
    """The product's node with that file, and jobs that wait for it."""

    def __init__(self) -> None:
        configuration = parse_configuration(translation(), "guide")
        policy = owner_policy(configuration.owner)
        assert policy is not None
        self.desk = Desk(policy, ad=machine_ad({}, configuration.machine.requirements))
        self.number = 0
        self.state = State.OWNER
        self.ended_s = 0.0

    def poll(self, now: int, keyboard_idle: int, load: float, *, is_key: bool) -> State:
        desk = self.desk
        desk.node.now_s = float(now)
        said = ends(desk.tell(LoadMeasured(load, load, float(keyboard_idle))))
        said += ends(desk.sign()) if is_key else []
        said += ends(desk.after(0.0))
        if any(cause is EndCause.EVICTED for _, cause, _ in said):
            self.state, self.ended_s = State.VACATING, now
        elif self.state is State.VACATING and now - self.ended_s >= VACATE_S:
            desk.tell(exited(self.number, EndCause.EVICTED))
            self.state = State.OWNER
        if self.state is State.OWNER and desk.node.capabilities:
            desk.run(self.number + 1)
            if attempt(self.number + 1) in desk.node.node.running():
                self.number += 1
                self.state = State.BUSY
        if self.state in (State.BUSY, State.SUSPENDED):
            stands = desk.frozen[self.number]
            self.state = State.SUSPENDED if stands else State.BUSY
        return self.state


def test_the_states_at_each_poll_of_a_recorded_day_are_those_of_htcondor():
    keys, loads = recorded_day()
    htcondor, machine = ExecutionPoint(VACATE_S), Machine()
    last_s, seen = 0, Counter()
    for now in range(POLL_S, DAY_S, POLL_S):
        last_s = now if now in keys else last_s
        load = loads[now // POLL_S % len(loads)]
        expected = htcondor.poll(now, now - last_s, load)
        assert machine.poll(now, now - last_s, load, is_key=now in keys) is expected, now
        seen[expected] += 1
    assert all(seen[state] > 20 for state in State), seen
