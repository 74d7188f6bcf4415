"""Three of four machines are reserved for a minute: what starts before it, waits, leaves and ends.

Each task takes a whole machine, and says what time it is; what is decided is judged by that.
IRIAI_SEED repeats the kills of an earlier run, IRIAI_ROUNDS makes the long loop shorter.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random

import pytest

from iriai.wire.reservations import AskReservations, ReservationRow
from tests.endtoend.network import Network
from tests.endtoend.time_judge import Stay, TimeJudge
from tests.support.waiting import until

pytestmark = pytest.mark.root

MACHINES = ("ume", "take", "matsu", "kiri")
CPUS = 2
AHEAD_S = 75.0
"""An evictable task starts where it has a minute, before its grace (1 s) and the slack (5 s)."""
LENGTH_S = 60.0
STARTS_WITHIN_S = 1.0
HOUR_S = 3600.0
NOTICED_S = 120.0
ROUNDS = int(os.environ.get("IRIAI_ROUNDS") or 3)


@pytest.fixture
def network(person):
    made = Network(person)
    for name in MACHINES:
        made.add(name, cpus=CPUS)
    try:
        yield made.start()
    finally:
        made.stop()


class Story:
    """A reservation, and jobs before, beside, inside and after it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        broker = network.machines[MACHINES[0]].follows()
        self.home = next(each for each in network.machines.values() if each.name != broker)
        self.judge = TimeJudge(network.machines)
        self.jobs: dict[str, str] = {}
        """By name."""
        self.reservation = ""
        self.nodes: tuple[str, ...] = ()
        self.start_s = self.end_s = 0.0

    def reserve(self, ahead_s: float, length_s: float = LENGTH_S) -> None:
        said = self.home.call("reserve", "-s", f"+{ahead_s:.0f}s", "-d", f"{length_s:.0f}s", "-n3")
        assert said.returncode == 0, said.stderr
        self.reservation = said.stdout.strip()
        row = self.row()
        self.nodes, self.start_s, self.end_s = row.nodes, row.start_wall_s, row.end_wall_s

    def row(self) -> ReservationRow:
        """The reservation as its home says that it is."""
        with self.home.client() as client:
            [row] = client.ask(AskReservations(id=self.reservation)).rows
        return row

    def submit(self, name: str, on_term: str = "exits", enough: str = "enough", **fields) -> str:
        command = self.judge.command(name, enough, on_term)
        draft = self.home.draft(*command, name=name, cpus=CPUS, output=os.devnull, **fields)
        with self.home.client() as client:
            self.jobs[name] = client.submit(draft).id
        return self.jobs[name]

    def submit_begun(self, name: str, **fields) -> Stay:
        """Submit one that begins at once; return how it has."""
        self.submit(name, **fields)
        until(lambda: self.judge.of(name), f"the begin of {name}")
        return self.judge.of(name)[0]

    def rules(self, name: str) -> list[str]:
        with self.home.client() as client:
            return [each.rule for each in client.why(self.jobs[name]).reasons]

    def causes(self, name: str) -> list[str]:
        """How the attempts of its first task ended, the first of them first."""
        with self.home.client() as client:
            attempts = client.show(self.jobs[name]).attempts
        return [each.cause for each in sorted(attempts, key=lambda each: each.attempt)]

    def whole(self) -> None:
        until(self.network.is_whole, "the return of all", wait_s=NOTICED_S)

    def sleep_until(self, wall_s: float) -> None:
        time.sleep(max(0.0, wall_s - time.time()))


Hurt = Callable[[Story], None]


