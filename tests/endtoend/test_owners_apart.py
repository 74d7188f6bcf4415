"""A person's machine in a cluster: what ran there for others stands, goes on, and ends elsewhere.

Each machine has a network namespace and terminals of its own; a file outside iriai judges.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iriai.client.client import Client
from iriai.wire.owner import AskOwner
from tests.endtoend.bridge import Bridge
from tests.endtoend.network import Network, Networked
from tests.endtoend.own_terminals import Person, with_own_terminals
from tests.support.waiting import until

pytestmark = pytest.mark.root

CONTINUE_S, VACATE_S = 1.5, 5.0
OWNER = f"""
[owner]
profile = "desk"
continue = "{CONTINUE_S}s"
vacate = "{VACATE_S}s"
exempt = ["{{exempt}}"]
"""
JUDGED = """
echo "$IRIAI_ATTEMPT begin" >> "$1"
until [ -e "$1.enough" ]; do date +%s%N > "$1.now"; sleep 0.02; done
echo "$IRIAI_ATTEMPT end" >> "$1"
"""
TYPES_EACH_S = 0.3


@pytest.fixture
def network(person) -> Iterator[Network]:
    made = Network(person, switch=Bridge())
    yield made
    made.stop()


def judged(machine: Networked, client: Client, name: str) -> tuple[str, Path]:
    """A task that writes each of its begins and its end into a file, and goes on between them."""
    place = machine.work / name
    place.touch()
    place.chmod(0o666)
    draft = machine.draft("sh", "-c", JUDGED, "judged", str(place), output="/dev/null")
    return client.submit(draft).id, place


def states(desk: Networked) -> dict[str, str]:
    """Whose tasks run on a desk, and how."""
    with Client.connect(desk.state, follow=False) as client:
        return {row.user: row.state for row in client.ask(AskOwner()).tasks}


def stands(place: Path) -> bool:
    now = Path(f"{place}.now")
    before = now.read_text()
    time.sleep(0.3)
    return now.read_text() == before


def told(place: Path) -> list[tuple[int, str]]:
    """What attempts wrote, in order: their number, and whether they began or ended."""
    lines = [line.split() for line in place.read_text().splitlines()]
    return [(int(attempt), what) for attempt, what in lines]


def test_a_task_stands_under_the_owner_goes_on_and_ends_on_another_machine_once(network, people):
    front = network.add("front")
    desk = with_own_terminals(network.add("desk", more=OWNER.format(exempt=people.bob.name)))
    other = network.add("other")
    network.start()
    for machine in (front, other):
        machine.as_root("drain", "--reason", "for later")
    whose = front.person.name
    front.work.chmod(0o777)
    with front.client() as client, front.client(people.bob) as exempt:
        job, place = judged(front, client, "theirs")
        until(place.read_text, "the task to begin")
        own, own_place = judged(front, exempt, "own")
        until(own_place.read_text, "the owner's task to begin")
        until(
            lambda: states(desk) == {whose: "runs", people.bob.name: "exempt"}, "nobody to be there"
        )
        owner = Person(desk)

        owner.types()
        until(lambda: states(desk)[whose] == "suspended", "the task to give way")
        assert stands(place)
        until(lambda: not stands(own_place), "the exempt one to go on")
        until(lambda: states(desk)[whose] == "runs", "it to go on once nobody is there")
        until(lambda: not stands(place), "it to go on")

        def is_left_by_now() -> bool:
            owner.types()
            time.sleep(TYPES_EACH_S)
            return whose not in states(desk)

        until(is_left_by_now, "it to be vacated")
        [(first, _)] = told(place)

        other.as_root("resume")
        until(lambda: len(told(place)) == 2, "it to begin elsewhere")
        for each in (place, own_place):
            Path(f"{each}.enough").touch()
        assert [outcome.cause for outcome in client.wait([job])] == ["completed"]
        assert [outcome.cause for outcome in exempt.wait([own])] == ["completed"]
        rows = {row.attempt: row for row in client.show(f"{job}.0").attempts}
    [_, (second, _), _] = told(place)
    assert told(place) == [(first, "begin"), (second, "begin"), (second, "end")]
    ended = [(rows[each].machine, rows[each].cause) for each in (first, second)]
    assert ended == [("desk", "evicted"), ("other", "completed")]
    [(only, _), _] = told(own_place)
    assert told(own_place) == [(only, "begin"), (only, "end")]
    owner.leaves()


def test_a_machine_that_joins_with_a_profile_gives_way_by_it(network):
    network.add("front")
    desk = network.add("desk")
    desk.join_options = ("--profile", "desk")
    network.start()
    with Client.connect(desk.state, follow=False) as client:
        steps = dict(client.ask(AskOwner()).steps)
    assert (steps["suspend"], steps["vacate"]) == (0.0, 600.0)


def test_a_binary_runs_only_where_its_machine_is_of_its_kind(network):
    front = network.add("front", cpus=1)
    network.add("other", more='[machine.attributes]\nArch = "another"\n')
    network.start()
    front.as_root("drain", "--reason", "for later")
    shutil.copy("/bin/true", front.work / "program")
    done = front.call("submit", "-o", "/dev/null", "--chdir", str(front.work), "--", "./program")
    job = done.stdout.strip()
    assert 'TARGET.Arch == "' in front.call("show", job).stdout, done.stderr
    any_ = front.call("submit", "-o", "/dev/null", "--chdir", str(front.work), "--", "true")
    with front.client() as client:
        assert [each.cause for each in client.wait([any_.stdout.strip()])] == ["completed"]
        [why] = [each for each in client.why(job).reasons if each.machine == "other"]
        assert (why.rule, "Arch" in why.needed) == ("requirements", True)
        front.as_root("resume")
        assert [each.cause for each in client.wait([job])] == ["completed"]
        assert {row.machine for row in client.show(job).attempts} == {"front"}
