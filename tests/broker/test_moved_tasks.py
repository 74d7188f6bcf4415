"""A task that went on in a lower queue, after its time of residence, counts in that one."""

from __future__ import annotations

from msgspec.structs import replace

from iriai.model.turn import RowSet
from tests.broker.turning_machines import TurningMachines

EXCLUSIVE, GANG, LOWER_GANG = 1, 2, 3


def moved(story: TurningMachines, number: int, queue: int) -> None:
    """Its machine tells in which queue it is now."""
    [node] = story.nodes.values()
    [claim] = [each for each in node.running.values() if each.attempt.number == number]
    node.running[claim.attempt] = now = replace(claim, queue=queue)
    story.tell(story.idle(node, changed=(now,)))


def test_it_stands_for_a_queue_that_was_lower_than_its_own():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    story.submit(2, GANG)
    assert (story.running(), story.standing()) == ([1], [])
    moved(story, 1, LOWER_GANG)
    assert (story.running(), story.standing()) == ([2], [1])
    story.end(2)
    assert (story.running(), story.standing()) == ([1], [])


def test_it_takes_turns_where_its_new_queue_does():
    story = TurningMachines()
    story.submit(1, EXCLUSIVE)
    moved(story, 1, GANG)
    story.submit(2, GANG)
    assert story.rows() == {1: 0b01, 2: 0b10}


def test_a_seat_of_which_a_machine_tells_later_has_the_turn_of_the_others():
    """Of what runs in a shared queue nobody kept count; each machine tells of its own seats."""
    story = TurningMachines(machines=2, modes={1: "shared", GANG: "gang"})
    story.submit(1, 1, cpus=2, ranks=4)
    story.submit(2, GANG)
    assert story.running() == [1, 1]
    for node in story.nodes.values():
        [claim] = node.running.values()
        node.running[claim.attempt] = now = replace(claim, queue=GANG)
        story.tell(story.idle(node, changed=(now,)))
    turns = [each for node in story.nodes.values() for each in node.turns.values()]
    assert [each.turn for each in turns if each.attempt.number == 1] == [RowSet(2, 0b01)] * 2


def test_no_machine_raises_it():
    story = TurningMachines()
    story.submit(1, GANG)
    moved(story, 1, 0)
    story.submit(2, EXCLUSIVE)
    assert (story.running(), story.standing()) == ([2], [1])