def play(network: Network, hurt: Hurt) -> Story:
    """The whole story; `hurt` is done to it well before the start, and while it is open."""
    story = Story(network)
    judge = story.judge
    story.reserve(AHEAD_S)
    stays = story.submit_begun("stays", evictable=False)
    assert stays.machine not in story.nodes
    beside = [
        story.submit_begun("ends", time_limit_s=40.0, enough="ends"),
        story.submit_begun("leaves", time_limit_s=HOUR_S, evictable=True),
        story.submit_begun("leaves-late", on_term="stays"),
    ]
    assert sorted(each.machine for each in beside) == sorted(story.nodes)
    story.submit("waits", time_limit_s=HOUR_S)
    story.submit("waits-on", evictable=False)
    story.submit("is-short", time_limit_s=10.0, enough="is-short")
    for name, on_term in (("inside", "exits"), ("inside-late", "stays")):
        inside = {"reservation": story.reservation, "on_term": on_term}
        story.submit(name, array=((1, 2 if name == "inside" else 1, 1),), **inside)
    judge.say("ends")
    until(lambda: judge.of("is-short"), "the begin of what is over in time")
    judge.say("is-short")
    for name in ("waits", "waits-on"):  # once a machine is free
        until(lambda name=name: "reserved-ahead" in story.rules(name), f"the reason of {name}")
    hurt(story)
    story.sleep_until(story.start_s)
    until(lambda: len(inside_of(story)) == 3, "all that is inside")
    story.submit("is-left", reservation=story.reservation)
    story.submit("goes-on", reservation=story.reservation, or_queue=True)
    hurt(story)
    story.sleep_until(story.end_s)
    until(lambda: all(len(judge.of(name)) == 2 for name in LEAVE), "what left to begin again")
    judge.say("enough")
    with story.home.client() as client:
        client.wait(list(story.jobs.values()))
    return story


LEAVE = ("leaves", "leaves-late")


def inside_of(story: Story) -> list[Stay]:
    return story.judge.stays(lambda each: each.name.startswith("inside"))


def check(story: Story) -> None:
    """Judge it all."""
    judge, start_s, end_s, nodes = story.judge, story.start_s, story.end_s, story.nodes
    judge.check_apart()
    inside = inside_of(story)
    assert sorted(each.machine for each in inside) == sorted(nodes)
    for each in inside:
        assert start_s <= each.start_s < each.last_s < end_s, each
        assert len(each.terms) == 1, each
    for each in judge.stays():
        if each not in inside and each.machine in nodes:
            assert not each.is_between(start_s, end_s), each
    for name in LEAVE:
        first, second = judge.of(name)
        assert len(first.terms) == 1, first
        assert first.terms[0] > start_s - 10.0, first
        assert second.start_s >= end_s
    assert judge.of("stays")[0].terms == []
    assert judge.of("stays")[0].is_between(start_s, end_s)
    again = max(judge.of(name)[1].start_s for name in LEAVE)
    waited = [judge.of(name)[0] for name in ("waits", "waits-on", "goes-on")]
    assert all(each.start_s >= end_s for each in waited)
    # Three machines are free at once: what left comes before all but one that waited.
    assert sum(each.start_s < again for each in waited) <= 1
    for name in LEAVE:
        assert story.causes(name) == ["evicted", "completed"]
    for name in ("stays", "ends", "is-short", "waits", "waits-on", "goes-on"):
        assert story.causes(name) == ["completed"]
    for name in ("inside", "inside-late"):
        assert set(story.causes(name)) == {"time-limit"}
    assert judge.of("is-left") == []
    with story.home.client() as client:
        assert story.reservation in client.show(story.jobs["is-left"]).note


def late_s(story: Story) -> float:
    """How long after the start the last of what is inside began."""
    return max(each.start_s for each in inside_of(story)) - story.start_s


def test_the_right_tasks_start_wait_leave_and_end(network, record_property):
    story = play(network, lambda _: None)
    check(story)
    record_property("late_s", late_s(story))
    assert late_s(story) <= STARTS_WITHIN_S


@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.soak)])
def test_whoever_dies_in_between_and_comes_back(network, rounds, seed, record_property):
    random = Random(seed)
    for _ in range(rounds):
        story = play(network, lambda story: kill_in_turn(story, random))
        check(story)
        record_property("late_s", late_s(story))
        assert late_s(story) <= STARTS_WITHIN_S


def kill_in_turn(story: Story, random: Random) -> None:
    """Kill the daemons of the broker, the home, and a reserved machine, each after the other."""
    for victim in ("broker", "home", "node"):
        story.whole()
        name = {
            "broker": story.home.follows(),
            "home": story.home.name,
            "node": random.choice(story.nodes),
        }[victim]
        story.network.machines[name].kill("daemon")
    story.whole()
